"""Two models side by side: totals, rows of operators that stand for each other, and ways to show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sizeup.comparison import STATUSES, Change, Differences, Figures, Priced, Row, Status, compare
from sizeup.results.report import Report
from sizeup.results.result import Result

__all__ = [
    "STATUSES",
    "Comparison",
    "Figures",
    "Pattern",
    "Row",
    "Status",
    "Total",
    "_what_changed",
    "comparison_of",
]

Verdict = Literal["faster", "slower", "perhaps faster", "perhaps slower", "no difference", "cannot tell"]
_OFTEN_NONE = ("arena_head_bytes", "arena_bytes", "latency_seconds")
_MOST_KINDS = 5
_SIZES = ("input", "output", "weights", "out_channels")
_SEEN = ("kind", "activation", "macs", "params")  # in the kinds, or in the counts beside
_EQUAL = 0.0005  # a smaller share of A's time reads as 0.0 %


@dataclass(frozen=True, slots=True)
class Total:
    """One quantity of both models; None where it is not known, or does not exist in that model's format."""

    name: str  # with its unit at the end: weight_bytes
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """How much more B has."""
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True, slots=True)
class Pattern:
    """Rows in which the same happened to operators of the same kinds."""

    status: Status
    what: str
    why: str
    rows: int
    macs: int
    params: int
    seconds: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What B has, takes and costs beside A; `a` and `b` are the reports on both."""

    a: Report
    b: Report
    differences: Differences

    @property
    def rows(self) -> tuple[Row, ...]:
        """Operators that stand for each other, in the order of A; every operator is in one row."""
        return self.differences.rows

    @cached_property
    def totals(self) -> tuple[Total, ...]:
        """What both models cost, quantity by quantity."""
        return tuple(_totals(self.a, self.b))

    @property
    def unexplained_macs(self) -> int:
        """MACs of the difference that no row explains."""
        return self.differences.unexplained_macs

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """What happened, the most frequent first within each status; rows that are the same are left out."""
        found: dict[tuple[Status, str, str], list[Row]] = {}
        for row in self.rows:
            if row.status != "same":
                found.setdefault((row.status, _what_changed(row), row.why), []).append(row)
        patterns = [_pattern(*key, rows) for key, rows in found.items()]
        return tuple(sorted(patterns, key=lambda each: (STATUSES.index(each.status), -each.rows)))

    @cached_property
    def counts(self) -> Counter[Status]:
        """How many rows there are of each status."""
        return Counter(row.status for row in self.rows)

    @property
    def verdict(self) -> Verdict | None:
        """Whether B is faster or slower, perhaps so where the ranges overlap; None without two estimates.

        The errors of two estimates on one basis are largely shared, so their difference says something even
        where the ranges overlap. On two bases it does not.
        """
        one, other = self.a.latency, self.b.latency
        if one is None or other is None:
            return None
        if one.low is None or one.high is None or other.low is None or other.high is None:
            return "cannot tell"
        if one.low > other.high or other.low > one.high:
            return "faster" if other.seconds < one.seconds else "slower"
        if one.basis != other.basis:
            return "cannot tell"
        if abs(other.seconds - one.seconds) < _EQUAL * one.seconds:
            return "no difference"
        return "perhaps faster" if other.seconds < one.seconds else "perhaps slower"

    @property
    def headline(self) -> str:
        """The comparison in one sentence."""
        return self._text()

    def __repr__(self) -> str:
        return f"<Comparison of {self.a.name} and {self.b.name}: {self.headline}>"

    def _repr_html_(self) -> str:
        return self._page()


def comparison_of(a: Report, b: Report) -> Comparison:
    """Compare what two reports are on, at the precision and on the target of each."""
    return Comparison(a, b, compare(_priced(a), _priced(b)))


def _priced(report: Report) -> Priced:
    seconds = None if report.op_seconds is None else report.op_seconds.tolist()
    return Priced(report.cost, report.moved, report.precision, seconds)


def _pattern(status: Status, what: str, why: str, rows: list[Row]) -> Pattern:
    taken = [row.seconds for row in rows]
    seconds = None if None in taken else sum(each for each in taken if each is not None)
    macs, params = sum(row.macs for row in rows), sum(row.params for row in rows)
    return Pattern(status, what, why, len(rows), macs, params, seconds)


def _totals(a: Report, b: Report) -> Iterator[Total]:
    """Quantity by quantity; one that neither model has is left out."""
    ours, theirs = _amounts(a), _amounts(b)
    for name, amount in ours.items():
        if name in _OFTEN_NONE and amount is None and theirs[name] is None:
            continue
        yield Total(name, amount, theirs[name])


def _amounts(report: Report) -> dict[str, float | None]:
    totals, arena = report.totals, report.memory.arena
    return {
        # Where nothing but unknown operators could have some, none is not the same as zero.
        "macs": None if report.unknown and not totals.macs else totals.macs,
        "params": totals.params,
        "weight_bytes": totals.weight_bytes,
        "elementwise_ops": None if report.unknown and not totals.elementwise_ops else totals.elementwise_ops,
        "traffic_bytes": totals.read_bytes + totals.written_bytes,
        "peak_bytes": report.memory.peak_bytes,
        "arena_head_bytes": None if arena is None else arena.head_bytes,
        "arena_bytes": report.memory.arena_bytes,
        "operators": len(report.graph.ops),
        "latency_seconds": None if report.latency is None else report.latency.seconds,
    }


def _what_changed(row: Row) -> str:
    """What happened in a row, without names and sizes, so that rows of one pattern read alike."""
    if row.status == "added":
        return _kinds(row.kinds_b)
    if row.status == "removed":
        return _kinds(row.kinds_a)
    kinds = f"{_kinds(row.kinds_a)} -> {_kinds(row.kinds_b)}"
    facts = dict.fromkeys(_fact(each) for each in row.changes if each.column not in _SEEN)
    shown = kinds if row.kinds_a != row.kinds_b else row.kinds_a[0]
    return f"{shown}: {', '.join(facts)}" if facts else shown


def _kinds(kinds: tuple[str, ...]) -> str:
    if len(kinds) <= _MOST_KINDS:
        return " + ".join(kinds)
    counts = Counter(kinds).most_common()
    listed = ", ".join(f"{count} {kind}" for kind, count in counts[:_MOST_KINDS])
    return f"{len(kinds)} operators ({listed}{', ...' if len(counts) > _MOST_KINDS else ''})"


def _fact(change: Change) -> str:
    if change.column in _SIZES:
        return "sizes"
    return f"{change.column} {change.before} -> {change.after}" if change.column == "type" else change.column
