"""The RAM and flash of a board that are left for a model, and what the numbers are."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup import units
from sizeup.checks.unpublished_planners import ONE_BANK
from sizeup.targets import Board, Device


@dataclass(frozen=True, slots=True)
class BoardMemory:
    """A memory of a board as a limit; `limit_bytes` is None if it is not known, with the reason."""

    limit_bytes: int | None
    source: str
    reserve_bytes: int
    unknown: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    is_external: bool = False  # the on-chip memory is too small, but not the external one


def board_ram(board: Board, device: Device, least: int) -> BoardMemory:
    """The RAM for the arena of a model that needs at least `least` bytes, which must be in one memory.

    It is the largest on-chip bank, or the external RAM if the bank is too small and the board has one.
    """
    limit, external = board.ram_limit(device), device.largest_bytes("external ram")
    if limit is not None and external is not None and limit < least <= external:
        text = f"the arena is in the external RAM ({units.size(external)}): on chip {units.size(limit)} are"
        return BoardMemory(external, f"the external RAM of {board.title}", 0, (), (f"{text} usable",), True)
    source, assumptions = board.title, list[str]()
    if board.usable is not None and board.usable.ram_bytes is not None:
        source = f"usable on {board.title}"
        assumptions.append(_usable_text(board, board.usable.ram_bytes, "RAM"))
    elif sum(memory.role == "ram" for memory in device.memories) > 1:
        source = f"the largest bank of {board.title}"
        assumptions.append(ONE_BANK)
    assumptions.append(
        _reserve_text(board, board.ram_reserve, "RAM")
        if board.ram_reserve
        else "all of it is available: set --ram to what stack and application leave"
    )
    unknown = (f"the RAM size of {board.title} is not known; give it with --ram",) if limit is None else ()
    return BoardMemory(limit, source, board.ram_reserve, unknown, tuple(assumptions))


def board_flash(board: Board, device: Device, least: int) -> BoardMemory:
    """The flash for code and model: what is on the chip, or external flash if the chip has none."""
    limit, external = board.flash_limit(device), device.largest_bytes("external flash")
    if limit is None:
        unknown = f"the flash size of {board.title} is not known; give it with --flash"
        return BoardMemory(None, board.title, 0, (unknown,))
    if device.flash_bytes is not None and external is not None and limit < least:
        text = f"at least {units.size(least)} needed, more than the {units.size(limit)} on the chip;"
        unknown = f"{text} {units.size(external)} external flash may store weights: set --flash to allow that"
        return BoardMemory(None, board.title, 0, (unknown,))
    source, assumptions = board.title, list[str]()
    if board.usable is not None and board.usable.flash_bytes is not None:
        source = f"usable on {board.title}"
        assumptions.append(_usable_text(board, board.usable.flash_bytes, "flash"))
    assumptions.append(
        _reserve_text(board, board.flash_reserve, "flash")
        if board.flash_reserve
        else "the application's own code is not counted"
    )
    return BoardMemory(limit, source, board.flash_reserve, (), tuple(assumptions))


def _usable_text(board: Board, size: int, memory: str) -> str:
    note = "" if board.usable is None or not board.usable.note else f": {board.usable.note}"
    return f"{units.size(size)} of {memory} are usable{note}"


def _reserve_text(board: Board, size: int, memory: str) -> str:
    note = "" if board.reserve is None or not board.reserve.note else f" for {board.reserve.note}"
    return f"{units.size(size)} of {memory} are reserved{note}: set --{memory.lower()} to what is available"
