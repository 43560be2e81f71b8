"""Sums of effects on synthetic tables, and updates by one measurement."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pulls are fitted by scipy")

from latency.truth.effects import Effect, Expected, Labels, expected, from_effects, likeliest_pulls
from sizeup.latency.work import Floats


def test_effects_add_up_for_combinations_that_were_never_measured() -> None:
    core = np.array(["a", "a", "a", "b", "b"])
    engine = np.array(["x", "y", "z", "x", "y"])
    logs = np.array([0.0, 1.0, 2.0, 3.0, 4.0])  # b is e^3 slower, y e, z e^2
    query = [Effect(np.array(["b"]), 1e-6), Effect(np.array(["z"]), 1e-6)]
    predicted = from_effects([Effect(core, 1e-6), Effect(engine, 1e-6)], logs, query)
    assert predicted == pytest.approx([5.0], abs=1e-3)


def test_a_slope_speaks_for_labels_that_were_never_measured() -> None:
    width = np.array([1.0, 2.0, 3.0])
    core = np.array(["a", "b", "c"])
    effects = [Effect(core, 10.0), Effect(width, 1e-6)]
    predicted = from_effects(
        effects, -2 * width, [Effect(np.array(["d"]), 10.0), Effect(np.array([4.0]), 1e-6)]
    )
    assert predicted == pytest.approx([-8.0], abs=1e-2)


def test_an_outlier_hardly_moves_an_effect() -> None:
    label = np.array(["a"] * 9 + ["b"] * 9)
    logs = np.array([0.0] * 9 + [1.0] * 8 + [8.0])
    predicted = from_effects([Effect(label, 1e-3)], logs, [Effect(np.array(["b"]), 1e-3)])
    assert predicted == pytest.approx([1.0], abs=0.1)


def _boards(spread: float, own: float) -> tuple[list[Labels], Floats]:
    """Forty boards of five networks: how far boards lie apart, and networks on a board."""
    draw = np.random.default_rng(0)
    board = np.repeat([f"b{index}" for index in range(40)], 5)
    logs = np.repeat(draw.normal(0, spread, 40), 5) + draw.normal(0, own, 200)
    return [board, np.tile([f"n{index}" for index in range(5)], 40)], logs


def test_the_likeliest_pull_is_the_ratio_of_the_variances() -> None:
    labels, logs = _boards(spread=0.5, own=0.1)
    board, network = likeliest_pulls([Effect(each, 0.1) for each in labels], logs)
    means = logs.reshape(40, 5).mean(axis=1)
    within = ((logs.reshape(40, 5) - means[:, None]) ** 2).sum() / 160
    assert board == pytest.approx(within / (means.var(ddof=1) - within / 5), rel=0.1)
    assert network > 1  # networks do not differ


@pytest.mark.parametrize(("spread", "least", "most"), [(0.5, 0.9, 1.0), (0.1, 0.3, 0.7), (0.01, 0.0, 0.3)])
def test_a_measurement_speaks_for_its_board_as_far_as_boards_lie_apart(
    spread: float, least: float, most: float
) -> None:
    labels, logs = _boards(spread, own=0.1)
    pulls = likeliest_pulls([Effect(each, 0.1) for each in labels], logs)
    known = [Effect(each, pull) for each, pull in zip(labels, pulls, strict=True)]
    new = [Effect(np.array(["new", "new"]), pulls[0]), Effect(np.array(["n0", "n1"]), pulls[1])]
    before = expected(known, logs, new)
    after = before.after(0, float(before.logs[0]) + 1.0)
    assert least <= after.logs[1] - before.logs[1] <= most
    assert after.covariance[1, 1] <= before.covariance[1, 1]


def test_a_measurement_after_all_is_the_same_as_one_among_all() -> None:
    labels, logs = _boards(spread=0.3, own=0.01)  # no error so large that it counts for less
    parts = [slice(0, 196), slice(196, 197), slice(199, 200)]
    first, one, last = ([Effect(each[part], 0.05) for each in labels] for part in parts)
    both = [Effect(np.concatenate([a.values, b.values]), 0.05) for a, b in zip(one, last, strict=True)]
    more = [Effect(np.concatenate([a.values, b.values]), 0.05) for a, b in zip(first, one, strict=True)]
    after = expected(first, logs[:196], both).after(0, float(logs[196]))
    among = from_effects(more, logs[:197], last)
    assert after.logs[1] == pytest.approx(among[0], abs=1e-6)


def test_the_closest_estimate_has_the_least_mean_relative_error() -> None:
    expected_times = Expected(np.array([1.0]), np.array([[3.0]]), 0.04)
    times = np.exp(np.random.default_rng(0).normal(1.0, 0.4, 200_000))  # 0.4 squared is 0.04 x (3 + 1)
    candidates = expected_times.closest[0] * np.linspace(0.7, 1.4, 71)
    errors = [np.abs(each / times - 1).mean() for each in candidates]
    assert candidates[int(np.argmin(errors))] == pytest.approx(expected_times.closest[0], rel=0.03)
