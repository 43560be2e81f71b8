"""The words of a check: the answer, why, every limit in cells, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sizeup.checks.limits import Limit, amount
from sizeup.report.checked import Check, fits
from sizeup.report.text import brief, named, plain

if TYPE_CHECKING:
    from sizeup.checks import Part, Remedy

WORDS = {True: "YES", False: "NO", None: "CANNOT TELL"}
HELPS = {True: "fits", False: "not enough", None: "may fit"}
_TITLES = {"ram": "RAM", "macs": "MACs", "params": "parameters"}
_FITS = {True: "fits", False: "does not fit", None: "may or may not fit"}
_WITHIN = {
    True: "is within its limits",
    False: "is over its limits",
    None: "may or may not be within its limits",
}
_MOST_NAMED = 3


class Finding(NamedTuple):
    """A sentence under its label; `level` is that of the answer which it supports, or None for a remark."""

    label: str
    text: str
    level: str = ""  # 'error', 'warning', or nothing


class Cells(NamedTuple):
    """A limit as a row of a table."""

    name: str
    need: str
    limit: str
    headroom: str
    kept: str


def all_of(checks: Sequence[Check]) -> str:
    """The answer of several checks in one line, with the first that do not fit."""
    counts = {answer: sum(each.fits is answer for each in checks) for answer in (True, False, None)}
    parts = [f"{counts[True]:,} of {len(checks):,} models fit"]
    over = [check.name for check in checks if check.fits is False]
    if over:
        more = f" and {len(over) - _MOST_NAMED:,} more" if len(over) > _MOST_NAMED else ""
        which = f"{', '.join(map(plain, over[:_MOST_NAMED]))}{more}"
        parts.append(f"{len(over):,} do{'es' * (len(over) == 1)} not ({which})")
    parts += [f"of {counts[None]:,} nobody can tell"] if counts[None] else []
    return f"{WORDS[fits(checks)]}: {', '.join(parts)}"


def headline(check: Check) -> str:
    """The answer, the model and the target in one line."""
    model = named(check.name, check.subject.graph.format)
    if check.target is None:
        return plain(f"{WORDS[check.fits]}: {model} {_WITHIN[check.fits]}")
    return plain(f"{WORDS[check.fits]}: {model} {_FITS[check.fits]} on {check.target}")


def reasons(check: Check) -> Iterator[Finding]:
    """Why it does not fit, or why nobody can tell."""
    if check.refused:
        yield Finding("refused", check.refused, "error")
    for limit in check.limits:
        if limit.fits is False:
            yield Finding("over", over(limit), "error")
    for limit in check.limits:
        if limit.fits is None:
            yield Finding("unknown", open_question(limit), "warning")
    if check.unknown_ops:
        count = check.unknown_ops
        text = f"{count:,} operator{'s are' if count != 1 else ' is'} not counted"
        yield Finding("coverage", text + ", which --strict does not allow" * check.strict, "warning")


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
        return f"{title(limit)}: {grew}, where {100 * limit.most:.3g} % is allowed{by}{_largest(limit)}"
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
    """Why nobody can tell whether a limit is kept."""
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
    return f"{text}; --expected judges by the {limit.say(limit.expected)} expected"


def _largest(limit: Limit) -> str:
    by_count = limit.name in ("flash", "weights")
    say = (lambda value: f"{amount('count', value)} parameters") if by_count else limit.say
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
    held = check.subject.held
    if held and any(each.name in ("ram", "arena", "peak") for each in check.limits):
        names = [f"{brief(each.name)} {amount('bytes', each.amount)}" for each in held[:_MOST_NAMED]]
        rest = len(held) - _MOST_NAMED
        yield Finding("at the peak", ", ".join(names) + (f" and {rest:,} more" if rest > 0 else ""))
    for text in dict.fromkeys(text for limit in check.limits for text in limit.assumptions):
        yield Finding("assumed", text)


def _part(part: Part) -> str:
    least = amount("bytes", part.least_bytes)
    if part.is_exact:
        return f"{part.name} {least}"
    if part.most_bytes is None:
        return f"{part.name} at least {least}"
    most = amount("bytes", part.most_bytes)
    return f"{part.name} {least} to {most}" if part.least_bytes else f"{part.name} up to {most}"


def effect(remedy: Remedy) -> str:
    """What a remedy brought: every limit before and after."""
    parts = []
    for each in remedy.changes:
        before, after = amount(each.unit, each.before), amount(each.unit, each.after)
        parts.append(f"{_title(each.name)} from {before} to {after}")
    return ", ".join(dict.fromkeys(parts))  # several budgets may limit the same
