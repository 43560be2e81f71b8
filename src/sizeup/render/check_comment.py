"""Checks as Markdown for a pull request: failures first and in full, the rest collapsed, never too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup.render.console.check import (
    HELPS,
    WORDS,
    Cells,
    all_of,
    cells,
    details,
    effect,
    headline,
    helping,
    reasons,
    remarks,
)
from sizeup.render.data.ci import place
from sizeup.render.markdown import cell, code, prose
from sizeup.results.check import Check, Status, by_path

if TYPE_CHECKING:
    from sizeup.results.parts import Limit

MARKER = "<!-- sizeup-check -->"
"""Invisible where Markdown is shown: a workflow finds by it the comment that it wrote before."""
MOST = 60_000
"""Characters of a comment at most; GitHub takes 65,536."""
_IN_FULL = 30_000  # of them, for sections of models that do not fit
_TAIL = 500  # of them, for what says how much was left out
_MOST_ROWS = 100
_FAILED: tuple[Status, ...] = ("error", "does not fit", "undetermined")


def markdown(checks: Sequence[Check]) -> Iterator[str]:
    """A comment on one or several checks, which ends with the marker."""
    if len(checks) == 1:
        yield from _single(checks[0])
    else:
        yield from _several(by_path(checks))
    yield f"{MARKER}\n"


def _single(check: Check) -> Iterator[str]:
    section = _section(check, "##")
    if len(section) <= MOST - _TAIL:
        yield section
    else:
        yield f"## {prose(headline(check))}\n\n"
        yield from _table([check], "limits and findings are left out: the report is too long for a comment")


def _several(checks: Sequence[Check]) -> Iterator[str]:
    heading = f"## {prose(all_of(checks))}\n\n"
    failed = [check for status in _FAILED for check in checks if check.status == status]
    sections, used = [], len(heading)
    for check in failed:
        section = _section(check, "###")
        if used + len(section) > _IN_FULL:
            break
        sections.append(section)
        used += len(section)
    yield heading
    yield from sections
    others = [check for check in checks if check.status not in _FAILED]
    yield from _rest(failed[len(sections) :], others, used)


def _rest(failed: Sequence[Check], others: Sequence[Check], used: int) -> Iterator[str]:
    """Failures that had no room for a section, as rows, and then what fits, collapsed."""
    room = MOST - _TAIL - used
    if failed:
        text = "".join(_table(failed, "failing models are left out", room))
        room -= len(text)
        yield text
    if others:
        words = "model fits or was removed" if len(others) == 1 else "models fit or were removed"
        yield f"<details><summary>{len(others):,} {words}</summary>\n\n"
        yield from _table(others, "rows are left out", room)
        yield "</details>\n\n"


def _table(checks: Sequence[Check], left_out: str, room: int = MOST) -> Iterator[str]:
    """One row per model, and how many rows there was no room for."""
    head = "| model | verdict | |\n|---|---|---|\n"
    yield head
    room -= len(head)
    for number, check in enumerate(checks):
        row = _row(check)
        if len(row) > room:
            yield f"\n{len(checks) - number:,} {left_out}; `-o check.json` has all.\n"
            break
        room -= len(row)
        yield row
    yield "\n"


def _row(check: Check) -> str:
    model = place(check) + (f" on {check.target}" if check.target else "")
    word = WORDS[check.status]
    findings = [
        "new" if each.label == "new" else f"{each.label}: {each.text}"
        for each in (*reasons(check), *remarks(check))
    ]
    text = "; ".join([*_tightest(check.limits if check.fits else ()), *findings])
    return f"| {cell(model)} | {word if check.fits else f'**{word}**'} | {prose(text)} |\n"


def _tightest(limits: Iterable[Limit]) -> list[str]:
    """The limit with the least headroom, as a share of it."""
    known = [each for each in limits if each.most and each.headroom is not None]
    if not known:
        return []
    row = cells(min(known, key=lambda each: (each.headroom or 0.0) / (each.most or 1.0)))
    return [f"{row.name}: {row.need} of {row.limit}"]


def _section(check: Check, level: str) -> str:
    """A verdict, a table of limits, what is over, what would help."""
    return "".join(_section_lines(check, level))


def _section_lines(check: Check, level: str) -> Iterator[str]:
    yield f"{level} {prose(headline(check))}\n\n"
    yield from _limits(check.limits)
    findings = (*reasons(check), *remarks(check), *details(check))
    yield from (f"- {cell(each.label)}: {prose(each.text)}\n" for each in findings[:_MOST_ROWS])
    if len(findings) > _MOST_ROWS:
        yield f"- {len(findings) - _MOST_ROWS:,} more\n"
    yield from _helps(check)
    yield "\n"


def _limits(limits: Sequence[Limit]) -> Iterator[str]:
    if not limits:
        return
    yield "| limit | need | allowed | headroom | |\n|---|---:|---:|---:|---|\n"
    # Those that are kept come last only if some must be left out.
    shown = limits if len(limits) <= _MOST_ROWS else sorted(limits, key=lambda each: each.fits is True)
    for limit in shown[:_MOST_ROWS]:
        row = Cells(*map(cell, cells(limit)))
        kept = row.kept if limit.fits else f"**{row.kept}**"
        yield f"| {row.name} | {row.need} | {row.limit} | {row.headroom} | {kept} |\n"
    if len(limits) > _MOST_ROWS:
        rest = shown[_MOST_ROWS:]
        failing = sum(each.fits is not True for each in rest)
        yield f"\n{len(rest):,} limits are left out, {failing:,} of them not kept.\n"
    yield "\n"


def _helps(check: Check) -> Iterator[str]:
    heading = helping(check)
    if heading:
        yield f"\n{heading}\n\n"
    for remedy in check.remedies:
        notes = "".join(f" ({prose(note)})" for note in remedy.notes)
        yield f"- **{HELPS[remedy.fits]}**: {prose(remedy.what)}: {prose(effect(remedy))}{notes}\n"
        yield f"  {code(remedy.command)}\n"
