"""The leaderboard of a sweep as one HTML file: models that fit each target, by latency and size."""

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
from sizeup.units import printable, round_digits

if TYPE_CHECKING:
    from sizeup.results.parts import Leaderboard, QuerySpec
    from sizeup.results.query import QueryResult

_NOTES = (
    (
        "Order: first points that are certain (known to fit, every operator counted), the fastest first; then"
        " points that may not fit; then points with uncounted operators, whose latency is a lower bound; then"
        " points without a latency; then points that are too large."
    ),
    "Unknown values are shown as a question mark and sorted last.",
    ("The line is the Pareto front over latency and size of the points that are certain."),
)
_CODED = ("model", "shapes", "basis", "fits_reason", "latency_missing")
_ALTERNATIVE = "Latency of models over their size; all numbers are in the table below"
_MOST_TARGETS = 300  # rows of the table without a script


def lines(result: QueryResult) -> Iterator[str]:
    """Yields the page as one text."""
    spec, board = result.spec, result.leaderboard()
    folder = common_folder([row["model"] for row in (*board.rows, *board.errors)])
    name = PurePosixPath(spec.folder.rstrip("/")).name or "sweep"
    scripts, styles = ("leaderboard.js",), ("report.css", "leaderboard.css")
    yield shell(
        f"{name}: sizeup leaderboard",
        _body(name, spec, board, folder),
        data_of(board, folder),
        scripts,
        styles,
    )


def data_of(board: Leaderboard, folder: str = "") -> dict[str, Any]:
    """Returns the data of the script: groups, and the rows as columns."""
    columns = {
        name: coded(_word(row[name], folder if name == "model" else "") for row in board.rows)
        if name in _CODED
        else [_figure(row[name]) for row in board.rows]
        for name in board.columns
    }
    starts: dict[tuple[Any, ...], int] = {}
    for index, row in enumerate(board.rows):
        starts.setdefault(_group(row), index)
    groups = [
        {
            **group,
            "first": starts.get(_group(group), 0),
            "shown": 0,
            "target": printable(str(group["target"])),
        }
        for group in board.groups
    ]
    by_group = {_group(group): entry for group, entry in zip(board.groups, groups, strict=True)}
    for row in board.rows:
        by_group[_group(row)]["shown"] += 1
    return {
        "groups": groups,
        "firstGroup": board.first_group,
        "rows": columns,
        "standings": list(board.standings),
        "top": board.top,
    }


def _group(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["target"], row["precision"], row["batch"]


def _word(value: str | None, folder: str) -> str | None:
    return None if value is None else printable(value.removeprefix(folder))


def _figure(value: Any) -> Any:
    return round_digits(value) if isinstance(value, float) else value


def _body(name: str, spec: QuerySpec, board: Leaderboard, folder: str) -> str:
    points = sum(group["points"] for group in board.groups)
    return f"""<header class="page-head">
<div class="line"><div><p class="kicker">{_escaped(_kicker(spec, folder))}</p>
<h1>{_escaped(name)}</h1></div>
<button type="button" class="theme" id="theme">Dark colors</button></div>
<dl class="numbers">{"".join(_cards(board, points))}</dl>
</header>
<main id="main">
<section id="ranking" aria-labelledby="ranking-title"><h2 id="ranking-title">Latency over size</h2>
<p>Choose a target and a precision. Bars are 90 % prediction intervals; a point without a bar has no known
interval.</p>
<noscript><p>The plot needs JavaScript; the table of targets below does not.</p></noscript>
<div class="controls" id="choices"></div>
<p id="summary" role="status"></p>
<figure><div class="plot" id="scatter" role="group" aria-label="{_ALTERNATIVE}"></div>
<figcaption id="caption"></figcaption></figure>
<div id="table"></div></section>
<section id="targets" aria-labelledby="targets-title"><h2 id="targets-title">Targets</h2>
<p>Points that fit per target and precision, and the fastest of them.</p>
{_targets(board, folder)}</section>
{_failures(board, folder)}
{_reading(board, points)}
</main>
<footer class="page-foot">{_escaped(_maker(board))}</footer>"""


def _maker(board: Leaderboard) -> str:
    return f"Made by sizeup {version('sizeup')} from results of sizeup {board.version}."


def _escaped(words: str) -> str:
    return escape(printable(words))


def _kicker(spec: QuerySpec, folder: str) -> str:
    parts = [f"sizeup leaderboard of a sweep{f' over models of {folder}' if folder else ''}"]
    if spec.devices:
        parts.append(f"on {', '.join(spec.devices)}")
    if spec.precisions:
        parts.append(f"at {', '.join(spec.precisions)}")
    if spec.under_ms is not None:
        parts.append(f"within {units.duration(spec.under_ms / 1e3)}")
    return ", ".join(parts)


def _cards(board: Leaderboard, points: int) -> Iterator[str]:
    targets = {group["target"] for group in board.groups}
    precisions = {group["precision"] for group in board.groups}
    fit = sum(group["fit"] for group in board.groups)
    errors = sum(group["errors"] for group in board.groups)
    where = f"on {units.plural(len(targets), 'target')} at {units.plural(len(precisions), 'precision')}"
    yield _card("Models", f"{board.models:,}", where)
    yield _card("Points", units.count(points), _shown(board, points))
    yield _card(
        "Fit",
        units.share(fit, points),
        f"of all points, failed ones included; {units.plural(fit, 'point')} known to fit",
    )
    yield _card(
        "Failed",
        f"{board.failed:,}",
        f"models, {units.plural(errors, 'point')}" if errors else "all models were evaluated",
    )


def _card(label: str, value: str, detail: str) -> str:
    cells = f'<dd class="value">{_escaped(value)}</dd><dd class="detail">{_escaped(detail)}</dd>'
    return f"<div><dt>{_escaped(label)}</dt>{cells}</div>"


def _shown(board: Leaderboard, points: int) -> str:
    evaluated = points - sum(group["errors"] for group in board.groups)
    number = "all" if len(board.rows) == evaluated else f"{len(board.rows):,}"
    return f"{number} of {evaluated:,} evaluated points are on this page"


def _reading(board: Leaderboard, points: int) -> str:
    """Returns the section that explains the page."""
    errors = sum(group["errors"] for group in board.groups)
    omitted = points - errors - len(board.rows)
    rule = "All evaluated points are on this page."
    if omitted:
        rule = (
            f"The first {board.top:,} points of each target, precision and batch are on this page;"
            f" {omitted:,} more are not (sizeup query lists all)."
        )
    notes = (*_NOTES, rule)
    return (
        '<section id="reading" aria-labelledby="reading-title"><h2 id="reading-title">How to read this</h2>'
        f'<ul class="notes">{"".join(f"<li>{_escaped(note)}</li>" for note in notes)}</ul></section>'
    )


def _targets(board: Leaderboard, folder: str) -> str:
    """Returns the table of groups, with the best point of each."""
    best = {_group(row): row for row in reversed(board.rows) if row["standing"] == 0}
    batched = any(group["batch"] is not None for group in board.groups)
    titles = ["target", "precision", *(["batch"] if batched else []), "fit", "fastest that fits"]
    titles += ["latency", "too large", "undetermined", "failed"]
    groups = board.groups[:_MOST_TARGETS]
    body = "".join(_target(group, best.get(_group(group)), batched, folder) for group in groups)
    rest = len(board.groups) - _MOST_TARGETS
    more = f"<p>and {rest:,} more</p>" if rest > 0 else ""
    return _table("Targets", titles, body) + more


def _target(group: dict[str, Any], best: dict[str, Any] | None, batched: bool, folder: str) -> str:
    latency = "" if best is None else _latency(best)
    cells = [
        str(group["precision"]),
        *([_optional(group["batch"])] if batched else []),
        f"{group['fit']:,}",
        "none" if best is None else best["model"].removeprefix(folder),
        latency,
        *(f"{group[name]:,}" for name in ("too_large", "fit_unknown", "errors")),
    ]
    return _row(str(group["target"]), cells)


def _latency(row: dict[str, Any]) -> str:
    latency = units.duration(row["ms"] / 1e3)
    if row["low_ms"] is None or row["high_ms"] is None:
        return f"{latency}, interval unknown"
    return f"{latency} ({units.duration(row['low_ms'] / 1e3)} to {units.duration(row['high_ms'] / 1e3)})"


def _optional(value: Any) -> str:
    return "original" if value is None else str(value)


def _failures(board: Leaderboard, folder: str) -> str:
    if not board.failed:
        return ""
    rows = "".join(_failure(row, folder) for row in board.errors)
    rest = board.failed - len(board.errors)
    more = f"<p>and {rest:,} more (sizeup query DIR --view errors)</p>" if rest > 0 else ""
    title = '<h2 id="failed-title">Models that failed</h2>'
    table = _table("Models that failed", ("model", "error type", "points", "message"), rows)
    return f'<section id="failed" aria-labelledby="failed-title">{title}{table}{more}</section>'


def _failure(row: dict[str, Any], folder: str) -> str:
    cells = (row["error_kind"] or "", f"{row['points']:,}", row["error"] or "")
    return _row(row["model"].removeprefix(folder), cells)


def _table(label: str, titles: Sequence[str], rows: str) -> str:
    """Returns a table as HTML."""
    head = "".join(f'<th scope="col">{_escaped(title)}</th>' for title in titles)
    return (
        f'<div class="scroll plain" tabindex="0" role="region" aria-label="{_escaped(label)}, scrolls">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    body = "".join(f"<td>{_escaped(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{_escaped(name)}</th>{body}</tr>'
