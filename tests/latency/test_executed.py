"""Kernels of a runtime: fused tensors are not moved, and classes carry the dtype."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sizeup
from networks import looping
from sizeup.cost import count
from sizeup.dtypes import dtype, precision
from sizeup.graph import Body, Constant, Graph, GraphBuilder, Quant, RecordedRun, Shape
from sizeup.latency import class_with_dtype, execution_of, work_of
from sizeup.latency.paths import is_blocked

FLOAT, INT8 = dtype("float32"), dtype("int8")
SHAPE = (1, 8, 4, 4)  # 128 numbers, 512 bytes
SCALE = Quant(np.ones(1), np.zeros(1))


def chain() -> Graph:
    """A convolution of 8 to 8 channels, a ReLU, and the sum of its result with the input."""
    builder = GraphBuilder("by hand")
    x = builder.input("x", SHAPE, FLOAT)
    w = builder.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    a, b, c = (builder.tensor(name, SHAPE, FLOAT) for name in "abc")
    builder.op("conv", [x, w], [a], {"out_channels": 8, "kernel": (1, 1)})
    builder.op("relu", [a], [b])
    builder.op("add", [b, x], [c])
    builder.outputs.append(c)
    return builder.freeze()


def test_without_fusion_every_operator_moves_what_its_rule_says() -> None:
    cost = count(chain())
    alone, execution = work_of(cost), execution_of(cost)
    assert execution.kernel.tolist() == execution.main_op.tolist() == [0, 1, 2]
    assert execution.work.traffic.tolist() == alone.traffic.tolist() == [512 + 512 + 256, 1024, 1536]
    assert execution.work.names == ("conv_1x1", "activation", "elementwise")


def test_what_stays_within_a_kernel_is_not_moved() -> None:
    execution = execution_of(count(chain()), fuses=["activation"])
    assert execution.work.networks == 1
    assert execution.kernel.tolist() == [0, 0, 1]
    assert (execution.work.read.tolist(), execution.work.written.tolist()) == ([512, 1024], [512, 512])
    assert execution.work.weights.tolist() == [256, 0]
    assert execution.work.macs.tolist() == [8 * 128, 0]


def test_an_input_that_a_kernel_reads_twice_is_moved_once() -> None:
    builder = GraphBuilder("silu")
    x = builder.input("x", SHAPE, FLOAT)
    a, b = builder.tensor("a", SHAPE, FLOAT), builder.tensor("b", SHAPE, FLOAT)
    builder.op("sigmoid", [x], [a])
    builder.op("mul", [x, a], [b])
    builder.outputs.append(b)
    execution = execution_of(count(builder.freeze()), fuses=["gelu"])
    assert execution.work.traffic.tolist() == [1024]
    assert execution.work.names == ("activation@exponential",)


def test_kernels_pass_quantized_numbers_on_where_conversions_are_merged() -> None:
    builder = GraphBuilder("qdq")
    x = builder.tensor("x", SHAPE, INT8, quant=SCALE)
    builder.inputs.append(x)
    w = builder.tensor("w", (8, 8, 1, 1), INT8, Constant("parameter"), SCALE)
    floats = [builder.tensor(name, SHAPE, FLOAT) for name in "abcd"]
    wf = builder.tensor("wf", (8, 8, 1, 1), FLOAT, Constant("derived"))
    q = builder.tensor("q", SHAPE, INT8, quant=SCALE)
    builder.op("dequantize", [x], [floats[0]])
    builder.op("dequantize", [w], [wf])
    builder.op("conv", [floats[0], wf], [floats[1]], {"out_channels": 8, "kernel": (1, 1)})
    builder.op("quantize", [floats[1]], [q])
    builder.op("dequantize", [q], [floats[2]])
    builder.op("relu", [floats[2]], [floats[3]])
    builder.outputs.append(floats[3])
    execution = execution_of(count(builder.freeze()), fuses=["quantize"])
    conv = execution.kernel[2]
    assert execution.work.names[execution.work.class_index[conv]] == "conv_1x1.int8"
    assert (execution.work.read[conv], execution.work.weights[conv], execution.work.written[conv]) == (
        128,
        64,
        128,
    )
    half = execution_of(count(builder.freeze()), precision("fp16"), fuses=["quantize"]).work
    assert (half.read[conv], half.weights[conv], half.written[conv]) == (256, 128, 256)
    apart = execution_of(count(builder.freeze()))
    assert apart.work.names[apart.work.class_index[apart.kernel[2]]] == "conv_1x1"


def test_a_precision_changes_bytes_and_classes() -> None:
    execution = execution_of(count(chain()), precision("int8"))
    assert execution.work.names == ("conv_1x1.int8", "activation.int8", "elementwise.int8")
    assert execution.work.traffic.tolist() == [128 + 128 + 64, 256, 384]


@pytest.mark.parametrize(
    ("data", "weights", "name"),
    [
        ("float32", None, "conv"),
        ("float16", None, "conv.fp16"),
        ("int8", "int8", "conv.int8"),
        ("uint8", "int8", "conv.int8"),
        ("float32", "int4", "conv.w4"),
        ("float16", "int8", "conv.fp16"),  # widened to 16 bits, and computed there
        ("int64", None, "conv"),
    ],
)
def test_classes_carry_their_number_type(data: str, weights: str | None, name: str) -> None:
    assert class_with_dtype("conv", dtype(data), None if weights is None else dtype(weights)) == name


def test_a_loop_over_counters_alone_has_their_dtype() -> None:
    inner, builder = GraphBuilder("body"), GraphBuilder("loop")
    n, one_more = inner.input("n", (4,), dtype("int32")), inner.tensor("one more", (4,), dtype("int32"))
    inner.op("add", [n], [one_more])
    inner.outputs.append(one_more)
    x, y = builder.input("x", (4,), dtype("int32")), builder.tensor("y", (4,), dtype("int32"))
    builder.op("loop", [x], [y], bodies=(Body("body", inner.freeze(), 3),))
    builder.outputs.append(y)
    work = execution_of(count(builder.freeze())).work
    assert [work.names[index] for index in work.class_index] == ["control"]  # int32 has no class of its own


def test_a_loop_moves_what_its_body_moves_in_each_run() -> None:
    """A product of 4 x 8 by 8 x 2 numbers, three times; its result is no constant."""
    work = execution_of(count(looping(3))).work
    assert (work.read.tolist(), work.weights.tolist(), work.written.tolist()) == (
        [3 * 4 * 32],
        [3 * 4 * 16],
        [3 * 4 * 8],
    )


def test_an_output_that_nothing_reads_is_written() -> None:
    builder = GraphBuilder("unread")
    x, y, z = builder.input("x", SHAPE, FLOAT), *(builder.tensor(name, SHAPE, FLOAT) for name in "yz")
    builder.op("relu", [x], [y])
    builder.op("relu", [x], [z])
    builder.outputs.append(y)
    work = execution_of(count(builder.freeze())).work
    assert (work.read.tolist(), work.written.tolist()) == ([512, 512], [512, 512])


def test_kernels_are_valid_for_the_same_graph_with_the_same_fusions() -> None:
    graph, other = chain(), replace(chain(), recorded_run=RecordedRun(tuple(range(5)), ()))
    kernels = execution_of(count(graph), fuses=["activation"]).kernel_graph
    assert kernels.is_valid_for(graph, ["activation"])
    assert not kernels.is_valid_for(graph, [])
    assert not kernels.is_valid_for(other, ["activation"])


@pytest.mark.parametrize(
    ("channels", "result", "groups", "expected"),
    [
        # Up to 15 channels, then multiples of 4.
        (15, 8, 1, True),
        (18, 8, 1, False),
        (20, 8, 1, True),
        # With groups, whole blocks of 16 input and 16 output channels in each.
        (32, 64, 2, True),
        (34, 34, 2, False),
        (32, 48, 2, False),
        (48, 64, 2, False),
    ],
)
def test_convolutions_that_onnx_runtime_computes_in_blocks_of_channels(
    channels: int, result: int, groups: int, expected: bool
) -> None:
    """A convolution without a window has one tap."""
    builder = GraphBuilder("pointwise")
    x = builder.input("x", (1, channels, 4, 4), FLOAT)
    w = builder.tensor("w", (result, channels // groups, 1, 1), FLOAT, Constant("parameter"))
    y = builder.tensor("y", (1, result, 4, 4), FLOAT)
    builder.op("conv", [x, w], [y], {"out_channels": result, "groups": groups})
    builder.outputs.append(y)
    graph = builder.freeze()
    assert is_blocked(graph, graph.ops[0]) is expected


def test_a_graph_without_operators_has_no_kernels() -> None:
    builder = GraphBuilder("nothing")
    builder.outputs.append(builder.input("x", SHAPE, FLOAT))
    assert len(execution_of(count(builder.freeze())).work) == 0


def test_what_is_made_of_weights_alone_runs_once_for_a_whole_batch() -> None:
    builder = GraphBuilder("standardized weights")
    x = builder.input("x", SHAPE, FLOAT)
    w = builder.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    v, y = builder.tensor("v", (8, 8, 1, 1), FLOAT), builder.tensor("y", SHAPE, FLOAT)
    builder.op("batch_norm", [w], [v])
    builder.op("conv", [x, v], [y], {"out_channels": 8, "kernel": (1, 1)})
    builder.outputs.append(y)
    work = execution_of(count(builder.freeze())).work
    assert work.names == ("weight_norm", "conv_1x1")
    assert work.weights.tolist() == [256 + 256, 256]
    eight = work.at_batch(8)
    assert eight.traffic.tolist() == [512, 256 + 8 * 1024]
    assert eight.macs.tolist() == [0, 8 * 8 * 128]


@pytest.mark.parametrize(("shape", "size"), [((1, 8, 1, 1), 32), (None, 512)], ids=["known", "unknown"])
def test_a_view_that_repeats_numbers_moves_them_once(shape: Shape | None, size: int) -> None:
    """If the number of distinct ones is unknown, all numbers of the view count."""
    builder = GraphBuilder("gate")
    x, gate = builder.input("x", SHAPE, FLOAT), builder.input("gate", shape, FLOAT)
    wide, y = builder.tensor("wide", SHAPE, FLOAT), builder.tensor("y", SHAPE, FLOAT)
    builder.op("view", [gate], [wide], source="aten.expand")
    builder.op("mul", [x, wide], [y])
    builder.outputs.append(y)
    assert execution_of(count(builder.freeze())).work.read.tolist() == [512 + size]


def test_a_scattered_tensor_is_copied_for_products_and_not_where_it_is_added() -> None:
    builder = GraphBuilder("residual")
    x = builder.input("x", (6, 4), FLOAT)
    w = builder.tensor("w", (4, 4), FLOAT, Constant("parameter"))
    y, z = builder.tensor("y", (6, 4), FLOAT), builder.tensor("z", (6, 4), FLOAT)
    builder.op("matmul", [x, w], [y], {"contracted": (1,)})
    builder.op("matmul", [y, w, x], [z], {"contracted": (1,)})
    builder.outputs.append(z)
    run = RecordedRun((0, -1, 1, 2), (), layouts={x: "apart"})
    execution = execution_of(count(replace(builder.freeze(), recorded_run=run)))
    assert [execution.work.names[index] for index in execution.work.class_index] == [
        *("linear", "linear", "copy_strided"),
    ]
    assert execution.main_op.tolist() == [0, 1, 0]
    assert (execution.work.read[-1], execution.work.written[-1]) == (4 * 24, 4 * 24)


def test_products_of_scattered_operands_copy_them_first_unless_a_loop_writes_them_in_order() -> None:
    torch = pytest.importorskip("torch")

    class Mixer(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mix = torch.nn.LayerNorm(16), torch.nn.Linear(9, 9)

        def forward(self, x: Any) -> Any:
            return self.mix(self.norm(x).transpose(1, 2))

    cost = count(sizeup.load(Mixer(), inputs=((2, 9, 16),)))
    eager, compiled = execution_of(cost).work, execution_of(cost, fuses=["loop"]).work
    assert [eager.names[kind] for kind in eager.class_index] == ["layer_norm", "linear", "copy_strided"]
    assert eager.traffic[-1] == 2 * 2 * 9 * 16 * 4
    assert [compiled.names[kind] for kind in compiled.class_index] == ["layer_norm", "linear"]
