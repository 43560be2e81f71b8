"""What a runtime executes: kernels of operators that it merges, priced by what enters and leaves them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from sizeup.dtypes import DType, precision_name
from sizeup.graph import ABSENT, divided
from sizeup.latency.counted import Counted, Moved, Quantities, number_type
from sizeup.latency.paths import FOREIGN, Paths, paths_of
from sizeup.latency.work import Codes, Flags, Work, from_columns, stack


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
    """The kernels of a runtime that merges so much, at the graph's own number types or at one precision.

    Classes carry the number type (`conv`, `conv.int8`). A tensor that stays within a kernel is not moved, and
    what a kernel reads twice is moved once. `like` saves time where the same operators were looked at before.
    Of a network with free dimensions the columns of the work hold expressions; what was decided by sizes on
    the way is told to whoever listens (`graph.assuming`).
    """
    known = like is not None and like.paths.suit(cost.graph, fuses)
    paths = like.paths if like is not None and known else paths_of(cost, fuses)
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
        self.type = number_type(cost)

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
        bits = [divided(self._dtype(i).bits * (self.graph.tensors[i].elements or 0), 8) for _, i in copied]
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
        tensor = np.array([known.get(id(each), FOREIGN) for each in accesses.tensors], np.int64)
        moved: Quantities = accesses.bytes_at(self.precision).astype(self.type)
        origin = np.append(self.origin, FOREIGN)[tensor]
        if self.precision is None and (origin != tensor).any():
            bits = np.array([*(max(each.dtype.bits, 1) for each in self.graph.tensors), 1])
            moved = moved * bits[origin] / bits[tensor]
        return kernel, origin, self._distinct(tensor, moved), origin == tensor

    def _distinct(self, tensor: Codes, moved: Quantities) -> Quantities:
        """What of an access is no repetition: a view that repeats numbers shows few of them often."""
        root = np.append(self.root, FOREIGN)[tensor]
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
        root = np.append(self.root, FOREIGN)[origin]
        inside = (root != FOREIGN) & (np.append(self.maker, -1)[root] == kernel)
        kept = np.flatnonzero((kernel >= 0) & ~inside)
        order = kept[np.lexsort((origin[kept], kernel[kept]))]
        kernel, origin = kernel[order], origin[order]
        same = (kernel[1:] == kernel[:-1]) & (origin[1:] == origin[:-1]) & (origin[1:] != FOREIGN)
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
