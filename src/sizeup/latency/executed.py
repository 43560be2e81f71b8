"""What a runtime executes: kernels of fused ops, with the work of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from sizeup import fuse
from sizeup.dtypes import DType, precision_name
from sizeup.graph import ABSENT, Graph, Op, Tensor, differ_in_types_alone
from sizeup.latency.work import Codes, Flags, Work, class_of, from_columns, product_of, stack
from sizeup.ops import rule_of
from sizeup.symbolic import divide

# Floats; or objects, which are exact: expressions of symbolic dimensions and ratios of them.
Quantities: TypeAlias = np.ndarray[Any, Any]

# Of operators without a product, the first class of these says what the kernel is; else its first operator.
_RANKED = ("layer_norm", "group_norm", "batch_norm", "softmax", "pool", "reduce", "activation")
_SUMS = frozenset({"mean", "reduce"})
_NORMS = frozenset({"batch_norm", "layer_norm", "variance"})
_FOREIGN = -1  # a tensor of a body: no tensor of the graph


@dataclass(frozen=True, slots=True, eq=False)
class Executed:
    """One row of work a kernel; of every operator its kernel (-1: none runs for it), and of every kernel the
    operator that names it. Copies that a product asks for come last, under the product's name."""

    work: Work
    kernel: Codes
    main: Codes
    paths: Paths


def executed(
    cost: Counted, precision: DType | None = None, fuses: Collection[str] = (), like: Executed | None = None
) -> Executed:
    """The kernels of a runtime with some fusions, at the graph's own dtypes or at one precision.

    Classes carry the dtype (`conv`, `conv.int8`). A tensor that stays within a kernel is not moved, and a
    tensor that a kernel reads twice is moved once. `like` saves time if it has the same ops. For a graph with
    symbolic dimensions the columns of the work hold expressions, and decisions by size become guards
    (`symbolic.assuming`).
    """
    known = like is not None and like.paths.suit(cost.graph, fuses)
    paths = like.paths if like is not None and known else _paths_of(cost, fuses)
    return _Executed(cost, precision, paths).kernels()


def typed(name: str, data: DType, weights: DType | None = None) -> str:
    """A class at its number type: `conv` at 32 bits, `conv.int8`; `conv.w4` where only weights are narrow."""
    if weights is not None and weights.bits < 16 <= data.bits:
        return f"{name}.w{weights.bits}"
    return name if data.bits >= 32 or not data.bits else f"{name}.{precision_name(data).lstrip('u')}"


class _Executed:
    def __init__(self, cost: Counted, precision: DType | None, paths: Paths) -> None:
        self.cost, self.graph, self.precision, self.paths = cost, cost.graph, precision, paths
        self.groups, self.origins, self.kernel = paths.groups, paths.origins, paths.kernel
        self.maker, self.root, self.fixed = paths.maker, paths.root, paths.fixed
        self.origin = np.array(paths.origins, np.int64)
        self.macs = paths.macs
        self.type = _number_type(cost)

    def kernels(self) -> Executed:
        main = self.paths.main
        length, columns, rows = self.paths.shapes.T
        (read, weights), (written, prepared) = self._read(), self._written()
        there = self.kernel >= 0
        work = from_columns(
            [self._class(name, each) for name, each in zip(self.paths.names, main, strict=True)],
            1,
            np.zeros(len(self.groups), np.int64),
            macs=self._totals(self.kernel[there], self.cost.macs[there]),
            read=read,
            written=written,
            weights=weights + prepared,
            length=length,
            columns=columns,
            rows=rows,
            count=[float(each) for each in self.paths.runs],
        )
        copied = self._copied(main)
        both = stack([work, self._copies(copied)])
        together = replace(both, networks=1, network=np.zeros(len(both), np.int64))
        mains = np.array([*main, *(each for each, _ in copied)], np.int64)
        return Executed(together, self.kernel, mains, self.paths)

    def _copied(self, main: list[int]) -> list[tuple[int, int]]:
        """Products and their operands that have to be put in order before; a nest of loops writes them so."""
        layouts = {} if self.graph.run is None else self.graph.run.layouts
        operands = ((each, i) for each in main for i in self.graph.ops[each].inputs[:2])
        found = [(each, i) for each, i in operands if layouts.get(i) == "apart"]
        if "loop" not in self.paths.fuses:
            return found
        return [(each, i) for each, i in found if self._is_product(int(self.maker[self.root[i]]), main)]

    def _is_product(self, kernel: int, main: list[int]) -> bool:
        return kernel >= 0 and self.macs[main[kernel]] > 0

    def _copies(self, copied: list[tuple[int, int]]) -> Work:
        bits = [divide(self._dtype(i).bits * (self.graph.tensors[i].elements or 0), 8) for _, i in copied]
        names = [typed("copy_strided", self._dtype(i)) for _, i in copied]
        return from_columns(names, 1, np.zeros(len(bits), np.int64), read=bits, written=bits)

    def _totals(self, kernel: Codes, column: Quantities) -> Quantities:
        if self.type is not object:
            return np.asarray(np.bincount(kernel, column, len(self.groups)), np.float64)
        found = np.full(len(self.groups), 0, object)
        np.add.at(found, kernel, column)
        return found

    def _class(self, name: str, main: int) -> str:
        """The class of a kernel at the number type of what it computes with."""
        op = self.graph.ops[main]
        places = [each for each in (*op.inputs, *op.outputs) if each != ABSENT]
        if not places:
            return name
        if name == "pool" and "max" in op.source.lower() and self._dtype(places[0]).bits < 16:
            name = "max_pool"  # quantised, a maximum and a mean have little in common
        has_weights = self.macs[main] > 0 and len(op.inputs) > 1 and op.inputs[1] != ABSENT
        return typed(name, self._dtype(places[0]), self._dtype(op.inputs[1]) if has_weights else None)

    def _dtype(self, identity: int) -> DType:
        tensor = self.graph.tensors[self.origins[identity]]
        return self.precision if self.precision is not None and tensor.follows_precision else tensor.dtype

    def _moved(self, accesses: Moved) -> tuple[Codes, Codes, Quantities, Flags]:
        """Of every access its kernel, the tensor that moves, its bytes, and whether the operator names it."""
        kernel = np.repeat(self.kernel, np.diff(accesses.first))
        known = {id(tensor): index for index, tensor in enumerate(self.graph.tensors)}
        tensor = np.array([known.get(id(each), _FOREIGN) for each in accesses.tensors], np.int64)
        moved: Quantities = accesses.bytes_at(self.precision).astype(self.type)
        origin = np.append(self.origin, _FOREIGN)[tensor]
        if self.precision is None and (origin != tensor).any():
            bits = np.array([*(max(each.dtype.bits, 1) for each in self.graph.tensors), 1])
            moved = moved * bits[origin] / bits[tensor]
        return kernel, origin, self._distinct(tensor, moved), origin == tensor

    def _distinct(self, tensor: Codes, moved: Quantities) -> Quantities:
        """What of an access is no repetition: a view that repeats numbers shows few of them often."""
        root = np.append(self.root, _FOREIGN)[tensor]
        views = np.flatnonzero(root != tensor)
        elements: Quantities = np.array([*(each.elements or 0 for each in self.graph.tensors), 0], self.type)
        shown, held = elements[tensor[views]], elements[root[views]]
        repeated = shown > held
        repeated[repeated] = held[repeated] > 0
        places = views[repeated]
        moved[places] = moved[places] * held[repeated] / shown[repeated]
        return moved

    def _read(self) -> tuple[Quantities, Quantities]:
        """Bytes that every kernel reads of activations and of weights: each tensor once, none of its own."""
        kernel, origin, moved, _ = self._moved(self.cost.reads)
        root = np.append(self.root, _FOREIGN)[origin]
        inside = (root != _FOREIGN) & (np.append(self.maker, -1)[root] == kernel)
        kept = np.flatnonzero((kernel >= 0) & ~inside)
        order = kept[np.lexsort((origin[kept], kernel[kept]))]
        kernel, origin = kernel[order], origin[order]
        same = (kernel[1:] == kernel[:-1]) & (origin[1:] == origin[:-1]) & (origin[1:] != _FOREIGN)
        first = np.flatnonzero(np.append(len(order) > 0, ~same)[: len(order)])
        # The largest access of a tensor by a kernel stands for all of them.
        kernel, moved = kernel[first], np.maximum.reduceat(moved[order], first) if len(first) else moved[:0]
        weight = self.cost.reads.weight[order[first]] | np.append(self.fixed, False)[origin[first]]
        return self._totals(kernel, moved * ~weight), self._totals(kernel, moved * weight)

    def _written(self) -> tuple[Quantities, Quantities]:
        """Bytes that every kernel writes of activations and, as if they were weights, of what no input
        changes; but for what nobody else reads."""
        kernel, origin, moved, itself = self._moved(self.cost.writes)
        kept = np.flatnonzero((kernel >= 0) & itself & self.paths.kept[origin])
        kernel, moved, fixed = kernel[kept], moved[kept], np.append(self.fixed, False)[origin[kept]]
        return self._totals(kernel, moved * ~fixed), self._totals(kernel, moved * fixed)


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Which kernel makes which tensor, and for which others, whatever the dtypes.

    Columns that are read entry by entry are lists, which are faster there than arrays.
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


def _paths_of(cost: Counted, fuses: Collection[str]) -> Paths:
    """The paths through a counted network on a runtime with some fusions."""
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
        np.array([product_of(graph, graph.ops[each]) for each in main], _number_type(cost)).reshape(-1, 3),
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
    leaving[_FOREIGN] = True
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


class Moved(Protocol):
    """Tensors read or written, one entry each; those of operator i are first[i]:first[i + 1]."""

    @property
    def first(self) -> Codes:
        """Where the entries of every operator begin."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Whose numbers move."""

    @property
    def weight(self) -> Flags:
        """Which of them are fixed."""

    def bytes_at(self, precision: DType | None = None) -> Quantities:
        """Bytes of every entry."""


class Counted(Protocol):
    """The cost of a network: a `Cost`, or closed forms of symbolic dimensions."""

    @property
    def graph(self) -> Graph:
        """The network."""

    @property
    def macs(self) -> Quantities:
        """Of every operator."""

    @property
    def reads(self) -> Moved:
        """What operators read."""

    @property
    def writes(self) -> Moved:
        """What operators write."""


def _number_type(cost: Counted) -> type:
    """The type of a network's columns: floats, or objects if dimensions are symbolic."""
    return object if cost.macs.dtype == object else np.float64
