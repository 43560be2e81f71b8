"""Control flow: branches, loops and scans, whose bodies read what is around them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
from onnx import helper

from formats.onnx.drawn.case import Case, drawn
from formats.onnx.making import BOOL, FLOAT, INT64, graph, node, value


def _branch(
    case: Case, name: str, source: str, shape: tuple[int, ...]
) -> tuple[onnx.GraphProto, tuple[int, ...]]:
    """A branch that computes with a value from outside, and the shape of its output."""
    choice = case.random.randrange(3)
    if choice == 0:
        return graph([node("Relu", source, f"{name}y")], [], f"{name}y"), shape
    if choice == 1:
        order = list(reversed(range(len(shape))))
        turned = node("Transpose", source, f"{name}y", perm=order)
        return graph([turned], [], f"{name}y"), shape[::-1]
    nodes = [node("Concat", f"{source} {source}", f"{name}c", axis=0), node("Exp", f"{name}c", f"{name}y")]
    return graph(nodes, [], f"{name}y"), (2 * shape[0], *shape[1:])


@drawn
def branches(case: Case) -> None:
    case.opset = max(case.opset, 13)
    shape = case.sides(case.random.randint(1, 3), 3)
    source = case.model_input(shape)
    (then, one), (other, two) = (_branch(case, name, source, shape) for name in "ab")
    if case.maybe():
        condition = case.model_input((), np.bool_, case.maybe())
        case.is_open = one != two
    else:
        condition = case.shape_constant(case.maybe(), np.bool_)
    made = case.op("If", condition, then_branch=then, else_branch=other)
    case.op("Neg", made)


@drawn
def loop(case: Case) -> None:
    """States of a fixed shape, stacked outputs, and a trip count that is constant or depends on data."""
    case.opset = max(case.opset, 13)
    rounds, rows, inner = case.random.randint(0, 4), *case.sides(2, 4)
    source, weights = case.model_input((rows, inner)), case.model_input((inner, inner))
    go = case.random.choice(["on", "on", "stop", "later"])
    ends = {
        "on": [node("Identity", "c", "go")],
        "stop": [node("Constant", "", "go", value=helper.make_tensor("f", BOOL, (), [False]))],
        "later": [
            node("Constant", "", "two", value=helper.make_tensor("t", INT64, (), [1])),
            node("Less", "i two", "go"),
        ],
    }[go]
    nodes = [*ends, node("MatMul", f"s {weights}", "next"), node("ReduceSum", "next", "total", keepdims=0)]
    takes = [value("i", (), INT64), value("c", (), BOOL), value("s", (rows, inner) if case.maybe() else None)]
    body = graph(nodes, takes, [value("go", (), BOOL), value("next"), value("total")])
    trips = case.fixed(rounds)
    enters = case.fixed(True, np.bool_) if case.maybe() else ""
    if case.maybe(0.2):
        trips = case.model_input((), np.int64, rounds)
    case.is_open = go == "later" or trips in case.feeds
    case.ops("Loop", 2, trips, enters, source, body=body)
    if not case.is_open:
        runs = range(min(rounds, 1) if go == "stop" else rounds)
        case.macs = lambda _made: sum(1 for _ in product(runs, range(rows), range(inner), range(inner)))


@drawn
def loop_that_grows(case: Case) -> None:
    case.opset = max(case.opset, 13)
    source = case.model_input((1, 3))
    nodes = [node("Identity", "c", "go"), node("Concat", f"s {source}", "next", axis=0)]
    takes = [value("i", (), INT64), value("c", (), BOOL), value("s", (1, 3) if case.maybe() else None)]
    body = graph(nodes, takes, [value("go", (), BOOL), onnx.ValueInfoProto(name="next")])
    body.output[1].type.tensor_type.elem_type = FLOAT
    case.is_open = True
    made = case.op("Loop", case.fixed(case.random.randint(2, 4)), "", source, body=body)
    case.op("Exp", made)


@drawn
def scan(case: Case) -> None:
    case.opset = max(case.opset, 13)
    rank = case.random.randint(1, 3)
    shape, columns = case.sides(rank, 4), case.random.randint(1, 3)
    along = case.random.randrange(rank)
    inner = [side for axis, side in enumerate(shape) if axis != along]
    nodes = [
        node("ReduceSum", "e", "one", keepdims=0),
        node("Add", "s one", "next"),
        node("Exp", "e", "kept"),
    ]
    body = graph(nodes, [value("s", (columns,)), value("e", inner)], [value("next"), value("kept")])
    held: dict[str, Any] = {"num_scan_inputs": 1, "body": body}
    if along or case.maybe():
        held["scan_input_axes"] = [along - rank if case.maybe(0.3) else along]
    if case.maybe():
        place = case.random.randrange(rank)
        held["scan_output_axes"] = [place - rank if case.maybe(0.3) else place]
    if case.maybe():
        held["scan_input_directions"] = [case.random.randint(0, 1)]
    case.ops("Scan", 2, case.model_input((columns,)), case.model_input(shape), **held)


@drawn
def nested(case: Case) -> None:
    """A loop in a branch: the product runs once per iteration."""
    case.opset = max(case.opset, 13)
    rounds, side = case.random.randint(1, 3), case.random.randint(1, 4)
    source, trips = case.model_input((side, side)), case.fixed(rounds)
    inner = [node("Identity", "c", "go"), node("MatMul", f"s {source}", "next")]
    takes = [value("i", (), INT64), value("c", (), BOOL), value("s")]
    body = graph(inner, takes, [value("go", (), BOOL), value("next")])
    outer = graph([node("Loop", f"{trips} - {source}", "made", body=body)], [], "made")
    other = graph([node("Identity", source, "same")], [], "same")
    truth = case.fixed(True, np.bool_)
    case.op("If", truth, then_branch=outer, else_branch=other)
    case.macs = lambda _made: sum(1 for _ in product(range(rounds), range(side), range(side), range(side)))
