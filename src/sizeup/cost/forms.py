"""Closed forms of one piece of a free graph: what every operator costs, as expressions of free sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sizeup.cost.columns import Cost, Flags
from sizeup.cost.counting import count
from sizeup.cost.rows import row_of
from sizeup.dtypes import BIAS, DType
from sizeup.graph import (
    Assumptions,
    Condition,
    Graph,
    Number,
    Piece,
    Tensor,
    asked_by,
    assuming,
    bound,
    value_at,
)
from sizeup.graph import size as free_size
from sizeup.graph.expressions import Monomial, simplest, terms_of

Moved: TypeAlias = tuple[tuple[Number, Number, Tensor], ...]  # elements, how often, and of which tensor
Side = Literal["reads", "writes"]


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """Columns of expressions, one row an operator, and the conditions under which they hold.

    What does not depend on any size (parameters, which rows are known and why not) is that of the example.
    """

    piece: Piece
    graph: Graph  # whose operators the rows are of
    origins: Mapping[Condition, str]  # and who asked for each condition
    macs: tuple[Number, ...]
    elementwise: tuple[Number, ...]
    reads: tuple[Moved, ...]
    writes: tuple[Moved, ...]
    example: Cost

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What must hold where the forms do."""
        return tuple(self.origins)

    @property
    def known(self) -> Flags:
        """Which rows are known."""
        return self.example.known

    @property
    def params(self) -> int:
        """Parameters of the model."""
        return self.example.total_params

    def elements(self, side: Side) -> Number:
        """Numbers that are read, or written, by all operators."""
        return sum_of(elements * times for moved in getattr(self, side) for elements, times, _ in moved)

    def bytes(self, side: Side, precision: DType | None = None) -> Number:
        """Bytes that are read, or written, by all operators at their own types or at one precision."""
        return sum_of(self.row_bytes(side, row, precision) for row in range(len(self.macs)))

    def row_bytes(self, side: Side, row: int, precision: DType | None = None) -> Number:
        """Bytes that one operator reads, or writes."""
        moved: Moved = getattr(self, side)[row]
        return sum_of(bytes_of(*each, precision) for each in moved)


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


def sum_of(numbers: Iterable[Number]) -> Number:
    """The sum, in one pass over all terms."""
    terms: dict[Monomial, int] = {}
    for number in numbers:
        for monomial, coefficient in terms_of(number).items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
    return simplest(terms)


def forms_of(piece: Piece, example: Mapping[str, int]) -> Forms:
    """The closed forms of a piece around an example; those of that point alone where there are none.

    They are held against the columns of the graph at the example, which are counted from plain numbers.
    """
    at_example = count(bound(piece.graph, example))
    assumptions = Assumptions(example)
    try:
        with assuming(assumptions):
            found = _counted(piece, piece.graph, at_example, assumptions)
        if _agrees(found, at_example, example):
            return found
    # A rule may ask more of a number than a free one can answer, and fail in its own way.
    except (TypeError, ValueError, ArithmeticError, LookupError):
        pass
    point = Assumptions(example)
    with assuming(point):
        assert all(free_size(name) == value for name, value in example.items())
    return _counted(piece, at_example.graph, at_example, point)


def _counted(piece: Piece, graph: Graph, example: Cost, assumptions: Assumptions) -> Forms:
    rows = []
    for op in graph.ops:
        with asked_by(f"the rule of {op.kind} in {op.scope or op.name}"):
            rows.append(row_of(graph, op))
    return Forms(
        piece,
        graph,
        {**piece.origins, **assumptions.origins},
        tuple(row.macs for row in rows),
        tuple(row.elementwise for row in rows),
        tuple(tuple(row.reads) for row in rows),
        tuple(tuple(row.writes) for row in rows),
        example,
    )


def _agrees(forms: Forms, cost: Cost, sizes: Mapping[str, int]) -> bool:
    for row, known in enumerate(cost.known.tolist()):
        counted = (value_at(forms.macs[row], sizes), value_at(forms.elementwise[row], sizes))
        if counted != (int(cost.macs[row]), int(cost.elementwise[row])):
            return False
        for accesses, moved in ((cost.reads, forms.reads[row]), (cost.writes, forms.writes[row])):
            first, last = accesses.first[row : row + 2].tolist()
            expected = zip(
                accesses.elements[first:last].tolist(), accesses.times[first:last].tolist(), strict=True
            )
            told = [(value_at(each, sizes), value_at(times, sizes)) for each, times, _ in moved]
            if told != list(expected):
                return False
        if known != (row not in cost.reasons):
            return False
    return True
