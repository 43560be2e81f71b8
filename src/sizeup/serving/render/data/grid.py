"""Times of layouts at a grid of lengths and requests as plain data: one list per quantity and layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.estimate import Duration
    from sizeup.serving.times.grid import FrontierPoint, GridLayout, ServingGrid

    Floats = npt.NDArray[np.float64]

RANKS = (None, "dominated", "tied", "frontier")
"""Names of the ranks of points."""


def grid_of(grid: ServingGrid | None, serving: Serving | None = None) -> dict[str, Any] | None:
    """Returns a grid as plain data; lists are by input, output and requests, the last fastest.

    It has costs if it is that of an estimate with a price.
    """
    if grid is None:
        return None
    return {
        "basis": "calibrated" if grid.is_calibrated else "lower bound",
        "input_tokens": list(grid.inputs),
        "output_tokens": list(grid.outputs),
        "requests": list(grid.requests),
        "compared_layouts": grid.compared,
        "is_complete": grid.is_complete,
        "layouts": [{**_layout(row), "cost": _costs(serving, grid, row)} for row in grid.layouts],
        "frontiers": [[_point(point) for point in points] for points in grid.frontiers],
    }


def _layout(row: GridLayout) -> dict[str, Any]:
    return {
        "layout": str(row.layout),
        "equal_layouts": [str(layout) for layout in row.equal],
        "running": [None if count is None else int(count) for count in _numbers(row.running)],
        "tpot_seconds": _durations(row.tpot, row.tpot_factors),
        "ttft_seconds": _durations(row.ttft, row.ttft_factors),
        "user_tokens_per_second": _numbers(row.user_tokens_per_second),
        "gpu_tokens_per_second": _numbers(row.gpu_tokens_per_second),
        "limiter": row.limiters,
        "causes_seconds": {name: _numbers(values) for name, values in row.causes.items()},
        "rank": [RANKS[rank] for rank in row.ranks.ravel().tolist()],
    }


def _costs(
    serving: Serving | None, grid: ServingGrid, row: GridLayout
) -> dict[str, list[float | None]] | None:
    """Money per million tokens; None without a price."""
    if serving is None or serving.cluster.price is None:
        return None
    lengths = [(input, output) for input in grid.inputs for output in grid.outputs for _ in grid.requests]
    costs = [
        serving.token_cost(rate, input=input, output=output)
        for rate, (input, output) in zip(row.gpu_tokens_per_second.ravel().tolist(), lengths, strict=True)
    ]
    return {
        "per_million_output_tokens": [_number(cost.output) for cost in costs],
        "per_million_tokens": [_number(cost.total) for cost in costs],
    }


def _point(point: FrontierPoint) -> dict[str, Any]:
    return {
        "layout": str(point.layout),
        "requests": point.requests,
        "tpot_seconds": six_digits(point.tpot),
        "ttft_seconds": six_digits(point.ttft),
        "user_tokens_per_second": six_digits(point.user_tokens_per_second),
        "gpu_tokens_per_second": six_digits(point.gpu_tokens_per_second),
    }


def _durations(seconds: Floats, factors: Duration) -> dict[str, list[float | None] | None]:
    bounds = {"expected": factors.seconds, "low": factors.low, "high": factors.high}
    return {name: None if factor is None else _numbers(seconds * factor) for name, factor in bounds.items()}


def _numbers(values: Floats) -> list[float | None]:
    return [_number(value) for value in values.ravel().tolist()]


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else six_digits(value)


def six_digits(value: float) -> float:
    """Returns six significant digits: the last ones of a power differ between platforms."""
    return float(f"{value:.6g}")
