"""Predictions for a device with few measurements from other devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizeup.errors import SizeupError
from sizeup.latency.work import Floats

# Devices that differ by twice this from the new one (mean of logarithms) have a weight of about 1/8.
_NEAR = 0.02


def from_neighbors(known: Floats, anchors: Sequence[int], measured: Floats) -> Floats:
    """Seconds of every network on a new device, from a few measurements there and all on other devices.

    `known` has one row per device and one column per network, NaN if not measured. Each known device is
    scaled to the new one on the anchors; devices that agree with it there have the largest weights.
    """
    logs = np.log(known)
    off = logs[:, list(anchors)] - np.log(measured)
    counted = (~np.isnan(off)).sum(axis=1)
    usable = counted > len(anchors) / 2
    if not usable.any():
        raise SizeupError("no known device has been measured on enough of the anchor networks")
    logs, off = logs[usable], off[usable]
    faster = np.nanmedian(off, axis=1, keepdims=True)
    distance = np.nanmean(np.abs(off - faster), axis=1)
    weight = np.exp((distance.min() - distance) / _NEAR)[:, None]
    shifted = logs - faster
    there = ~np.isnan(shifted)
    # A network that only dissimilar devices have keeps a nonzero weight.
    weights = np.where(there, np.maximum(weight, 1e-12), 0.0)
    total = weights.sum(axis=0)
    mean = np.divide(
        (weights * np.nan_to_num(shifted)).sum(axis=0),
        total,
        out=np.full(len(total), np.nan),
        where=total > 0,
    )
    return np.asarray(np.exp(mean), np.float64)
