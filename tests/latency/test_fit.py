"""Fits to times that known rates made: they must find them again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy", reason="fits need scipy")

from sizeup.errors import SizeupError
from sizeup.latency import FitOptions, Rate, Rates, Work, fit_rates, from_columns, seconds
from sizeup.latency.work import Floats
from timing import undisturbed

NAMES = ("conv", "linear", "pool")
TRUE = Rates(
    Rate(0, 0, 0),
    {"conv": Rate(1e-11, 2e-10, 5e-6), "linear": Rate(4e-11, 1e-10, 1e-6), "pool": Rate(0, 8e-10, 2e-6)},
    run=2e-5,
)


def networks(count: int, seed: int = 0, names: tuple[str, ...] = NAMES) -> Work:
    """Networks of ten kernels of random classes and sizes."""
    draw = np.random.default_rng(seed)
    rows = 10 * count
    kinds = draw.choice(len(names), rows)
    macs = np.exp(draw.uniform(np.log(1e4), np.log(1e8), rows)) * (np.array(names)[kinds] != "pool")
    return from_columns(
        [names[kind] for kind in kinds],
        count,
        np.repeat(np.arange(count), 10),
        macs=macs,
        read=np.exp(draw.uniform(np.log(1e3), np.log(1e6), rows)),
        weights=np.exp(draw.uniform(np.log(1e2), np.log(1e6), rows)),
        length=draw.integers(8, 512, rows) * (macs > 0),
        columns=draw.integers(8, 512, rows) * (macs > 0),
        rows=draw.integers(1, 4096, rows) * (macs > 0),
    )


def off(rates: Rates, work: Work, measured: Floats) -> float:
    return float(np.abs(seconds(rates, work) / measured - 1).mean())


def test_known_rates_are_found_again() -> None:
    work = networks(400)
    rates = fit_rates(work, seconds(TRUE, work), FitOptions(shrink=1e-6))
    for name, rate in TRUE.classes.items():
        assert rates.classes[name].mac * (name != "pool") == pytest.approx(rate.mac, rel=0.02)
        assert rates.classes[name].byte == pytest.approx(rate.byte, rel=0.05)
        # All networks have ten kernels, so that launches and overhead are known only together.
        assert 10 * rates.classes[name].launch + rates.run == pytest.approx(10 * rate.launch + 2e-5, rel=0.01)
    new = networks(100, seed=1)
    assert off(rates, new, seconds(TRUE, new)) < 0.01


def test_costs_of_bytes_beyond_the_cache_and_of_cold_weights_are_found_again() -> None:
    """A third of the kernels is bound by compute, which hides a part of these costs."""
    work = networks(400)
    true = Rates(TRUE.pooled, TRUE.classes, TRUE.run, power=4, cache=5e5, far=1e-9, cold=2e-9)
    rates = fit_rates(work, seconds(true, work), FitOptions(power=4, cache=5e5, cold=True))
    assert (rates.far, rates.cold) == pytest.approx((1e-9, 2e-9), rel=0.01)


@pytest.mark.parametrize(
    ("true", "form"),
    [
        (Rates(TRUE.pooled, TRUE.classes, TRUE.run, power=4), FitOptions(power=4)),
        (Rates(TRUE.pooled, TRUE.classes, TRUE.run, 1, 30, 10, 50), FitOptions(saturating=True)),
        (Rates(TRUE.pooled, TRUE.classes, TRUE.run, 1, tile=64), FitOptions(tile=64)),
        (Rates(TRUE.pooled, TRUE.classes, TRUE.run, 1, wave=1e6), FitOptions(wave=1e6)),
        (
            Rates(TRUE.pooled, TRUE.classes, TRUE.run, 1, 30, 10, 50, wave=1e5),
            FitOptions(saturating=True, wave=1e5),
        ),
        (Rates(TRUE.pooled, TRUE.classes, TRUE.run, 1, cache=5e5, far=1e-9), FitOptions(cache=5e5)),
    ],
    ids=["overlap", "saturation", "tiles", "waves", "saturation and waves", "cache"],
)
def test_each_part_of_the_form_is_found_where_it_is_there(true: Rates, form: FitOptions) -> None:
    work, new = networks(400), networks(100, seed=1)
    right = fit_rates(work, seconds(true, work), form)
    wrong = fit_rates(work, seconds(true, work), FitOptions())
    assert off(right, new, seconds(true, new)) < 0.02
    assert off(right, new, seconds(true, new)) < 0.5 * off(wrong, new, seconds(true, new))


def test_steps_that_overshoot_are_damped() -> None:
    """The rates behind these five times have no error; full steps jump around them, with errors of 40 %."""
    work = networks(5, seed=53)
    measured = seconds(Rates(TRUE.pooled, TRUE.classes, TRUE.run, power=4), work)
    assert off(fit_rates(work, measured, FitOptions(power=4, shrink=1e-6)), work, measured) < 1e-3


def test_products_of_one_row_show_how_many_rows_saturate_the_device() -> None:
    """Half of the products have one row and take 1 + 4 times as long per MAC as those of many rows."""
    work = networks(40)
    work = replace(work, rows=np.where(work.rows % 2 == 1, 1.0, 4096.0) * (work.macs > 0))
    true = Rates(TRUE.pooled, TRUE.classes, TRUE.run, rows=4.0)
    rates = fit_rates(work, seconds(true, work), FitOptions(saturating=True, shrink=1e-6))
    assert rates.rows == pytest.approx(4.0, rel=1e-3)


def test_a_few_wild_measurements_do_not_move_the_fit() -> None:
    work, new = networks(300), networks(100, seed=1)
    measured = seconds(TRUE, work)
    measured[::20] *= 10
    assert off(fit_rates(work, measured), new, seconds(TRUE, new)) < 0.03


def test_rates_are_never_negative() -> None:
    work = networks(150)
    noise = np.exp(np.random.default_rng(2).normal(0, 0.5, work.networks))
    rates = fit_rates(work, seconds(TRUE, work) * noise)
    for rate in rates.classes.values():
        assert min(rate.mac, rate.byte, rate.launch) >= 0
    assert rates.run >= 0


def test_a_class_with_few_samples_leans_on_the_whole() -> None:
    common, rare = networks(200, names=("conv",)), networks(1, seed=5, names=("conv", "linear"))
    names = np.array([*("conv",) * len(common), *(rare.names[kind] for kind in rare.class_index)])
    work = from_columns(
        names.tolist(),
        201,
        np.concatenate([common.network, rare.network + 200]),
        **{
            each: np.concatenate([getattr(common, each), getattr(rare, each)])
            for each in ("macs", "read", "weights", "length", "columns", "rows")
        },
    )
    same = Rates(Rate(1e-11, 2e-10, 5e-6))
    rates = fit_rates(work, seconds(same, work), FitOptions(shrink=1.0))
    assert rates.classes["linear"].mac == pytest.approx(1e-11, rel=0.2)


def test_a_fit_without_classes_has_four_coefficients() -> None:
    work = networks(30)
    rates = fit_rates(work, seconds(TRUE, work), FitOptions(by_class=False))
    assert rates.classes == {}
    assert rates.pooled.mac > 0


def test_a_fit_without_launches_has_none() -> None:
    work = networks(120)
    rates = fit_rates(work, seconds(TRUE, work), FitOptions(launching=False))
    assert {rate.launch for rate in rates.classes.values()} == {0.0}


def test_a_prior_from_another_device_makes_up_for_few_measurements() -> None:
    learned = networks(400)
    prior = fit_rates(learned, seconds(TRUE, learned), FitOptions(shrink=1e-6))
    few, new = networks(5, seed=3), networks(100, seed=1)
    alone = fit_rates(few, 3 * seconds(TRUE, few))
    with_prior = fit_rates(few, 3 * seconds(TRUE, few), prior=prior)
    assert off(with_prior, new, 3 * seconds(TRUE, new)) < 0.02
    assert off(with_prior, new, 3 * seconds(TRUE, new)) < 0.5 * off(alone, new, 3 * seconds(TRUE, new))


def test_what_is_not_measured_is_the_prior_at_the_speed_of_the_device() -> None:
    """No kernel exceeds a cache of 1 GB, so that the cost of bytes beyond it is three times the prior's."""
    work, prior = networks(30), Rates(Rate(1e-11, 2e-10, 5e-6), run=1e-5, cache=1e9, far=5e-9)
    rates = fit_rates(work, 3 * seconds(prior, work), FitOptions(cache=1e9), prior)
    assert rates.far == pytest.approx(1.5e-8)


def test_the_same_measurements_give_the_same_rates() -> None:
    work = networks(150)
    form = FitOptions(power=2, saturating=True)
    assert fit_rates(work, seconds(TRUE, work), form) == fit_rates(work, seconds(TRUE, work), form)


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 0.0], [1.0, float("nan")]])
def test_times_that_cannot_be_are_refused(times: list[float]) -> None:
    with pytest.raises(SizeupError, match=r"time"):
        fit_rates(networks(2), np.array(times))


@pytest.mark.alone
def test_seventeen_hundred_networks_of_thirty_classes_are_fitted_in_seconds() -> None:
    names = tuple(f"class {index}" for index in range(30))
    draw = networks(1700, names=names)
    measured = seconds(Rates(Rate(1e-11, 2e-10, 5e-6)), draw)
    with undisturbed() as taken:
        fit_rates(draw, measured)
    assert taken.seconds < 5
