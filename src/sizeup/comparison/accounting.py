"""The rows of a comparison in order, and their sums, which add up exactly to the difference of the totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sizeup.comparison.facts import Interner, facts_of
from sizeup.comparison.matching import match
from sizeup.comparison.regions import Group, groups_of
from sizeup.comparison.rows import STATUSES, ModelCosts, Row, RowBuilder, Status
from sizeup.cost import total
from sizeup.graph import without_gc

Sums: TypeAlias = Mapping[Status, int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Differences:
    """The differences of two models, with every op of both in exactly one row."""

    a: ModelCosts
    b: ModelCosts
    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        counts = {status: sum(row.status == status for row in self.rows) for status in STATUSES}
        return (
            f"<Differences: {', '.join(f'{count:,} {status}' for status, count in counts.items() if count)}>"
        )

    @property
    def macs(self) -> int:
        """Total MACs of B minus those of A."""
        return self.b.cost.total_macs - self.a.cost.total_macs

    @property
    def explained_macs(self) -> Sums:
        """The difference in MACs by status, of the rows that have a cause."""
        return self._by_status(lambda row: row.macs if row.is_explained else 0)

    @property
    def unexplained_macs(self) -> int:
        """The difference of the totals minus the explained differences."""
        return self.macs - sum(self.explained_macs.values())

    @property
    def unexplained_rows(self) -> tuple[Row, ...]:
        """Rows that differ only in MACs, or that have ops of unknown cost."""
        return tuple(row for row in self.rows if not row.is_explained)

    @property
    def params_by_status(self) -> Sums:
        """Parameters of B minus those of A, by status; unused parameters are in no row."""
        return self._by_status(lambda row: row.params)

    @property
    def unused_params(self) -> int:
        """Parameters that no op reads, those of B minus those of A."""
        before, after = (priced.cost.total_params - total(priced.cost.params) for priced in (self.a, self.b))
        return after - before

    @property
    def traffic_by_status(self) -> Sums:
        """Bytes moved by B minus those moved by A, by status."""
        return self._by_status(lambda row: row.traffic_bytes)

    def _by_status(self, amount: Callable[[Row], int]) -> Sums:
        sums: dict[Status, int] = dict.fromkeys(STATUSES, 0)
        for row in self.rows:
            sums[row.status] += amount(row)
        return sums


def compare(a: ModelCosts, b: ModelCosts) -> Differences:
    """Compare two models op by op."""
    with without_gc():
        intern = Interner()
        facts_a, facts_b = (facts_of(priced.cost.graph, priced.cost, intern) for priced in (a, b))
        matched = match(facts_a, facts_b, intern)
        groups = _ordered(groups_of(facts_a, facts_b, matched), len(facts_b.graph.ops))
        builder = RowBuilder(facts_a, facts_b, matched, a, b)
        return Differences(a, b, tuple(builder.row(group) for group in groups))


def _ordered(groups: list[Group], count: int) -> list[Group]:
    """Groups in the order of A; those of B alone follow the group that precedes them in B."""
    partner = [-1] * count
    for group in groups:
        for index in group.b:
            partner[index] = min(group.a, default=-1)
    before = -1
    for index, first in enumerate(partner):
        before = first if first >= 0 else before
        partner[index] = before
    return sorted(groups, key=lambda group: _key(group, partner))


def _key(group: Group, before: list[int]) -> tuple[int, int]:
    return (min(group.a), -1) if group.a else (before[group.b[0]], group.b[0])
