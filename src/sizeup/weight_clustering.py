"""Few values instead of many: k-means along the number line.

On a line, clusters are intervals, so the best ones follow from a table over (clusters so far, values so far)
and nothing depends on a random start. That is exact for up to 512 different values, which all 8-bit weights
have; others are put into 512 bins first, and the result is refined on the numbers themselves (Lloyd's
iteration) until no number changes its cluster.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

_BINS = 512
_MOST_ROUNDS = 300


def clustered(
    numbers: Array, values: int, importance: Array | None = None, *, keep_zero: bool = False
) -> Array:
    """The array with at most so many different values, its type kept and the squared change made small.

    `importance` weighs the squared change of each number. With `keep_zero` zero stays zero, and counts as
    one of the values.
    """
    if values < 1 + keep_zero:
        raise ValueError(f"{values} values are too few")
    if not np.isfinite(numbers).all():
        raise ValueError("numbers that are not finite have no mean")
    if keep_zero:
        filled = numbers != 0
        result = numbers.copy()
        result[filled] = clustered(
            numbers[filled], values - 1, None if importance is None else importance[filled]
        )
        return result
    points, place = np.unique(numbers, return_inverse=True)
    if len(points) <= values:
        return numbers.copy()
    flat = None if importance is None else np.broadcast_to(importance, numbers.shape).ravel()
    weights = np.bincount(place.ravel(), flat, len(points)).astype(np.float64)
    centres = _centres(points.astype(np.float64), weights, values, numbers.dtype)
    return centres[place].reshape(numbers.shape)


def _centres(points: Array, weights: Array, values: int, dtype: np.dtype[Any]) -> Array:
    """For every point the value that takes its place; points are sorted and differ."""
    whole = np.issubdtype(dtype, np.integer)
    if len(points) <= _BINS:
        ends = _best_ends(points, weights, values, whole)
    else:
        ends = _refined(points, weights, _ends_from_bins(points, weights, values))
    starts = np.concatenate(([0], ends[:-1]))
    mass = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * points, starts) / np.where(mass > 0, mass, 1)
    # Points without importance still need a value of their own kind.
    means = np.where(mass > 0, means, points[starts])
    exact = np.rint(means) if whole else means
    return np.repeat(exact.astype(dtype), ends - starts)


def _best_ends(points: Array, weights: Array, values: int, whole: bool) -> Array:
    """The ends (one behind the last point) of the best intervals."""
    count = len(points)
    cost = _costs(points, weights, whole)
    best = cost[0]  # of the points up to each one, in one interval
    came = np.zeros((values, count), np.int64)
    for clusters in range(1, values):
        # The last interval begins at row i: what is before it costs best[i - 1].
        through = cost.copy()
        through[1:] += best[:-1, None]
        through[0] = np.inf
        came[clusters] = np.argmin(through, axis=0)
        best = np.minimum(through[came[clusters], np.arange(count)], best)
    return _traced(came, cost, count)


def _traced(came: Array, cost: Array, count: int) -> Array:
    """Walk back from the last point through the beginnings of its intervals."""
    ends = [count]
    for clusters in range(len(came) - 1, 0, -1):
        begin = int(came[clusters, ends[-1] - 1])
        if begin == 0:
            break
        ends.append(begin)
    return np.array(ends[::-1], np.int64)


def _costs(points: Array, weights: Array, whole: bool) -> Array:
    """Row i, column j: the squared change of points i to j moved to one value; infinite where j < i."""
    # Centred first: sums of squares lose digits where all points lie far from zero.
    origin = np.rint(points.mean()) if whole else points.mean()
    shifted = points - origin
    mass, moment, square = (
        np.concatenate(([0.0], np.cumsum(weights * shifted**power))) for power in range(3)
    )
    masses, moments, squares = (each[None, 1:] - each[:-1, None] for each in (mass, moment, square))
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(masses > 0, moments / masses, 0)
    if whole:
        centre = np.rint(centre)
    cost = squares - 2 * centre * moments + centre**2 * masses
    return np.where(np.tri(len(points), k=-1, dtype=bool), np.inf, np.maximum(cost, 0))


def _ends_from_bins(points: Array, weights: Array, values: int) -> Array:
    """The best ends when points are taken in bins of equal width."""
    low, high = points[0], points[-1]
    bins = np.minimum(((points - low) * (_BINS / (high - low))).astype(np.int64), _BINS - 1)
    filled, starts = np.unique(bins, return_index=True)
    mass = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * points, starts) / np.where(mass > 0, mass, 1)
    means = np.where(mass > 0, means, points[starts])
    if len(filled) <= values:
        return np.append(starts[1:], len(points))
    chosen = _best_ends(means, mass, values, whole=False)
    return np.append(starts, len(points))[chosen]


def _refined(points: Array, weights: Array, ends: Array) -> Array:
    """Lloyd's iteration: every point to the nearest mean, until nothing moves."""
    mass = np.concatenate(([0.0], np.cumsum(weights)))
    moment = np.concatenate(([0.0], np.cumsum(weights * points)))
    for _ in range(_MOST_ROUNDS):
        starts = np.concatenate(([0], ends[:-1]))
        held = mass[ends] - mass[starts]
        means = np.where(
            held > 0, (moment[ends] - moment[starts]) / np.where(held > 0, held, 1), points[starts]
        )
        moved = np.searchsorted(points, (means[1:] + means[:-1]) / 2)
        moved = np.unique(np.append(moved, len(points)))
        moved = moved[moved > 0]
        if np.array_equal(moved, ends):
            break
        ends = moved
    return ends
