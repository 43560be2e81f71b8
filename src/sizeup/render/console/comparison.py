"""The texts of a comparison: its headline, totals, peaks and latencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.render.console.latency import latency_text
from sizeup.render.console.report import peak_size, title
from sizeup.render.vocabulary import NOT_APPLICABLE, NOTHING, UNKNOWN, size_text, unfit_reason
from sizeup.results.rows import op_label
from sizeup.units import plural, shorten

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
    "npu_sram_bytes": "SRAM (Vela)",
    "npu_file_bytes": "compiled file",
    "npu_cycles": "NPU cycles",
}
# Phrases of the headline: fewer, more, equal.
_PHRASES = {
    "macs": ("{} fewer MACs", "{} more MACs", "MACs"),
    "params": ("{} fewer parameters", "{} more parameters", "parameters"),
    "weight_bytes": ("{} smaller weights", "{} larger weights", "weights"),
    "peak_bytes": ("{} less peak memory", "{} more peak memory", "peak memory"),
}
_MOST_TENSORS = 3
_BASES = {
    "calibrated": "a calibration",
    "instructions": "instructions",
    "vela": "Vela",
    "roofline": "a data sheet",
    "coefficients": "coefficients",
}
_TIMES = 2.0  # a ratio from which a factor is printed instead of a percentage


def is_equal(comparison: Comparison) -> bool:
    """Whether operators and totals are all equal."""
    return set(comparison.counts) <= {"same"} and all(total.a == total.b for total in comparison.totals)


def titles(comparison: Comparison) -> tuple[str, str]:
    """Returns both models by name, with precision and target if A and B differ in them."""
    reports = (comparison.a, comparison.b)
    precisions = [
        None if report.precision is None else precision_name(report.precision) for report in reports
    ]
    targets = [
        None if report.latency is None or report.latency.target is None else report.latency.target.name
        for report in reports
    ]
    names = [title(report) for report in reports]
    for word, values in (("at", precisions), ("on", targets)):
        if values[0] != values[1]:
            names = [
                f"{name} {word} {value}" if value else name for name, value in zip(names, values, strict=True)
            ]
    return names[0], names[1]


def headline(comparison: Comparison) -> str:
    """Returns one sentence: how B differs from A in size, memory and latency."""
    if is_equal(comparison):
        operators = plural(len(comparison.rows), "operator")
        return f"B does not differ from A: {operators}, all the same.{_unfit(comparison)}"
    totals = {entry.name: entry for entry in comparison.totals}
    differing, same = [], []
    for name, (less, more, word) in _PHRASES.items():
        total = totals[name]
        if total.difference is None or total.lower_bounds:
            continue
        if not total.difference:
            same.append(word)
        elif total.a and total.difference >= (_TIMES - 1) * total.a:
            differing.append(f"{1 + total.difference / total.a:.2f} times the {word}")
        else:
            differing.append((less if total.difference < 0 else more).format(_share(total)))
    parts = [f"the same {_listed(same)}", *differing] if same else differing
    sentence = f"B has {_listed(parts)}" if parts else "The costs of A and B are not fully known"
    caveats = f"{_bounds(totals['peak_bytes'])}{_incomplete(comparison)}{_unfit(comparison)}"
    return f"{sentence}{_speed(comparison)}.{caveats}"


def _unfit(comparison: Comparison) -> str:
    """Returns which of the models its target cannot run or hold, and why."""
    texts = (("A", unfit_reason(comparison.a)), ("B", unfit_reason(comparison.b)))
    return "".join(f" {side} {text}." for side, text in texts if text)


def _bounds(total: Total) -> str:
    """Returns that an amount is only a lower bound, so that the models cannot be compared by it."""
    if not total.lower_bounds or total.difference is None:
        return ""
    # Only one lower bound above the exact amount of the other model decides.
    more = total.difference if total.lower_bounds == ("B",) else -total.difference
    if more > 0 and len(total.lower_bounds) == 1:
        return f" {total.lower_bounds[0]} needs at least {amount(total.name, more)} more peak memory."
    sides = " and ".join(total.lower_bounds)
    return f" The peak memory of {sides} is only a lower bound: whether it differs is undetermined."


def _share(total: Total) -> str:
    """Returns the difference relative to A, `12.3 %`; the difference itself if A has none."""
    more = total.difference or 0
    if not total.a:
        return amount(total.name, abs(more))
    percent = 100 * abs(more) / total.a
    return f"{percent:,.1f} %" if percent >= 0.05 else "less than 0.1 %"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _speed(comparison: Comparison) -> str:
    one, other = comparison.a.latency, comparison.b.latency
    if comparison.verdict is None or one is None or other is None:
        return ""
    if comparison.verdict == "no difference":
        return ", and the estimated latencies are equal"
    if comparison.verdict == "undetermined":
        return f"; whether it is faster is undetermined{_bases(comparison)}"
    if comparison.verdict in ("perhaps faster", "perhaps slower"):
        change = _time(one.seconds, other.seconds)
        return f", and has an estimated {change}, but {_interval_caveat(comparison)}"
    slow, fast = sorted((one.seconds, other.seconds), reverse=True)
    if slow >= _TIMES * fast:
        return f", and is {slow / fast:.1f} times {'faster' if fast == other.seconds else 'slower'}"
    return f", and has {_time(one.seconds, other.seconds)}"


def _time(before: float, after: float) -> str:
    """Returns the latency of B relative to A, as a percentage or as a factor from 2 on."""
    if after >= _TIMES * before:
        return f"{after / before:.2f} times the latency"
    return f"{100 * abs(after - before) / before:.1f} % {'less' if after < before else 'more'} latency"


def _interval_caveat(comparison: Comparison) -> str:
    is_by_vela = comparison.a.latency is not None and comparison.a.latency.basis == "vela"
    return "Vela gives no prediction intervals" if is_by_vela else "the prediction intervals overlap"


def _bases(comparison: Comparison) -> str:
    """Returns the bases of both estimates if they differ, else nothing."""
    one, other = comparison.a.latency, comparison.b.latency
    if one is None or other is None or one.basis == other.basis:
        return ""
    return f": the bases differ, {_BASES[one.basis]} for A and {_BASES[other.basis]} for B"


def _incomplete(comparison: Comparison) -> str:
    missing = [len(report.cost.reasons) for report in (comparison.a, comparison.b)]
    if not any(missing):
        return ""
    return f" Not counted: {plural(missing[0], 'operator')} of A and {missing[1]:,} of B."


def amount(name: str, value: float | None) -> str:
    """Returns an amount as text, in the unit at the end of its name."""
    if value is None:
        return NOTHING
    unit = name.rpartition("_")[2]
    return units.amount(name, value) if unit in ("bytes", "seconds") else units.count(value)


def signed(name: str, value: float) -> str:
    """Returns a difference with its sign."""
    return f"{'-' if value < 0 else '+'}{amount(name, abs(value))}" if value else "0"


def bounded(total: Total, side: str) -> str:
    """Returns the amount of A or B, marked if it is only a lower bound."""
    text = amount(total.name, total.a if side == "A" else total.b)
    return f"at least {text}" if side in total.lower_bounds else text


def difference(total: Total) -> str:
    """Returns the difference of a total, with its percentage of A."""
    if total.difference is None:
        return NOTHING
    if total.lower_bounds:
        return UNKNOWN
    if not total.difference:
        return "none"
    text = signed(total.name, total.difference)
    if not total.a:
        return text
    ratio = (total.b or 0) / total.a
    return f"{text} (x {ratio:.2f})" if ratio >= _TIMES else f"{text} ({100 * (ratio - 1):+.1f} %)"


def explanation(comparison: Comparison) -> str:
    """Returns the difference in MACs by status of the rows; empty if there is none."""
    differences, uncounted = comparison.differences, _uncounted(comparison)
    parts = [f"{status} {macs:+,}" for status, macs in differences.explained_macs.items() if macs]
    text = f"{differences.macs:+,} = {', '.join(parts)}" if parts else "no difference"
    rows = len(differences.unexplained_rows)
    if not parts and not rows and not differences.unexplained_macs:
        return f"{text}{uncounted}" if uncounted else ""
    rest = f"; {differences.unexplained_macs:,} unexplained"
    if rows:
        rest += f" in {rows:,} row{'s' * (rows != 1)}"
    return text + rest + uncounted


def _uncounted(comparison: Comparison) -> str:
    unknown = sum(not row.known for row in comparison.rows)
    return f"; {unknown:,} row{'s' * (unknown != 1)} not fully counted" if unknown else ""


def peak(report: Report) -> str:
    """Returns the operator at the peak, and the largest live tensors."""
    usage = report.memory.usage
    if usage.unavailable_reason:
        return f"unknown: {usage.unavailable_reason}"
    if usage.peak_op is None:
        return "no operators"
    tensors = [
        f"{shorten(tensor.name)} {size_text(tensor.bytes)}" for tensor in usage.peak_tensors[:_MOST_TENSORS]
    ]
    more = len(usage.peak_tensors) - _MOST_TENSORS
    rest = f" and {more:,} more" if more > 0 else ""
    run = ", eager PyTorch" if report.graph.recorded_run is not None else ""
    op_kind = op_label(report.graph, report.graph.ops[usage.peak_op])
    return f"{peak_size(usage)} in operator {usage.peak_op} ({op_kind}){run}: {', '.join(tensors)}{rest}"


def latency(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yields labels and texts: both estimates, and whether they differ."""
    for label, report in (("latency of A", comparison.a), ("latency of B", comparison.b)):
        if report.latency is None:
            yield label, f"unknown: {report.no_latency_reason}"
        else:
            location = "" if report.latency.target is None else f" on {report.latency.target.name}"
            suffix = "" if report.latency.is_applicable else f"; {NOT_APPLICABLE}"
            yield label, f"{latency_text(report.latency)}{location}, {report.latency.basis}{suffix}"
    if comparison.verdict is not None:
        yield "verdict", _speed_verdict(comparison)


def _speed_verdict(comparison: Comparison) -> str:
    one, other = comparison.a.latency, comparison.b.latency
    assert one is not None
    assert other is not None
    change = _time(one.seconds, other.seconds)
    overlap = f"{change} estimated, but {_interval_caveat(comparison)}"
    if one.target == other.target:
        overlap += "; estimates on one target share most of their error"
    texts = {
        "no difference": "the estimates are equal",
        "undetermined": "undetermined" + (_bases(comparison) or ": a prediction interval is unknown"),
        "faster": "B is faster: the prediction intervals do not overlap",
        "slower": "B is slower: the prediction intervals do not overlap",
        "perhaps faster": f"B is perhaps faster: {overlap}",
        "perhaps slower": f"B is perhaps slower: {overlap}",
    }
    text = texts[comparison.verdict or "undetermined"]
    bases = _bases(comparison).replace(":", ";", 1) if comparison.verdict in ("faster", "slower") else ""
    return text + bases


def cause(row: ComparedRow) -> str:
    """Returns the first property that changed, with both values."""
    return next((f"{change.column} {change.before} -> {change.after}" for change in row.changes), "")
