"""Estimates against hardware that the fit never saw: the bars, set by set.

A bar that is not reached is marked as such, with what was measured; the mark fails once it is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

pytest.importorskip("pyarrow", reason="the tables of measurements are Parquet files")
pytest.importorskip("scipy", reason="fits need scipy")

from latency.truth.suite import CASES, COVERAGE, Case, outcome


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "truth"


def cases(what: str) -> list[ParameterSet]:
    """The cases that have such a bar; those that miss it are expected to."""
    result = []
    for case in CASES:
        if not case.tested or (what in ("error", "within", "tau") and getattr(case, what) is None):
            continue
        if case.needs is not None and not case.needs.exists():
            continue
        why = case.misses(what)
        marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
        result.append(pytest.param(case, id=case.name, marks=marks))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("error"))
def test_the_mean_error_is_within_its_bar(case: Case, folder: Path) -> None:
    assert case.error is not None
    assert outcome(case, folder).error <= case.error


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("within"))
def test_so_many_estimates_are_within_a_tenth(case: Case, folder: Path) -> None:
    assert case.within is not None
    assert outcome(case, folder).within >= case.within


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("tau"))
def test_networks_come_in_their_measured_order(case: Case, folder: Path) -> None:
    assert case.tau is not None
    assert outcome(case, folder).tau >= case.tau


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("coverage"))
def test_the_stated_interval_holds_nine_of_ten(case: Case, folder: Path) -> None:
    low, high = COVERAGE
    assert low <= outcome(case, folder).coverage <= high


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("baseline"))
def test_it_beats_the_plain_sum_of_macs_bytes_operators_and_a_constant(case: Case, folder: Path) -> None:
    result = outcome(case, folder)
    if result.baseline is None:
        pytest.skip("the plain sum needs networks on one device")
    assert result.error < result.baseline_error
