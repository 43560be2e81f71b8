"""The chooser on a real task: digits that were kept apart, five networks, several budgets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the networks are trained in PyTorch")
pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
pytest.importorskip("ortools", reason="choosing needs the solvers")

import sizeup
from precision.digit_choices import SHARES, Judged, judged
from precision.digits import accuracy, split, trained

pytestmark = [pytest.mark.extras, pytest.mark.slow]

SEEDS = range(5)
# At 30 % of the flash uniform int8 fits and is as right as floats: there is nothing to win.
TIGHT = SHARES[1:]


def of(share: float) -> list[Judged]:
    return [next(each for each in judged(seed) if each.share == share) for seed in SEEDS]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_networks_are_right_on_97_percent(seed: int) -> None:
    assert accuracy(trained("convolutional", seed)) >= 0.97


@pytest.mark.parametrize("share", SHARES)
def test_the_exact_choice_is_never_worse_than_uniform_or_greedy_ones(share: float) -> None:
    for result in of(share):
        others = [*result.uniform.values(), result.greedy]
        assert result.exact >= max(others) - result.error
        assert result.fits


@pytest.mark.parametrize("share", TIGHT)
def test_on_average_it_is_better(share: float) -> None:
    results = of(share)
    exact = np.mean([each.exact for each in results])
    assert exact > np.mean([max(each.uniform.values()) for each in results])
    assert exact > np.mean([each.greedy for each in results])


def test_measuring_the_best_few_helps_where_losses_do_not_add_up() -> None:
    tightest = of(SHARES[-1])
    assert np.mean([each.refined for each in tightest]) > np.mean([each.exact for each in tightest])


def test_choosing_with_data_tells_what_was_measured(tmp_path: Path) -> None:
    train, _ = split()
    assignment = sizeup.precision.choose(
        trained("convolutional", 0),
        ((1, 1, 8, 8),),
        data=train.images[:200],
        labels=train.labels[:200],
        weights=6000,
        cache=tmp_path,
    )
    assert assignment.assignment.figures.weight_bytes <= 6000
    assert assignment.measured is not None
    content = json.loads(json.dumps(assignment.to_dict()))
    assert content["measured"]["accuracy"] >= 0.9
    assert content["float_accuracy"] >= 0.97
    assert any(tmp_path.rglob("*.jsonl"))
