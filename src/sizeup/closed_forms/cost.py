"""Cost as closed forms: cost rules run once on symbolic dimensions, then evaluated at a million points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sizeup import dtypes
from sizeup.cost import Cost, Flags, count
from sizeup.cost.rows import row_of
from sizeup.dtypes import BIAS, DType
from sizeup.errors import RuleError
from sizeup.graph import Graph, Tensor, without_collection
from sizeup.symbolic import (
    Assumptions,
    FreeGraph,
    Grid,
    Guard,
    Number,
    Specialization,
    Values,
    assuming,
    bound,
    cover,
    grid_of,
    guard_source,
    size,
    sum_of,
    value_at,
)

# An int at one point; a column of int64 at many, or of Python ints if int64 is too narrow.
Count: TypeAlias = Any
Precision: TypeAlias = str | DType | None
Moved: TypeAlias = tuple[tuple[Number, Number, Tensor], ...]  # elements, how often, and of which tensor
Side = Literal["reads", "writes"]


@dataclass(frozen=True, slots=True, eq=False)
class CostForms:
    """Columns of closed forms, one row per op, and the guards under which they are valid.

    What depends on no size (parameters, which rows are known and why not) is that of the example.
    """

    specialization: Specialization
    graph: Graph  # whose ops the rows are of
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
        return sum_of(bytes_of(*each, precision) for row in moved for each in row)


class FreeCost:
    """What a model costs as closed forms of its symbolic dimensions, by specialization."""

    def __init__(self, graph: FreeGraph) -> None:
        self.graph = graph
        self.forms: list[CostForms] = []
        self._more(graph.example)

    def __repr__(self) -> str:
        return f"<FreeCost of {self.graph!r}: {self.forms[0].specialization.graph!r}>"

    def at(self, **sizes: Any) -> Counts:
        """The counts at one point (ints), or at many (arrays that broadcast)."""
        grid, shape = grid_of(self.graph.names, sizes)
        return Counts(self.parts(grid), grid.points, shape)

    def cost_at(self, **sizes: int) -> Cost:
        """The columns at one point, as counting a fresh load gives them."""
        return count(self.graph.at(**sizes))

    def parts(self, grid: Grid) -> tuple[Part, ...]:
        """The closed forms that cover some points, each with the points that it covers."""
        return tuple(
            Part(forms, places, grid if len(places) == grid.points else grid.take(places))
            for forms, places in cover(grid, self.forms, self._more)
        )

    def _more(self, point: Mapping[str, int]) -> CostForms:
        with without_collection():
            forms = cost_forms(self.graph.specialization_at(point), point)
        self.forms.append(forms)
        return forms


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Points that one set of closed forms covers, and their places among all points."""

    forms: CostForms
    places: Values
    grid: Grid


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """Totals of a model at some points, each computed on demand."""

    parts: tuple[Part, ...]
    points: int
    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<Counts at {self.points:,} points in {len(self.parts)} pieces>"

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
        """Parameters of the model, shared ones once."""
        return self.total(lambda forms: forms.params)

    @property
    def is_known(self) -> Any:
        """Whether every op is counted."""
        return self._gathered([np.full(len(each.places), each.forms.known.all()) for each in self.parts])

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
        columns = [each.grid.values([form(each.forms)])[0] for each in self.parts]
        for column in columns:
            if len(column) and column.min() < 0:
                raise RuleError(f"a count is negative at one of the points ({column.min():,})")
        return self._gathered(columns)

    def _moved(self, side: Side, precision: Precision) -> Count:
        dtype = _dtype(precision)
        return self.total(lambda forms: forms.bytes(side, dtype))

    def _gathered(self, columns: list[Values]) -> Any:
        if len(columns) == 1:
            gathered = columns[0]
        else:
            kinds = {each.dtype for each in columns}
            gathered = np.empty(self.points, kinds.pop() if len(kinds) == 1 else object)
            for part, column in zip(self.parts, columns, strict=True):
                gathered[part.places] = column
        return gathered.reshape(self.shape) if self.shape else gathered.item()


def _dtype(precision: Precision) -> DType | None:
    return dtypes.precision(precision) if isinstance(precision, str) else precision


def bytes_of(elements: Number, times: Number, tensor: Tensor, precision: DType | None = None) -> Number:
    """Bytes of one access. Two numbers of four bits share a byte; the last one has it alone."""
    bits = _bits(tensor, precision)
    whole, rest = divmod(bits, 8)
    return elements * whole * times if not rest else ((elements * bits + 7) // 8) * times


def _bits(tensor: Tensor, precision: DType | None) -> int:
    if precision is None or not tensor.follows_precision:
        return tensor.dtype.bits
    small = tensor.is_parameter and len(tensor.shape or ()) <= 1
    return BIAS.bits if small and precision.is_quantised else precision.bits


def cost_forms(specialization: Specialization, example: Mapping[str, int]) -> CostForms:
    """The closed forms of a specialization around an example, or those of that point alone.

    They are checked against the cost of the graph at the example, which is counted from ints.
    """
    at_example = count(bound(specialization.graph, example))
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
        with guard_source(f"the rule of {op.kind} in {op.scope or op.name}"):
            rows.append(row_of(graph, op))
    return CostForms(
        specialization,
        graph,
        {**specialization.origins, **assumptions.origins},
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
            if [(value_at(each, sizes), value_at(often, sizes)) for each, often, _ in moved] != list(
                zip(elements, times, strict=True)
            ):
                return False
        if known != (row not in cost.reasons):
            return False
    return True
