"""Operators that run other subgraphs, and how often a loop runs if the file records it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sizeup.dtypes import DType
from sizeup.formats.tflite.node import Node, integers
from sizeup.formats.tflite.schema import numbers
from sizeup.graph import Body, Graph, Op, Tensor


def _if(node: Node) -> None:
    options = node.needed_options("IfOptions")
    node.bodies = (
        node.body("then", options.ThenSubgraphIndex()),
        node.body("else", options.ElseSubgraphIndex()),
    )


def _case(node: Node) -> None:
    options = node.needed_options("StablehloCaseOptions")
    branches = numbers(options.BranchSubgraphIndicesAsNumpy())
    if not branches:
        node.fail("no branches")
    node.context.limits.refer(len(branches))
    node.bodies = tuple(node.body(f"branch {place}", index) for place, index in enumerate(branches))


def _while(table: str) -> Callable[[Node], None]:
    def lower(node: Node) -> None:
        options = node.needed_options(table)
        condition, body = node.graph(options.CondSubgraphIndex()), node.graph(options.BodySubgraphIndex())
        runs = _trips([node.tensors[identity] for identity in node.inputs if identity >= 0], condition, body)
        # The condition runs once more than the body.
        tests = None if runs is None else runs + 1
        node.bodies = (Body("cond", condition, tests), Body("body", body, runs))

    return lower


def _call(table: str, name: str, index: Callable[[Any], int]) -> Callable[[Node], None]:
    def lower(node: Node) -> None:
        node.bodies = (node.body(name, index(node.needed_options(table))),)

    return lower


def _composite(node: Node) -> None:
    """An operator of a higher level, carried along with its decomposition."""
    options = node.needed_options("StableHLOCompositeOptions")
    name = node.context.limits.label(options.Name()) or "composite"
    node.attrs["composite"] = name
    node.bodies = (node.body(name, options.DecompositionSubgraphIndex()),)


class _Counter(NamedTuple):
    """A loop variable that starts at a constant and grows by a constant, up to what its type can hold."""

    start: int
    step: int
    largest: int


def _trips(initial: Sequence[Tensor], condition: Graph, body: Graph) -> int | None:
    """How often the body runs: `counter < limit`, or several such joined by "and"; None for all else.

    `initial` are the loop variables' first values; condition and body take one input for each.
    """
    if len(condition.outputs) != 1 or not len(initial) == len(condition.inputs) == len(body.inputs):
        return None
    if len(body.outputs) != len(body.inputs):
        return None
    if len({*condition.inputs}) < len(initial) or len({*body.inputs}) < len(initial):
        return None  # two variables in one tensor: which of them it holds is up to the runtime
    return _trips_until(condition.outputs[0], _Loop(initial, condition, body))


class _Loop:
    def __init__(self, initial: Sequence[Tensor], condition: Graph, body: Graph) -> None:
        self.initial = initial
        self.condition = condition
        self.body = body
        self.makers = {identity: op for op in condition.ops for identity in op.outputs}
        self.body_makers = {identity: op for op in body.ops for identity in op.outputs}

    def limit(self, identity: int) -> int | None:
        """The value of a tensor of the condition that is the same in every round."""
        if identity in self.condition.inputs:
            place = self.condition.inputs.index(identity)
            unchanged = self.body.outputs[place] == self.body.inputs[place]
            return _scalar(self.initial[place]) if unchanged else None
        return _scalar(self.condition.tensors[identity])

    def counter(self, identity: int) -> _Counter | None:
        """The loop variable behind a tensor of the condition, where it counts."""
        if identity not in self.condition.inputs:
            return None
        place = self.condition.inputs.index(identity)
        start = _scalar(self.initial[place])
        maker = self.body_makers.get(self.body.outputs[place])
        if start is None or maker is None or maker.kind != "add" or len(maker.inputs) != 2:
            return None
        if self.body.inputs[place] not in maker.inputs or maker.attrs.get("activation"):
            return None
        grown = self.body.tensors[self.body.outputs[place]]
        if grown.dtype.family != "int" or grown.quant or self.body.tensors[self.body.inputs[place]].quant:
            return None
        added = maker.inputs[1] if maker.inputs[0] == self.body.inputs[place] else maker.inputs[0]
        step = _scalar(self.body.tensors[added])
        return None if step is None or step <= 0 else _Counter(start, step, _largest(grown.dtype))


def _trips_until(identity: int, loop: _Loop) -> int | None:
    maker = loop.makers.get(identity)
    if maker is None or len(maker.inputs) != 2:
        return None
    if maker.source in ("LOGICAL_AND", "STABLEHLO_AND"):
        left, right = (_trips_until(each, loop) for each in maker.inputs)
        return None if left is None or right is None else min(left, right)
    return _trips_of_comparison(maker, loop)


def _trips_of_comparison(comparison: Op, loop: _Loop) -> int | None:
    left, right = comparison.inputs
    relation: str = comparison.attrs.get("relation", comparison.source)
    if relation in ("GREATER", "GREATER_EQUAL"):
        left, right, relation = right, left, relation.replace("GREATER", "LESS")
    if relation not in ("LESS", "LESS_EQUAL"):
        return None
    counter, limit = loop.counter(left), loop.limit(right)
    if counter is None or limit is None:
        return None
    beyond = limit + (relation == "LESS_EQUAL")
    runs = max(0, -((counter.start - beyond) // counter.step))
    # Beyond the largest number of its type a counter wraps around, and the loop goes on.
    return runs if counter.start + runs * counter.step <= counter.largest else None


def _largest(dtype: DType) -> int:
    return (1 << (dtype.bits - (not dtype.name.startswith("u")))) - 1


def _scalar(tensor: Tensor) -> int | None:
    found = None if tensor.quant is not None else integers(tensor)
    return found[0] if found is not None and len(found) == 1 else None


LOWERINGS: dict[str, Callable[[Node], None]] = {
    "IF": _if,
    "STABLEHLO_CASE": _case,
    "WHILE": _while("WhileOptions"),
    "STABLEHLO_WHILE": _while("StablehloWhileOptions"),
    "CALL": _call("CallOptions", "callee", lambda options: options.Subgraph()),
    "CALL_ONCE": _call("CallOnceOptions", "initialiser", lambda options: options.InitSubgraphIndex()),
    "STABLEHLO_COMPOSITE": _composite,
}
