"""Results as Markdown: a report, and checks as a pull request comment of bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup.render.console.check import (
    VERDICTS,
    Cells,
    cells,
    details,
    notices,
    reasons,
    summary,
)
from sizeup.render.console.check import (
    headline as check_headline,
)
from sizeup.render.console.columns import columns_of
from sizeup.render.console.remedies import REMEDY_LABELS, effect, next_step, remedies_heading
from sizeup.render.console.report import headline, receipt, title
from sizeup.render.data.ci import model_path
from sizeup.results.check import Check, Status, by_path
from sizeup.results.table import build_table
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import Limit
    from sizeup.results.report import Report

_LONGEST_NAME, _LONGEST_SENTENCE = 80, 500
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_NAME + 1},}}")
_NOTHING = "\N{ZERO WIDTH SPACE}"
# @name is a mention, #12 and GH-12 are links to issues, http://host and www.host are links.
_LINKED = re.compile(r"(@|#(?=\d)|\bGH-(?=\d)|:/(?=/)|www(?=\.))", re.IGNORECASE)
_MARKUP = str.maketrans({c: f"\\{c}" for c in "\\`*_[]~#!|$"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# A list or a rule at the start of a line, or a command in a log of GitHub Actions.
_BLOCK = re.compile(r"\A(\d{0,9})([-+.)](?=\s|[-\s]*\Z)|:(?=:))")


def lines(report: Report) -> Iterator[str]:
    """Yields the headline of a report, its coverage, its notes and its table."""
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
    table = build_table(report)
    columns = columns_of(table)
    yield _row([column.title for column in columns])
    yield _row(["---:" if column.right else "---" for column in columns])
    for entry in table.rows:
        yield _row([cell(column.text(entry)) for column in columns])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def cell(text: str) -> str:
    """Returns a name or an amount, escaped and shortened, for a heading or a table cell."""
    return _escaped(_shortened(printable(text), _LONGEST_NAME))


def prose(text: str) -> str:
    """Returns a sentence, escaped; long names and sentences are shortened."""
    words = _LONG_WORD.sub(lambda word: _shortened(word[0], _LONGEST_NAME), printable(text).strip())
    return _BLOCK.sub(r"\1\\\2", _escaped(_shortened(words, _LONGEST_SENTENCE)))


def code(text: str) -> str:
    """Returns a command as inline code, also if it contains backticks."""
    content = printable(text)
    fence = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    padding = " " if content[:1] == "`" or content[-1:] == "`" else ""
    return f"{fence}{padding}{content}{padding}{fence}"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2 - 1]}\N{HORIZONTAL ELLIPSIS}{text[-(most - most // 2) :]}"


def _escaped(text: str) -> str:
    """Returns text without markup, links and mentions.

    GitHub looks for mentions and issue numbers in the rendered text, where backslashes and entities have no
    effect; a zero-width space does.
    """
    return _LINKED.sub(rf"\1{_NOTHING}", text).translate(_MARKUP)


MARKER = "<!-- sizeup-check -->"
"""Invisible in rendered Markdown; a workflow finds its earlier comment by it."""
MOST = 60_000
"""Characters of a comment at most; the limit of GitHub is 65,536."""
_IN_FULL = 30_000  # of them, for sections of models that do not fit
_TAIL = 500  # of them, for the note on omitted rows
_MOST_ROWS = 100
# Their sections come first: an edit of the policy must not be collapsed.
_SHOWN: tuple[Status, ...] = ("edited", "error", "does not fit", "undetermined")


def markdown(checks: Sequence[Check]) -> Iterator[str]:
    """Yields a comment on one or several checks, which ends with the marker."""
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
        yield from _check_table([check], "limits and findings omitted: the report is too long for a comment")


def _several(checks: Sequence[Check]) -> Iterator[str]:
    heading = f"## {prose(summary(checks))}\n\n"
    failed = [check for status in _SHOWN for check in checks if check.status == status]
    sections, used = [], len(heading)
    for check in failed:
        section = _section(check, "###")
        if used + len(section) > _IN_FULL:
            break
        sections.append(section)
        used += len(section)
    yield heading
    yield from sections
    others = [check for check in checks if check.status not in _SHOWN]
    yield from _rest(failed[len(sections) :], others, used)


def _rest(failed: Sequence[Check], others: Sequence[Check], used: int) -> Iterator[str]:
    """Yields failing models that have no section as rows, then passing models, collapsed."""
    budget = MOST - _TAIL - used
    if failed:
        text = "".join(_check_table(failed, "failing models omitted", budget))
        budget -= len(text)
        yield text
    if others:
        words = "model fits or was removed" if len(others) == 1 else "models fit or were removed"
        yield f"<details><summary>{len(others):,} {words}</summary>\n\n"
        yield from _check_table(others, "rows omitted", budget)
        yield "</details>\n\n"


def _check_table(checks: Sequence[Check], omitted: str, budget: int = MOST) -> Iterator[str]:
    """Yields one row per model, and the number of omitted rows."""
    head = "| model | verdict | |\n|---|---|---|\n"
    yield head
    budget -= len(head)
    for number, check in enumerate(checks):
        row = _check_comment_row(check)
        if len(row) > budget:
            yield f"\n{len(checks) - number:,} {omitted}; `-o check.json` has all.\n"
            break
        budget -= len(row)
        yield row
    yield "\n"


def _check_comment_row(check: Check) -> str:
    model = model_path(check) + (f" on {check.target}" if check.target else "")
    word = VERDICTS[check.status]
    findings = [
        "new" if finding.label == "new" else f"{finding.label}: {finding.text}"
        for finding in (*reasons(check), *notices(check))
    ]
    text = "; ".join([*_tightest(check.limits if check.fits else ()), *findings])
    return f"| {cell(model)} | {word if check.fits else f'**{word}**'} | {prose(text)} |\n"


def _tightest(limits: Iterable[Limit]) -> list[str]:
    """Returns the limit with the least relative headroom."""
    known = [limit for limit in limits if limit.maximum and limit.headroom is not None]
    if not known:
        return []
    row = cells(min(known, key=lambda limit: (limit.headroom or 0.0) / (limit.maximum or 1.0)))
    return [f"{row.name}: {row.need} of {row.limit}"]


def _section(check: Check, level: str) -> str:
    """Returns the verdict, a table of limits, findings and remedies."""
    return "".join(_section_lines(check, level))


def _section_lines(check: Check, level: str) -> Iterator[str]:
    yield f"{level} {prose(check_headline(check))}\n\n"
    yield from _limits(check.limits)
    findings = (*reasons(check, with_tensors=False), *notices(check), *details(check))
    yield from (f"- {cell(finding.label)}: {prose(finding.text)}\n" for finding in findings[:_MOST_ROWS])
    if len(findings) > _MOST_ROWS:
        yield f"- {len(findings) - _MOST_ROWS:,} more\n"
    yield from _remedies(check)
    yield "\n"


def _limits(limits: Sequence[Limit]) -> Iterator[str]:
    if not limits:
        return
    yield "| limit | need | allowed | headroom | |\n|---|---:|---:|---:|---|\n"
    # Passing limits come last, but only if some must be omitted.
    listed = limits if len(limits) <= _MOST_ROWS else sorted(limits, key=lambda item: item.fits is True)
    for limit in listed[:_MOST_ROWS]:
        row = Cells(*map(cell, cells(limit)))
        mark = row.mark if limit.fits else f"**{row.mark}**"
        yield f"| {row.name} | {row.need} | {row.limit} | {row.headroom} | {mark} |\n"
    if len(limits) > _MOST_ROWS:
        rest = listed[_MOST_ROWS:]
        failing = sum(item.fits is not True for item in rest)
        yield f"\n{len(rest):,} limits omitted, {failing:,} of them exceeded or undetermined.\n"
    yield "\n"


def _remedies(check: Check) -> Iterator[str]:
    heading = remedies_heading(check)
    if heading:
        yield f"\n{heading}\n\n"
    for remedy in check.remedies:
        notes = "".join(f" ({prose(note)})" for note in remedy.notes)
        change = f"{prose(remedy.description)}: {prose(effect(remedy))}{notes}"
        yield f"- **{REMEDY_LABELS[remedy.fits]}**: {change}\n"
        yield f"  {code(remedy.command)}\n"
    command, purpose = next_step(check)
    if command:
        yield f"\n{code(command)}{purpose}\n"
