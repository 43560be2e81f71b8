"""Clustering along a line against every possible clustering, and against another tool's k-means."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.weight_clustering import cluster

INTEGERS = (np.uint8, np.int8, np.int16)
FLOATS = (np.float16, np.float32, np.float64)


def squared_change(before: Any, after: Any, importance: Any = 1.0) -> float:
    return float((importance * (before.astype(np.float64) - after.astype(np.float64)) ** 2).sum())


def least_squared_change(numbers: Any, values: int, importance: Any) -> float:
    """By trying every way to cut the sorted numbers into that many intervals."""
    points = np.unique(numbers)
    whole = np.issubdtype(numbers.dtype, np.integer)
    best = np.inf
    for cuts in itertools.combinations(range(1, len(points)), min(values, len(points)) - 1):
        total = 0.0
        for first, end in itertools.pairwise((0, *cuts, len(points))):
            inside = (numbers >= points[first]) & (numbers <= points[end - 1])
            held, weight = numbers[inside].astype(np.float64), importance[inside]
            mean = np.average(held, weights=weight)
            total += float((weight * (held - (np.rint(mean) if whole else mean)) ** 2).sum())
        best = min(best, total)
    return best


@given(
    st.lists(st.integers(-128, 127), min_size=1, max_size=9, unique=True),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 9)), min_size=1, max_size=20),
    st.integers(1, 5),
)
def test_few_integers_are_clustered_as_well_as_possible(
    points: list[int], picks: list[tuple[int, int]], values: int
) -> None:
    numbers = np.array([points[place % len(points)] for place, _ in picks], np.int8)
    importance = np.array([weight for _, weight in picks], np.float64)
    result = cluster(numbers, values, importance)
    assert result.dtype == numbers.dtype
    assert len(np.unique(result)) <= values
    assert squared_change(numbers, result, importance) == pytest.approx(
        least_squared_change(numbers, values, importance), abs=1e-6
    )


@pytest.mark.parametrize("kind", INTEGERS + FLOATS)
@pytest.mark.parametrize("values", [1, 2, 16, 100])
def test_at_most_so_many_values_remain_in_every_type(kind: Any, values: int) -> None:
    generator = np.random.default_rng(values)
    numbers = (40 + 12 * generator.normal(size=(7, 11, 50))).astype(kind)
    result = cluster(numbers, values)
    assert result.dtype == numbers.dtype
    assert result.shape == numbers.shape
    assert len(np.unique(result)) <= values
    assert len(np.unique(numbers)) > 1


@pytest.mark.parametrize("kind", INTEGERS + FLOATS)
def test_few_values_stay_as_they_are(kind: Any) -> None:
    numbers = np.array([[1, 2], [2, 9]], kind)
    assert np.array_equal(cluster(numbers, 3), numbers)


def test_many_floats_are_clustered_as_well_as_by_scipy() -> None:
    vq = pytest.importorskip("scipy.cluster.vq", reason="the solver's extra is not installed")
    generator = np.random.default_rng(0)
    numbers = np.concatenate([generator.normal(size=20_000), generator.laplace(2, 0.1, 10_000)])
    ours = squared_change(numbers, cluster(numbers, 16))
    best = np.inf
    for seed in range(5):
        centers, labels = vq.kmeans2(numbers, 16, iter=100, minit="++", rng=seed)
        best = min(best, squared_change(numbers, centers[labels]))
    assert ours <= 1.001 * best


def test_the_result_is_the_same_every_time() -> None:
    numbers = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    assert np.array_equal(cluster(numbers, 16), cluster(numbers, 16))


def test_zero_can_be_kept() -> None:
    numbers = np.array([0, 0, 0, 3, 4, 50, 60, 0.01], np.float32)
    result = cluster(numbers, 3, keep_zero=True)
    assert result.tolist() == [0, 0, 0, *[pytest.approx(7.01 / 3)] * 2, 55, 55, pytest.approx(7.01 / 3)]


def test_what_has_no_mean_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        cluster(np.array([1, np.nan, 2], np.float32), 2)
    with pytest.raises(ValueError, match="too few"):
        cluster(np.array([1, 2], np.float32), 0)
