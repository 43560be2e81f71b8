"""Reads boards from the tables of a file, and compares them with their device."""

from __future__ import annotations

from sizeup import units
from sizeup.targets.board import Board, MemoryAmounts
from sizeup.targets.device import Device
from sizeup.targets.read import memory, verified_source, whole_bytes
from sizeup.targets.table import Table

_BOARD_KEYS = (
    "name",
    "title",
    "maker",
    "device",
    "aliases",
    "memories",
    "usable",
    "reserve",
    "source",
    "recorded",
    "verified",
    "note",
)


def board(table: Table) -> Board:
    """A board from its table."""
    table.check_keys(_BOARD_KEYS)
    source = verified_source(table)
    return Board(
        name=table.text("name"),
        title=table.text("title"),
        vendor=table.text("maker"),
        device=table.text("device"),
        source=source,
        recorded=table.date("recorded"),
        memories=tuple(memory(inner, source) for inner in table.tables("memories")),
        usable=_memory_amounts(table, "usable"),
        reserve=_memory_amounts(table, "reserve"),
        aliases=table.texts("aliases"),
        note=table.text("note", ""),
        file=table.file,
        verified=table.date("verified"),
    )


def check_board(table: Table, board: Board, device: Device) -> None:
    """Raises TargetError if a board has more memory on its chip than the chip, or leaves more than it has."""
    equipped = board.equip(device)
    external = equipped.largest_bytes("external flash")
    totals = {"ram": equipped.largest_ram_bytes, "flash": equipped.flash_bytes or external}
    limits = {"ram": board.ram_limit(equipped), "flash": board.flash_limit(equipped)}
    for name, total in totals.items():
        _check_at_most(table.table("usable"), name, total, f"the {name} of {device.name}")
        _check_at_most(table.table("reserve"), name, limits[name], f"the {name} for applications")
    if device.device_class == "microcontroller":
        _check_chip(table, board, device)


def _check_chip(table: Table, board: Board, device: Device) -> None:
    """Boards add external memories to a chip; what they add inside it would not exist."""
    on_chip = {memory.name: memory for memory in device.memories}
    for inner, own in zip(table.tables("memories"), board.memories, strict=True):
        chip = on_chip.get(own.name)
        if not own.role.startswith("external") or (chip and chip.role != own.role):
            if chip is None or chip.role != own.role:
                raise inner.error(f"{own.name}: {device.name} has no {own.role} of that name")
            _check_at_most(inner, "size", chip.bytes, f"{own.name} of {device.name}")
    if not any(amounts and amounts.ram_bytes for amounts in (board.usable, board.reserve)):
        raise table.error(
            'neither usable RAM nor a reserve; add usable = { ram = "300 KiB", source = "..." }'
            ' or reserve = { ram = "16 KiB", source = "assumption: ..." }'
        )


def _check_at_most(table: Table | None, name: str, most: int | None, of: str) -> None:
    size = None if table is None else whole_bytes(table, name)
    if table is not None and size is not None and most is not None and size > most:
        raise table.error(f"{name} is {table.text(name)!r}, more than {of}, {units.size(most)}")


def _memory_amounts(table: Table, name: str) -> MemoryAmounts | None:
    inner = table.table(name)
    if inner is None:
        return None
    inner.check_keys(("ram", "flash", "source", "note"))
    ram, flash = (whole_bytes(inner, key) for key in ("ram", "flash"))
    if ram is None and flash is None:
        raise inner.error("ram or flash is missing; it is a size such as '64 KiB'")
    return MemoryAmounts(inner.source(), ram, flash, inner.text("note", ""))
