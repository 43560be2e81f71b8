"""What other devices tell: on tables whose law is known."""

from __future__ import annotations

import numpy as np
import pytest

from sizeup.errors import SizeupError
from sizeup.latency.transfer import Effect, from_effects, from_neighbours


def test_a_device_that_is_a_slower_twin_is_found_among_others() -> None:
    draw = np.random.default_rng(0)
    known = np.exp(draw.normal(0, 1, (8, 20)))
    anchors = [0, 3, 5, 7, 11]
    estimated = from_neighbours(known, anchors, 3 * known[4, anchors])
    assert estimated == pytest.approx(3 * known[4], rel=1e-3)


def test_what_nobody_measured_stays_unknown() -> None:
    known = np.array([[1.0, 2.0, np.nan, 4.0], [2.0, 4.0, np.nan, np.nan]])
    estimated = from_neighbours(known, [0, 1], np.array([10.0, 20.0]))
    assert estimated[[0, 1, 3]] == pytest.approx([10, 20, 40])
    assert np.isnan(estimated[2])


def test_devices_without_the_anchors_cannot_speak() -> None:
    with pytest.raises(SizeupError, match="anchor"):
        from_neighbours(np.array([[np.nan, 2.0]]), [0], np.array([1.0]))


def test_effects_add_up_for_combinations_that_were_never_measured() -> None:
    core = np.array(["a", "a", "a", "b", "b"])
    engine = np.array(["x", "y", "z", "x", "y"])
    logs = np.array([0.0, 1.0, 2.0, 3.0, 4.0])  # b is e^3 slower, y e, z e^2
    asked = [Effect(np.array(["b"]), 1e-6), Effect(np.array(["z"]), 1e-6)]
    found = from_effects([Effect(core, 1e-6), Effect(engine, 1e-6)], logs, asked)
    assert found == pytest.approx([5.0], abs=1e-3)


def test_a_slope_speaks_for_labels_that_were_never_measured() -> None:
    width = np.array([1.0, 2.0, 3.0])
    core = np.array(["a", "b", "c"])
    effects = [Effect(core, 10.0), Effect(width, 1e-6)]
    found = from_effects(effects, -2 * width, [Effect(np.array(["d"]), 10.0), Effect(np.array([4.0]), 1e-6)])
    assert found == pytest.approx([-8.0], abs=1e-2)


def test_an_outlier_hardly_moves_an_effect() -> None:
    label = np.array(["a"] * 9 + ["b"] * 9)
    logs = np.array([0.0] * 9 + [1.0] * 8 + [8.0])
    found = from_effects([Effect(label, 1e-3)], logs, [Effect(np.array(["b"]), 1e-3)])
    assert found == pytest.approx([1.0], abs=0.1)
