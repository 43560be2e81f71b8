"""The leaderboard of a sweep as one HTML file: what runs on each target, how fast, and of what size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.render.console.query import common_folder
from sizeup.render.html.columns import coded
from sizeup.render.html.shell import shell
from sizeup.units import plain, short

if TYPE_CHECKING:
    from sizeup.results.parts import Board, QuerySpec
    from sizeup.results.query import QueryResult

_NOTES = (
    (
        "First come points that are certain: known to fit, every operator counted, the fastest first. Then"
        " points that may not fit, then those of which not every operator was counted and whose latency is at"
        " least what is said, then those without a latency, then those that are too large."
    ),
    "What is not known never stands before what is, and is shown as a question mark.",
    (
        "The line joins points that are certain and that no other certain point of the choice beats in both"
        " latency and size."
    ),
)
_CODED = ("model", "shapes", "basis", "fits_reason", "latency_missing")
_ALTERNATIVE = "Latency of models against their size; the table below has all numbers"
_MOST_TARGETS = 300  # rows of the table that needs no script


def lines(answer: QueryResult) -> Iterator[str]:
    """The page on the points of a query, as one piece of text."""
    question, found = answer.question, answer.board()
    folder = common_folder([row["model"] for row in (*found.rows, *found.errors)])
    name = PurePosixPath(question.folder.rstrip("/")).name or "sweep"
    scripts, styles = ("leaderboard.js",), ("report.css", "leaderboard.css")
    yield shell(
        f"{name}: sizeup leaderboard",
        _body(name, question, found, folder),
        data_of(found, folder),
        scripts,
        styles,
    )


def data_of(found: Board, folder: str = "") -> dict[str, Any]:
    """All that the script of the page works with: groups, and columns of the rows in their order."""
    columns = {
        name: coded(_word(row[name], folder if name == "model" else "") for row in found.rows)
        if name in _CODED
        else [_figure(row[name]) for row in found.rows]
        for name in found.columns
    }
    starts: dict[tuple[Any, ...], int] = {}
    for index, row in enumerate(found.rows):
        starts.setdefault(_group(row), index)
    groups = [
        {**group, "first": starts.get(_group(group), 0), "shown": 0, "target": plain(str(group["target"]))}
        for group in found.groups
    ]
    by_group = {_group(group): made for group, made in zip(found.groups, groups, strict=True)}
    for row in found.rows:
        by_group[_group(row)]["shown"] += 1
    return {"groups": groups, "rows": columns, "standings": list(found.standings), "top": found.top}


def _group(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["target"], row["precision"], row["batch"]


def _word(value: str | None, folder: str) -> str | None:
    return None if value is None else plain(value.removeprefix(folder))


def _figure(value: Any) -> Any:
    return short(value) if isinstance(value, float) else value


def _body(name: str, question: QuerySpec, found: Board, folder: str) -> str:
    points = sum(group["points"] for group in found.groups)
    return f"""<header class="page-head">
<div class="line"><div><p class="kicker">{_said(_kicker(question, folder))}</p>
<h1>{_said(name)}</h1></div>
<button type="button" class="theme" id="theme">Dark colours</button></div>
<dl class="numbers">{"".join(_cards(found, points))}</dl>
</header>
<main id="main">
<section id="ranking" aria-labelledby="ranking-title"><h2 id="ranking-title">Latency against size</h2>
<p>Choose a target and a precision. Bars are the range that nine of ten measurements fall into; where there is
none, nothing was measured that tells how far the estimate may be off.</p>
<noscript><p>Choosing and drawing need JavaScript; the table of targets below does not.</p></noscript>
<div class="controls" id="choices"></div>
<p id="told" role="status"></p>
<figure><div class="plot" id="scatter" role="group" aria-label="{_ALTERNATIVE}"></div>
<figcaption id="caption"></figcaption></figure>
<div id="table"></div></section>
<section id="targets" aria-labelledby="targets-title"><h2 id="targets-title">Targets</h2>
<p>Of each target and precision how many points fit, and the fastest that certainly does.</p>
{_targets(found, folder)}</section>
{_failures(found, folder)}
{_reading(found, points)}
</main>
<footer class="page-foot">{_said(_maker(found))}</footer>"""


def _maker(found: Board) -> str:
    return f"Made by sizeup {version('sizeup')} from results of sizeup {found.version}."


def _said(words: str) -> str:
    return escape(plain(words))


def _kicker(question: QuerySpec, folder: str) -> str:
    parts = [f"sizeup leaderboard of a sweep{f' over models of {folder}' if folder else ''}"]
    if question.devices:
        parts.append(f"on {', '.join(question.devices)}")
    if question.precisions:
        parts.append(f"at {', '.join(question.precisions)}")
    if question.under_ms is not None:
        parts.append(f"within {units.duration(question.under_ms / 1e3)}")
    return ", ".join(parts)


def _cards(found: Board, points: int) -> Iterator[str]:
    targets = {group["target"] for group in found.groups}
    precisions = {group["precision"] for group in found.groups}
    fit = sum(group["fit"] for group in found.groups)
    errors = sum(group["errors"] for group in found.groups)
    yield _card(
        "Models", f"{found.models:,}", f"on {len(targets):,} targets at {len(precisions):,} precisions"
    )
    yield _card("Points", units.count(points), _shown(found, points))
    yield _card("Fit", units.share(fit, points), f"{fit:,} points are known to fit their device")
    yield _card(
        "Failed", f"{found.failed:,}", f"models, {errors:,} points" if errors else "every model was evaluated"
    )


def _card(label: str, value: str, detail: str) -> str:
    told = f'<dd class="value">{_said(value)}</dd><dd class="detail">{_said(detail)}</dd>'
    return f"<div><dt>{_said(label)}</dt>{told}</div>"


def _shown(found: Board, points: int) -> str:
    evaluated = points - sum(group["errors"] for group in found.groups)
    shown = "all" if len(found.rows) == evaluated else f"{len(found.rows):,}"
    return f"{shown} of {evaluated:,} that could be evaluated are on this page"


def _reading(found: Board, points: int) -> str:
    """The rules of the page, in words."""
    errors = sum(group["errors"] for group in found.groups)
    left = points - errors - len(found.rows)
    rule = "Every point that could be evaluated is on this page."
    if left:
        rule = (
            f"Of each target, precision and batch the first {found.top:,} are on this page; {left:,} points"
            " further down are not (sizeup query answers for all)."
        )
    notes = (*_NOTES, rule)
    return (
        '<section id="reading" aria-labelledby="reading-title"><h2 id="reading-title">How to read this</h2>'
        f'<ul class="notes">{"".join(f"<li>{_said(note)}</li>" for note in notes)}</ul></section>'
    )


def _targets(found: Board, folder: str) -> str:
    """The groups, and the first of each."""
    best = {_group(row): row for row in reversed(found.rows) if row["standing"] == 0}
    batched = any(group["batch"] is not None for group in found.groups)
    titles = ["target", "precision", *(["batch"] if batched else []), "fit", "fastest that fits"]
    titles += ["latency", "too large", "cannot be told", "failed"]
    shown = found.groups[:_MOST_TARGETS]
    body = "".join(_target(group, best.get(_group(group)), batched, folder) for group in shown)
    rest = len(found.groups) - _MOST_TARGETS
    more = f"<p>and {rest:,} more</p>" if rest > 0 else ""
    return _table("Targets", titles, body) + more


def _target(group: dict[str, Any], best: dict[str, Any] | None, batched: bool, folder: str) -> str:
    latency = "" if best is None else _latency(best)
    cells = [
        str(group["precision"]),
        *([_optional(group["batch"])] if batched else []),
        f"{group['fit']:,}",
        "none is known to" if best is None else best["model"].removeprefix(folder),
        latency,
        *(f"{group[name]:,}" for name in ("too_large", "fit_unknown", "errors")),
    ]
    return _row(str(group["target"]), cells)


def _latency(row: dict[str, Any]) -> str:
    told = units.duration(row["ms"] / 1e3)
    if row["low_ms"] is None or row["high_ms"] is None:
        return f"{told}, range unknown"
    return f"{told} ({units.duration(row['low_ms'] / 1e3)} to {units.duration(row['high_ms'] / 1e3)})"


def _optional(value: Any) -> str:
    return "as given" if value is None else str(value)


def _failures(found: Board, folder: str) -> str:
    if not found.failed:
        return ""
    rows = "".join(_failure(row, folder) for row in found.errors)
    rest = found.failed - len(found.errors)
    more = f"<p>and {rest:,} more (sizeup query DIR --view errors)</p>" if rest > 0 else ""
    title = '<h2 id="failed-title">Models that failed</h2>'
    table = _table("Models that failed", ("model", "kind", "points", "why"), rows)
    return f'<section id="failed" aria-labelledby="failed-title">{title}{table}{more}</section>'


def _failure(row: dict[str, Any], folder: str) -> str:
    cells = (row["error_kind"] or "", f"{row['points']:,}", row["error"] or "")
    return _row(row["model"].removeprefix(folder), cells)


def _table(label: str, titles: Sequence[str], rows: str) -> str:
    """A table that needs no script."""
    head = "".join(f'<th scope="col">{_said(title)}</th>' for title in titles)
    return (
        f'<div class="scroll plain" tabindex="0" role="region" aria-label="{_said(label)}, scrolls">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    told = "".join(f"<td>{_said(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{_said(name)}</th>{told}</tr>'
