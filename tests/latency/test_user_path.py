"""Answers of the public API next to measurements: statistics by hand, and a sample of pairs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import sizeup

pytest.importorskip("scipy", reason="the fitting tools need scipy")

from fitting import tiny
from user_path import device_tables, image_tables, page, scores
from user_path.evaluate import Answer, answers, as_new, label
from user_path.networks import agrees, recorded
from user_path.pairs import Network, held_out_sources

pytestmark = pytest.mark.extras


def answer_of(
    measured: float,
    seconds: float,
    low: float | None = None,
    high: float | None = None,
    *,
    basis: str = "roofline",
) -> Answer:
    return Answer(
        source="coral_ref",
        network="network",
        shape="1x3",
        precision="int8",
        target="device/runtime",
        device_class="phone",
        is_held_out=True,
        quantity="latency",
        measured=measured,
        basis=basis,
        seconds=seconds,
        low=low,
        high=high,
    )


# Twice above, twice below and exact; the interval of the second does not cover, the third has none.
ANSWERS = (
    answer_of(1.0, 2.0, 0.5, 4.0),
    answer_of(4.0, 2.0, 1.0, 3.0),
    answer_of(3.0, 3.0),
)


@pytest.fixture(scope="module")
def truth(shared: Path) -> Path:
    folder = shared / "truth"
    if not folder.is_dir():
        pytest.skip("the tables of measurements (shared/truth) are not next to the project")
    return folder


@pytest.mark.parametrize(
    ("successes", "trials", "by_hand"),
    [
        (0, 2, 0.01),  # the chances of 0, 1 and 2 of 2 are 0.01, 0.18 and 0.81
        (1, 2, 0.19),
        (2, 2, 1.0),
        (10, 10, 1 - 10 * 0.9**9 * 0.1),  # only 9 of 10 is more likely
        (0, 3, 0.001),
    ],
)
def test_p_values_of_a_few_trials_are_those_computed_by_hand(
    successes: int, trials: int, by_hand: float
) -> None:
    assert scores.binomial_p_value(successes, trials, 0.9) == pytest.approx(by_hand, rel=1e-9)


def test_p_values_of_many_trials_are_those_of_scipy() -> None:
    from scipy.stats import binomtest

    for successes, trials in ((7, 10), (780, 900), (826, 900), (900, 900), (1, 1500)):
        expected = binomtest(successes, trials, 0.9).pvalue
        assert scores.binomial_p_value(successes, trials, 0.9) == pytest.approx(expected, rel=1e-6)


def test_scores_of_three_answers_are_those_computed_by_hand() -> None:
    score = scores.score(ANSWERS)
    assert score.answers == 3
    assert score.error_factor == pytest.approx(2 ** (2 / 3))
    assert score.ratio == 1.0
    assert score.coverage == 0.5
    assert score.p_value == pytest.approx(0.19)
    assert score.width == pytest.approx((8 + 3) / 2)
    assert score.misleading == 0


def test_a_missing_estimate_is_not_counted_as_an_error() -> None:
    missing = answer_of(1.0, math.nan, basis="none")
    assert scores.basis_of(missing) == "none"
    assert scores.score([missing]).answers == 0
    assert math.isnan(scores.score([missing]).error_factor)
    assert scores.score([*ANSWERS, missing]) == scores.score(ANSWERS)


@pytest.mark.parametrize(
    ("answer", "is_misleading"),
    [
        (answer_of(1.0, 3.0, 2.0, 4.0), True),
        (answer_of(1.0, 3.0, 0.9, 4.0), False),  # covered
        (answer_of(1.0, 1.9, 1.5, 4.0), False),  # less than a factor of 2
        (answer_of(9.0, 3.0), False),  # a lower bound that holds
        (answer_of(1.0, 3.0), True),  # a lower bound above the measurement
    ],
)
def test_misleading_answers_are_far_off_and_exclude_the_measurement(
    answer: Answer, is_misleading: bool
) -> None:
    assert scores.is_misleading(answer) is is_misleading


def test_the_tables_have_the_scores() -> None:
    text = page.tables([*ANSWERS, answer_of(1.0, 3.0, basis="none"), answer_of(6.0, 3.0)])
    assert "| roofline | phone | 2 | 2.00 | 1.25 | 50 % | 0.190 | 5.5 |\n" in text
    assert "| phone | 2 | 100 % | 0.75 |\n" in text  # lower bounds: 3 of 3, and 3 of 6
    assert "| coral_ref | 4 | 0 % | 2 | 2.00 | 1.25 | 50 % | 0.190 | 5.5 |\n" in text
    assert "| coral_ref | phone | 5 | 1 | 0 |\n" in text  # one of five pairs has no estimate


def test_all_unlicensed_tables_are_held_out(truth: Path) -> None:
    readme = (truth / "README.md").read_text("utf-8")
    unlicensed = re.findall(r"^\| (\w+)\.\w+ .*\| NONE STATED \|", readme, re.MULTILINE)
    assert unlicensed
    assert set(unlicensed) <= held_out_sources()
    assert {"stm32_modelzoo", "coral_ref", "mlperf_inference_v41"} <= held_out_sources()


def test_pairs_name_real_targets_and_the_held_out_sources(truth: Path) -> None:
    pairs = [
        *device_tables.small_tables(truth),
        *device_tables.model_zoo(truth),
        *image_tables.coral(truth),
        *image_tables.mlperf_inference(truth),
    ]
    assert len(pairs) > 150
    assert all(pair.seconds > 0 and pair.target == sizeup.target(pair.target.name) for pair in pairs)
    sources = {pair.source for pair in pairs}
    assert {pair.source for pair in pairs if not pair.is_held_out} == {"tinyengine", "espdl"}
    assert {"stm32_modelzoo", "coral_ref", "mlperf_inference_v41", "xnnpack_readme"} <= sources


def test_answers_are_the_estimates_of_the_public_api(truth: Path, shared: Path) -> None:
    pairs = [pair for pair in device_tables.mlperf_tiny(truth) if pair.target.name.startswith("stm32l4r5")]
    sample = list(answers(pairs, truth, shared / "models"))
    assert sorted(map(label, sample)) == sorted(map(label, pairs))
    assert {"calibrated", "instructions"} <= {answer.basis for answer in sample}
    answer = sample[0]
    estimate = sizeup.estimate(shared / "models" / answer.network, answer.target)
    assert (answer.basis, answer.seconds, answer.low) == (estimate.basis, estimate.seconds, estimate.low)
    # A calibration by MACs without the network: the median rate of the other networks on the device.
    new = [each for each in map(as_new, sample) if each is not None]
    assert {each.basis for each in new} == {"calibrated"}
    assert all(each.low is not None and each.low < each.seconds for each in new)
    newest = next(
        each for each in tiny.measured(truth, shared / "models") if each.target.name == "stm32l4r5/microtvm"
    )
    rates = newest.seconds / newest.work.totals(newest.work.macs)
    mine = newest.group.tolist().index("kws")
    expected = np.median(np.delete(rates, mine)) * newest.work.totals(newest.work.macs)[mine]
    kws = next(each for each in new if "kws" in each.network and each.target == "stm32l4r5/microtvm")
    assert kws.seconds == pytest.approx(expected)


def test_a_cell_has_the_costs_of_the_table(truth: Path, shared: Path) -> None:
    arch, macs, params = device_tables.cells(truth)[0]
    result = recorded(f"nb201:{arch}", (2, 3, 32, 32), shared / "models")
    assert result.cost.total_macs == 2 * macs
    assert result.cost.total_params == pytest.approx(params, rel=1e-3)
    network = Network("", (2, 3, 32, 32), macs, params)
    assert agrees(network, result)
    assert not agrees(network._replace(macs=1.03 * macs), result)
    assert not agrees(network._replace(params=0.97 * params), result)
