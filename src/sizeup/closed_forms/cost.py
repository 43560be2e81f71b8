"""Cost as closed forms: cost rules run once on symbolic dimensions, then are evaluated at many points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from sizeup import dtypes
from sizeup.cost import Cost, Flags, count
from sizeup.cost.columns import scale_bytes_read
from sizeup.cost.rows import op_cost
from sizeup.dtypes import BIAS, DType
from sizeup.errors import RuleError
from sizeup.graph import Graph, Tensor, without_gc
from sizeup.symbolic import (
    Assumptions,
    Grid,
    Guard,
    Number,
    Specialization,
    SymbolicGraph,
    Values,
    assuming,
    bind,
    cover,
    grid_of,
    guard_source,
    size,
    sum_of,
    value_at,
)

# An int at one point; a column of int64 at many, or of Python ints if int64 is too narrow.
Count: TypeAlias = Any
Precision: TypeAlias = str | DType | Any | None
Moved: TypeAlias = tuple[tuple[Number, Number, Tensor], ...]  # elements, repetitions, tensor
Side = Literal["reads", "writes"]


@dataclass(frozen=True, slots=True, eq=False)
class CostForms:
    """Columns of closed forms, one row per op, and the guards under which they are valid.

    Values that depend on no size (parameters, unknown ops and their reasons) are those of the example.
    """

    specialization: Specialization
    graph: Graph  # of the ops in the rows
    origins: Mapping[Guard, str]  # guards, and the part of the model that needs each
    macs: tuple[Number, ...]
    elementwise: tuple[Number, ...]
    reads: tuple[Moved, ...]
    writes: tuple[Moved, ...]
    example: Cost

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards under which the closed forms are valid."""
        return tuple(self.origins)

    @property
    def known(self) -> Flags:
        """Which rows are known."""
        return self.example.known

    @property
    def params(self) -> int:
        """Parameters of the model."""
        return self.example.total_params

    def bytes(self, side: Side, precision: DType | None = None) -> Number:
        """Bytes that all ops read, or write, at their own dtypes or at one precision."""
        moved: tuple[Moved, ...] = getattr(self, side)
        return sum_of(bytes_of(*access, precision) for row in moved for access in row)


class SymbolicCost:
    """The cost of a model as closed forms in its symbolic dimensions, by specialization."""

    def __init__(self, graph: SymbolicGraph) -> None:
        self.graph = graph
        self.forms: list[CostForms] = []
        self._more(graph.example)

    def __repr__(self) -> str:
        return f"<SymbolicCost of {self.graph!r}: {self.forms[0].specialization.graph!r}>"

    def at(self, **sizes: Any) -> Counts:
        """The counts at one point (ints), or at many (arrays that broadcast)."""
        grid, shape = grid_of(self.graph.names, sizes)
        return Counts(self.parts(grid), grid.points, shape)

    def cost_at(self, **sizes: int) -> Cost:
        """The cost at one point, equal to that of the model loaded with these sizes."""
        return count(self.graph.at(**sizes))

    def parts(self, grid: Grid) -> tuple[Part, ...]:
        """The closed forms that cover some points, each with the points that it covers."""
        return tuple(
            Part(forms, indices, grid if len(indices) == grid.points else grid.take(indices))
            for forms, indices in cover(grid, self.forms, self._more)
        )

    def _more(self, point: Mapping[str, int]) -> CostForms:
        with without_gc():
            forms = cost_forms(self.graph.specialization_at(point), point)
        self.forms.append(forms)
        return forms


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Points that one set of closed forms covers, and their indices among all points."""

    forms: CostForms
    indices: Values
    grid: Grid


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """Totals of a model at some points, each computed on demand."""

    parts: tuple[Part, ...]
    points: int
    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<Counts at {self.points:,} points in {len(self.parts)} parts>"

    @property
    def macs(self) -> Count:
        """Multiply-accumulates of one inference."""
        return self.total(lambda forms: sum_of(forms.macs))

    @property
    def flops(self) -> Count:
        """Two per multiply-accumulate."""
        return 2 * self.macs

    @property
    def elementwise_ops(self) -> Count:
        """Elementwise operations of one inference."""
        return self.total(lambda forms: sum_of(forms.elementwise))

    @property
    def params(self) -> Count:
        """Parameters of the model; shared ones count once."""
        return self.total(lambda forms: forms.params)

    @property
    def is_known(self) -> Any:
        """Whether every op is counted."""
        return self._gather([np.full(len(part.indices), part.forms.known.all()) for part in self.parts])

    def read_bytes(self, precision: Precision = None) -> Count:
        """Bytes that are read, at the model's own dtypes or at one precision."""
        return self._moved("reads", precision)

    def written_bytes(self, precision: Precision = None) -> Count:
        """Bytes that are written, at the model's own dtypes or at one precision."""
        return self._moved("writes", precision)

    def weight_bytes(self, precision: Precision = None) -> Count:
        """Bytes of all parameters."""
        dtype = _dtype(precision)
        return self.total(lambda forms: forms.example.bytes_at(dtype).weights)

    def intensity(self, precision: Precision = None) -> Any:
        """FLOPs per byte moved."""
        moved = np.asarray(self.read_bytes(precision) + self.written_bytes(precision), np.float64)
        computed = np.asarray(self.flops, np.float64)
        intensity = np.divide(computed, moved, out=np.zeros(self.shape), where=moved > 0)
        return intensity if self.shape else float(intensity)

    def total(self, form: Callable[[CostForms], Number]) -> Count:
        """The value of any closed form at the points; raises RuleError if it is negative at one of them."""
        columns = [part.grid.values([form(part.forms)])[0] for part in self.parts]
        for column in columns:
            if len(column) and column.min() < 0:
                raise RuleError(f"a count is negative at one of the points ({column.min():,})")
        return self._gather(columns)

    def _moved(self, side: Side, precision: Precision) -> Count:
        dtype = _dtype(precision)
        return self.total(lambda forms: forms.bytes(side, dtype))

    def _gather(self, columns: list[Values]) -> Any:
        if len(columns) == 1:
            gathered = columns[0]
        else:
            types = {values.dtype for values in columns}
            gathered = np.empty(self.points, types.pop() if len(types) == 1 else object)
            for part, column in zip(self.parts, columns, strict=True):
                gathered[part.indices] = column
        return gathered.reshape(self.shape) if self.shape else gathered.item()


def _dtype(precision: Precision) -> DType | None:
    return None if precision is None else dtypes.precision(precision)


def bytes_of(elements: Number, times: Number, tensor: Tensor, precision: DType | None = None) -> Number:
    """Bytes of one access; sub-byte elements are packed, and the last byte is padded."""
    bits = _bits(tensor, precision)
    whole, rest = divmod(bits, 8)
    moved = elements * whole * times if not rest else ((elements * bits + 7) // 8) * times
    if precision is not None and tensor.follows_precision:
        return moved
    return moved + _scale_bytes(tensor, elements) * times


def _scale_bytes(tensor: Tensor, elements: Number) -> Number:
    return scale_bytes_read(tensor, cast("int", elements))  # arithmetic of integers, or of expressions


def _bits(tensor: Tensor, precision: DType | None) -> int:
    if precision is None or not tensor.follows_precision:
        return tensor.dtype.bits
    is_small = tensor.is_parameter and len(tensor.shape or ()) <= 1
    return BIAS.bits if is_small and precision.is_quantized else precision.bits


def cost_forms(specialization: Specialization, example: Mapping[str, int]) -> CostForms:
    """The closed forms of a specialization around an example, or only at the example if there are none.

    They are checked against the cost of the graph at the example, computed from integers.
    """
    at_example = count(bind(specialization.graph, example))
    assumptions = Assumptions(example)
    try:
        with assuming(assumptions):
            forms = _counted(specialization, specialization.graph, at_example, assumptions)
        if _agrees(forms, at_example, example):
            return forms
    # A cost rule may need more than an expression supports, and fail in its own way.
    except (TypeError, ValueError, ArithmeticError, LookupError):
        pass
    point = Assumptions(example)
    with assuming(point):
        assert all(size(name) == value for name, value in example.items())
    return _counted(specialization, at_example.graph, at_example, point)


def _counted(
    specialization: Specialization, graph: Graph, example: Cost, assumptions: Assumptions
) -> CostForms:
    rows = []
    for op in graph.ops:
        with guard_source(f"the cost rule of {op.kind} in {op.scope or op.name}"):
            rows.append(op_cost(graph, op))
    return CostForms(
        specialization,
        graph,
        {**specialization.guard_sources, **assumptions.guard_sources},
        tuple(row.macs for row in rows),
        tuple(row.elementwise for row in rows),
        tuple(tuple(row.reads) for row in rows),
        tuple(tuple(row.writes) for row in rows),
        example,
    )


def _agrees(forms: CostForms, cost: Cost, sizes: Mapping[str, int]) -> bool:
    for row, known in enumerate(cost.known.tolist()):
        counts = (value_at(forms.macs[row], sizes), value_at(forms.elementwise[row], sizes))
        if counts != (int(cost.macs[row]), int(cost.elementwise[row])):
            return False
        for accesses, moved in ((cost.reads, forms.reads[row]), (cost.writes, forms.writes[row])):
            first, last = accesses.first[row : row + 2].tolist()
            elements, times = accesses.elements[first:last].tolist(), accesses.times[first:last].tolist()
            if [(value_at(number, sizes), value_at(repeats, sizes)) for number, repeats, _ in moved] != list(
                zip(elements, times, strict=True)
            ):
                return False
        if known != (row not in cost.reasons):
            return False
    return True
