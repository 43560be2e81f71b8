"""What numbers take through the kernels that a runtime merges, whatever their types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizeup import fuse
from sizeup.graph import ABSENT, Graph, Op, differ_in_types_alone
from sizeup.latency.counted import Counted, Quantities, number_type
from sizeup.latency.work import Codes, Flags, class_of, product_of
from sizeup.ops import rule_of

# Of operators without a product, the first class of these says what the kernel is; else its first operator.
_RANKED = ("layer_norm", "group_norm", "batch_norm", "softmax", "pool", "reduce", "activation")
_SUMS = frozenset({"mean", "reduce"})
_NORMS = frozenset({"batch_norm", "layer_norm", "variance"})
FOREIGN = -1  # a tensor of a body: no tensor of the graph


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """What numbers take through the kernels of a runtime, whatever their types: who makes what, and for whom.

    Single places are looked up in lists, which answer sooner than numpy's columns.
    """

    graph: Graph
    fuses: frozenset[str]
    groups: list[tuple[int, ...]]  # the operators of every kernel
    kernel: Codes
    origins: list[int]  # of every tensor the one that is passed on in its place
    maker: Codes  # of every tensor the kernel that makes it, or -1
    root: Codes  # of every tensor the one whose bytes it shows
    fixed: Flags  # which tensors no input changes
    kept: Flags  # which tensors are written: read elsewhere than in their kernel, or by nobody
    macs: list[Any]  # of every operator
    main: list[int]  # of every kernel the operator that names it
    names: list[str]  # of every kernel its class, without a number type
    shapes: Quantities  # of every kernel the length, columns and rows of its product
    runs: list[bool]  # whether a kernel runs at all

    def suit(self, graph: Graph, fuses: Collection[str]) -> bool:
        """Whether they are those of another graph, too: it has the same operators, at other types perhaps."""
        same = frozenset(fuses) == self.fuses and self.graph.run is graph.run
        return same and differ_in_types_alone(self.graph, graph)


def paths_of(cost: Counted, fuses: Collection[str]) -> Paths:
    """The paths through a counted network on a runtime that merges so much."""
    graph, macs = cost.graph, cost.macs.tolist()
    groups, alone = fuse.merged(graph, fuses)
    kernel = [-1] * len(graph.ops)
    for index, ops in enumerate(groups):
        for each in ops:
            kernel[each] = index
    maker = [-1] * len(graph.tensors)
    for index, op in enumerate(graph.ops):
        for identity in op.outputs:
            maker[identity] = kernel[index]
    origins = _origins(graph, alone) if "quantise" in fuses else list(range(len(graph.tensors)))
    root, fixed = _roots(graph, origins)
    main = [_main(graph, macs, ops) for ops in groups]
    return Paths(
        graph,
        frozenset(fuses),
        groups,
        np.array(kernel, np.int64),
        origins,
        np.array(maker, np.int64),
        np.array(root, np.int64),
        np.array(fixed, np.bool_),
        np.array(_kept(graph, kernel, maker, root), np.bool_),
        macs,
        main,
        [_class(graph, macs, fixed, ops, each) for ops, each in zip(groups, main, strict=True)],
        np.array([product_of(graph, graph.ops[each]) for each in main], number_type(cost)).reshape(-1, 3),
        [not _is_passed_on(graph, origins, ops) for ops in groups],
    )


def _origins(graph: Graph, alone: Collection[int]) -> list[int]:
    """Where conversions are merged, kernels pass quantised numbers on, not what they stand for."""
    origins, wanted = list(range(len(graph.tensors))), set(graph.outputs)
    for index, op in enumerate(graph.ops):
        if op.kind == "dequantize" and op.outputs[0] not in wanted and index not in alone:
            origins[op.outputs[0]] = op.inputs[0]
    return origins


def _roots(graph: Graph, origins: list[int]) -> tuple[list[int], list[bool]]:
    """Of every tensor the one whose bytes it shows, and whether no input changes it."""
    root = origins.copy()
    fixed = [each.data is not None for each in graph.tensors]
    for op in graph.ops:
        inputs = [each for each in op.inputs if each != ABSENT]
        if _is_view(op):
            for identity in op.outputs:
                root[identity] = root[inputs[0]]
        if all([fixed[each] for each in inputs]):  # noqa: C419 - a list is made sooner than a generator
            for identity in op.outputs:
                fixed[identity] = True
    return root, fixed


def _kept(graph: Graph, kernel: list[int], maker: list[int], root: list[int]) -> list[bool]:
    """Which tensors are written to memory, the last place for those of bodies: what is read outside the
    kernel that makes it, and what nobody reads."""
    used, leaving = [False] * (len(root) + 1), [False] * (len(root) + 1)
    leaving[FOREIGN] = True
    for identity in graph.outputs:
        leaving[root[identity]] = True
    for index, op in enumerate(graph.ops):
        if _is_view(op):
            continue
        for identity in op.inputs:
            if identity != ABSENT:
                source = root[identity]
                used[source] = True
                if maker[source] != kernel[index]:
                    leaving[source] = True
    return [left or not read for left, read in zip(leaving, used, strict=True)]


def _is_passed_on(graph: Graph, origins: list[int], ops: tuple[int, ...]) -> bool:
    """Whether nothing runs, because readers take the quantised numbers themselves."""
    made = [identity for index in ops for identity in graph.ops[index].outputs]
    return bool(made) and all(origins[identity] != identity for identity in made)


def _main(graph: Graph, macs: list[Any], ops: tuple[int, ...]) -> int:
    """The operator with the most MACs; without any, the one whose class ranks first."""
    best = max(ops, key=macs.__getitem__)
    if macs[best] > 0:
        return best
    classes = {class_of(graph, graph.ops[index]): index for index in reversed(ops)}
    return next((classes[name] for name in _RANKED if name in classes), ops[0])


def _class(graph: Graph, macs: list[Any], fixed: list[bool], ops: tuple[int, ...], main: int) -> str:
    """The class of a kernel, without its number type."""
    kinds = {graph.ops[index].kind for index in ops}
    name = class_of(graph, graph.ops[main])
    if macs[main] > 0:
        return "attention" if "softmax" in kinds else name
    if all(fixed[graph.ops[each].outputs[0]] for each in ops):
        return "weight_norm" if kinds & _NORMS else "weights"
    if "sqrt" in kinds and kinds & _SUMS:
        return "layer_norm"
    return "activation" if "erf" in kinds or {"sigmoid", "mul"} <= kinds else name


def _is_view(op: Op) -> bool:
    rule = rule_of(op.kind)
    return rule is not None and rule.views
