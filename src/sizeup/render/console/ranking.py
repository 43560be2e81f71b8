"""A ranking of boards as text: those that fit, then undetermined ones with the reason."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.render.vocabulary import named
from sizeup.units import plural, printable

if TYPE_CHECKING:
    from sizeup.results.parts import BoardFit
    from sizeup.results.ranking import Ranking

_MOST_NAMED = 3
_WIDE = 110  # cells of a terminal that has room for all columns
_SHORT = {
    "calibrated": "cal",
    "instructions": "inst",
    "vela": "vela",
    "slowdown": "slow",
    "data sheet only": "data",
    "unknown": "-",
}
_BASES = {
    "calibrated": "calibrated",
    "instructions": "instructions",
    "vela": "Vela without interval",
    "slowdown": "slowdown",
    "data sheet only": "data sheet",
}


def render(ranking: Ranking, console: Console) -> None:
    """Print a ranking."""
    for line in headline(ranking):
        console.print(Text(line, style="bold"), soft_wrap=True)
    for title, rows in (("", ranking.fits), ("undetermined, not counted as a fit", ranking.undetermined)):
        if title and rows:
            console.print()
            console.print(Text(f"{plural(len(rows), 'board')} {title}", style="bold"))
        if rows:
            print_rows(console, *_table(ranking, rows, console.width >= _WIDE))
    for caveat in _caveats(ranking):
        print_labeled(console, "caveat", printable(caveat), "dim", width=13)
    for text in _notes(ranking):
        console.print(Text(text, style="dim"))


def headline(ranking: Ranking) -> list[str]:
    """Returns how many boards fit, why others do not, and the order."""
    model, fitting = named(ranking.model, ranking.format), len(ranking.fits)
    limit = "" if ranking.under_seconds is None else f" in at most {units.duration(ranking.under_seconds)}"
    ram = ranking.application_ram_bytes
    application = "" if ram is None else f", with {units.size(ram)} of RAM for the application"
    verb = "fits on" if ranking.under_seconds is None else "fits and runs on"
    order = "cheapest first" if ranking.has_prices else "least available RAM first"
    text = f"{model} {verb} {fitting} of {plural(len(ranking.rows), 'board')}{limit}{application}"
    lines = [printable(f"{text}; {order}" if fitting else text)]
    if ranking.unfit:
        causes = Counter(_cause(row) for row in ranking.unfit)
        listed = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
        lines.append(f"does not fit on {len(ranking.unfit)}, because of: {listed}")
    return lines


def _cause(row: BoardFit) -> str:
    return "+".join(dict.fromkeys(reason.about for reason in row.reasons))


def _table(ranking: Ranking, rows: tuple[BoardFit, ...], is_wide: bool) -> tuple[list[str], list[list[str]]]:
    """Returns titles and rows, with the reasons of undetermined boards; narrow tables omit RAM."""
    columns: dict[str, Callable[[BoardFit], str]] = {}
    if ranking.has_prices:
        columns["price"] = lambda row: "-" if row.price is None else f"{row.price:,.2f}"
    if is_wide:
        columns["RAM"] = lambda row: units.size(row.memory_fit.ram.need_bytes)
    has_reasons = any(row.reasons for row in rows)
    if is_wide or not has_reasons:
        columns["available"] = _available
    columns |= {"latency": latency_text, "basis": lambda row: _SHORT[row.standing]}
    if has_reasons:
        columns["why"] = _cause
    columns["target"] = lambda row: row.target.name
    return list(columns), [[text(row) for text in columns.values()] for row in rows]


def _available(row: BoardFit) -> str:
    size = row.available_ram_bytes
    return "?" if size is None else f"{units.size(size)}{'*' * row.memory_fit.ram.is_external}"


def latency_text(row: BoardFit) -> str:
    """Returns the latency with its interval, a lower bound, or a question mark."""
    if row.low_seconds is None:
        return "?" if row.seconds is None else units.duration(row.seconds)
    if row.seconds is None or row.high_seconds is None:
        return f">= {units.duration(row.low_seconds)}"
    low, high = units.duration(row.low_seconds), units.duration(row.high_seconds)
    unit = f" {high.rpartition(' ')[2]}"
    return f"{units.duration(row.seconds)} ({low.removesuffix(unit)}-{high})"


def _notes(ranking: Ranking) -> Iterator[str]:
    """The meaning of the columns and abbreviations that are printed."""
    rows = (*ranking.fits, *ranking.undetermined)
    if rows:
        yield "available: RAM for the model; latency: expected (90 % interval), >= is a lower bound"
        standings = {row.standing for row in rows}
        bases = (f"{_SHORT[name]}: {text}" for name, text in _BASES.items() if name in standings)
        yield f"basis: {', '.join(bases)}"
    if ranking.undetermined:
        yield "why: what is undetermined; sizeup check MODEL -d TARGET shows the reasons"


def _caveats(ranking: Ranking) -> list[str]:
    texts = [*(row.caveats for row in ranking.fits), *(row.npu_caveats for row in ranking.undetermined)]
    caveats = list(dict.fromkeys(itertools.chain(*texts)))
    if any(row.memory_fit.ram.is_external for row in (*ranking.fits, *ranking.undetermined)):
        caveats.append("*: available is external RAM")
    if ranking.unknown_prices:
        count, names = len(ranking.unknown_prices), ", ".join(ranking.unknown_prices[:_MOST_NAMED])
        more = " and others" if count > _MOST_NAMED else ""
        caveats.append(f"{plural(count, 'price')} of unknown boards ignored: {names}{more}")
    return caveats
