"""A check as text: the verdict, its reasons, a table of limits, and remedies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.render.console.remedies import render_remedies
from sizeup.render.vocabulary import (
    MOST_NAMED,
    NOT_APPLICABLE,
    arena_text,
    contributions_text,
    fit_verdict,
    host_run_text,
    named,
    part_text,
    quantity_title,
    uncounted_entries,
)
from sizeup.results.check import NEW_GROWTH, Check, Growth, Status, by_path, status
from sizeup.units import plural, printable, quantity, rate

if TYPE_CHECKING:
    from sizeup.results.parts import Limit

VERDICTS: dict[Status, str] = {
    "fits": "YES",
    "does not fit": "NO",
    "undetermined": "UNDETERMINED",
    "error": "ERROR",
    "removed": "REMOVED",
    "edited": "EDITED",
}
_MEMORIES = ("ram", "arena", "peak")


class Finding(NamedTuple):
    """A labeled sentence; `level` is its severity, empty if it does not affect the verdict."""

    label: str
    text: str
    level: str = ""  # 'error', 'warning', 'notice' or empty
    about: str = ""  # name of the limit, without amounts


class Cells(NamedTuple):
    """The cells of one row in a table of limits."""

    name: str
    need: str
    limit: str
    headroom: str
    mark: str


def summary(checks: Sequence[Check]) -> str:
    """Returns the verdict of several checks in one line, with the first failing models by name."""
    by_status: dict[Status, list[Check]] = {status: [] for status in VERDICTS}
    for check in checks:
        by_status[check.status].append(check)
    over, errors = by_status["does not fit"], by_status["error"]
    present = sum(check.is_model for check in checks)
    fitting = len(by_status["fits"])
    parts = [f"{fitting:,} of {plural(present, 'model')} fit{'s' * (fitting == 1)}"]
    if over:
        parts.append(f"{len(over):,} do{'es' * (len(over) == 1)} not ({_first(over)})")
    if errors:
        parts.append(f"{len(errors):,} could not be checked ({_first(errors)})")
    others = {
        "undetermined": [check for check in by_status["undetermined"] if check.is_model],
        "new": [check for check in checks if check.no_baseline_reason],
    }
    others["renamed"] = [check for check in checks if check.renamed_from]
    others["removed"] = by_status["removed"]
    others["edited in the policy"] = [check for check in checks if check.edits]
    parts += [f"{len(members):,} {label}" for label, members in others.items() if members]
    return f"{verdict(checks)}: {', '.join(parts)}"


def verdict(checks: Sequence[Check]) -> str:
    """Returns YES, NO, UNDETERMINED or ERROR for all checks together."""
    return VERDICTS[status(checks)]


def _first(checks: Sequence[Check]) -> str:
    names = ", ".join(printable(check.name) for check in checks[:MOST_NAMED])
    return f"{names} and {len(checks) - MOST_NAMED:,} more" if len(checks) > MOST_NAMED else names


def headline(check: Check) -> str:
    """Returns the verdict, the model and the target in one line."""
    model = named(check.name, check.format)
    word = VERDICTS[check.status]
    if check.error:
        return printable(f"{word}: {model} could not be checked")
    if check.is_removed:
        return printable(f"{word}: {model} was removed")
    if check.edits:
        return printable(f"{word}: this change edits the policy in {check.model}")
    if check.unsupported_reason:
        return printable(f"{word}: {model} cannot run on {check.target}")
    decisive = [limit for limit in check.limits if limit.is_applicable and limit.fits is check.fits]
    if check.target and not check.fits and decisive and all(limit.unit != "bytes" for limit in decisive):
        return printable(f"{word}: {model} {fit_verdict(check.fits)} on {check.target}")
    return printable(f"{word}: {model} {fit_verdict(check.fits, check.target)}")


def reasons(check: Check, *, with_tensors: bool = True) -> Iterator[Finding]:
    """Yields why it does not fit, why that is undetermined, or why it could not be checked.

    Without `with_tensors`, the largest tensors of a memory are left out: `details` lists them.
    """
    if check.error:
        yield Finding("error", check.error, "error")
    if check.unsupported_reason:
        yield Finding("unsupported", check.unsupported_reason, "error")
    yield from (Finding("caveat", caveat, "warning") for caveat in check.caveats)
    for limit in check.limits:
        if limit.fits is False and limit.is_applicable:
            is_listed = limit.name in _MEMORIES and bool(check.peak_tensors) and not with_tensors
            yield Finding("over", over(limit, with_largest=not is_listed), "error", cells(limit).name)
    yield from (Finding("policy", reason, "warning") for reason in check.undetermined_reasons)
    yield from _met(check)
    for limit in check.limits:
        is_repeated = limit.unknown == (check.unsupported_reason,)
        if limit.fits is None and limit.is_applicable and not is_repeated:
            yield Finding("unknown", undetermined(limit), "warning", cells(limit).name)
    if check.unknown_ops:
        count = check.unknown_ops
        yield _coverage(check, f"{count:,} operator{'s are' if count != 1 else ' is'} not counted")
    if check.other_entries:
        yield _coverage(check, uncounted_entries(check.other_entries))


def _met(check: Check) -> Iterator[Finding]:
    """Yields the limits that are met if another one makes the verdict undetermined."""
    met = [limit for limit in check.limits if limit.fits and limit.is_applicable]
    if check.fits is None and met:
        texts = (f"{title(limit)} ({_need(limit)} of {limit.format(limit.available or 0)})" for limit in met)
        yield Finding("fits", ", ".join(texts))


def _coverage(check: Check, text: str) -> Finding:
    setting = "strict = true" if check.budgets else "--strict"
    return Finding("coverage", text + f", which {setting} does not allow" * check.strict, "warning")


def announced(check: Check) -> Iterator[Finding]:
    """Yields the findings that a CI system shows; coverage only if it affects the verdict."""
    for finding in (*reasons(check), *notices(check)):
        if finding.level and (finding.label != "coverage" or check.strict):
            yield finding


def notices(check: Check) -> Iterator[Finding]:
    """Yields notices: a run on the host, edits, a new or removed model, a baseline to lower, changes."""
    if check.host_run is not None and (text := host_run_text(check.host_run)):
        yield Finding("host run", text, "warning" if check.is_run_undetermined else "")
    if check.no_baseline_reason:
        is_judged = any(limit.name == NEW_GROWTH for limit in check.limits)
        text = "" if is_judged else "; growth limits do not apply"
        yield Finding("new", f"{check.no_baseline_reason}{text}", "notice")
    if check.renamed_from:
        yield Finding("renamed", f"from {check.renamed_from}", "notice")
    for edit in check.edits:
        yield Finding("edited", edit, "notice")
    if check.is_removed:
        yield Finding(
            "removed", f"{check.model} exists in {check.base_revision}, not in the working tree", "notice"
        )
    lower = () if check.base_revision else tuple(dict.fromkeys(filter(None, map(_lowered, check.limits))))
    if lower:
        text = f"baseline can be lowered: {', '.join(lower)}; run {check.update_command}"
        yield Finding("baseline", text, "notice")
    is_compared = check.has_verdict and check.is_model and bool(check.limits)
    if check.base_revision and is_compared and not check.no_baseline_reason:
        texts = [f"{quantity_title(name)} {_change(growth)}" for name, growth in check.changes]
        yield Finding(_since(check), ", ".join(texts) or "no change")
    elif check.edits:
        yield Finding(_since(check), f"{plural(len(check.edits), 'setting')} changed")


def _since(check: Check) -> str:
    """Returns the revision, and its commit unless it is named by it."""
    commit = check.base_commit[:12]
    name = check.base_revision
    return f"since {name}" + (f" ({commit})" if commit and not name.startswith(commit) else "")


def _lowered(limit: Limit) -> str:
    """Returns the measure and both amounts if the current one is visibly lower than the baseline."""
    growth = limit.growth
    if growth is None or growth.after >= growth.before:
        return ""
    is_estimate = growth.unit in ("seconds", "joules")
    if is_estimate and quantity(growth.unit, growth.before) == quantity(growth.unit, growth.after):
        return ""
    return f"{quantity_title(limit.name.removeprefix('growth of '))} {' to '.join(both_amounts(growth))}"


def _change(growth: Growth) -> str:
    before, now = both_amounts(growth)
    share = f" ({quantity('share', (growth.after - growth.before) / growth.before)})" if growth.before else ""
    return f"{before} -> {now}{share}"


def both_amounts(growth: Growth) -> tuple[str, str]:
    """Returns both amounts, exact if they round to the same text."""
    before, now = quantity(growth.unit, growth.before), quantity(growth.unit, growth.after)
    if before != now:
        return before, now
    unit = {"bytes": " B", "seconds": " s", "joules": " J"}.get(growth.unit, "")
    return f"{growth.before:,}{unit}", f"{growth.after:,}{unit}"


def title(limit: Limit) -> str:
    """Returns the display name of a limit."""
    return quantity_title(limit.name)


def over(limit: Limit, *, with_largest: bool = True) -> str:
    """Returns by how much a limit is exceeded, and the largest contributions."""
    assert limit.maximum is not None
    assert limit.need_low is not None
    if limit.unit == "share":
        growth = limit.format(limit.need_low) if math.isfinite(limit.need_low) else limit.unknown[0]
        budget = f" ({limit.source})" if limit.source else ""
        amounts = "" if limit.growth is None else f", {' -> '.join(both_amounts(limit.growth))}"
        return f"{title(limit)}: {growth}{amounts}, allowed: {100 * limit.maximum:.3g} %{budget}"
    low, high = limit.need_low, limit.need_high
    prefix = "at least " if high is None else ""
    need = _span(limit, low, low if high is None else high)
    link = "" if limit.source.startswith("usable on ") else "of "
    owner = f" {link}{limit.source}" if limit.source else " allowed"
    excess_text = (
        f"{_excess(limit, low, low if high is None else high)} the {limit.format(limit.maximum)}{owner}"
    )
    return f"{title(limit)}: {prefix}{need}, {excess_text}{_largest(limit) if with_largest else ''}"


def _span(limit: Limit, low: float, high: float) -> str:
    """Returns two amounts with their unit once if it is equal: `98.3 to 103 KiB`."""
    first, last = limit.format(low), limit.format(high)
    if first == last:
        return first
    unit = f" {last.rpartition(' ')[2]}"
    return f"{first.removesuffix(unit)} to {last}"


def _excess(limit: Limit, low: float, high: float) -> str:
    """Returns the excess over a limit with its percentage; from 6 times the limit on, the factor."""
    assert limit.maximum is not None
    excess = low - limit.maximum
    if limit.format(low) != limit.format(high):
        if limit.maximum and excess >= 5 * limit.maximum:
            return f"{rate(low / limit.maximum)} to {rate(high / limit.maximum)} times"
        return f"{_span(limit, excess, high - limit.maximum)} more than"
    if not limit.maximum:
        return f"{limit.format(excess)} more than"
    if excess < 5 * limit.maximum:
        return f"{limit.format(excess)} ({100 * excess / limit.maximum:.3g} %) more than"
    return f"{rate(excess / limit.maximum + 1)} times"


def undetermined(limit: Limit) -> str:
    """Returns why the verdict on a limit is undetermined."""
    least, most = limit.need_low, limit.need_high
    setting = "expected = true" if limit.source else "--expected"  # only budgets have a name
    if limit.unknown:
        text = f"{title(limit)}: {'; '.join(limit.unknown)}"
        if limit.expected is None or least is not None:
            return text
        return f"{text}; {setting} compares the expected {limit.format(limit.expected)}"
    if least is None or most is None or limit.maximum is None:
        reasons = [part.basis for part in limit.parts if part.high_bytes is None]
        return f"{title(limit)}: {'; '.join(reasons) or 'need unknown'}"
    if most <= limit.maximum:
        remaining = limit.format(limit.available or 0)
        return f"{title(limit)}: needs {limit.format(most)}; other software may leave only {remaining}"
    span = f"{limit.format(least)} to {limit.format(most)}"
    text = f"{title(limit)}: needs {span}, which includes the limit of {limit.format(limit.maximum)}"
    if limit.expected is None:
        return text
    return f"{text}; {setting} compares the expected {limit.format(limit.expected)} instead"


def _largest(limit: Limit) -> str:
    by_count = limit.name in ("flash", "weights")
    amount_text = (lambda value: f"{quantity('count', value)} parameters") if by_count else limit.format
    names = contributions_text(limit.largest, amount_text)
    return f"; largest: {names}" if names else ""


def cells(limit: Limit) -> Cells:
    """Returns a limit as cells of a table."""
    least, most = limit.available, limit.maximum
    allowed = "?" if least is None or most is None else _span(limit, least, most)
    mark = {True: "ok", False: "over", None: "?"}[limit.fits] if limit.is_applicable else "n/a"
    name = title(limit) + (f" ({limit.source})" if limit.source else "")
    return Cells(name, _need(limit), allowed, _headroom(limit), mark)


def _need(limit: Limit) -> str:
    need = limit.need
    if need is None or not math.isfinite(need):
        return "?"
    if limit.need_low is None:
        return limit.format(need)
    if limit.need_high is None:
        return f"at least {limit.format(need)}"
    is_sure = limit.expected is not None or limit.need_low == limit.need_high
    return limit.format(need) if is_sure else f"up to {limit.format(need)}"


def _headroom(limit: Limit) -> str:
    headroom = limit.headroom
    if headroom is None or not math.isfinite(headroom):
        return ""
    if limit.unit == "share" or not limit.available or headroom < -5 * limit.available:
        return limit.format(headroom)
    return f"{limit.format(headroom)} ({100 * headroom / limit.available:.0f} %)"


def details(check: Check) -> Iterator[Finding]:
    """Yields the parts of each need, the report of Vela, the tensors at the peak, and the assumptions."""
    for limit in check.limits:
        if len(limit.parts) > 1:
            yield Finding(title(limit), " + ".join(map(part_text, limit.parts)))
        elif text := arena_text(limit, check):
            yield Finding(title(limit), text)
        least, most, expected = limit.need_low, limit.need_high, limit.expected
        if expected is not None and least is not None and most is not None and least != most:
            span = f"90 % interval {limit.format(least)} to {limit.format(most)}"
            suffix = "" if limit.is_applicable else f"; {NOT_APPLICABLE}"
            yield Finding(title(limit), f"{limit.format(expected)} ({span}){suffix}")
    if check.npu is not None and (check.npu.is_known or check.npu.compilation is not None):
        from sizeup.render.console.npu import npu_lines

        yield from (Finding(label, text) for label, text in npu_lines(check.npu))
    tensors = check.peak_tensors if check.npu is None else ()
    if tensors and any(item.name in _MEMORIES for item in check.limits):
        names = contributions_text(tensors, lambda value: quantity("bytes", value))
        rest = len(tensors) - MOST_NAMED
        yield Finding("live at peak", names + (f" and {rest:,} more" if rest > 0 else ""))
    for text in dict.fromkeys(text for limit in check.limits for text in limit.assumptions):
        yield Finding("assumed", text)


_STYLES = {
    "YES": "bold green",
    "NO": "bold red",
    "ERROR": "bold red",
    "UNDETERMINED": "bold yellow",
    "REMOVED": "bold",
    "EDITED": "bold cyan",
}
_LEVELS = {"error": "red", "warning": "yellow", "notice": "cyan", "": ""}


def render(checks: Sequence[Check], console: Console) -> None:
    """Print every check; of several, the verdict of all first."""
    if len(checks) > 1:
        console.print(Text(summary(by_path(checks)), style=_STYLES[verdict(checks)]), soft_wrap=True)
    for check in by_path(checks):
        if len(checks) > 1:
            console.print()
        _render(check, console)


def _render(check: Check, console: Console) -> None:
    console.print(Text(headline(check), style=_STYLES[VERDICTS[check.status]]), soft_wrap=True)
    for finding in (*reasons(check, with_tensors=False), *notices(check)):
        print_labeled(console, finding.label, finding.text, _LEVELS[finding.level])
    rows = [(row.need, row.limit, row.headroom, row.mark, row.name) for row in map(cells, check.limits)]
    if rows:
        console.print()
        print_rows(console, ("need", "limit", "headroom", "", "resource"), rows)
    findings = list(details(check))
    if findings:
        console.print()
    for finding in findings:
        print_labeled(console, finding.label, finding.text, "dim" if finding.label == "assumed" else "")
    render_remedies(check, console)
