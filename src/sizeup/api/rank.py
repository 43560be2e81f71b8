"""Ranking of boards for a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.api.check import Model
from sizeup.api.keywords import with_keyword_hints
from sizeup.api.models import Source
from sizeup.formats import Inputs

if TYPE_CHECKING:
    from sizeup.checks.prices import Prices
    from sizeup.checks.ranking import BoardFit
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.results.ranking import Ranking


@with_keyword_hints
def rank_targets(
    source: Source,
    inputs: Inputs = None,
    *,
    boards: str | None = None,
    under: float | str | None = None,
    ram: int | str | None = None,
    prices: str | os.PathLike[str] | Mapping[str, float] | None = None,
    precision: PrecisionSpec = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Ranking:
    """Rank all boards by whether a model fits them, each with the runtime that suits the model best.

    `boards` selects boards by name, maker or device. `under` limits the latency ("33 ms", or seconds), by the
    upper end of its 90 % interval. `ram` is the RAM that the application needs in addition to the model
    ("64 KiB", or bytes), in place of the reserve of each board. `prices` is a CSV file with the columns board
    and price, or a mapping.

    Boards that fit come first, then undetermined ones. Within both, the cheapest is first if there are
    prices, else the one with the least available RAM; then the shortest latency. The model is read once.
    """
    from sizeup import targets
    from sizeup.checks.limits import parse_limit
    from sizeup.checks.prices import read_prices
    from sizeup.checks.ranking import rank_boards
    from sizeup.results.ranking import Ranking
    from sizeup.targets import quantities

    seconds = parse_limit(under, quantities.TIME, "--under")
    application_ram = parse_limit(ram, quantities.SIZE, "--ram")
    price_list = None if prices is None else read_prices(prices)
    listed = targets.boards(boards)
    model = Model(source, inputs, kwargs, bind, precision)
    needs = model.needs()
    size = None if application_ram is None else int(application_ram)
    rows = rank_boards(needs, listed, under=seconds, application_ram=size)
    return Ranking(
        needs.graph.name or Path(model.argument).name,
        needs.graph.format,
        tuple(sorted(_with_prices(rows, price_list), key=_order)),
        seconds,
        size,
        price_list is not None,
        () if price_list is None else price_list.unknown,
    )


def _with_prices(rows: list[BoardFit], prices: Prices | None) -> list[BoardFit]:
    from dataclasses import replace

    if prices is None:
        return rows
    return [replace(row, price=prices.by_board.get(row.board.name)) for row in rows]


_VERDICTS = (True, None, False)


def _order(row: BoardFit) -> tuple[int, bool, float, float, float, str]:
    """Verdict, price, available RAM, latency, name; unknown amounts last."""
    available, infinity = row.available_ram_bytes, float("inf")
    seconds = row.low_seconds if row.seconds is None else row.seconds
    return (
        _VERDICTS.index(row.fits),
        row.price is None,
        row.price or 0.0,
        infinity if available is None else available,
        infinity if seconds is None else seconds,
        row.board.name,
    )
