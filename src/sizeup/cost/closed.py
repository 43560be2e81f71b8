"""Counting a graph with free dimensions: once, then at a million points by array arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup import dtypes
from sizeup.cost.columns import Cost
from sizeup.cost.counting import count
from sizeup.cost.forms import Forms, Side, forms_of, sum_of
from sizeup.dtypes import DType
from sizeup.errors import RuleError
from sizeup.graph import FreeGraph, Grid, Number, Values, grid_of, without_collection
from sizeup.graph.free import cover

# A whole number at one point; a column of int64 at many, or of Python's ints where int64 is too narrow.
Count: TypeAlias = Any
Precision: TypeAlias = str | DType | None


class FreeCost:
    """What a model costs as closed forms of its free dimensions, piece by piece."""

    def __init__(self, graph: FreeGraph) -> None:
        self.graph = graph
        self.forms: list[Forms] = []
        self._more(graph.example)

    def __repr__(self) -> str:
        return f"<FreeCost of {self.graph!r}: {self.forms[0].piece.graph!r}>"

    def at(self, **sizes: Any) -> Counts:
        """The counts at one point (whole numbers), or at many (arrays that broadcast)."""
        grid, shape = grid_of(self.graph.names, sizes)
        return Counts(self.parts(grid), grid.points, shape)

    def cost_at(self, **sizes: int) -> Cost:
        """The columns at one point, as counting a fresh load gives them."""
        return count(self.graph.at(**sizes))

    def parts(self, grid: Grid) -> tuple[Part, ...]:
        """The closed forms that cover some points, each with the points that it covers."""
        found = cover(grid, self.forms, lambda forms: forms.conditions, self._more)
        return tuple(
            Part(forms, places, grid if len(places) == grid.points else grid.take(places))
            for forms, places in found
        )

    def _more(self, point: Mapping[str, int]) -> Forms:
        with without_collection():
            forms = forms_of(self.graph.piece_at(point), point)
        self.forms.append(forms)
        return forms


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Points that one set of closed forms covers, and their places among all points."""

    forms: Forms
    places: Values
    grid: Grid


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """Totals of a model at the points that were asked for; each is computed when it is asked for."""

    parts: tuple[Part, ...]
    points: int
    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<Counts at {self.points:,} points in {len(self.parts)} pieces>"

    @property
    def macs(self) -> Count:
        """Multiply-accumulates of one pass."""
        return self.total(lambda forms: sum_of(forms.macs))

    @property
    def flops(self) -> Count:
        """Two for each multiply-accumulate."""
        return 2 * self.macs

    @property
    def elementwise_ops(self) -> Count:
        """Elementwise operations of one pass."""
        return self.total(lambda forms: sum_of(forms.elementwise))

    @property
    def params(self) -> Count:
        """Parameters of the model, shared ones once."""
        return self.total(lambda forms: forms.params)

    @property
    def is_known(self) -> Any:
        """Whether every operator is counted."""
        return self._gathered([np.full(len(each.places), each.forms.known.all()) for each in self.parts])

    def read_bytes(self, precision: Precision = None) -> Count:
        """Bytes that are read, at the model's own number types or at one precision."""
        return self._moved("reads", precision)

    def written_bytes(self, precision: Precision = None) -> Count:
        """Bytes that are written, at the model's own number types or at one precision."""
        return self._moved("writes", precision)

    def weight_bytes(self, precision: Precision = None) -> Count:
        """Bytes of all parameters."""
        asked = _dtype(precision)
        return self.total(lambda forms: forms.example.bytes_at(asked).weights)

    def intensity(self, precision: Precision = None) -> Any:
        """FLOPs for each byte that is moved."""
        moved = np.asarray(self.read_bytes(precision) + self.written_bytes(precision), np.float64)
        computed = np.asarray(self.flops, np.float64)
        found = np.divide(computed, moved, out=np.zeros(self.shape), where=moved > 0)
        return found if self.shape else float(found)

    def total(self, form: Callable[[Forms], Number]) -> Count:
        """The value of any closed form at the points; no count may be negative at one of them."""
        columns = [each.grid.values([form(each.forms)])[0] for each in self.parts]
        for column in columns:
            if len(column) and column.min() < 0:
                raise RuleError(f"a count is negative at one of the points ({column.min():,})")
        return self._gathered(columns)

    def _moved(self, side: Side, precision: Precision) -> Count:
        asked = _dtype(precision)
        return self.total(lambda forms: forms.bytes(side, asked))

    def _gathered(self, columns: list[Values]) -> Any:
        if len(columns) == 1:
            gathered = columns[0]
        else:
            kinds = {each.dtype for each in columns}
            gathered = np.empty(self.points, kinds.pop() if len(kinds) == 1 else object)
            for part, column in zip(self.parts, columns, strict=True):
                gathered[part.places] = column
        return gathered.reshape(self.shape) if self.shape else gathered.item()


def closed(graph: FreeGraph) -> FreeCost:
    """Count a graph with free dimensions by the rules that count bound ones."""
    return FreeCost(graph)


def _dtype(precision: Precision) -> DType | None:
    return dtypes.precision(precision) if isinstance(precision, str) else precision
