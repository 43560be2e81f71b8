from __future__ import annotations

import dataclasses

import pytest

from sizeup.dtypes import dtype
from sizeup.errors import InvalidGraph
from sizeup.graph import Body, Constant, GraphBuilder, Tensor

FLOAT = dtype("float32")


def test_ids_are_dense_and_in_the_order_of_making() -> None:
    builder = GraphBuilder()
    ids = [
        builder.input("x", (1, 2), FLOAT),
        builder.tensor("w", (2, 3), FLOAT),
        builder.tensor("y", None, FLOAT),
    ]
    assert ids == [0, 1, 2]
    assert builder.inputs == [0]


def test_a_frozen_graph_holds_what_was_collected() -> None:
    builder = GraphBuilder("net", "onnx")
    x = builder.input("x", (1, 2), FLOAT)
    w = builder.tensor("w", (2, 3), FLOAT, Constant("parameter"))
    y = builder.tensor("y", (1, 3), FLOAT)
    body = Body("then", GraphBuilder("inner").freeze(), runs=3)
    index = builder.op(
        "matmul", [x, w], [y], {"contracted": (1,)}, source="MatMul", name="fc", scope="head", bodies=(body,)
    )
    builder.outputs.append(y)
    builder.note("batch taken as 1")
    graph = builder.freeze()
    assert index == 0
    assert (graph.name, graph.format, graph.inputs, graph.outputs) == ("net", "onnx", (0,), (2,))
    assert [tensor.name for tensor in graph.tensors] == ["x", "w", "y"]
    op = graph.ops[0]
    assert (op.kind, op.inputs, op.outputs, op.source) == ("matmul", (0, 1), (2,), "MatMul")
    assert (op.attrs, op.name, op.scope) == ({"contracted": (1,)}, "fc", "head")
    assert op.bodies == (body,)
    assert graph.notes == ("batch taken as 1",)


def test_a_repeated_note_counts_once() -> None:
    builder = GraphBuilder()
    for text in ("a", "b", "a"):
        builder.note(text)
    assert builder.freeze().notes == ("a", "b")


def test_freezing_checks_the_invariants() -> None:
    builder = GraphBuilder("net")
    builder.outputs.append(builder.tensor("y", (1,), FLOAT))
    with pytest.raises(InvalidGraph, match="no operator produces"):
        builder.freeze()


def test_a_graph_does_not_follow_its_builder() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1,), FLOAT)
    graph = builder.freeze()
    builder.op("relu", [x], [builder.tensor("y", (1,), FLOAT)])
    assert graph.ops == ()
    assert len(graph.tensors) == 1


def test_a_graph_is_frozen() -> None:
    graph = GraphBuilder().freeze()
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(("shape", "elements"), [((2, 3), 6), ((), 1), ((4, 0), 0), (None, None)])
def test_a_tensor_knows_how_many_numbers_it_holds(
    shape: tuple[int, ...] | None, elements: int | None
) -> None:
    assert Tensor("t", shape, FLOAT).elements == elements


@pytest.mark.parametrize(
    ("data", "is_parameter"),
    [(None, False), (Constant("parameter"), True), (Constant("buffer"), False), (Constant("derived"), False)],
)
def test_only_trained_constants_are_parameters(data: Constant | None, is_parameter: bool) -> None:
    assert Tensor("t", (1,), FLOAT, data).is_parameter is is_parameter
