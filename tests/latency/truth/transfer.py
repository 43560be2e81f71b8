"""What other devices tell about one with few measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizeup.errors import SizeupError
from sizeup.latency.work import Floats

# Devices whose networks differ by twice this from ours (in logarithms, on average) count for an eighth.
_NEAR = 0.02


def from_neighbours(known: Floats, anchors: Sequence[int], measured: Floats) -> Floats:
    """Seconds of every network on a new device, from a few measurements there and all on other devices.

    `known` has one row a device and one column a network, NaN where nobody measured. Every known device is
    made as fast as the new one on the anchors; those that then agree with it there speak for the rest.
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
    # A network that only unlike devices have keeps a weight that does not vanish.
    weights = np.where(there, np.maximum(weight, 1e-12), 0.0)
    total = weights.sum(axis=0)
    mean = np.divide(
        (weights * np.nan_to_num(shifted)).sum(axis=0),
        total,
        out=np.full(len(total), np.nan),
        where=total > 0,
    )
    return np.asarray(np.exp(mean), np.float64)
