"""Every violated invariant is rejected, with a message that has the location."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sizeup.dtypes import dtype
from sizeup.errors import InvalidGraph
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor, check

FLOAT = dtype("float32")
PLAIN = Tensor("a", (2,), FLOAT)
WEIGHT = Tensor("w", (2,), FLOAT, Constant("parameter"))
DERIVED = Tensor("d", (2,), FLOAT, Constant("derived"))


def relu(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Op:
    return Op("relu", inputs, outputs, source="Relu")


def three(*ops: Op, inputs: tuple[int, ...] = (0,), outputs: tuple[int, ...] = (2,)) -> Graph:
    return Graph((PLAIN, Tensor("b", (2,), FLOAT), Tensor("c", (2,), FLOAT)), ops, inputs, outputs, "net")


CHAIN = (relu((0,), (1,)), relu((1,), (2,)))
WRONG: dict[str, tuple[Callable[[], Graph], str]] = {
    "an input id beyond the tensors": (lambda: three(*CHAIN, inputs=(3,)), "net: no tensor has the id 3"),
    "a negative input id": (lambda: three(*CHAIN, inputs=(-1,)), "net: no tensor has the id -1"),
    "an output id beyond the tensors": (lambda: three(*CHAIN, outputs=(9,)), "net: no tensor has the id 9"),
    "an output that nothing makes": (lambda: three(CHAIN[0]), "net: no operator produces output tensor 2"),
    "an operator that reads a tensor that does not exist": (
        lambda: three(relu((7,), (1,)), outputs=(1,)),
        r"net: operator 0 \(Relu\) reads tensor 7, which does not exist",
    ),
    "an operator that reads an id below absent": (
        lambda: three(relu((-2,), (1,)), outputs=(1,)),
        r"net: operator 0 \(Relu\) reads tensor -2, which does not exist",
    ),
    "an operator that writes a tensor that does not exist": (
        lambda: three(relu((0,), (5,)), outputs=(0,)),
        r"net: operator 0 \(Relu\) writes tensor 5, which does not exist",
    ),
    "an operator that writes an absent tensor": (
        lambda: three(relu((0,), (ABSENT,)), outputs=(0,)),
        r"net: operator 0 \(Relu\) writes tensor -1, which does not exist",
    ),
    "an order in which a value is read before it is made": (
        lambda: three(CHAIN[1], CHAIN[0]),
        r"net: operator 0 \(Relu\) reads 'b' before it is produced",
    ),
    "an operator that reads its own output": (
        lambda: three(relu((1,), (1,)), outputs=(1,)),
        r"net: operator 0 \(Relu\) reads 'b' before it is produced",
    ),
    "a value that is made twice": (
        lambda: three(*CHAIN, relu((0,), (1,))),
        r"net: operator 2 \(Relu\) produces 'b', which already exists",
    ),
    "an operator that makes an input": (
        lambda: three(relu((0,), (0,)), outputs=(0,)),
        r"net: operator 0 \(Relu\) produces 'a', which already exists",
    ),
    "an operator that makes a weight": (
        lambda: Graph((PLAIN, WEIGHT), (relu((0,), (1,)),), (0,), (1,), "net"),
        r"net: operator 0 \(Relu\) produces 'w', which already exists",
    ),
    "a derived constant that nothing derives": (
        lambda: Graph((DERIVED, PLAIN), (relu((0,), (1,)),), (), (1,), "net"),
        r"net: operator 0 \(Relu\) reads 'd' before it is produced",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_graph_is_refused_with_where_and_what(what: str) -> None:
    make, message = WRONG[what]
    with pytest.raises(InvalidGraph, match=f"^{message}$"):
        check(make())


def test_an_operator_without_a_source_goes_by_its_kind() -> None:
    graph = Graph((PLAIN,), (Op("relu", (4,), ()),), (), ())
    with pytest.raises(InvalidGraph, match=r"^graph: operator 0 \(relu\) reads tensor 4"):
        check(graph)


def test_absent_inputs_unused_tensors_and_repeated_outputs_are_fine() -> None:
    check(three(relu((0, ABSENT, 0), (1,)), outputs=(1, 1, 0)))


def test_a_derived_constant_is_made_by_its_operator() -> None:
    check(Graph((WEIGHT, DERIVED), (relu((0,), (1,)),), (), (1,)))
