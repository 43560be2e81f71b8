"""Intervals from pooled errors: coverage of families that were left out, and what the ends depend on."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the fitting tools need scipy")

from fitting.intervals import HeldOut, Pool, held_out, interval_of_few_networks
from fitting.measured import Measured
from sizeup.latency import Rate, Rates, from_columns
from sizeup.latency.work import Floats, Work
from sizeup.targets import target

FAMILIES = 12


def measured(seconds: Floats, macs: Floats, family: Floats) -> Measured:
    work = from_columns(["*"] * len(macs), len(macs), np.arange(len(macs)), macs=macs)
    groups = np.array([f"f{int(each)}" for each in family])
    return Measured("table", target("rpi5/ncnn"), work, seconds, groups)


def pool_of(seed: int, targets: int = 5, per_family: int = 4, slope: float = 0.0) -> Pool:
    """Skewed errors: a part common to a network on all targets, and a spread of its own per target."""
    draw = np.random.default_rng(seed)
    family = np.repeat(np.arange(FAMILIES), per_family).astype(np.float64)
    macs = np.exp(draw.normal(0, 1, len(family)))
    common = draw.gumbel(0, 0.15, len(family))
    members = []
    for index in range(targets):
        error = (common + draw.normal(0, 0.1, len(family))) * (1 + index / targets)
        error -= slope * np.abs(np.log(macs)) * draw.random(len(family))
        members.append(HeldOut(measured(macs * np.exp(error), macs, family), macs, {}))
    return Pool(members)


def test_nine_of_ten_errors_of_families_that_were_left_out_lie_within() -> None:
    inside: list[bool] = []
    for seed in range(2):
        pool = pool_of(seed)
        for label in (f"f{index}" for index in range(FAMILIES)):
            for member in pool.targets:
                rows = member.samples.group == label
                low, high = pool.interval(member, label).bounds(member.estimated[rows])
                seconds = member.samples.seconds[rows]
                inside += ((low <= seconds) & (seconds <= high)).tolist()
    assert 0.86 <= np.mean(inside) <= 0.95


def test_the_ends_follow_the_skew_and_the_spread_of_the_target() -> None:
    pool = pool_of(0)
    first, last = (pool.interval(pool.targets[index]) for index in (0, -1))
    assert first.low < 0 < first.high
    assert first.high > -first.low  # a Gumbel distribution has its tail on the right
    assert last.high > 1.2 * first.high  # its errors are 1.8 times as large, shrunk towards the mean


def test_an_end_has_a_slope_if_errors_grow_with_the_distance_on_that_side() -> None:
    pool = pool_of(1, slope=1.0)
    stated = pool.interval(pool.targets[0])
    assert stated.low_longer == stated.low_shorter > 0.1
    assert stated.high_longer == stated.high_shorter < 0.1
    assert stated.typical == pytest.approx(np.median(pool.targets[0].samples.seconds))


def test_errors_of_a_family_do_not_affect_the_interval_without_it() -> None:
    pool, other = pool_of(2), pool_of(2)
    for member in other.targets:
        member.estimated[member.samples.group == "f3"] /= 50
    changed = Pool(other.targets)
    before, after = pool.interval(pool.targets[1], "f3"), changed.interval(changed.targets[1], "f3")
    assert (after.low, after.high) == pytest.approx((before.low, before.high))
    assert changed.interval(changed.targets[1]).high > pool.interval(pool.targets[1]).high


def test_networks_are_estimated_without_their_family() -> None:
    macs, family = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 1])

    held: list[frozenset[str]] = []

    def mean_rate(work: Work, seconds: Floats, without: frozenset[str]) -> Rates:
        held.append(without)
        return Rates(Rate(float(np.mean(seconds / work.macs)), 0.0, 0.0))

    result = held_out(measured(macs * np.array([1, 1, 5, 5]), macs, family), mean_rate)
    assert result.estimated.tolist() == pytest.approx([5, 10, 3, 4])
    assert result.rates["f1"].pooled.mac == pytest.approx(1.0)
    assert held == [frozenset({"f0"}), frozenset({"f1"})]


def test_the_interval_of_few_networks_holds_a_new_network_in_nine_of_ten_cases() -> None:
    draw = np.random.default_rng(0)
    networks = np.repeat(["a", "b", "c", "d"], [20, 5, 20, 3])
    inside = 0
    for _ in range(2000):
        effects = dict(zip([*"abcd", "new"], draw.normal(0, 0.3, 5).tolist(), strict=True))
        errors = np.array([effects[name] for name in networks.tolist()]) + draw.normal(0, 0.03, len(networks))
        stated = interval_of_few_networks(errors, networks)
        inside += stated.low <= effects["new"] <= stated.high
    assert 0.88 <= inside / 2000 <= 0.92
