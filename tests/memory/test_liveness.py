"""When each piece of memory is in use, against a naive walk and against what real files hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sizeup
from memory.memory_graphs import BYTE, branches, buffers_of
from sizeup.dtypes import precision
from sizeup.errors import InvalidPlan
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.memory import buffer_liveness, check_offsets, usage

# `live` of the real files: the sum of live tensors at the worst operator in file order, weights excluded.
LIVE = {
    "mlperf_ad01_int8": 768,
    "mlperf_kws_int8": 16_000,
    "mlperf_resnet8_int8": 49_152,
    "mlperf_resnet_large_int8": 122_880,
    "mlperf_strww_int8": 6_656,
    "mlperf_vww96_int8": 55_296,
    "tflm_person_detect": 55_296,
    "swiftnet_vww_int8conv": 351_232,
    "te_persondet": 337_024,
    "te_vww": 161_472,
    "te_mcunetv2_large": 2_451_840,
    "tflm_mobilenetv2_224": 2_451_840,
    "tflm_micro_speech": 5_960,
    "tflm_dtln": 514,
    "tflm_keyword_scrambled_8bit": 288,
    "tflm_mnist_lstm_int8": 1_344,
    "tflm_hello_int8": 32,
    "tflm_audio_preproc_int8": 2_060,
    "pmw_alexa": 3_212,
    "pmw_okay_nabu": 3_596,
}


@pytest.mark.extras
@pytest.mark.parametrize("name", LIVE)
def test_the_peak_of_real_files_is_what_was_measured(name: str, shared: Path) -> None:
    graph = sizeup.load(shared / "models" / f"{name}.tflite")
    assert usage(graph).peak_bytes == LIVE[name]
    assert int(buffer_liveness(graph, aliases=False).live_bytes().max()) == LIVE[name]


@st.composite
def _graphs(draw: st.DrawFn) -> Graph:
    builder = GraphBuilder("drawn")
    tensors = [builder.input("x", (draw(st.integers(1, 9)),), BYTE)]
    for index in range(draw(st.integers(1, 12))):
        inputs = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
        tensors.append(builder.tensor(f"t{index}", (draw(st.integers(1, 9)),), BYTE))
        builder.op("concat", inputs, [tensors[-1]])
    builder.outputs.extend(draw(st.sets(st.sampled_from(tensors), max_size=2)))
    return builder.freeze()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_graphs())
def test_live_bytes_are_those_of_a_naive_walk(graph: Graph) -> None:
    expected = []
    for step in range(len(graph.ops)):
        held = 0
        for identity, tensor in enumerate(graph.tensors):
            makers = [i for i, op in enumerate(graph.ops) if identity in op.outputs]
            users = [i for i, op in enumerate(graph.ops) if identity in op.inputs]
            first = makers[0] if makers else 0
            last = len(graph.ops) - 1 if identity in graph.outputs else max([first, *users])
            held += (tensor.elements or 0) * (first <= step <= last)
        expected.append(held)
    assert buffer_liveness(graph).live_bytes().tolist() == expected


def test_views_share_the_bytes_that_they_show() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (6,), BYTE)
    a, flat, out = (builder.tensor(name, (6,), BYTE) for name in ("a", "flat", "out"))
    builder.op("abs", [x], [a])
    builder.op("reshape", [a], [flat])
    builder.op("neg", [flat], [out])
    builder.outputs.append(out)
    graph = builder.freeze()
    assert buffer_liveness(graph).live_bytes().tolist() == [12, 6, 12]
    assert buffer_liveness(graph, aliases=False).live_bytes().tolist() == [12, 12, 12]
    # Written over: the input dies as the output is made, and has the same size.
    assert buffer_liveness(graph, in_place=True).live_bytes().tolist() == [6, 6, 6]


def test_weights_take_no_part_and_precision_changes_what_follows_it() -> None:
    builder = GraphBuilder()
    numbers = precision("fp32")
    x = builder.input("x", (8,), numbers)
    w = builder.tensor("w", (8,), numbers, Constant("parameter"))
    y = builder.tensor("y", (8,), numbers)
    builder.op("mul", [x, w], [y])
    builder.outputs.append(y)
    graph = builder.freeze()
    assert usage(graph).peak_bytes == 64
    assert usage(graph, precision=precision("int4")).peak_bytes == 8
    assert usage(replace(graph, inputs=(x, w))).peak_bytes == 64  # as old ONNX files list weights


def test_the_tensors_at_the_peak_are_named_largest_first() -> None:
    memory = usage(branches())
    assert (memory.peak_bytes, memory.peak_op) == (2100, 1)
    assert [(each.name, each.bytes) for each in memory.peak_tensors] == [("a", 1000), ("b", 1000), ("x", 100)]


def test_a_graph_without_operators_holds_its_inputs() -> None:
    builder = GraphBuilder()
    builder.input("x", (6,), BYTE)
    memory = usage(builder.freeze())
    assert (memory.peak_bytes, memory.peak_op) == (6, None)
    assert [(each.name, each.bytes) for each in memory.peak_tensors] == [("x", 6)]


def test_a_shape_that_depends_on_data_is_reported() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (6,), BYTE)
    builder.op("gather", [x], [builder.tensor("y", None, BYTE)])
    assert usage(builder.freeze()).unknown_sizes == 1


def test_two_buffers_in_one_place_are_caught() -> None:
    buffers = buffer_liveness(branches())
    apart = [0, 1000, 2000, 3000, 4000, 5000]
    check_offsets(buffers, apart, capacity=6000)
    with pytest.raises(InvalidPlan, match="share bytes"):
        check_offsets(buffers, [0, 50, 2000, 3000, 4000, 5000])
    with pytest.raises(InvalidPlan, match="multiple of 16"):
        check_offsets(buffers, [0, 1001, 2008, 3000, 4000, 5000], alignment=16)
    with pytest.raises(InvalidPlan, match="capacity is"):
        check_offsets(buffers, apart, capacity=5000)
    with pytest.raises(InvalidPlan, match="5 offsets for 6 buffers"):
        check_offsets(buffers, apart[:5])


@pytest.mark.parametrize("offsets", [[0, 10, 30, 15], [0, 20, 40, 11]], ids=["below", "above"])
def test_a_buffer_is_compared_with_the_next_one_on_either_side(offsets: list[int]) -> None:
    buffers = buffers_of([(10, 0, 1), (10, 0, 1), (10, 0, 1), (10, 1, 1)])
    check_offsets(buffers, [*offsets[:3], 50])
    with pytest.raises(InvalidPlan, match="share bytes"):
        check_offsets(buffers, offsets)
