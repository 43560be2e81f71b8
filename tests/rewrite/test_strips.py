"""Segments in strips: equal outputs and the predicted arena in TFLite Micro's interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from full_size import size
from micro_interpreter import measure
from rewrite.strip_networks import Network
from sizeup.backends.tflm import arena
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.backends.tflm.tail import tail_bytes
from sizeup.formats import tflite
from sizeup.formats.tflite.restructure import restructured
from sizeup.graph import Graph
from sizeup.rewrite.split.assembly import assemble, restructured_graph
from sizeup.rewrite.split.closed_forms import Prices
from sizeup.rewrite.split.program import Program, program
from sizeup.rewrite.split.row_rules import Rows
from sizeup.rewrite.split.segments import AXES, Segment, segments, strip_rules

micro = pytest.importorskip("tflite_micro", reason="runs TFLite Micro")
pytestmark = pytest.mark.extras


@st.composite
def networks(draw: st.DrawFn) -> bytes:
    """Two to seven layers, each on one of the last two results, with residual sums and branches."""
    dtype = draw(st.sampled_from(["int8", "int8", "int16", "float32"]))
    sides = st.integers(6, 15)
    network = Network(
        (1, draw(sides), draw(sides), draw(st.sampled_from([1, 3, 4]))), dtype, draw(st.integers(0, 99))
    )
    recent = [network.input]
    for _ in range(draw(st.integers(2, 7))):
        source = draw(st.sampled_from(recent))
        recent = [*recent, _layer(draw, network, source, recent)][-2:]
    return network.pack(recent[-1])


def _layer(draw: st.DrawFn, network: Network, source: int, recent: list[int]) -> int:
    shape = network.shapes[source]
    kinds = ["conv", "depthwise", "max", "average", "pad", "relu", "add", "concat"]
    kind = draw(st.sampled_from(kinds + ["quantize"] * (network.dtype == "int8")))
    if kind == "quantize":
        # And back, since concatenations and paddings need one scale.
        return network.unary(network.unary(source, "QUANTIZE", 0.07), "QUANTIZE")
    if kind == "relu":
        return network.unary(source, "RELU")
    if kind == "pad":
        return network.pad(source, *(draw(st.tuples(*[st.integers(0, 3)] * 2)) for _ in "yx"))
    if kind == "add":
        return network.add(
            source, draw(st.sampled_from([one for one in recent if network.shapes[one] == shape]))
        )
    if kind == "concat":
        partners = [one for one in recent if network.shapes[one][:3] == shape[:3]]
        return network.concat(source, draw(st.sampled_from(partners)))
    side, dilation = draw(st.sampled_from([1, 2, 3, 5])), draw(st.integers(1, 2))
    dilation = dilation if kind in ("conv", "depthwise") else 1
    if (side - 1) * dilation + 1 > min(shape[1:3]):
        side = 1
    return network.window(
        source,
        kind,
        draw(st.sampled_from([2, 5, 8])),
        side,
        draw(st.integers(1, 2)),
        dilation,
        same=draw(st.booleans()),
        activation=draw(st.sampled_from([0, 1])),
    )


def programs(draw: Any, graph: Graph) -> list[Program]:
    """Up to two segments that do not overlap, each in strips of any height."""
    chosen: list[Program] = []
    for axis in draw(st.permutations(AXES)):
        candidates = [
            segment
            for segment in segments(graph, axis, strip_rules(graph, axis))
            if segment.rows > 1 and all(_is_apart(segment, other.segment) for other in chosen)
        ]
        if not candidates:
            continue
        segment = draw(st.sampled_from(candidates))
        inner = draw(
            st.sets(st.integers(1, segment.rows - 1), min_size=1, max_size=min(11, segment.rows - 1))
        )
        edges = [0, *sorted(inner), segment.rows]
        strips = program(graph, segment, tuple(map(Rows, edges, edges[1:])))
        if strips is not None:
            chosen.append(strips.with_slices_first() if draw(st.booleans()) else strips)
    return chosen


def _is_apart(one: Segment, other: Segment) -> bool:
    return one.last < other.first or other.last < one.first


def outputs(content: bytes, data: Any) -> Any:
    interpreter = micro.runtime.Interpreter.from_bytes(content, arena_size=1 << 21)
    interpreter.set_input(data, 0)
    interpreter.invoke()
    return interpreter.get_output(0)


def samples(graph: Graph, seed: int, count: int = 1) -> list[Any]:
    generator, tensor = np.random.default_rng(seed), graph.tensors[graph.inputs[0]]
    if tensor.dtype.family == "float":
        return [generator.normal(size=tensor.shape).astype(np.float32) for _ in range(count)]
    limits = np.iinfo(tensor.dtype.name)
    return [
        generator.integers(limits.min, limits.max + 1, tensor.shape).astype(tensor.dtype.name)
        for _ in range(count)
    ]


@given(networks(), st.data(), st.integers(0, 99))
@settings(max_examples=size(400, ci=60), deadline=None, suppress_health_check=list(HealthCheck))
def test_strips_of_any_height_compute_the_same(content: bytes, data: st.DataObject, seed: int) -> None:
    graph = tflite.load(content)
    split = restructured(content, assemble(graph, programs(data.draw, graph)))
    for sample in samples(graph, seed, 2):
        assert np.array_equal(outputs(content, sample), outputs(split, sample))


def test_the_predicted_arena_is_that_of_the_interpreter() -> None:
    """The graph that the search prices, the graph of the file, and the real interpreter agree to the byte."""
    files: list[bytes] = []
    predictions: list[tuple[int, int | None]] = []
    in_strips = []

    @given(networks(), st.data())
    @settings(max_examples=size(150, ci=25), deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    def collect(content: bytes, data: st.DataObject) -> None:
        graph = tflite.load(content)
        strips = programs(data.draw, graph)
        restructuring = assemble(graph, strips)
        priced = arena(restructured_graph(graph, restructuring))
        written = restructured(content, restructuring)
        loaded = arena(tflite.load(written))
        assert (priced.head_bytes, priced.tail_bytes_64) == (loaded.head_bytes, loaded.tail_bytes_64)
        assert priced.arena_bytes_32 == loaded.arena_bytes_32
        assert priced.unsupported_reason is None
        files.append(written)
        in_strips.append(bool(strips))
        predictions.append((priced.head_bytes, priced.tail_bytes_64))

    collect()
    assert [measured[:2] for measured in measure(files)] == predictions
    assert sum(in_strips) > len(in_strips) // 2


@given(networks(), st.data())
@settings(max_examples=size(200, ci=30), deadline=None, suppress_health_check=list(HealthCheck))
def test_closed_forms_are_those_of_the_whole_graph(content: bytes, data: st.DataObject) -> None:
    """The head is exact; the tail, without alignment and shared constants, is at most a little lower."""
    graph = tflite.load(content)
    strips = programs(data.draw, graph)[:1]
    for each in strips:
        prices = Prices(graph, PYTHON_PACKAGE, False)
        price = prices.price(each, 0)
        whole = restructured_graph(graph, assemble(graph, [each]))
        first, last = each.segment.first, each.segment.last
        outside = max((*prices.live[:first], *prices.live[last + 1 :]), default=0)
        assert max(outside, price.head_bytes) == arena(whole).live_bytes
        assert -32 <= tail_bytes((whole,), PYTHON_PACKAGE) - prices.tail - price.tail_bytes <= 24 * 4
