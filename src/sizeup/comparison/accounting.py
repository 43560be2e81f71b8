"""All rows of a comparison, in order, and what their differences add up to: exactly that of the totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sizeup.comparison.facts import Interner, facts_of
from sizeup.comparison.matching import match
from sizeup.comparison.regions import Group, groups_of
from sizeup.comparison.rows import STATUSES, Priced, Row, RowMaker, Status
from sizeup.cost import total
from sizeup.graph import without_collection

Sums: TypeAlias = Mapping[Status, int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Differences:
    """Every operator of both models in exactly one row."""

    a: Priced
    b: Priced
    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        counts = {status: sum(row.status == status for row in self.rows) for status in STATUSES}
        return (
            f"<Differences: {', '.join(f'{count:,} {status}' for status, count in counts.items() if count)}>"
        )

    @property
    def macs(self) -> int:
        """MACs that B has more than A, from the totals of both."""
        return self.b.cost.total_macs - self.a.cost.total_macs

    @property
    def explained_macs(self) -> Sums:
        """The same by status, of the rows that have a cause."""
        return self._by_status(lambda row: row.macs if row.is_explained else 0)

    @property
    def unexplained_macs(self) -> int:
        """What is left of the difference of the totals when all that is explained is taken away."""
        return self.macs - sum(self.explained_macs.values())

    @property
    def unexplained_rows(self) -> tuple[Row, ...]:
        """Rows whose MACs differ although nothing else does, or that were not counted in full."""
        return tuple(row for row in self.rows if not row.is_explained)

    @property
    def params_by_status(self) -> Sums:
        """Parameters that B has more than A, of operators of each status; unused ones are in no row."""
        return self._by_status(lambda row: row.params)

    @property
    def unused_params(self) -> int:
        """Parameters that no operator reads, those of B less those of A."""
        before, after = (each.cost.total_params - total(each.cost.params) for each in (self.a, self.b))
        return after - before

    @property
    def traffic_by_status(self) -> Sums:
        """Bytes that B moves more than A, by status."""
        return self._by_status(lambda row: row.traffic_bytes)

    def _by_status(self, amount: Callable[[Row], int]) -> Sums:
        sums: dict[Status, int] = dict.fromkeys(STATUSES, 0)
        for row in self.rows:
            sums[row.status] += amount(row)
        return sums


def compare(a: Priced, b: Priced) -> Differences:
    """Put two models side by side, operator by operator."""
    with without_collection():
        intern = Interner()
        one, other = (facts_of(each.cost.graph, each.cost, intern) for each in (a, b))
        matched = match(one, other, intern)
        groups = _ordered(groups_of(one, other, matched), len(other.graph.ops))
        maker = RowMaker(one, other, matched, a, b)
        return Differences(a, b, tuple(maker.row(group) for group in groups))


def _ordered(groups: list[Group], count: int) -> list[Group]:
    """In the order of A; what only B has follows what comes before it there."""
    partner = [-1] * count
    for group in groups:
        for place in group.b:
            partner[place] = min(group.a, default=-1)
    before = -1
    for place, first in enumerate(partner):
        before = first if first >= 0 else before
        partner[place] = before
    return sorted(groups, key=lambda each: _key(each, partner))


def _key(group: Group, before: list[int]) -> tuple[int, int]:
    return (min(group.a), -1) if group.a else (before[group.b[0]], group.b[0])
