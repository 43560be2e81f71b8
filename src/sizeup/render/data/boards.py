"""Boards and rankings of boards as plain data: raw numbers, the unit in every key, null if unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data.devices import memory_to_dict
from sizeup.targets import Board, Device, MemoryAmounts

if TYPE_CHECKING:
    from sizeup.results.parts import BoardFit, MemoryNeed
    from sizeup.results.ranking import Ranking


def to_dict(board: Board, device: Device) -> dict[str, Any]:
    """Returns a board as plain data; `device` has the board's memories."""
    return {
        "name": board.name,
        "title": board.title,
        "vendor": board.vendor,
        "device": board.device,
        "aliases": list(board.aliases),
        "ram_limit_bytes": board.ram_limit(device),
        "flash_limit_bytes": board.flash_limit(device),
        "usable": _amounts(board.usable),
        "reserve": _amounts(board.reserve),
        "memories": [memory_to_dict(memory) for memory in device.memories],
        "note": board.note or None,
        "source": board.source,
        "recorded": board.recorded or None,
        "verified": board.verified or None,
        "file": board.file,
    }


def json_lines(boards: Sequence[Board], devices: Mapping[str, Device]) -> Iterator[str]:
    """Yields boards as JSON text; `devices` are equipped, by board."""
    rows = [to_dict(board, devices[board.name]) for board in boards]
    yield json.dumps({**envelope.head(), "boards": rows}, indent=2, allow_nan=False)
    yield "\n"


def _amounts(amounts: MemoryAmounts | None) -> dict[str, Any] | None:
    if amounts is None:
        return None
    sizes = {"ram_bytes": amounts.ram_bytes, "flash_bytes": amounts.flash_bytes}
    return {**sizes, "note": amounts.note or None, "source": amounts.source}


def ranking_to_dict(ranking: Ranking) -> dict[str, Any]:
    """Returns a ranking as plain data, in bytes and seconds."""
    return {
        **envelope.head(),
        "model": {"name": ranking.model, "format": ranking.format},
        "under_seconds": ranking.under_seconds,
        "application_ram_bytes": ranking.application_ram_bytes,
        "order": "price" if ranking.has_prices else "available RAM",
        "unknown_prices": list(ranking.unknown_prices),
        "fits": [_row(row) for row in ranking.fits],
        "undetermined": [_row(row) for row in ranking.undetermined],
        "does_not_fit": [_row(row) for row in ranking.unfit],
    }


def _row(row: BoardFit) -> dict[str, Any]:
    flash = row.memory_fit.flash
    return {
        "board": row.board.name,
        "target": row.target.name,
        "fits": row.fits,
        "reasons": [{"about": reason.about, "text": reason.text} for reason in row.reasons],
        "caveats": list(row.caveats),
        "price": row.price,
        "ram": _need(row.memory_fit.ram),
        "flash": None if flash is None else _need(flash),
        "seconds": row.seconds,
        "low_seconds": row.low_seconds,
        "high_seconds": row.high_seconds,
        "standing": row.standing,
        "latency_missing": row.latency_missing or None,
    }


def _need(space: MemoryNeed) -> dict[str, Any]:
    return {
        "low_bytes": space.low_bytes,
        "high_bytes": space.high_bytes,
        "limit_bytes": space.limit_bytes,
        "reserve_bytes": space.reserve_bytes,
        "is_external": space.is_external,
        "source": space.source,
    }
