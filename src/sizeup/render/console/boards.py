"""Boards as text: a table of all, one board in full, and a page of the documentation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.render.console.devices import memory_text, provenance_lines
from sizeup.targets import Board, Device, MemoryAmounts

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 120  # cells of a terminal that has room for titles
_MICRO = "microcontroller"
_Columns = dict[str, Callable[[Board, Device], str]]
_PREFACE = """\
# Boards

Products that carry a device, for `-d BOARD` in every command. Available RAM is what radio, operating system
and bootloader leave for one array, less a reserve if no document states it; flash likewise. A missing value
is unknown. `sizeup devices BOARD` shows the source of each value. [choosing-a-board.md](choosing-a-board.md)
explains how `check` uses them, and how to add a board.

This page is generated: `sizeup devices --boards --markdown > docs/board-list.md`.
"""
_NOTES = (
    "available: RAM that radio, system and bootloader leave, less the reserve",
    "sizeup devices BOARD shows one board in full; -d BOARD is a target",
)


def render_list(boards: Sequence[Board], devices: Mapping[str, Device], console: Console) -> None:
    """Print a table of microcontroller boards and one of computers; `devices` are equipped, by board."""
    from rich.text import Text

    from sizeup.render.console.layout import print_listing

    for heading, group in _groups(boards, devices):
        columns: _Columns = {**_columns(heading), "device": lambda board, _: board.device}
        columns["board"] = lambda board, _: board.name
        if console.width >= _WIDE:
            columns["board"] = lambda board, _: f"{board.name} ({board.title})"
        titles, rows = _table(group, devices, columns)
        console.print(Text(heading, style="bold"))
        print_listing(console, titles, rows, ("ext. RAM", "flash"))
    for text in _NOTES:
        console.print(Text(text, style="dim"))


def render_one(board: Board, device: Device, console: Console) -> None:
    """Print all values of a board with their sources; `device` has the board's memories."""
    from rich.text import Text

    from sizeup.render.console.layout import print_labeled

    console.print(Text(f"{board.name}: {board.title} ({board.vendor})", style="bold"))
    previous = ""
    for label, text, style in _facts(board, device):
        print_labeled(console, "" if label == previous else label, text, style, width=15)
        previous = label


def markdown(boards: Sequence[Board], devices: Mapping[str, Device]) -> Iterator[str]:
    """Yields a page of the documentation with one row per board and the sources below."""
    yield _PREFACE
    for heading, group in _groups(boards, devices):
        columns: _Columns = {
            "board": lambda board, _: f"`{board.name}`",
            "title": lambda board, _: board.title,
            "maker": lambda board, _: board.vendor,
            "device": lambda board, _: f"`{board.device}`",
            **_columns(heading),
            "reserve": lambda board, _: _size(board.ram_reserve or None),
            "verified": lambda board, _: board.verified,
        }
        titles, rows = _table(group, devices, columns)
        yield f"\n## {heading}\n\n| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"
        yield from (f"| {' | '.join(row)} |\n" for row in rows)
    yield "\n## Sources\n\n"
    for board in boards:
        usable = "" if board.usable is None else f"; usable: {board.usable.source}"
        reserve = "" if board.reserve is None else f"; reserve: {board.reserve.source}"
        yield f"- `{board.name}`: {board.source}{usable}{reserve}\n"


def _groups(boards: Sequence[Board], devices: Mapping[str, Device]) -> Iterator[tuple[str, list[Board]]]:
    micro = [board for board in boards if devices[board.name].device_class == _MICRO]
    others = [board for board in boards if devices[board.name].device_class != _MICRO]
    yield from (
        (title, group) for title, group in (("microcontrollers", micro), ("computers", others)) if group
    )


def _columns(heading: str) -> _Columns:
    if heading == "computers":
        return {"RAM": lambda _, device: _size(device.ram_bytes)}
    return {
        "available": lambda board, device: _less(board.ram_limit(device), board.ram_reserve),
        "flash": lambda board, device: _less(board.flash_limit(device), board.flash_reserve),
        "ext. RAM": lambda _, device: _external(device),
    }


def _table(
    group: Sequence[Board], devices: Mapping[str, Device], columns: _Columns
) -> tuple[list[str], list[list[str]]]:
    rows = [[text(board, devices[board.name]) or "-" for text in columns.values()] for board in group]
    return list(columns), rows


def _less(limit: int | None, reserve: int) -> str:
    return "?" if limit is None else units.size(max(limit - reserve, 0))


def _external(device: Device) -> str:
    has_external = any(memory.role == "external ram" for memory in device.memories)
    size = device.largest_bytes("external ram")
    return "" if not has_external else "?" if size is None else units.size(size)


def _size(value: int | None) -> str:
    return "" if value is None else units.size(value)


def _facts(board: Board, device: Device) -> Iterator[tuple[str, str, str]]:
    """Yields label, text and style of every line."""
    yield "device", f"{board.device}: {device.title}", ""
    listed = (memory for memory in device.memories if memory.role not in ("cache", "instruction ram"))
    for source, memories in itertools.groupby(listed, lambda memory: memory.source):
        yield from ((memory.role, memory_text(memory), "bold") for memory in memories)
        if source != board.source:
            yield "from", source, "dim"
    yield from _amounts("usable", board.usable)
    yield from _amounts("reserve", board.reserve)
    yield "runtimes", ", ".join(device.runtimes), ""
    yield from provenance_lines(board)


def _amounts(label: str, amounts: MemoryAmounts | None) -> Iterator[tuple[str, str, str]]:
    if amounts is None:
        return
    sizes = (("RAM", amounts.ram_bytes), ("flash", amounts.flash_bytes))
    texts = [f"{units.size(size)} {name}" for name, size in sizes if size is not None]
    yield label, ", ".join(texts) + (f": {amounts.note}" if amounts.note else ""), "bold"
    yield "from", amounts.source, "dim"
