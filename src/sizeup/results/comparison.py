"""Two models side by side: totals, matched ops, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sizeup.comparison import STATUSES, Change, Differences, Figures, ModelCosts, Row, Status, compare
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
    "comparison_of",
    "describe_change",
]

Verdict = Literal["faster", "slower", "perhaps faster", "perhaps slower", "no difference", "undetermined"]
_OPTIONAL = (
    *("arena_head_bytes", "arena_bytes", "latency_seconds"),
    *("npu_sram_bytes", "npu_file_bytes", "npu_cycles"),
)
_MAX_OP_KINDS = 5
_SIZES = ("input", "output", "weights", "out_channels")
_SHOWN_ELSEWHERE = ("kind", "activation", "macs", "params")  # shown with the op kinds and counts already
_EQUAL_SHARE = 0.0005  # a smaller share of A's latency rounds to 0.0 %


@dataclass(frozen=True, slots=True)
class Total:
    """One quantity of both models; None if unknown, or absent in that model's format."""

    name: str  # with its unit at the end: weight_bytes
    a: float | None
    b: float | None
    lower_bounds: tuple[str, ...] = ()  # "A", "B" or both, if that amount is only a lower bound

    @property
    def difference(self) -> float | None:
        """How much more B has than A."""
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True, slots=True)
class Pattern:
    """Rows with the same change to ops of the same kinds."""

    status: Status
    description: str
    reason: str
    rows: int
    macs: int
    params: int
    seconds: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """The differences of B from A; `a` and `b` are the reports on both."""

    a: Report
    b: Report
    differences: Differences

    @property
    def rows(self) -> tuple[Row, ...]:
        """Matched ops in the order of A; every op is in one row."""
        return self.differences.rows

    @cached_property
    def totals(self) -> tuple[Total, ...]:
        """The totals of both models, one per quantity."""
        return tuple(_totals(self.a, self.b))

    @property
    def unexplained_macs(self) -> int:
        """The part of the difference in MACs that no row explains."""
        return self.differences.unexplained_macs

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The changes, the most frequent first within each status; unchanged rows are left out."""
        rows_by_change: dict[tuple[Status, str, str], list[Row]] = {}
        for row in self.rows:
            if row.status != "same":
                rows_by_change.setdefault((row.status, describe_change(row), row.reason), []).append(row)
        patterns = [_pattern(*key, rows) for key, rows in rows_by_change.items()]
        return tuple(sorted(patterns, key=lambda pattern: (STATUSES.index(pattern.status), -pattern.rows)))

    @cached_property
    def counts(self) -> Counter[Status]:
        """The number of rows per status."""
        return Counter(row.status for row in self.rows)

    @property
    def verdict(self) -> Verdict | None:
        """Whether B is faster or slower; "perhaps" if the intervals overlap; None without two estimates.

        Two estimates on one basis share most of their error, so their difference is meaningful even if the
        intervals overlap. On two bases it is not.
        """
        a, b = self.a.latency, self.b.latency
        if a is None or b is None:
            return None
        if a.basis == b.basis == "vela":
            return _vela_verdict(a.seconds, b.seconds)
        if a.low is None or a.high is None or b.low is None or b.high is None:
            return "undetermined"
        if a.low > b.high or b.low > a.high:
            return "faster" if b.seconds < a.seconds else "slower"
        if a.basis != b.basis:
            return "undetermined"
        if abs(b.seconds - a.seconds) < _EQUAL_SHARE * a.seconds:
            return "no difference"
        return "perhaps faster" if b.seconds < a.seconds else "perhaps slower"

    @property
    def headline(self) -> str:
        """The comparison in one sentence."""
        return self._headline()

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        return f"<Comparison of {self.a.name} and {self.b.name}: {self.headline}>"

    def _repr_html_(self) -> str:
        return self._page()


def _vela_verdict(before: float, after: float) -> Verdict:
    """The verdict on two estimates of Vela, which have no intervals."""
    if abs(after - before) < _EQUAL_SHARE * before:
        return "no difference"
    return "perhaps faster" if after < before else "perhaps slower"


def comparison_of(a: Report, b: Report) -> Comparison:
    """Compares two reports, each at its precision and on its target."""
    return Comparison(a, b, compare(_priced(a), _priced(b)))


def _priced(report: Report) -> ModelCosts:
    seconds = None if report.op_seconds is None else report.op_seconds.tolist()
    return ModelCosts(report.cost, report.traffic, report.precision, seconds)


def _pattern(status: Status, description: str, reason: str, rows: list[Row]) -> Pattern:
    known = [row.seconds for row in rows if row.seconds is not None]
    seconds = sum(known) if len(known) == len(rows) else None
    macs, params = sum(row.macs for row in rows), sum(row.params for row in rows)
    return Pattern(status, description, reason, len(rows), macs, params, seconds)


def _totals(a: Report, b: Report) -> Iterator[Total]:
    """Yields one total per quantity, without those that neither model has."""
    amounts_a, amounts_b = _amounts(a), _amounts(b)
    for name, amount in amounts_a.items():
        if name in _OPTIONAL and amount is None and amounts_b[name] is None:
            continue
        bounds = (("A", a), ("B", b)) if name == "peak_bytes" else ()
        lower = tuple(side for side, report in bounds if report.memory.usage.unmodeled)
        yield Total(name, amount, amounts_b[name], lower)


def _amounts(report: Report) -> dict[str, float | None]:
    totals, arena = report.totals, report.memory.arena
    return {
        # With unknown ops, 0 may mean unknown.
        "macs": None if report.unknown_ops and not totals.macs else totals.macs,
        "params": totals.params,
        "weight_bytes": totals.weight_bytes,
        "elementwise_ops": None
        if report.unknown_ops and not totals.elementwise_ops
        else totals.elementwise_ops,
        "traffic_bytes": totals.read_bytes + totals.written_bytes,
        "peak_bytes": report.memory.peak_bytes,
        "arena_head_bytes": None if arena is None else arena.head_bytes,
        "arena_bytes": report.memory.arena_bytes,
        "operators": len(report.graph.ops),
        "latency_seconds": None if report.latency is None else report.latency.seconds,
        **_npu_amounts(report),
    }


def _npu_amounts(report: Report) -> dict[str, float | None]:
    """The figures of Vela on an Ethos-U."""
    npu = report.npu
    compilation = npu.compilation if npu is not None and npu.is_known else None
    return {
        "npu_sram_bytes": None if compilation is None else compilation.memory_bytes["sram"],
        "npu_file_bytes": None if npu is None or not npu.is_known else npu.file_bytes,
        "npu_cycles": None if compilation is None else compilation.total_cycles,
    }


def describe_change(row: Row) -> str:
    """Describes the change in a row without names and sizes, so that rows of one pattern are equal."""
    if row.status == "added":
        return _op_kinds(row.b_op_kinds)
    if row.status == "removed":
        return _op_kinds(row.a_op_kinds)
    kinds = f"{_op_kinds(row.a_op_kinds)} -> {_op_kinds(row.b_op_kinds)}"
    facts = dict.fromkeys(_fact(change) for change in row.changes if change.column not in _SHOWN_ELSEWHERE)
    label = kinds if row.a_op_kinds != row.b_op_kinds else row.a_op_kinds[0]
    return f"{label}: {', '.join(facts)}" if facts else label


def _op_kinds(op_kinds: tuple[str, ...]) -> str:
    if len(op_kinds) <= _MAX_OP_KINDS:
        return " + ".join(op_kinds)
    counts = Counter(op_kinds).most_common()
    listed = ", ".join(f"{count} {op_kind}" for op_kind, count in counts[:_MAX_OP_KINDS])
    return f"{len(op_kinds)} operators ({listed}{', ...' if len(counts) > _MAX_OP_KINDS else ''})"


def _fact(change: Change) -> str:
    if change.column in _SIZES:
        return "sizes"
    return (
        f"{change.column} {change.before} -> {change.after}"
        if change.column == "precision"
        else change.column
    )
