"""Weight clustering: one-dimensional k-means.

In one dimension clusters are intervals, so dynamic programming over (clusters, values) finds the best ones
without a random start. It is exact for up to 512 distinct values, which includes all 8-bit weights. Other
weights are binned into 512 bins first, and the result is refined on the values themselves by Lloyd's
iteration until no value changes its cluster.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

_BINS = 512
_MAX_ROUNDS = 300


def cluster(
    numbers: Array, values: int, importance: Array | None = None, *, keep_zero: bool = False
) -> Array:
    """Returns the array with at most `values` distinct values, its dtype unchanged and the squared error
    small.

    `importance` weights the squared error of each number. With `keep_zero` zero stays zero, and counts as one
    of the values.
    """
    if values < 1 + keep_zero:
        raise ValueError(f"{values} values are too few; the minimum is {1 + keep_zero}")
    if not np.isfinite(numbers).all():
        raise ValueError("numbers are not finite")
    if keep_zero:
        filled = numbers != 0
        result = numbers.copy()
        result[filled] = cluster(
            numbers[filled], values - 1, None if importance is None else importance[filled]
        )
        return result
    points, place = np.unique(numbers, return_inverse=True)
    if len(points) <= values:
        return numbers.copy()
    flat = None if importance is None else np.broadcast_to(importance, numbers.shape).ravel()
    weights = np.bincount(place.ravel(), flat, len(points)).astype(np.float64)
    centers = _centers(points.astype(np.float64), weights, values, numbers.dtype)
    return centers[place].reshape(numbers.shape)


def _centers(points: Array, weights: Array, values: int, dtype: np.dtype[Any]) -> Array:
    """Returns the cluster center of every point; points are sorted and distinct."""
    is_integer = np.issubdtype(dtype, np.integer)
    if len(points) <= _BINS:
        ends = _best_ends(points, weights, values, is_integer)
    else:
        ends = _refine(points, weights, _ends_from_bins(points, weights, values))
    starts = np.concatenate(([0], ends[:-1]))
    mass = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * points, starts) / np.where(mass > 0, mass, 1)
    # Clusters without importance take their first point.
    means = np.where(mass > 0, means, points[starts])
    exact = np.rint(means) if is_integer else means
    return np.repeat(exact.astype(dtype), ends - starts)


def _best_ends(points: Array, weights: Array, values: int, is_integer: bool) -> Array:
    """Returns the ends (exclusive) of the best intervals."""
    count = len(points)
    cost = _costs(points, weights, is_integer)
    best = cost[0]  # of the points up to each, in one interval
    starts = np.zeros((values, count), np.int64)
    for clusters in range(1, values):
        # The last interval starts at row i: the points before it cost best[i - 1].
        through = cost.copy()
        through[1:] += best[:-1, None]
        through[0] = np.inf
        starts[clusters] = np.argmin(through, axis=0)
        best = np.minimum(through[starts[clusters], np.arange(count)], best)
    return _trace_back(starts, cost, count)


def _trace_back(starts: Array, cost: Array, count: int) -> Array:
    """Traces the interval starts back from the last point."""
    ends = [count]
    for clusters in range(len(starts) - 1, 0, -1):
        begin = int(starts[clusters, ends[-1] - 1])
        if begin == 0:
            break
        ends.append(begin)
    return np.array(ends[::-1], np.int64)


def _costs(points: Array, weights: Array, is_integer: bool) -> Array:
    """Returns at row i, column j the squared error of points i to j with one center; infinite if j < i."""
    # Centered first: sums of squares lose digits if all points are far from zero.
    origin = np.rint(points.mean()) if is_integer else points.mean()
    shifted = points - origin
    mass, moment, square = (
        np.concatenate(([0.0], np.cumsum(weights * shifted**power))) for power in range(3)
    )
    masses, moments, squares = (sums[None, 1:] - sums[:-1, None] for sums in (mass, moment, square))
    with np.errstate(divide="ignore", invalid="ignore"):
        center = np.where(masses > 0, moments / masses, 0)
    if is_integer:
        center = np.rint(center)
    cost = squares - 2 * center * moments + center**2 * masses
    return np.where(np.tri(len(points), k=-1, dtype=bool), np.inf, np.maximum(cost, 0))


def _ends_from_bins(points: Array, weights: Array, values: int) -> Array:
    """Returns the best ends with points in bins of equal width."""
    low, high = points[0], points[-1]
    bins = np.minimum(((points - low) * (_BINS / (high - low))).astype(np.int64), _BINS - 1)
    filled, starts = np.unique(bins, return_index=True)
    mass = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * points, starts) / np.where(mass > 0, mass, 1)
    means = np.where(mass > 0, means, points[starts])
    if len(filled) <= values:
        return np.append(starts[1:], len(points))
    chosen = _best_ends(means, mass, values, is_integer=False)
    return np.append(starts, len(points))[chosen]


def _refine(points: Array, weights: Array, ends: Array) -> Array:
    """Moves every point to the nearest mean until none moves (Lloyd's iteration)."""
    mass = np.concatenate(([0.0], np.cumsum(weights)))
    moment = np.concatenate(([0.0], np.cumsum(weights * points)))
    for _ in range(_MAX_ROUNDS):
        starts = np.concatenate(([0], ends[:-1]))
        cluster_mass = mass[ends] - mass[starts]
        means = np.where(
            cluster_mass > 0,
            (moment[ends] - moment[starts]) / np.where(cluster_mass > 0, cluster_mass, 1),
            points[starts],
        )
        moved = np.searchsorted(points, (means[1:] + means[:-1]) / 2)
        moved = np.unique(np.append(moved, len(points)))
        moved = moved[moved > 0]
        if np.array_equal(moved, ends):
            break
        ends = moved
    return ends
