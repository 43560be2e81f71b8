"""The choice of a form: four coefficients, unless rates by class predict held-out families better."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="fits need scipy")

from fitting.forms import FormChoice, fit_totals
from fitting.measured import Measured
from sizeup.latency import FitOptions, Rate, Rates, Work, from_columns, seconds
from sizeup.latency.selection import Sample, choose_form, family_folds
from sizeup.latency.work import Floats
from sizeup.targets import target

SIMPLE, BY_CLASS = FitOptions(by_class=False), FitOptions()
CLASSES = {"*": Rate(1e-9, 0.0, 0.0), "*.int8": Rate(1e-10, 0.0, 0.0)}


def work_of(count: int, seed: int) -> Work:
    """Networks of two dtypes."""
    macs = np.exp(np.random.default_rng(seed).uniform(10, 16, count))
    return from_columns(["*", "*.int8"] * (count // 2), count, np.arange(count), macs=macs)


def sample(count: int, rates: Rates, seed: int = 0, noise: float = 0.1, families: int = 8) -> Sample:
    work = work_of(count, seed)
    times = seconds(rates, work) * np.exp(np.random.default_rng(seed + 1).normal(0, noise, count))
    return work, times, [f"f{index % families}" for index in range(count)]


def test_rates_by_class_are_chosen_if_they_differ_and_four_coefficients_if_not() -> None:
    forms = (SIMPLE, BY_CLASS)
    different, same = Rates(CLASSES["*"], CLASSES), Rates(CLASSES["*"])
    # Families of nine and networks of two dtypes in turn: each family has both.
    assert choose_form([sample(36, different, families=9)], forms) is BY_CLASS
    assert choose_form([sample(36, same, families=9)], forms) is SIMPLE
    assert choose_form([sample(18, different, families=9)], forms) is SIMPLE  # too few to choose
    assert choose_form([sample(36, different, families=2)], forms) is SIMPLE  # too few families


def test_targets_that_are_too_small_alone_choose_together() -> None:
    rates = Rates(CLASSES["*"], CLASSES)
    small = [sample(14, rates, seed, families=7) for seed in range(5)]
    assert {choose_form([each], (SIMPLE, BY_CLASS)).by_class for each in small} == {False}
    assert choose_form(small, (SIMPLE, BY_CLASS)) is BY_CLASS


def test_a_family_is_in_one_fold_and_folds_are_used_evenly() -> None:
    families = [*"aabbccdd"]
    assert family_folds(families, 3).tolist() == [0, 0, 1, 1, 2, 2, 0, 0]
    assert family_folds(families, 10).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert family_folds([], 5).tolist() == []


def measured(count: int, rates: Rates, families: int) -> Measured:
    work, times, names = sample(count, rates, families=families)
    return Measured("table", target("rpi5/ncnn"), work, times, np.array(names))


def test_the_choice_is_repeated_without_the_families_that_are_held_out() -> None:
    fitted: list[int] = []

    def fit(work: Work, times: Floats, form: FitOptions) -> Rates:
        fitted.append(work.networks)
        return fit_totals(work, times, form)

    few, many = (measured(count, Rates(CLASSES["*"], CLASSES), 9) for count in (72, 306))
    choice = FormChoice([few], BY_CLASS, fit)
    assert choice.form().by_class
    assert max(fitted) <= 64
    fitted.clear()
    choice.form(frozenset({"f0"}))
    assert max(fitted) <= 56
    choice = FormChoice([many], BY_CLASS, fit)
    choice.form()
    fitted.clear()
    choice.form(frozenset({"f0"}))
    assert fitted == []


def test_four_coefficients_are_the_rates_of_each_measured_dtype() -> None:
    work, times, _ = sample(36, Rates(CLASSES["*"]))
    rates = fit_totals(work, times, SIMPLE)
    assert rates.classes == {"*": rates.pooled, "*.int8": rates.pooled}
    assert set(fit_totals(work, times, BY_CLASS).classes) == {"*", "*.int8"}
    assert fit_totals(work, times, BY_CLASS).classes["*"] != rates.pooled


@pytest.mark.parametrize(("slower", "chosen"), [(4, BY_CLASS), (3, SIMPLE)])
def test_a_gain_counts_if_it_exceeds_its_standard_error(slower: int, chosen: FitOptions) -> None:
    """In some of five families, networks take exp(0.2) s, as one form estimates; in the others 1 s.

    With four: gains of 0.2 and once -0.2, on average 0.12, standard error 0.08. With three: 0.04 and 0.098.
    """
    families = [f"f{index % 5}" for index in range(20)]
    work = from_columns(["*"] * 20, 20, np.arange(20), macs=np.ones(20))
    times = np.exp([0.2 * (index % 5 < slower) for index in range(20)])

    def fit(_work: Work, _times: Floats, form: FitOptions) -> Rates:
        return Rates(Rate(float(np.exp(0.2)) if form.by_class else 1.0, 0, 0))

    assert choose_form([(work, times, families)], (SIMPLE, BY_CLASS), fit) is chosen


def test_of_forms_that_predict_the_same_the_first_is_chosen() -> None:
    work = from_columns(["*"] * 20, 20, np.arange(20), macs=np.ones(20))
    families = [f"f{index % 5}" for index in range(20)]
    same = Rates(Rate(1.0, 0, 0))
    assert choose_form([(work, np.ones(20), families)], (SIMPLE, BY_CLASS), lambda *_: same) is SIMPLE
