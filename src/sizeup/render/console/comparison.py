"""The words of a comparison: its sentence, its totals, and what happened to operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.render.console.latency import spoken
from sizeup.render.console.report import peak_size, title
from sizeup.render.vocabulary import NOTHING
from sizeup.units import brief

if TYPE_CHECKING:
    from sizeup.results.comparison import Comparison, Total
    from sizeup.results.parts import ComparedRow
    from sizeup.results.report import Report

LABELS = {
    "macs": "MACs",
    "elementwise_ops": "elementwise",
    "params": "parameters",
    "weight_bytes": "weights",
    "traffic_bytes": "traffic",
    "peak_bytes": "peak",
    "arena_head_bytes": "arena head",
    "arena_bytes": "arena",
    "operators": "operators",
    "latency_seconds": "latency",
}
# Of the sentence: what is said of less and of more, and of nothing.
_SAYINGS = {
    "macs": ("{} fewer MACs", "{} more MACs", "MACs"),
    "params": ("{} fewer parameters", "{} more parameters", "parameters"),
    "weight_bytes": ("{} smaller weights", "{} larger weights", "weights"),
    "peak_bytes": ("{} less memory at the peak", "{} more memory at the peak", "memory at the peak"),
}
_MOST_HELD = 3
_BASES = {"calibrated": "a calibration", "roofline": "a data sheet", "coefficients": "coefficients"}
_TIMES = 2.0  # from here on a ratio reads better than per cent


def is_equal(found: Comparison) -> bool:
    """Whether nothing differs, in operators or in totals."""
    return set(found.counts) <= {"same"} and all(each.a == each.b for each in found.totals)


def titles(found: Comparison) -> tuple[str, str]:
    """Both models by name, with the precision and the target where A and B differ in them."""
    reports = (found.a, found.b)
    precisions = [None if each.precision is None else precision_name(each.precision) for each in reports]
    targets = [
        None if each.latency is None or each.latency.target is None else each.latency.target.name
        for each in reports
    ]
    names = [title(each) for each in reports]
    for word, values in (("at", precisions), ("on", targets)):
        if values[0] != values[1]:
            names = [
                f"{name} {word} {value}" if value else name for name, value in zip(names, values, strict=True)
            ]
    return names[0], names[1]


def headline(found: Comparison) -> str:
    """One sentence: what B has less and more of than A, and whether it is faster."""
    if is_equal(found):
        count = len(found.rows)
        return f"B does not differ from A: {count:,} operator{'s' * (count != 1)}, all the same."
    totals = {each.name: each for each in found.totals}
    differing, same = [], []
    for name, (less, more, word) in _SAYINGS.items():
        total = totals[name]
        if total.difference is None:
            continue
        if not total.difference:
            same.append(word)
        elif total.a and total.difference >= (_TIMES - 1) * total.a:
            differing.append(f"{1 + total.difference / total.a:.2f} times the {word}")
        else:
            differing.append((less if total.difference < 0 else more).format(_share(total)))
    parts = [f"the same {_listed(same)}", *differing] if same else differing
    sentence = f"B has {_listed(parts)}" if parts else "What A and B cost is not known in full"
    return f"{sentence}{_speed(found)}.{_incomplete(found)}"


def _share(total: Total) -> str:
    """The difference as a share of A's amount: `12.3 %`; the difference itself where A has none."""
    more = total.difference or 0
    if not total.a:
        return amount(total.name, abs(more))
    percent = 100 * abs(more) / total.a
    return f"{percent:,.1f} %" if percent >= 0.05 else "less than 0.1 %"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _speed(found: Comparison) -> str:
    one, other = found.a.latency, found.b.latency
    if found.verdict is None or one is None or other is None:
        return ""
    if found.verdict == "no difference":
        return ", and is estimated to take the same time"
    if found.verdict == "cannot tell":
        return f"; whether it is faster cannot be told{_bases(found)}"
    if found.verdict in ("perhaps faster", "perhaps slower"):
        return f", and takes an estimated {_time(one.seconds, other.seconds)}, though the ranges overlap"
    slow, fast = sorted((one.seconds, other.seconds), reverse=True)
    if slow >= _TIMES * fast:
        return f", and is {slow / fast:.1f} times {'faster' if fast == other.seconds else 'slower'}"
    return f", and takes {_time(one.seconds, other.seconds)}"


def _time(before: float, after: float) -> str:
    """How much less or more time B takes, in per cent of A's, or as a ratio where it is a multiple."""
    if after >= _TIMES * before:
        return f"{after / before:.2f} times the time"
    return f"{100 * abs(after - before) / before:.1f} % {'less' if after < before else 'more'} time"


def _bases(found: Comparison) -> str:
    """That the estimates rest on different grounds, where they do."""
    one, other = found.a.latency, found.b.latency
    if one is None or other is None or one.basis == other.basis:
        return ""
    return f", for one time rests on {_BASES[one.basis]}, the other on {_BASES[other.basis]}"


def _incomplete(found: Comparison) -> str:
    missing = [len(each.cost.reasons) for each in (found.a, found.b)]
    if not any(missing):
        return ""
    return f" Not counted: {missing[0]:,} operators of A and {missing[1]:,} of B."


def amount(name: str, value: float | None) -> str:
    """An amount of a quantity for people, by the unit at the end of its name."""
    if value is None:
        return NOTHING
    unit = name.rpartition("_")[2]
    return units.amount(name, value) if unit in ("bytes", "seconds") else units.count(value)


def signed(name: str, value: float) -> str:
    """A difference with its sign."""
    return f"{'-' if value < 0 else '+'}{amount(name, abs(value))}" if value else "0"


def difference(total: Total) -> str:
    """A total's difference: exact where it is a count of few, with its share of A."""
    if total.difference is None:
        return NOTHING
    if not total.difference:
        return "none"
    text = signed(total.name, total.difference)
    if not total.a:
        return text
    ratio = (total.b or 0) / total.a
    return f"{text} (x {ratio:.2f})" if ratio >= _TIMES else f"{text} ({100 * (ratio - 1):+.1f} %)"


def explanation(found: Comparison) -> str:
    """Where the difference of the MACs comes from, to the last one."""
    differences = found.differences
    parts = [f"{status} {macs:+,}" for status, macs in differences.explained_macs.items() if macs]
    text = f"{differences.macs:+,} = {', '.join(parts)}" if parts else "no difference"
    rows = len(differences.unexplained_rows)
    left = f"; {differences.unexplained_macs:,} unexplained"
    if rows:
        left += f" in {rows:,} row{'s' * (rows != 1)}"
    return text + left + _unseen(found)


def _unseen(found: Comparison) -> str:
    unknown = sum(not row.known for row in found.rows)
    return f"; {unknown:,} row{'s' * (unknown != 1)} could not be counted in full" if unknown else ""


def peak(report: Report) -> str:
    """The operator at the peak, and the tensors that set it."""
    usage = report.memory.usage
    if usage.missing:
        return f"unknown: {usage.missing}"
    if usage.peak_op is None:
        return "no operators"
    held = [f"{brief(each.name)} {units.size(each.bytes)}" for each in usage.held[:_MOST_HELD]]
    more = len(usage.held) - _MOST_HELD
    rest = f" and {more:,} more" if more > 0 else ""
    run = ", as torch runs it" if report.graph.run is not None else ""
    kind = report.graph.ops[usage.peak_op].kind
    return f"{peak_size(usage)} in operator {usage.peak_op} ({kind}){run}: {', '.join(held)}{rest}"


def latency(found: Comparison) -> Iterator[tuple[str, str]]:
    """Labels and texts: both estimates, and in words whether they differ."""
    for label, report in (("time of A", found.a), ("time of B", found.b)):
        if report.latency is None:
            yield label, f"unknown: {report.no_latency}"
        else:
            where = "" if report.latency.target is None else f" on {report.latency.target.name}"
            yield label, f"{spoken(report.latency)}{where}, {report.latency.basis}"
    if found.verdict is not None:
        yield "so", _judged(found)


def _judged(found: Comparison) -> str:
    one, other = found.a.latency, found.b.latency
    assert one is not None
    assert other is not None
    between = _time(one.seconds, other.seconds)
    overlap = f"the estimate is {between}, but the ranges overlap"
    if one.target == other.target:
        overlap += "; errors of two models on one target are largely shared"
    words = {
        "no difference": "the estimates are the same",
        "cannot tell": "nothing tells whether they differ" + (_bases(found) or ": a range is not known"),
        "faster": "B is faster: the ranges do not overlap",
        "slower": "B is slower: the ranges do not overlap",
        "perhaps faster": f"B is perhaps faster: {overlap}",
        "perhaps slower": f"B is perhaps slower: {overlap}",
    }
    text = words[found.verdict or "cannot tell"]
    return text + _bases(found).replace(", for", "; but") if found.verdict in ("faster", "slower") else text


def cause(row: ComparedRow) -> str:
    """The first fact that changed, with both values."""
    return next((f"{each.column} {each.before} -> {each.after}" for each in row.changes), "")
