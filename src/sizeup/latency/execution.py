"""The kernels that a runtime executes: groups of fused ops, with the work of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from sizeup import fusion
from sizeup.dtypes import DType, precision_name
from sizeup.graph import ABSENT, Graph, Op, Tensor, differ_only_in_dtypes
from sizeup.latency.paths import DEQUANTIZED, PLAIN, is_blocked, path_of_activation
from sizeup.latency.work import Codes, Flags, Work, class_of, from_columns, product_of, stack
from sizeup.ops import cost_rule_of
from sizeup.symbolic import divide

# Floats; or, with symbolic dimensions, objects: exact expressions and ratios of them.
Quantities: TypeAlias = np.ndarray[Any, Any]

# The class of a kernel without MACs is the first of these that one of its ops has, else that of its first op.
_RANKED = ("layer_norm", "group_norm", "batch_norm", "softmax", "pool", "reduce", "activation")
_SUMS = frozenset({"mean", "reduce"})
_NORMS = frozenset({"batch_norm", "layer_norm", "variance"})
_FOREIGN = -1  # a tensor of a subgraph, not of the graph


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """The kernels of a network. Layout copies for products come last; their main op is the product."""

    work: Work  # one row per kernel
    kernel: Codes  # of each op, -1 if no kernel runs for it
    main_op: Codes  # the main op of each kernel
    kernel_graph: KernelGraph


def execution_of(
    cost: CountedGraph,
    precision: DType | None = None,
    fuses: Collection[str] = (),
    like: Execution | None = None,
) -> Execution:
    """The kernels of a runtime with some fusions, at the graph's own dtypes or at one precision.

    Classes carry the dtype (`conv`, `conv.int8`). A tensor that stays within a kernel is not moved, and a
    tensor that a kernel reads twice is moved once. `like` saves time if it has the same ops. For a graph with
    symbolic dimensions the columns of the work hold expressions, and decisions by size become guards
    (`symbolic.assuming`).
    """
    known = like is not None and like.kernel_graph.is_valid_for(cost.graph, fuses)
    paths = like.kernel_graph if like is not None and known else _paths_of(cost, fuses)
    return _Executed(cost, precision, paths).kernels()


def class_with_dtype(name: str, data: DType, weights: DType | None = None) -> str:
    """A class with its dtype: `conv` at 32 bits, `conv.int8`; `conv.w4` if only its weights are narrow.

    Kernels of 16-bit data widen narrow weights to 16 bits and compute at that dtype's rate.
    """
    if weights is not None and weights.bits < 16 and data.bits >= 32:
        return f"{name}.w{weights.bits}"
    return name if data.bits >= 32 or not data.bits else f"{name}.{precision_name(data).lstrip('u')}"


class _Executed:
    def __init__(self, cost: CountedGraph, precision: DType | None, paths: KernelGraph) -> None:
        self.cost, self.graph, self.precision, self.paths = cost, cost.graph, precision, paths
        self.groups, self.origins, self.kernel = paths.groups, paths.origins, paths.kernel
        self.maker, self.root, self.fixed = paths.maker, paths.root, paths.fixed
        self.origin = np.array(paths.origins, np.int64)
        self.macs = paths.macs
        self.dequantized = {op.outputs[0] for op in self.graph.ops if op.kind == "dequantize"}
        self.type = _column_type(cost)

    def kernels(self) -> Execution:
        main = self.paths.main
        length, columns, rows = self.paths.shapes.T
        (read, weights), (written, prepared) = self._read(), self._written()
        runs = self.kernel >= 0
        work = from_columns(
            [self._class(name, op) for name, op in zip(self.paths.names, main, strict=True)],
            1,
            np.zeros(len(self.groups), np.int64),
            macs=self._totals(self.kernel[runs], self.cost.macs[runs]),
            read=read,
            written=written,
            weights=weights + prepared,
            length=length,
            columns=columns,
            rows=rows,
            count=[float(runs) for runs in self.paths.runs],
        )
        copied = self._copied(main)
        stacked = stack([work, self._copies(copied)])
        merged = replace(stacked, networks=1, network=np.zeros(len(stacked), np.int64))
        mains = np.array([*main, *(op for op, _ in copied)], np.int64)
        return Execution(merged, self.kernel, mains, self.paths)

    def _copied(self, main: list[int]) -> list[tuple[int, int]]:
        """Matrix products and those of their operands that are copied to a contiguous layout first.

        With loop fusion, only operands that another product writes: loops write them contiguously.
        """
        layouts = {} if self.graph.recorded_run is None else self.graph.recorded_run.layouts
        operands = ((op, i) for op in main for i in self.graph.ops[op].inputs[:2])
        strided = [(op, i) for op, i in operands if layouts.get(i) == "apart"]
        if "loop" not in self.paths.fuses:
            return strided
        return [(op, i) for op, i in strided if self._is_product(int(self.maker[self.root[i]]), main)]

    def _is_product(self, kernel: int, main: list[int]) -> bool:
        return kernel >= 0 and self.macs[main[kernel]] > 0

    def _copies(self, copied: list[tuple[int, int]]) -> Work:
        bits = [divide(self._dtype(i).bits * (self.graph.tensors[i].elements or 0), 8) for _, i in copied]
        names = [class_with_dtype("copy_strided", self._dtype(i)) for _, i in copied]
        return from_columns(names, 1, np.zeros(len(bits), np.int64), read=bits, written=bits)

    def _totals(self, kernel: Codes, column: Quantities) -> Quantities:
        if self.type is not object:
            return np.asarray(np.bincount(kernel, column, len(self.groups)), np.float64)
        totals = np.full(len(self.groups), 0, object)
        np.add.at(totals, kernel, column)
        return totals

    def _class(self, name: str, main: int) -> str:
        """The class of a kernel with the dtype that it computes in."""
        op = self.graph.ops[main]
        if any(body.graph.tensors for body in op.bodies):
            return class_with_dtype(name, self._dtype_of_bodies(op))
        tensors = [identity for identity in (*op.inputs, *op.outputs) if identity != ABSENT]
        if not tensors:
            return name
        if name == "pool" and "max" in op.source.lower() and self._dtype(tensors[0]).bits < 16:
            name = "max_pool"  # quantized max and average pooling have very different rates
        has_weights = self.macs[main] > 0 and len(op.inputs) > 1 and op.inputs[1] != ABSENT
        name += self._path(name, op) if "unshared" in self.paths.fuses else ""
        return class_with_dtype(
            name, self._dtype(tensors[0]), self._dtype(op.inputs[1]) if has_weights else None
        )

    def _path(self, name: str, op: Op) -> str:
        """The path of a kernel in ONNX Runtime, which computes quantized convolutions channels last."""
        if name == "max_pool":
            maker = int(self.maker[self.root[op.inputs[0]]])
            follows_conv = maker >= 0 and self.graph.ops[self.paths.main[maker]].kind == "conv"
            return "" if follows_conv else PLAIN
        if op.kind != "conv" or self._dtype(op.inputs[0]).bits < 32:
            return ""
        if op.inputs[1] in self.dequantized:
            return DEQUANTIZED
        return "" if is_blocked(self.graph, op) else PLAIN

    def _dtype(self, identity: int) -> DType:
        tensor = self.graph.tensors[self.origins[identity]]
        return self.precision if self.precision is not None and tensor.follows_precision else tensor.dtype

    def _dtype_of_bodies(self, op: Op) -> DType:
        """The dtype of most activations in the bodies of control flow, without conditions and counters."""
        tensors = [tensor for body in op.bodies for tensor in body.graph.tensors if tensor.data is None]
        data = [tensor.dtype for tensor in tensors if tensor.follows_precision]
        if data and self.precision is not None:
            return self.precision
        return Counter(data or [tensor.dtype for tensor in tensors]).most_common(1)[0][0]

    def _moved(self, accesses: Accesses) -> tuple[Codes, Codes, Quantities, Flags]:
        """Per access: its kernel, the tensor that moves, its bytes, and whether the op names that tensor."""
        kernel = np.repeat(self.kernel, np.diff(accesses.first))
        known = {id(tensor): index for index, tensor in enumerate(self.graph.tensors)}
        tensor = np.array([known.get(id(accessed), _FOREIGN) for accessed in accesses.tensors], np.int64)
        moved: Quantities = accesses.bytes_at(self.precision).astype(self.type)
        origin = np.append(self.origin, _FOREIGN)[tensor]
        is_own = origin == tensor
        replaced = np.flatnonzero(~is_own)
        if self.precision is None and len(replaced):
            bits = np.array([max(item.dtype.bits, 1) for item in self.graph.tensors])
            moved[replaced] = moved[replaced] * bits[origin[replaced]] / bits[tensor[replaced]]
        return kernel, origin, self._distinct(tensor, moved), is_own

    def _distinct(self, tensor: Codes, moved: Quantities) -> Quantities:
        """The bytes of each access without repetitions: an expanded alias moves its base tensor once."""
        root = np.append(self.root, _FOREIGN)[tensor]
        aliases = np.flatnonzero(root != tensor)
        elements: Quantities = np.array([*(item.elements or 0 for item in self.graph.tensors), 0], self.type)
        expanded, stored = elements[tensor[aliases]], elements[root[aliases]]
        repeats = expanded > stored
        repeats[repeats] = stored[repeats] > 0
        repeated = aliases[repeats]
        moved[repeated] = moved[repeated] * stored[repeats] / expanded[repeats]
        return moved

    def _read(self) -> tuple[Quantities, Quantities]:
        """Bytes of activations and of weights that each kernel reads: each tensor once, not its outputs."""
        kernel, origin, moved, _ = self._moved(self.cost.reads)
        root = np.append(self.root, _FOREIGN)[origin]
        inside = (root != _FOREIGN) & (np.append(self.maker, -1)[root] == kernel)
        outside = np.flatnonzero((kernel >= 0) & ~inside)
        order = outside[np.lexsort((origin[outside], kernel[outside]))]
        kernel, origin = kernel[order], origin[order]
        same = (kernel[1:] == kernel[:-1]) & (origin[1:] == origin[:-1]) & (origin[1:] != _FOREIGN)
        first = np.flatnonzero(np.append(True, ~same)[: len(order)])
        # Of several accesses of a tensor by one kernel, the largest counts.
        kernel, moved = kernel[first], np.maximum.reduceat(moved[order], first) if len(first) else moved[:0]
        weight = self.cost.reads.is_weight[order[first]] | np.append(self.fixed, False)[origin[first]]
        return self._totals(kernel, moved * ~weight), self._totals(kernel, moved * weight)

    def _written(self) -> tuple[Quantities, Quantities]:
        """Bytes of activations and of constants that each kernel writes to memory."""
        kernel, origin, moved, is_own = self._moved(self.cost.writes)
        written = np.flatnonzero((kernel >= 0) & is_own & self.paths.written[origin])
        kernel, moved, fixed = kernel[written], moved[written], np.append(self.fixed, False)[origin[written]]
        return self._totals(kernel, moved * ~fixed), self._totals(kernel, moved * fixed)


@dataclass(frozen=True, slots=True, eq=False)
class KernelGraph:
    """Kernels and the tensors between them, independent of dtypes.

    Columns that are read entry by entry are lists, which are faster there than arrays.
    """

    graph: Graph
    fuses: frozenset[str]
    groups: list[tuple[int, ...]]  # the ops of each kernel
    kernel: Codes  # of each op, or -1
    origins: list[int]  # per tensor: the tensor that is passed on instead
    maker: Codes  # per tensor: the kernel that writes it, or -1
    root: Codes  # per tensor: the tensor whose bytes it aliases
    fixed: Flags  # tensors that depend on no input
    written: Flags  # tensors written to memory: read outside their kernel, or not read at all
    macs: list[Any]  # of each op
    main: list[int]  # the main op of each kernel
    names: list[str]  # the class of each kernel, without its dtype
    shapes: Quantities  # per kernel: length, columns and rows of its matrix product
    runs: list[bool]  # whether a kernel runs at all

    def is_valid_for(self, graph: Graph, fuses: Collection[str]) -> bool:
        """Whether they are valid for another graph: it has the same fusions and ops, except for dtypes."""
        same = frozenset(fuses) == self.fuses and self.graph.recorded_run is graph.recorded_run
        return same and differ_only_in_dtypes(self.graph, graph)


def _paths_of(cost: CountedGraph, fuses: Collection[str]) -> KernelGraph:
    """The kernels of a counted network on a runtime with some fusions."""
    graph, macs = cost.graph, cost.macs.tolist()
    groups, unfused = fusion.kernels_and_conversions(graph, fuses)
    kernel = [-1] * len(graph.ops)
    for index, ops in enumerate(groups):
        for op in ops:
            kernel[op] = index
    maker = [-1] * len(graph.tensors)
    for index, node in enumerate(graph.ops):
        for identity in node.outputs:
            maker[identity] = kernel[index]
    origins = _origins(graph, unfused) if "quantize" in fuses else list(range(len(graph.tensors)))
    root, fixed = _roots(graph, origins)
    main = [_main(graph, macs, ops) for ops in groups]
    return KernelGraph(
        graph,
        frozenset(fuses),
        groups,
        np.array(kernel, np.int64),
        origins,
        np.array(maker, np.int64),
        np.array(root, np.int64),
        np.array(fixed, np.bool_),
        np.array(_written_tensors(graph, kernel, maker, root), np.bool_),
        macs,
        main,
        [_class(graph, macs, fixed, ops, op) for ops, op in zip(groups, main, strict=True)],
        np.array([product_of(graph, graph.ops[op]) for op in main], _column_type(cost)).reshape(-1, 3),
        [not _is_bypassed(graph, origins, ops) for ops in groups],
    )


def _origins(graph: Graph, unfused: Collection[int]) -> list[int]:
    """Per tensor the one that kernels pass on: for a fused dequantize, its quantized input."""
    origins, outputs = list(range(len(graph.tensors))), set(graph.outputs)
    for index, op in enumerate(graph.ops):
        if op.kind == "dequantize" and op.outputs[0] not in outputs and index not in unfused:
            origins[op.outputs[0]] = op.inputs[0]
    return origins


def _roots(graph: Graph, origins: list[int]) -> tuple[list[int], list[bool]]:
    """Per tensor: the tensor whose bytes it aliases, and whether it depends on no input."""
    root = origins.copy()
    fixed = [tensor.data is not None for tensor in graph.tensors]
    for op in graph.ops:
        inputs = [identity for identity in op.inputs if identity != ABSENT]
        if _is_alias(op):
            for identity in op.outputs:
                root[identity] = root[inputs[0]]
        if all([fixed[identity] for identity in inputs]):  # noqa: C419 - a list is faster than a generator
            for identity in op.outputs:
                fixed[identity] = True
    return root, fixed


def _written_tensors(graph: Graph, kernel: list[int], maker: list[int], root: list[int]) -> list[bool]:
    """Whether each tensor is written to memory: it is read outside its kernel, or not read at all.

    The last entry is for tensors of subgraphs.
    """
    used, leaving = [False] * (len(root) + 1), [False] * (len(root) + 1)
    leaving[_FOREIGN] = True
    for identity in graph.outputs:
        leaving[root[identity]] = True
    for index, op in enumerate(graph.ops):
        if _is_alias(op):
            continue
        for identity in op.inputs:
            if identity != ABSENT:
                source = root[identity]
                used[source] = True
                if maker[source] != kernel[index]:
                    leaving[source] = True
    return [leaves or not is_read for leaves, is_read in zip(leaving, used, strict=True)]


def _is_bypassed(graph: Graph, origins: list[int], ops: tuple[int, ...]) -> bool:
    """Whether a kernel does not run because its readers take the quantized inputs instead."""
    outputs = [identity for index in ops for identity in graph.ops[index].outputs]
    return bool(outputs) and all(origins[identity] != identity for identity in outputs)


def _main(graph: Graph, macs: list[Any], ops: tuple[int, ...]) -> int:
    """The op with the most MACs; without MACs, the one whose class is first in `_RANKED`."""
    best = max(ops, key=macs.__getitem__)
    if macs[best] > 0:
        return best
    classes = {class_of(graph, graph.ops[index]): index for index in reversed(ops)}
    return next((classes[name] for name in _RANKED if name in classes), ops[0])


def _class(graph: Graph, macs: list[Any], fixed: list[bool], ops: tuple[int, ...], main: int) -> str:
    """The class of a kernel, without its dtype."""
    op_kinds = {graph.ops[index].kind for index in ops}
    name = class_of(graph, graph.ops[main])
    if macs[main] > 0:
        return "attention" if "softmax" in op_kinds else name
    if all(fixed[graph.ops[index].outputs[0]] for index in ops):
        return "weight_norm" if op_kinds & _NORMS else "weights"
    if "sqrt" in op_kinds and op_kinds & _SUMS:
        return "layer_norm"
    if "erf" in op_kinds or {"sigmoid", "mul"} <= op_kinds:
        name = "activation"
    return name + path_of_activation(op_kinds) if name == "activation" else name


def _is_alias(op: Op) -> bool:
    rule = cost_rule_of(op.kind)
    return rule is not None and rule.views


class Accesses(Protocol):
    """Accesses to tensors; those of op i are first[i]:first[i + 1]."""

    @property
    def first(self) -> Codes:
        """The first access of each op."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensor of each access."""

    @property
    def is_weight(self) -> Flags:
        """Whether the tensor of each access is a weight."""

    def bytes_at(self, precision: DType | None = None) -> Quantities:
        """Bytes of each access."""


class CountedGraph(Protocol):
    """The cost of a network: a `Cost`, or closed forms in symbolic dimensions."""

    @property
    def graph(self) -> Graph:
        """The network."""

    @property
    def macs(self) -> Quantities:
        """MACs of each op."""

    @property
    def reads(self) -> Accesses:
        """Tensors that ops read."""

    @property
    def writes(self) -> Accesses:
        """Tensors that ops write."""


def _column_type(cost: CountedGraph) -> type:
    """The type of a network's columns: floats, or objects if dimensions are symbolic."""
    return object if cost.macs.dtype == object else np.float64
