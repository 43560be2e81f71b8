"""What other devices tell about one with few measurements, or with none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import SizeupError
from sizeup.latency.work import Floats

Labels: TypeAlias = np.ndarray[Any, np.dtype[np.str_]]

# Devices whose networks differ by twice this from ours (in logarithms, on average) count for an eighth.
_NEAR = 0.02
_ROBUST = 0.15
_STEPS = 12


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


@dataclass(frozen=True, slots=True)
class Effect:
    """A reason why times differ: labels, one a measurement, each with an effect of its own; or a number,
    one a measurement, with a slope. `pull` holds an effect to zero, in measurements."""

    values: Labels | Floats
    pull: float


def from_effects(effects: Sequence[Effect], logs: Floats, wanted: Sequence[Effect]) -> Floats:
    """Logarithms of times at the wanted labels, as sums of effects fitted to measured ones.

    A label that was never measured has no effect: what it has in common with others speaks for it.
    """
    design = np.concatenate([_columns(each, each) for each in effects], axis=1)
    asked = np.concatenate(
        [_columns(each, there) for each, there in zip(effects, wanted, strict=True)], axis=1
    )
    pulls = np.concatenate([np.full(_columns(each, each).shape[1], each.pull) for each in effects])
    constant = np.ones((len(design), 1))
    found = _robust_ridge(np.concatenate([constant, design], axis=1), logs, np.concatenate([[1e-6], pulls]))
    return np.asarray(found[0] + asked @ found[1:], np.float64)


def _columns(known: Effect, asked: Effect) -> Floats:
    if known.values.dtype.kind == "f":
        return np.asarray(asked.values, np.float64)[:, None]
    labels = np.unique(known.values)
    return np.asarray(np.asarray(asked.values)[:, None] == labels[None, :], np.float64)


def _robust_ridge(design: Floats, target: Floats, pulls: Floats) -> Floats:
    weights = np.ones(len(target))
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        weighted = design * weights[:, None]
        found = np.linalg.solve(weighted.T @ design + np.diag(pulls), weighted.T @ target)
        weights = 1 / np.maximum(np.abs(design @ found - target) / _ROBUST, 1.0)
    return found
