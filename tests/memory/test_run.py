"""Memory as a run held it, on graphs that are counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory.memory_graphs import BYTE
from sizeup.backends.overview import overview
from sizeup.dtypes import dtype, precision
from sizeup.errors import InvalidGraph
from sizeup.graph import Constant, Graph, GraphBuilder, RecordedRun, check
from sizeup.memory import live_breakdown, usage


def _written_over(run: RecordedRun | None) -> Graph:
    """y = abs(x); y = neg(y) in place; a = y[:2]; out = a + y."""
    builder = GraphBuilder("written", "torch")
    x = builder.input("x", (10,), BYTE)
    y, again, few, out = (
        builder.tensor(name, (size,), BYTE)
        for name, size in [("y", 10), ("again", 10), ("few", 2), ("out", 3)]
    )
    builder.op("abs", [x], [y])
    builder.op("neg", [y], [again])
    builder.op("view", [again], [few])
    builder.op("add", [few], [out])
    builder.outputs.append(out)
    builder.run = run
    return builder.freeze()


def test_one_storage_is_one_buffer_for_as_long_as_it_was_held() -> None:
    memory = usage(_written_over(RecordedRun((0, 1, 1, 1, 2), (3, 3, 3))), use_recorded_run=True)
    assert memory.live_bytes.tolist() == [20, 20, 20, 23]
    assert [(each.name, each.bytes) for each in memory.peak_tensors] == [("x", 10), ("y", 10), ("out", 3)]
    assert memory.buffers.buffer_of_tensor == (0, 1, 1, 1, 2)


def test_where_nothing_is_known_of_deaths_the_last_use_counts() -> None:
    graph = _written_over(RecordedRun((0, 1, 1, 2, 3), ()))
    # The caller keeps the inputs; the copy of a few numbers is a separate storage.
    assert usage(graph, use_recorded_run=True).live_bytes.tolist() == [20, 20, 22, 15]


def test_a_storage_is_there_for_every_operator_that_uses_it() -> None:
    freed_too_early = _written_over(RecordedRun((0, 1, 1, 1, 2), (0, 0, 0)))
    assert usage(freed_too_early, use_recorded_run=True).live_bytes.tolist() == [20, 20, 20, 23]


def test_only_the_report_speaks_of_the_run() -> None:
    graph = _written_over(RecordedRun((0, 1, 1, 1, 2), (3, 3, 3)))
    assert overview(graph, None).usage.peak_bytes == 23
    assert usage(graph).live_bytes.tolist() == usage(replace(graph, recorded_run=None)).live_bytes.tolist()


def test_what_lies_in_a_constant_is_no_memory_of_the_run() -> None:
    builder = GraphBuilder("buffer", "torch")
    x = builder.input("x", (10,), BYTE)
    counter = builder.tensor("counter", (4,), BYTE, Constant("buffer"))
    one_more, out = builder.tensor("one more", (4,), BYTE), builder.tensor("out", (10,), BYTE)
    builder.op("add", [counter], [one_more])
    builder.op("abs", [x], [out])
    builder.outputs.append(out)
    builder.run = RecordedRun((0, 1, 1, 2), (1, 1, 1))
    graph = builder.freeze()
    memory = usage(graph, use_recorded_run=True)
    assert memory.live_bytes.tolist() == [10, 20]
    parts = live_breakdown(graph, memory.buffers)
    assert (parts.inputs.tolist(), parts.outputs.tolist(), parts.others.tolist()) == (
        [0, 10],
        [0, 10],
        [10, 0],
    )


def test_a_workspace_is_named_after_its_operator_and_follows_the_precision() -> None:
    builder = GraphBuilder("pooling", "torch")
    numbers = precision("fp32")
    x = builder.input("x", (1, 64, 56, 56), numbers)
    w = builder.tensor("w", (32, 64, 3, 3), numbers, Constant("parameter"))
    y = builder.tensor("y", (1, 32, 54, 54), numbers)
    attrs = {"groups": 1, "kernel": (3, 3), "out_channels": 32}
    builder.op("conv", [x, w], [y], attrs, source="aten.conv2d", name="conv2d")
    builder.outputs.append(y)
    builder.run = RecordedRun((0, -1, 1), (0, 0), threads=2)
    graph = builder.freeze()
    # Copies of input, filter and result in oneDNN's layout, before there is an output.
    data, weight, output = 64 * 56 * 56 * 4, 32 * 64 * 9 * 4, 32 * 54 * 54 * 4
    memory = usage(graph, use_recorded_run=True)
    assert memory.peak_bytes == data + (data + weight + output)
    assert memory.peak_tensors[1].name == "x"
    assert (memory.peak_tensors[0].name, memory.peak_tensors[0].bytes) == (
        "workspace of conv2d",
        data + weight,
    )
    assert (
        usage(graph, use_recorded_run=True, precision=precision("fp16")).peak_bytes == memory.peak_bytes // 2
    )


def _one_operator(
    kind: str, source: str, number: str = "float32", run: RecordedRun | None = None, **attrs: Any
) -> Graph:
    builder = GraphBuilder("one", "torch")
    numbers = dtype(number)
    x = builder.input("x", (2, 4, 8, 8), numbers)
    w = builder.tensor("w", (4, 4, 3, 3), numbers, Constant("parameter"))
    y = builder.tensor("y", (2, 4, 6, 6), numbers)
    builder.op(kind, [x, w], [y], attrs, source=source, name=kind)
    builder.outputs.append(y)
    builder.run = run or RecordedRun((0, -1, 1), (0, 0))
    return builder.freeze()


CONVOLUTION: dict[str, Any] = {"groups": 1, "kernel": (3, 3), "out_channels": 4}


@pytest.mark.parametrize(
    ("graph", "named"),
    [
        (_one_operator("lstm", "aten.lstm"), ("aten.lstm",)),
        (_one_operator("conv", "aten.conv2d", **CONVOLUTION), ()),
        (_one_operator("conv", "aten.conv2d", "float16", **CONVOLUTION), ("aten.conv2d",)),
        (_one_operator("matmul", "aten.linear"), ()),
        (_one_operator("matmul", "aten.linear", "bfloat16"), ("aten.linear",)),
        (_one_operator("foreign.op", "foreign.op"), ("foreign.op",)),
        (
            _one_operator(
                "conv", "aten.conv2d", run=RecordedRun((0, -1, 1), (0, 0), device="mps"), **CONVOLUTION
            ),
            ("aten.conv2d",),
        ),
        (
            _one_operator(
                "conv", "aten.conv2d", run=RecordedRun((0, -1, 1), (0, 0), device="cuda"), **CONVOLUTION
            ),
            (),  # workspaces of cuDNN are left out, see cuda_workspaces
        ),
    ],
)
def test_kernels_that_take_what_is_not_known_are_named(graph: Graph, named: tuple[str, ...]) -> None:
    assert usage(graph, use_recorded_run=True).unmodeled == named
    # A plan is of no run, but an operator without a cost rule may take anything.
    assert usage(graph).unmodeled == tuple(name for name in named if name == "foreign.op")


def test_a_convolution_of_channels_last_copies_its_filter_alone() -> None:
    run = RecordedRun((0, -1, 1), (0, 0), layouts={0: "channels_last"})
    memory = usage(_one_operator("conv", "aten.conv2d", run=run, **CONVOLUTION), use_recorded_run=True)
    # The filter as channels last, and again in oneDNN's blocks: 4 read channels stay 4, 4 made ones are 16.
    assert memory.peak_tensors[0].name == "workspace of conv"
    assert memory.peak_tensors[0].bytes == (4 * 4 * 9 + 16 * 4 * 9) * 4


def test_a_workspace_is_a_share_of_its_own() -> None:
    graph = _one_operator("conv", "aten.conv2d", **CONVOLUTION)
    memory = usage(graph, use_recorded_run=True)
    parts = live_breakdown(graph, memory.buffers)
    taken = next(each.bytes for each in memory.peak_tensors if each.name.startswith("workspace of "))
    assert (parts.inputs.tolist(), parts.outputs.tolist()) == ([2 * 4 * 64 * 4], [2 * 4 * 36 * 4])
    assert (parts.workspaces.tolist(), parts.others.tolist()) == ([taken], [0])


def test_a_run_of_other_tensors_is_refused() -> None:
    graph = _written_over(None)
    for run in (RecordedRun((0, 1), (1, 1)), RecordedRun((0, 1, 1, 1, 2), (3,))):
        with pytest.raises(InvalidGraph, match="the recorded run does not match"):
            check(replace(graph, recorded_run=run))
