"""The RAM bank and the flash of a device without an operating system, or of the board that carries it.

A board leaves a part of its memories for a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sizeup import units
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.targets import Board, Device, Target

ONE_BANK = "the arena must be in one bank: the largest bank counts, not the sum"
BUILD_NOTE = "code size of a release build: error strings, other compilers and options change it"


def ram_bank(
    target: Target, available: int | None, parts: Sequence[MemoryPart], reasons: Sequence[str] = ()
) -> MemoryNeed:
    """The need of the largest bank of a target's RAM."""
    device, unknown = target.device, list(reasons)
    limit = device.largest_ram_bytes if available is None else available
    if target.board is not None and available is None:
        space = board_ram(target.board, device, sum(part.low_bytes for part in parts))
        return _on_board("ram", space, parts, unknown)
    if limit is None:
        unknown.append(f"the RAM size of {device.title} is not known; give it with --ram")
    source, assumptions = "--ram", []
    if available is None:
        source = device.title
        assumptions.append("all RAM is available: set --ram to what stack and application leave")
        if sum(memory.role == "ram" for memory in device.memories) > 1:
            source = f"the largest bank of {device.title}"
            assumptions.append(ONE_BANK)
    return MemoryNeed("ram", limit, tuple(parts), 0, source, tuple(unknown), tuple(assumptions))


def flash_memory(
    target: Target,
    available: int | None,
    stored: Sequence[MemoryPart],
    by_operators: MemoryPart | None = None,
    op_count: int = 0,
    range_basis: str = "",
) -> MemoryNeed:
    """The flash for what is stored and for code, of these operators if known.

    `range_basis` states why the code size is the range of the runtime.
    """
    device, code = target.device, target.runtime.code
    limit = device.flash_bytes if available is None else available
    unknown: list[str] = []
    if limit is None and target.board is None:
        unknown.append(
            f"the flash size of {device.title} is not known; give that of your board, e.g. --flash 8MB"
        )
    parts = [*stored]
    build: tuple[str, ...] = ()
    if code is None:
        unknown.append(f"the code size of {target.runtime.name} is not known")
        parts.append(MemoryPart("code", 0, None, "not known"))
    else:
        most = code.most_bytes + code.per_op_bytes * op_count
        build = () if by_operators is None else (BUILD_NOTE,)
        basis = range_basis or f"of {target.runtime.name}"
        parts.append(by_operators or MemoryPart("code", code.least_bytes, most, basis))
    if target.board is not None and available is None:
        space = board_flash(target.board, device, sum(part.low_bytes for part in parts))
        return _on_board("flash", space, parts, unknown, build)
    own_code = ("the application's own code is not counted",) if available is None else ()
    source = device.title if available is None else "--flash"
    return MemoryNeed("flash", limit, tuple(parts), 0, source, tuple(unknown), (*own_code, *build))


def _on_board(
    name: str,
    space: BoardMemory,
    parts: Sequence[MemoryPart],
    unknown: Sequence[str],
    assumptions: Sequence[str] = (),
) -> MemoryNeed:
    """The need compared with what a board leaves for a model."""
    return MemoryNeed(
        name,
        space.limit_bytes,
        tuple(parts),
        space.reserve_bytes,
        space.source,
        (*unknown, *space.unknown),
        (*space.assumptions, *assumptions),
        space.is_external,
    )


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
