"""Intervals: how often they hold on fresh errors of the same kind, and that they widen where they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy", reason="fits need scipy")

from sizeup.errors import SizeupError
from sizeup.latency import (
    FitOptions,
    PredictionInterval,
    Rate,
    Rates,
    drift,
    from_columns,
    held_out_estimates,
    prediction_interval,
    unseen_share,
    unseen_spread,
)
from sizeup.latency.interval import _effective_samples


@pytest.mark.parametrize("count", [40, 200, 2000])
def test_nine_of_ten_fresh_errors_lie_within(count: int) -> None:
    draw = np.random.default_rng(0)
    held = []
    for _ in range(200):
        off = np.exp(draw.gumbel(0, 0.2, count + 1))  # a skewed error
        stated = prediction_interval(np.ones(count), off[:-1])
        low, high = stated.bounds(np.ones(1))
        held.append(bool(low[0] <= off[-1] <= high[0]))
    assert 0.85 <= np.mean(held) <= 0.96


def test_few_errors_give_their_whole_range() -> None:
    stated = prediction_interval(np.ones(3), np.exp(np.array([-0.1, 0.0, 0.3])))
    assert (stated.low, stated.high) == pytest.approx((-0.1, 0.3))


def test_a_group_counts_once_however_large_and_in_both_directions() -> None:
    groups = np.array([0] * 97 + [1, 2, 3])
    off = np.array([0.01] * 97 + [-0.5, 0.2, 0.3])
    stated = prediction_interval(np.ones(100), np.exp(off), groups)
    assert stated.high == pytest.approx(0.5)
    assert stated.low == -stated.high


def test_a_member_is_a_sample_if_groups_are_alike_and_a_group_if_its_members_are() -> None:
    """The quantile of level 0.9 is raised to 0.9 (1 + 1 / samples), by the intraclass correlation."""
    magnitudes = np.arange(1, 31) / 100
    # Correlation 0, 30 samples: 93 % of 30 errors is the 28th.
    alike = prediction_interval(np.ones(30), np.exp(magnitudes * np.tile([1, -1], 15)), np.arange(30) % 3)
    assert alike.high == pytest.approx(0.28)
    # Correlation 1 in 15 pairs: 96 % of 15 groups is the 15th; with 30 samples it would be the 14th.
    pairs = prediction_interval(np.ones(30), np.exp(np.repeat(magnitudes[:15], 2)), np.arange(30) // 2)
    assert pairs.high == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("errors", "groups", "samples"),
    [
        # Mean squares: 4 x 2^2 / (2 - 1) = 16 between, 4 / (4 - 2) = 2 within; (16 - 2) / (16 + 2) = 7 / 9.
        ([1, 3, 5, 7], [0, 0, 1, 1], 2 / ((1 + 7 / 9) / 2)),
        # 12 + 36 = 48 between, 2 / 2 = 1 within, 4 - 10 / 4 = 1.5 members per group: 47 / 48.5.
        ([1, 2, 3, 10], [0, 0, 0, 1], 4 / ((1 + 2 * 47 / 48.5) / 3 + 1)),
        # The same with an empty group in between.
        ([1, 2, 3, 10], [0, 0, 0, 2], 4 / ((1 + 2 * 47 / 48.5) / 3 + 1)),
        ([1, 2, 3], [0, 1, 2], 3),
        ([1, 2, 3], [0, 0, 0], 1),
    ],
)
def test_effective_samples_are_those_of_an_analysis_of_variance(
    errors: list[float], groups: list[int], samples: float
) -> None:
    assert _effective_samples(np.array(errors, float), np.array(groups)) == pytest.approx(samples)


@pytest.mark.parametrize(("between", "within"), [(0.3, 0.1), (0.2, 0.2), (0.0, 0.3)])
def test_nine_of_ten_fresh_errors_of_a_new_group_lie_within(between: float, within: float) -> None:
    draw = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 10)
    held = []
    for _ in range(300):
        off = np.repeat(draw.normal(0, between, 9), 10) + draw.normal(0, within, 90)
        stated = prediction_interval(np.ones(80), np.exp(off[:-10]), groups)
        held.append(np.mean((stated.low <= off[-10:]) & (off[-10:] <= stated.high)))
    assert 0.87 <= np.mean(held) <= 0.96


def test_no_held_out_errors_give_no_interval() -> None:
    with pytest.raises(SizeupError, match="held-out networks"):
        prediction_interval(np.zeros(0), np.zeros(0))


def test_time_in_classes_that_were_not_seen_widens_the_interval() -> None:
    rates = Rates(Rate(1.0, 0, 0), {"conv": Rate(1.0, 0, 0), "pool": Rate(5.0, 0, 0)})
    work = from_columns(["conv", "conv", "new", "new"], 3, [0, 1, 1, 2], macs=[4, 1, 3, 2])
    share = unseen_share(rates, work)
    assert share.tolist() == [0.0, 0.75, 1.0]
    low, high = PredictionInterval(-0.1, 0.1, unseen=1.0).bounds(np.ones(3), share)
    assert (np.diff(high - low) > 0).all()


def test_classes_far_from_the_rate_of_all_say_how_far_a_new_one_may_be() -> None:
    rates = Rates(Rate(1.0, 0, 0), {"conv": Rate(1.0, 0, 0), "pool": Rate(5.0, 0, 0)})
    work = from_columns(["conv", "pool"], 1, [0, 0], macs=[1, 1])
    assert unseen_spread(rates, work, level=1.0) == pytest.approx(np.log(5))
    free = replace(rates, classes={**rates.classes, "free": Rate(0.0, 0, 0)})
    work = from_columns(["conv", "pool", "free"], 1, [0, 0, 0], macs=[1, 1, 1])
    assert unseen_spread(free, work, level=1.0) == pytest.approx(np.log(5))  # no ratio to a rate of 0


def test_held_out_estimates_never_come_from_their_own_fold() -> None:
    work = from_columns(["conv"] * 4, 4, [0, 1, 2, 3], macs=[1, 2, 3, 4])
    measured = np.array([1.0, 2.0, 30.0, 40.0])  # the second fold is ten times slower
    estimated = held_out_estimates(work, measured, np.array([0, 0, 1, 1]), FitOptions(by_class=False))
    assert estimated == pytest.approx([10, 20, 3, 4], rel=0.05)


def test_errors_that_wander_off_with_size_stay_within_at_any_distance() -> None:
    draw = np.random.default_rng(0)
    within, walk = 0.05, 0.2
    near = drift(np.ones(4000), np.exp(draw.normal(0, walk * np.sqrt(0.5), 4000)), np.full(4000, 0.5))
    stated = replace(prediction_interval(np.ones(4000), np.exp(draw.normal(0, within, 4000))), drift=near)
    for distance in (0.0, 0.5, 2.0, 8.0):
        off = draw.normal(0, within, 4000) + draw.normal(0, walk * np.sqrt(distance), 4000)
        low, high = stated.bounds(np.ones(4000), 0.0, distance)
        assert np.mean((low <= np.exp(off)) & (np.exp(off) <= high)) == pytest.approx(0.9, abs=0.02)


def test_each_side_widens_with_the_distance_from_the_typical_latency() -> None:
    slopes = {"low_longer": 0.5, "low_shorter": 0.25, "high_longer": 0.1, "high_shorter": 0.0}
    low, high = PredictionInterval(-0.2, 0.4, typical=2.0, **slopes).bounds(np.array([2.0, 1.0, 8.0, 0.0]))
    below, above = np.exp(-0.2), np.exp(0.4)
    assert low.tolist() == pytest.approx([2 * below, below / 2**0.25, 8 * below / 4**0.5, 0.0])
    assert high.tolist() == pytest.approx([2 * above, above, 8 * above * 4**0.1, 0.0])
    same = PredictionInterval(-0.2, 0.4, low_longer=0.5)  # without a typical latency
    assert same.bounds(np.ones(1))[0] == pytest.approx(np.exp(-0.2))


def test_a_band_on_one_side_widens_on_both() -> None:
    low, high = PredictionInterval(0.1, 0.3, drift=0.2).bounds(np.ones(1), 0.0, 1.0)
    assert low[0] < np.exp(0.1)
    assert high[0] > np.exp(0.3)
