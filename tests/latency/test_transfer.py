"""Predictions from other devices on synthetic tables."""

from __future__ import annotations

import numpy as np
import pytest

from latency.truth.transfer import from_neighbors
from sizeup.errors import SizeupError


def test_a_device_that_is_a_slower_twin_is_found_among_others() -> None:
    draw = np.random.default_rng(0)
    known = np.exp(draw.normal(0, 1, (8, 20)))
    anchors = [0, 3, 5, 7, 11]
    estimated = from_neighbors(known, anchors, 3 * known[4, anchors])
    assert estimated == pytest.approx(3 * known[4], rel=1e-3)


def test_a_network_without_measurements_stays_unknown() -> None:
    known = np.array([[1.0, 2.0, np.nan, 4.0], [2.0, 4.0, np.nan, np.nan]])
    estimated = from_neighbors(known, [0, 1], np.array([10.0, 20.0]))
    assert estimated[[0, 1, 3]] == pytest.approx([10, 20, 40])
    assert np.isnan(estimated[2])


def test_devices_without_the_anchors_cannot_speak() -> None:
    with pytest.raises(SizeupError, match="anchor"):
        from_neighbors(np.array([[np.nan, 2.0]]), [0], np.array([1.0]))
