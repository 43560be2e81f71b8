"""Operators that run other subgraphs, and trip counts of loops with constant bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sizeup.dtypes import DType
from sizeup.formats.tflite.node import LOWERINGS, Node, integers
from sizeup.formats.tflite.schema import numbers
from sizeup.graph import Body, Graph, Op, Tensor


@LOWERINGS("IF")
def _if(node: Node) -> None:
    options = node.required_options("IfOptions")
    node.bodies = (
        node.body("then", options.ThenSubgraphIndex()),
        node.body("else", options.ElseSubgraphIndex()),
    )


@LOWERINGS("STABLEHLO_CASE")
def _case(node: Node) -> None:
    options = node.required_options("StablehloCaseOptions")
    branches = numbers(options.BranchSubgraphIndicesAsNumpy())
    if not branches:
        node.fail("no branches")
    node.context.limits.refer(len(branches))
    node.bodies = tuple(node.body(f"branch {position}", index) for position, index in enumerate(branches))


def _while(table: str) -> Callable[[Node], None]:
    def lower(node: Node) -> None:
        options = node.required_options(table)
        condition, body = node.graph(options.CondSubgraphIndex()), node.graph(options.BodySubgraphIndex())
        initial, results = (
            [node.tensors[identity] for identity in ends if identity >= 0]
            for ends in (node.inputs, node.outputs)
        )
        runs = _trips(initial, condition, body, results)
        # The condition runs once more than the body.
        tests = None if runs is None else runs + 1
        node.bodies = (Body("cond", condition, tests), Body("body", body, runs))

    return lower


def _call(table: str, name: str, index: Callable[[Any], int]) -> Callable[[Node], None]:
    def lower(node: Node) -> None:
        node.bodies = (node.body(name, index(node.required_options(table))),)

    return lower


@LOWERINGS("STABLEHLO_COMPOSITE")
def _composite(node: Node) -> None:
    """A composite operator, counted by its decomposition."""
    options = node.required_options("StableHLOCompositeOptions")
    name = node.context.limits.label(options.Name()) or "composite"
    node.attrs["composite"] = name
    node.bodies = (node.body(name, options.DecompositionSubgraphIndex()),)


_COUNTED = ("int16", "int32", "int64")  # the integers without a scale that kernels add and compare


class _Counter(NamedTuple):
    """A loop variable with a constant start and step; `largest` is the largest value of its dtype."""

    start: int
    step: int
    largest: int


def _trips(initial: Sequence[Tensor], condition: Graph, body: Graph, results: Sequence[Tensor]) -> int | None:
    """The trip count if the condition is `counter < limit` or an "and" of such comparisons, else None.

    `initial` holds the initial values of the loop variables, one per input of condition and body, and
    `results` their last values.
    """
    if len(condition.outputs) != 1 or not len(initial) == len(condition.inputs) == len(body.inputs):
        return None
    if not len(body.outputs) == len(body.inputs) == len(results):
        return None
    if len({*condition.inputs}) < len(initial) or len({*body.inputs}) < len(initial):
        return None  # two variables share a tensor: its value depends on the runtime
    return _trips_until(condition.outputs[0], _Loop(initial, condition, body, results))


class _Loop:
    def __init__(
        self, initial: Sequence[Tensor], condition: Graph, body: Graph, results: Sequence[Tensor]
    ) -> None:
        self.initial = initial
        self.results = results
        self.condition = condition
        self.body = body
        self.producers = {identity: op for op in condition.ops for identity in op.outputs}
        self.body_producers = {identity: op for op in body.ops for identity in op.outputs}

    def limit(self, identity: int) -> int | None:
        """The value of a loop-invariant tensor of the condition, or None."""
        if identity in self.condition.inputs:
            position = self.condition.inputs.index(identity)
            unchanged = self.body.outputs[position] == self.body.inputs[position]
            return _scalar(self.initial[position]) if unchanged and self._has_one_dtype(position) else None
        return _scalar(self.condition.tensors[identity])

    def counter(self, identity: int) -> _Counter | None:
        """The loop counter that a tensor of the condition holds, or None."""
        if identity not in self.condition.inputs:
            return None
        position = self.condition.inputs.index(identity)
        start = _scalar(self.initial[position])
        producer = self.body_producers.get(self.body.outputs[position])
        if start is None or producer is None or producer.kind != "add" or len(producer.inputs) != 2:
            return None
        if self.body.inputs[position] not in producer.inputs or producer.attrs.get("activation"):
            return None
        grown = self.body.tensors[self.body.outputs[position]]
        if grown.dtype.name not in _COUNTED or not self._has_one_dtype(position):
            return None
        if grown.quant or self.body.tensors[self.body.inputs[position]].quant:
            return None
        added = producer.inputs[1] if producer.inputs[0] == self.body.inputs[position] else producer.inputs[0]
        step = _scalar(self.body.tensors[added])
        if self.body.tensors[added].dtype != grown.dtype:
            return None
        return None if step is None or step <= 0 else _Counter(start, step, _largest(grown.dtype))

    def _has_one_dtype(self, position: int) -> bool:
        """Whether a loop variable has the same dtype everywhere, as its kernels need."""
        graphs = (
            (self.condition, self.condition.inputs),
            (self.body, self.body.inputs),
            (self.body, self.body.outputs),
        )
        dtypes = {graph.tensors[ends[position]].dtype for graph, ends in graphs}
        return {self.initial[position].dtype, self.results[position].dtype} == dtypes and len(dtypes) == 1


def _trips_until(identity: int, loop: _Loop) -> int | None:
    producer = loop.producers.get(identity)
    if producer is None or len(producer.inputs) != 2:
        return None
    if producer.source in ("LOGICAL_AND", "STABLEHLO_AND"):
        left, right = (_trips_until(operand, loop) for operand in producer.inputs)
        return None if left is None or right is None else min(left, right)
    return _trips_of_comparison(producer, loop)


def _trips_of_comparison(comparison: Op, loop: _Loop) -> int | None:
    left, right = comparison.inputs
    if loop.condition.tensors[left].dtype != loop.condition.tensors[right].dtype:
        return None
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
    # A counter that exceeds its dtype wraps around, so the loop does not end there.
    return runs if counter.start + runs * counter.step <= counter.largest else None


def _largest(dtype: DType) -> int:
    return (1 << (dtype.bits - (not dtype.name.startswith("u")))) - 1


def _scalar(tensor: Tensor) -> int | None:
    values = None if tensor.quant is not None else integers(tensor)
    return values[0] if values is not None and len(values) == 1 else None


LOWERINGS("WHILE")(_while("WhileOptions"))
LOWERINGS("STABLEHLO_WHILE")(_while("StablehloWhileOptions"))
LOWERINGS("CALL")(_call("CallOptions", "callee", lambda options: options.Subgraph()))
LOWERINGS("CALL_ONCE")(_call("CallOnceOptions", "initializer", lambda options: options.InitSubgraphIndex()))
