"""A check for people: the answer, why, every limit in cells, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.vocabulary import named, uncounted_entries
from sizeup.results.check import ANSWERS, MEASURE_UNITS, Check, Growth, Status, by_path, fits
from sizeup.units import brief, plain, quantity

if TYPE_CHECKING:
    from sizeup.results.parts import Limit, Part, Remedy, Update

WORDS: dict[Status, str] = {
    "fits": "YES",
    "does not fit": "NO",
    "undetermined": "UNDETERMINED",
    "error": "ERROR",
    "removed": "REMOVED",
}
HELPS = {True: "fits", False: "not enough", None: "may fit"}
_TITLES = {"ram": "RAM", "macs": "MACs", "params": "parameters"}
_FITS = {True: "fits", False: "does not fit", None: "may or may not fit"}
_WITHIN = {
    True: "is within its limits",
    False: "is over its limits",
    None: "may or may not be within its limits",
}
_HEADING = "What would help, each carried out and checked again:"
_NOTHING = "Nothing that sizeup can try on this model brings its need down."
_MOST_NAMED = 3
_MOST_UPDATED = 20


class Finding(NamedTuple):
    """A sentence under its label; `level` is that of the answer which it supports, or None for a remark."""

    label: str
    text: str
    level: str = ""  # 'error', 'warning', 'notice', or nothing
    about: str = ""  # the limit that it is about, without amounts


class Cells(NamedTuple):
    """A limit as a row of a table."""

    name: str
    need: str
    limit: str
    headroom: str
    kept: str


def all_of(checks: Sequence[Check]) -> str:
    """The answer of several checks in one line, with the first that do not fit or could not be judged."""
    by_status: dict[Status, list[Check]] = {status: [] for status in WORDS}
    for check in checks:
        by_status[check.status].append(check)
    over, errors = by_status["does not fit"], by_status["error"]
    present = len(checks) - len(by_status["removed"])
    parts = [f"{len(by_status['fits']):,} of {present:,} models fit"]
    if over:
        parts.append(f"{len(over):,} do{'es' * (len(over) == 1)} not ({_first(over)})")
    if errors:
        parts.append(f"{len(errors):,} could not be judged ({_first(errors)})")
    others = {"undetermined": by_status["undetermined"], "new": [each for each in checks if each.new]}
    others["removed"] = by_status["removed"]
    parts += [f"{len(each):,} {what}" for what, each in others.items() if each]
    return f"{answer(checks)}: {', '.join(parts)}"


def answer(checks: Sequence[Check]) -> str:
    """YES, NO or UNDETERMINED for all together."""
    return WORDS[ANSWERS[fits(checks)]]


def _first(checks: Sequence[Check]) -> str:
    names = ", ".join(plain(check.name) for check in checks[:_MOST_NAMED])
    return f"{names} and {len(checks) - _MOST_NAMED:,} more" if len(checks) > _MOST_NAMED else names


def headline(check: Check) -> str:
    """The answer, the model and the target in one line."""
    model = named(check.name, check.format)
    word = WORDS[check.status]
    if check.error:
        return plain(f"{word}: {model} could not be judged")
    if check.is_removed:
        return plain(f"{word}: {model} is no longer there")
    if check.target is None:
        return plain(f"{word}: {model} {_WITHIN[check.fits]}")
    return plain(f"{word}: {model} {_FITS[check.fits]} on {check.target}")


def reasons(check: Check) -> Iterator[Finding]:
    """Why it does not fit, why that is undetermined, or why it could not be judged."""
    if check.error:
        yield Finding("error", check.error, "error")
    if check.refused:
        yield Finding("refused", check.refused, "error")
    for limit in check.limits:
        if limit.fits is False:
            yield Finding("over", over(limit), "error", cells(limit).name)
    for limit in check.limits:
        if limit.fits is None:
            yield Finding("unknown", open_question(limit), "warning", cells(limit).name)
    if check.unknown_ops:
        count = check.unknown_ops
        yield _coverage(check, f"{count:,} operator{'s are' if count != 1 else ' is'} not counted")
    if check.other_entries:
        yield _coverage(check, uncounted_entries(check.other_entries))


def _coverage(check: Check, text: str) -> Finding:
    setting = "strict = true" if check.budgets else "--strict"
    return Finding("coverage", text + f", which {setting} does not allow" * check.strict, "warning")


def announced(check: Check) -> Iterator[Finding]:
    """What a CI system shows of a check: uncounted operators only if they decide something."""
    for finding in (*reasons(check), *remarks(check)):
        if finding.level and (finding.label != "coverage" or check.strict):
            yield finding


def remarks(check: Check) -> Iterator[Finding]:
    """What does not change the answer: a new or a removed model, a baseline that can be lowered, changes."""
    if check.new:
        yield Finding("new", f"{check.new}; its growth is not judged", "notice")
    if check.is_removed:
        yield Finding("removed", f"{check.model} is in {check.against}, but not in the work tree", "notice")
    lower = () if check.against else tuple(dict.fromkeys(filter(None, map(_lowered, check.limits))))
    if lower:
        text = f"baseline can be lowered: {', '.join(lower)}; run {check.update_command}"
        yield Finding("baseline", text, "notice")
    if check.against and check.is_judged and not check.new:
        texts = [f"{_title(name)} {_change(growth)}" for name, growth in check.changes]
        yield Finding(f"since {check.against}", ", ".join(texts) or "nothing changed")


def _lowered(limit: Limit) -> str:
    """The measure and both amounts if the present one is visibly lower than the baseline, else nothing."""
    growth = limit.growth
    if growth is None or growth.now >= growth.before:
        return ""
    is_estimate = growth.unit in ("seconds", "joules")
    if is_estimate and quantity(growth.unit, growth.before) == quantity(growth.unit, growth.now):
        return ""
    return f"{_title(limit.name.removeprefix('growth of '))} {' to '.join(_both(growth))}"


def _change(growth: Growth) -> str:
    before, now = _both(growth)
    share = f" ({quantity('share', (growth.now - growth.before) / growth.before)})" if growth.before else ""
    return f"{before} -> {now}{share}"


def updated(update: Update) -> Iterator[str]:
    """How many lines of a baselines file an update changed, and the first of them with both amounts."""
    changes = update.changes
    yield f"{update.path}: {update.added:,} added, {len(changes):,} changed, {update.removed:,} removed"
    for key, before, after in changes[:_MOST_UPDATED]:
        settings = [f" on {key.target}"] * bool(key.target) + [f" at {key.precision}"] * bool(key.precision)
        sizes = [f", {name}={size}" for name, size in key.bind]
        names = [name for name in MEASURE_UNITS if before.get(name) != after.get(name)]
        texts = [f"{_title(name)} {_replaced(name, before, after)}" for name in names]
        yield f"  {key.model}{''.join((*settings, *sizes))}: {', '.join(texts)}"
    if len(changes) > _MOST_UPDATED:
        yield f"  and {len(changes) - _MOST_UPDATED:,} more"


def _replaced(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Both amounts of a measure; none where it is not in the file."""
    unit = MEASURE_UNITS[name]
    if name in before and name in after:
        return " -> ".join(_both(Growth(unit, before[name], after[name])))
    return " -> ".join(quantity(unit, each[name]) if name in each else "none" for each in (before, after))


def _both(growth: Growth) -> tuple[str, str]:
    """Both amounts, to the last digit if they round to the same."""
    before, now = quantity(growth.unit, growth.before), quantity(growth.unit, growth.now)
    if before != now:
        return before, now
    unit = {"bytes": " B", "seconds": " s", "joules": " J"}.get(growth.unit, "")
    return f"{growth.before:,}{unit}", f"{growth.now:,}{unit}"


def title(limit: Limit) -> str:
    """What people call a limit."""
    return _title(limit.name)


def _title(name: str) -> str:
    """What people call a quantity, the growth of one, or one of a layer, whose name is quoted."""
    return " ".join(_TITLES.get(word, word) for word in name.split(" "))


def over(limit: Limit) -> str:
    """By how much a limit is exceeded, and what is largest there."""
    assert limit.most is not None
    assert limit.least_need is not None
    if limit.unit == "share":
        grew = limit.say(limit.least_need) if math.isfinite(limit.least_need) else limit.unknown[0]
        by = f" ({limit.of})" if limit.of else ""
        amounts = "" if limit.growth is None else f", {' -> '.join(_both(limit.growth))}"
        return f"{title(limit)}: {grew}{amounts}, where {100 * limit.most:.3g} % is allowed{by}"
    excess = limit.least_need - limit.most
    least = "at least " if limit.most_need != limit.least_need else ""
    of = f" of {limit.of}" if limit.of else " allowed"
    more = f"{_excess(limit, excess)} the {limit.say(limit.most)}{of}"
    return f"{title(limit)}: {least}{limit.say(limit.least_need)}, {more}{_largest(limit)}"


def _excess(limit: Limit, excess: float) -> str:
    """How much more than a limit, with its share in percent, or how many times the limit where it is many."""
    assert limit.most is not None
    if not limit.most:
        return f"{limit.say(excess)} more than"
    if excess < 5 * limit.most:
        return f"{limit.say(excess)} ({100 * excess / limit.most:.3g} %) more than"
    return f"{excess / limit.most + 1:.3g} times"


def open_question(limit: Limit) -> str:
    """Why it is undetermined whether a limit is kept."""
    least, most = limit.least_need, limit.most_need
    if limit.unknown:
        return f"{title(limit)}: {'; '.join(limit.unknown)}"
    if least is None or most is None or limit.most is None:
        vague = [part.how for part in limit.parts if part.most_bytes is None]
        return f"{title(limit)}: {'; '.join(vague) or 'nothing tells what it needs'}"
    if most <= limit.most:
        left = limit.say(limit.most - limit.reserve)
        return f"{title(limit)}: it needs {limit.say(most)}, and what else runs may leave only {left}"
    between = f"{limit.say(least)} to {limit.say(most)}"
    text = f"{title(limit)}: it needs {between}, and the limit of {limit.say(limit.most)} lies between"
    if limit.expected is None:
        return text
    setting = "expected = true" if limit.of else "--expected"  # only budgets have a name
    return f"{text}; {setting} judges by the {limit.say(limit.expected)} expected"


def _largest(limit: Limit) -> str:
    by_count = limit.name in ("flash", "weights")
    say = (lambda value: f"{quantity('count', value)} parameters") if by_count else limit.say
    names = [f"{brief(each.name)} {say(each.amount)}" for each in limit.largest[:_MOST_NAMED]]
    return f"; largest: {', '.join(names)}" if names else ""


def cells(limit: Limit) -> Cells:
    """Need, limit, headroom, whether it is kept, and the name."""
    allowed = "?" if limit.most is None else limit.say(limit.most)
    kept = {True: "ok", False: "over", None: "?"}[limit.fits]
    name = title(limit) + (f" ({limit.of})" if limit.of else "")
    return Cells(name, _need(limit), allowed, _headroom(limit), kept)


def _need(limit: Limit) -> str:
    need = limit.need
    if need is None or not math.isfinite(need):
        return "?"
    if limit.most_need is None:
        return f"at least {limit.say(need)}"
    is_sure = limit.expected is not None or limit.least_need == limit.most_need
    return limit.say(need) if is_sure else f"up to {limit.say(need)}"


def _headroom(limit: Limit) -> str:
    headroom = limit.headroom
    if headroom is None or not math.isfinite(headroom):
        return ""
    if limit.unit == "share" or not limit.most or headroom < -5 * limit.most:
        return limit.say(headroom)
    return f"{limit.say(headroom)} ({100 * headroom / limit.most:.0f} %)"


def details(check: Check) -> Iterator[Finding]:
    """The parts of each need, the tensors at the peak, and what is assumed."""
    for limit in check.limits:
        if len(limit.parts) > 1:
            yield Finding(title(limit), " + ".join(map(_part, limit.parts)))
        least, most, expected = limit.least_need, limit.most_need, limit.expected
        if expected is not None and least is not None and most is not None and least != most:
            between = f"{limit.say(least)} to {limit.say(most)} in nine of ten"
            yield Finding(title(limit), f"{limit.say(expected)} expected, {between}")
    held = check.peak_tensors
    if held and any(each.name in ("ram", "arena", "peak") for each in check.limits):
        names = [f"{brief(each.name)} {quantity('bytes', each.amount)}" for each in held[:_MOST_NAMED]]
        rest = len(held) - _MOST_NAMED
        yield Finding("at the peak", ", ".join(names) + (f" and {rest:,} more" if rest > 0 else ""))
    for text in dict.fromkeys(text for limit in check.limits for text in limit.assumptions):
        yield Finding("assumed", text)


def _part(part: Part) -> str:
    least = quantity("bytes", part.least_bytes)
    if part.is_exact:
        return f"{part.name} {least}"
    if part.most_bytes is None:
        return f"{part.name} at least {least}"
    most = quantity("bytes", part.most_bytes)
    return f"{part.name} {least} to {most}" if part.least_bytes else f"{part.name} up to {most}"


def effect(remedy: Remedy) -> str:
    """What a remedy brought: every limit before and after."""
    parts = []
    for each in remedy.changes:
        before, after = quantity(each.unit, each.before), quantity(each.unit, each.after)
        parts.append(f"{_title(each.name)} from {before} to {after}")
    return ", ".join(dict.fromkeys(parts))  # several budgets may limit the same


def helping(check: Check) -> str:
    """What stands above the remedies, or that there are none where some were looked for."""
    if check.remedies:
        return _HEADING
    is_over = any(limit.fits is False for limit in check.limits)
    return _NOTHING if check.sought and is_over else ""


_STYLES = {
    "YES": "bold green",
    "NO": "bold red",
    "ERROR": "bold red",
    "UNDETERMINED": "bold yellow",
    "REMOVED": "bold",
}
_LEVELS = {"error": "red", "warning": "yellow", "notice": "cyan", "": ""}


def render(checks: Sequence[Check], console: Console) -> None:
    """Print every check, and where there are several, the answer of all first."""
    if len(checks) > 1:
        console.print(Text(all_of(by_path(checks)), style=_STYLES[answer(checks)]), soft_wrap=True)
    for check in by_path(checks):
        if len(checks) > 1:
            console.print()
        _render(check, console)


def _render(check: Check, console: Console) -> None:
    console.print(Text(headline(check), style=_STYLES[WORDS[check.status]]), soft_wrap=True)
    for each in (*reasons(check), *remarks(check)):
        print_labelled(console, each.label, each.text, _LEVELS[each.level])
    rows = [(row.need, row.limit, row.headroom, row.kept, row.name) for row in map(cells, check.limits)]
    if rows:
        console.print()
        print_rows(console, ("need", "limit", "headroom", "", "of"), rows)
    found = list(details(check))
    if found:
        console.print()
    for each in found:
        print_labelled(console, each.label, each.text, "dim" if each.label == "assumed" else "")
    heading = helping(check)
    if heading:
        console.print()
        console.print(Text(heading, style="bold"))
    for remedy in check.remedies:
        style = {True: "green", False: "", None: "yellow"}[remedy.fits]
        print_labelled(console, HELPS[remedy.fits], f"{remedy.what}: {effect(remedy)}", style)
        for note in remedy.notes:
            print_labelled(console, "", note, "dim")
        # In one piece, however long: it is there to be copied.
        console.print(Text(plain(f"    $ {remedy.command}"), style="bold"), soft_wrap=True)
