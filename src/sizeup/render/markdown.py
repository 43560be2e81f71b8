"""Results as Markdown: a report for a README, checks as a comment of bounded length on a pull request."""

from __future__ import annotations

import re
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
    helping,
    reasons,
    remarks,
)
from sizeup.render.console.check import (
    headline as check_headline,
)
from sizeup.render.console.columns import columns_of
from sizeup.render.console.report import headline, receipt, title
from sizeup.render.data.ci import place
from sizeup.results.check import Check, Status, by_path
from sizeup.results.table import view
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Limit
    from sizeup.results.report import Report

_LONGEST_NAME, _LONGEST_SENTENCE = 80, 500
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_NAME + 1},}}")
_NOTHING = "\N{ZERO WIDTH SPACE}"
# @name mentions, #12 and GH-12 lead to issues, http://host and www.host are links.
_LINKED = re.compile(r"(@|#(?=\d)|\bGH-(?=\d)|:/(?=/)|www(?=\.))", re.IGNORECASE)
_MARKUP = str.maketrans({c: f"\\{c}" for c in "\\`*_[]~#!|$"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# What begins a list or is a rule at the start of a line, or a command in a log that GitHub Actions reads.
_BLOCK = re.compile(r"\A(\d{0,9})([-+.)](?=\s|[-\s]*\Z)|:(?=:))")


def lines(report: Report) -> Iterator[str]:
    """The report's headline, its receipt, its notes and its usual table."""
    yield f"## {cell(title(report))}\n\n"
    yield "| | |\n|---|---|\n"
    for label, text in headline(report):
        yield f"| {label} | {prose(text)} |\n"
    yield "\n"
    first, *others = receipt(report)
    yield f"{prose(first)}\n\n"
    for sentence in (*others, *report.notes):
        yield f"- {prose(sentence)}\n"
    if others or report.notes:
        yield "\n"
    yield from _table(report)


def _table(report: Report) -> Iterator[str]:
    shown = view(report)
    columns = columns_of(shown)
    yield _row([column.title for column in columns])
    yield _row(["---:" if column.right else "---" for column in columns])
    for entry in shown.rows:
        yield _row([cell(column.text(entry)) for column in columns])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def cell(text: str) -> str:
    """A name or an amount, for a heading or a cell of a table: long ones are cut in their middle."""
    return _escaped(_shortened(plain(text), _LONGEST_NAME))


def prose(text: str) -> str:
    """A sentence, whatever names are in it: long ones are cut in their middle."""
    words = _LONG_WORD.sub(lambda word: _shortened(word[0], _LONGEST_NAME), plain(text).strip())
    return _BLOCK.sub(r"\1\\\2", _escaped(_shortened(words, _LONGEST_SENTENCE)))


def code(text: str) -> str:
    """A command to be copied, letter by letter, whatever backticks are in it."""
    content = plain(text)
    fence = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    room = " " if content[:1] == "`" or content[-1:] == "`" else ""
    return f"{fence}{room}{content}{room}{fence}"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2 - 1]}\N{HORIZONTAL ELLIPSIS}{text[-(most - most // 2) :]}"


def _escaped(text: str) -> str:
    """Text in which nothing is markup, a link or a mention.

    GitHub looks for mentions and numbers of issues in what is shown, where a backslash is gone and an entity
    is a letter again; a space without width is still there.
    """
    return _LINKED.sub(rf"\1{_NOTHING}", text).translate(_MARKUP)


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
        yield f"## {prose(check_headline(check))}\n\n"
        yield from _check_table(
            [check], "limits and findings are left out: the report is too long for a comment"
        )


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
        text = "".join(_check_table(failed, "failing models are left out", room))
        room -= len(text)
        yield text
    if others:
        words = "model fits or was removed" if len(others) == 1 else "models fit or were removed"
        yield f"<details><summary>{len(others):,} {words}</summary>\n\n"
        yield from _check_table(others, "rows are left out", room)
        yield "</details>\n\n"


def _check_table(checks: Sequence[Check], left_out: str, room: int = MOST) -> Iterator[str]:
    """One row per model, and how many rows there was no room for."""
    head = "| model | verdict | |\n|---|---|---|\n"
    yield head
    room -= len(head)
    for number, check in enumerate(checks):
        row = _check_comment_row(check)
        if len(row) > room:
            yield f"\n{len(checks) - number:,} {left_out}; `-o check.json` has all.\n"
            break
        room -= len(row)
        yield row
    yield "\n"


def _check_comment_row(check: Check) -> str:
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
    yield f"{level} {prose(check_headline(check))}\n\n"
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
