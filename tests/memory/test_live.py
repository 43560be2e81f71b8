"""Which tensors are live while each operator runs, by hand and against a walk over the definition."""

from __future__ import annotations

import random

import pytest

from memory.memory_graphs import BYTE, branches
from networks import with_unknown
from sizeup.graph import Graph, GraphBuilder
from sizeup.memory import LiveTensor, LiveTensors, buffer_liveness
from sizeup.memory.usage import MAX_LISTED


def listed(graph: Graph) -> list[list[LiveTensor]]:
    live = LiveTensors(graph, buffer_liveness(graph))
    return [[*live.largest(step)] for step in range(len(graph.ops))]


def test_live_tensors_of_two_branches_are_those_of_a_hand_count() -> None:
    # x 100 B; a, b 1,000 B; a2, b2, out 10 B; a, b, a2, b2, add. The result stays to the end.
    assert [[name for name, _, _ in step] for step in listed(branches())] == [
        ["a", "x"],
        ["a", "b", "x"],
        ["a", "b", "a2"],
        ["b", "a2", "b2"],
        ["a2", "b2", "out"],
    ]
    assert listed(branches())[1] == [("a", 1000, 0), ("b", 1000, 1), ("x", 100, None)]


def _random_graph(seed: int) -> Graph:
    """Forty operators that read any earlier tensors: often more are live than are listed."""
    draw = random.Random(seed)
    builder = GraphBuilder("random")
    tensors = [builder.input("x", (5,), BYTE)]
    for index in range(40):
        inputs = draw.sample(tensors, min(len(tensors), 2))
        tensors.append(builder.tensor(f"t{index}", (draw.randrange(4),), BYTE))
        builder.op("concat", inputs, [tensors[-1]])
    builder.outputs.extend(draw.sample(tensors, 12))
    return builder.freeze()


@pytest.mark.parametrize("seed", range(8))
def test_listed_tensors_are_the_largest_of_a_naive_walk(seed: int) -> None:
    graph = _random_graph(seed)
    live = LiveTensors(graph, buffer_liveness(graph))
    for step in range(len(graph.ops)):
        sizes = []
        for identity, tensor in enumerate(graph.tensors):
            makers = [i for i, op in enumerate(graph.ops) if identity in op.outputs]
            users = [i for i, op in enumerate(graph.ops) if identity in op.inputs]
            first = makers[0] if makers else 0
            last = len(graph.ops) - 1 if identity in graph.outputs else max([first, *users])
            if first <= step <= last and tensor.elements:
                sizes.append((tensor.elements, tensor.name))
        shown = live.largest(step)
        assert live.count[step] == len(sizes)
        assert [each.bytes for each in shown] == sorted((n for n, _ in sizes), reverse=True)[:MAX_LISTED]
        assert {(each.bytes, each.name) for each in shown} <= set(sizes)


def test_a_list_is_bounded_however_many_tensors_are_live() -> None:
    """Every tensor lives to the end: in full the lists would have 50 million entries."""
    builder = GraphBuilder("all alive")
    x = builder.input("x", (1,), BYTE)
    for index in range(10_000):
        y = builder.tensor(f"y{index}", (index + 1,), BYTE)
        builder.op("relu", [x], [y])
        builder.outputs.append(y)
    graph = builder.freeze()
    live = LiveTensors(graph, buffer_liveness(graph))
    assert live.count.tolist() == list(range(2, 10_002))
    assert [each.bytes for each in live.largest(9_999)] == list(range(10_000, 10_000 - MAX_LISTED, -1))
    assert sum(len(live.largest(step)) for step in range(10_000)) <= MAX_LISTED * 10_000


def test_a_tensor_of_unknown_size_is_counted_and_makes_the_bytes_unknown() -> None:
    graph = with_unknown()
    live = LiveTensors(graph, buffer_liveness(graph))
    assert live.is_known.tolist() == [True, True, False]
    assert [each.name for each in live.largest(2)] == ["y"]
    assert live.count[2] == 2
