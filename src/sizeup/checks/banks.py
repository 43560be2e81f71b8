"""The RAM bank and the flash of a device without an operating system, or of the board that carries it."""

from __future__ import annotations

from collections.abc import Sequence

from sizeup.checks.board_memory import BoardMemory, board_flash, board_ram
from sizeup.checks.code_size import BUILD_NOTE, range_basis
from sizeup.checks.limits import MemoryNeed, MemoryPart
from sizeup.checks.unpublished_planners import ONE_BANK
from sizeup.targets import Target


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
) -> MemoryNeed:
    """The flash for what is stored and for code, of these operators if known."""
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
        parts.append(by_operators or MemoryPart("code", code.least_bytes, most, range_basis(target)))
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
