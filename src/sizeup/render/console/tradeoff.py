"""A tradeoff for people: on a terminal, as Markdown, and the texts of its page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.markdown import cell, prose
from sizeup.render.vocabulary import NOTHING, UNKNOWN
from sizeup.results.tradeoff import names_of, place_of, share_of
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Point, Row
    from sizeup.results.tradeoff import Tradeoff

_MOST_ROWS = 40


def titles_of(tradeoff: Tradeoff) -> list[str]:
    """The columns of the readable tables: batch, size and budgets only if there are any."""
    batches = ["batch"] if any(each.batch is not None for each in tradeoff.points) else []
    sizes = ["size"] if any(each.size is not None for each in tradeoff.points) else []
    budgets = ["accepted by"] if tradeoff.has_budgets else []
    share = tradeoff.share_name
    return ["precision", *batches, *sizes, share, "latency", "90 % interval", "energy", "memory", *budgets]


def ordered(tradeoff: Tradeoff) -> list[Point]:
    """The points by batch and input size, the fastest or smallest first."""
    unknown = math.inf

    def rank(point: Point) -> tuple[float, float, float, float]:
        seconds = None if point.latency is None else point.latency.seconds
        memory = unknown if point.memory_bytes is None else point.memory_bytes
        return point.batch or 0, point.size or 0, unknown if seconds is None else seconds, memory

    return sorted(tradeoff.points, key=rank)


def words_of(tradeoff: Tradeoff, point: Point) -> list[str]:
    """A point under those titles."""
    joules = None if point.figures is None else point.figures.joules
    words = {
        "precision": point.precision,
        "batch": NOTHING if point.batch is None else f"{point.batch:,}",
        "size": NOTHING if point.size is None else f"{point.size:,}",
        tradeoff.share_name: _percent(share_of(point)),
        "latency": _latency(point),
        "90 % interval": _interval(point),
        "energy": NOTHING if joules is None else units.joules(joules),
        "memory": NOTHING if point.memory_bytes is None else units.size(point.memory_bytes),
        "accepted by": _acceptance(point),
    }
    return [words[title] for title in titles_of(tradeoff)]


def label_of(point: Point) -> Iterator[str]:
    """The precision, and the batch and size if there are any."""
    yield point.precision
    place = place_of(point)
    if place:
        yield f"({place})"


def highlight_words(tradeoff: Tradeoff) -> Iterator[tuple[str, str, str]]:
    """Labels, points and amounts of the highlights; first, how many points the budgets accept."""
    if tradeoff.has_budgets:
        accepted = sum(each.accepted is True for each in tradeoff.points)
        undetermined = sum(each.accepted is None for each in tradeoff.points)
        detail = f"{undetermined:,} undetermined" if undetermined else "by all budgets"
        yield "accepted", f"{accepted:,} of {len(tradeoff.points):,} points", detail
    titles = titles_of(tradeoff)
    for label, point in tradeoff.highlights.items():
        words = dict(zip(titles, words_of(tradeoff, point), strict=True))
        quantity = label.split(" ")[-1]
        others = [f"{words[each]} {each}" for each in (tradeoff.share_name, "latency") if each != quantity]
        known = [each for each in others if not each.startswith(NOTHING)]
        yield label, words[quantity], ", ".join([" ".join(label_of(point)), *known])


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"


def _latency(point: Point) -> str:
    if point.latency is None:
        return NOTHING
    seconds = point.latency.seconds
    return f"at least {units.duration(point.latency.low)}" if seconds is None else units.duration(seconds)


def _interval(point: Point) -> str:
    latency = point.latency
    if latency is None or latency.seconds is None or latency.high is None:
        return NOTHING if latency is None else UNKNOWN
    return f"{units.duration(latency.low)} to {units.duration(latency.high)}"


def _acceptance(point: Point) -> str:
    """The budgets that accept a point, then with a question mark those of which it is undetermined."""
    undetermined = [f"{name} (?)" for name, answer in point.verdicts.items() if answer is None]
    return ", ".join([*filter(None, [names_of(point, True)]), *undetermined]) or "none"


def render(tradeoff: Tradeoff, console: Console) -> None:
    """Print where the numbers come from, every point, and the means by precision."""
    console.print(Text(plain(tradeoff.name), style="bold"))
    where = f" on {tradeoff.target}" if tradeoff.target else ""
    print_labelled(console, "points", f"{len(tradeoff.points):,}{where}")
    for label, text in tradeoff.provenance():
        print_labelled(console, label, text, "yellow" if label in ("unsupported", "caveat") else "")
    console.print()
    points = ordered(tradeoff)
    rows = [titles_of(tradeoff), *(words_of(tradeoff, each) for each in points[:_MOST_ROWS])]
    # The precision comes last: only the last column may be shortened, and budgets must not be.
    titles, *others = ([*row[1:], row[0]] for row in rows)
    print_rows(console, titles, others)
    if len(points) > _MOST_ROWS:
        more = f"  {len(points) - _MOST_ROWS:,} more rows: -o FILE.csv writes all"
        console.print(Text(more, style="dim"), soft_wrap=True)
    if len(points) > len(tradeoff.rows):
        console.print()
        print_rows(console, _mean_titles(tradeoff), [_mean_words(tradeoff, row) for row in tradeoff.rows])


def _mean_titles(tradeoff: Tradeoff) -> list[str]:
    accepted = ["accepted"] if tradeoff.has_budgets else []
    return ["points", tradeoff.share_name, "latency", "energy", "memory", *accepted, "precision (means)"]


def _mean_words(tradeoff: Tradeoff, row: Row) -> list[str]:
    accepted = NOTHING if row.accepted_ratio is None else f"{100 * row.accepted_ratio:.0f} %"
    return [
        f"{row.points:,}",
        _percent(row.agreement if tradeoff.share_name == "agreement" else row.accuracy),
        NOTHING if row.seconds is None else units.duration(row.seconds),
        NOTHING if row.joules is None else units.joules(row.joules),
        NOTHING if row.memory_bytes is None else units.size(row.memory_bytes),
        *([accepted] if tradeoff.has_budgets else []),
        row.precision,
    ]


def markdown(tradeoff: Tradeoff) -> Iterator[str]:
    """The table and its provenance, for a pull request."""
    where = f" on {tradeoff.target}" if tradeoff.target else ""
    yield f"## {cell(tradeoff.name + where)}\n\n"
    titles = titles_of(tradeoff)
    yield _line(titles)
    yield _line(["---", *["---:"] * (len(titles) - 1)])
    for point in ordered(tradeoff):
        yield _line([cell(each) for each in words_of(tradeoff, point)])
    yield "\n"
    for label, text in tradeoff.provenance():
        yield f"- {label}: {prose(text)}\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
