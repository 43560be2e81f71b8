"""How far an estimate may be off: from errors on networks that a fit had not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sizeup.errors import SizeupError
from sizeup.latency.fit import Form, fit
from sizeup.latency.model import Rates, kernels, seconds
from sizeup.latency.work import Codes, Floats, Work

LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class Band:
    """The range of measured / estimated that holds nine of ten networks, in logarithms.

    `unseen` widens it on both sides for a network that spends all its time in classes of kernels that
    the fit has not met, and in proportion for one that spends a part of it there. `drift` widens it for a
    network of another size than the fit has met: errors wander off like a random walk, so by the root of
    the distance between the logarithms of both sizes, and independent of the errors within a size.
    """

    low: float
    high: float
    unseen: float = 0.0
    drift: float = 0.0

    def around(
        self, estimated: Floats, unseen_share: Floats | float = 0.0, distance: Floats | float = 0.0
    ) -> tuple[Floats, Floats]:
        """The least and the most that the estimates stand for, at a distance from the sizes that were met."""
        wider = self.unseen * np.asarray(unseen_share, np.float64)
        away = self.drift * np.sqrt(np.asarray(distance, np.float64))
        low, high = (np.hypot(side, away) - abs(side) + wider for side in (self.low, self.high))
        return estimated * np.exp(self.low - low), estimated * np.exp(self.high + high)

    def to_dict(self) -> dict[str, float]:
        """Plain numbers, as TOML and JSON hold them."""
        return {"low": self.low, "high": self.high, "unseen": self.unseen, "drift": self.drift}


def held_out(work: Work, measured: Floats, fold: Codes, form: Form | None = None) -> Floats:
    """Estimates of every network by a fit to the networks of all other folds."""
    estimated = np.zeros(work.networks)
    for each in np.unique(fold):
        left_out = np.flatnonzero(fold == each)
        rest = np.flatnonzero(fold != each)
        estimated[left_out] = seconds(fit(work.of(rest), measured[rest], form), work.of(left_out))
    return estimated


def band(estimated: Floats, measured: Floats, groups: Codes | None = None, level: float = LEVEL) -> Band:
    """The band that these held-out estimates ask for.

    Errors within a group (a board, an input shape) are alike, so a group counts once, however many
    measurements it holds. And what one group errs by, those that spoke for it err by in the other
    direction when it speaks for them: the band of groups is as wide on one side as on the other. It is
    that much wider than nine tenths as few groups, the more alike their members err, are few samples.
    """
    if not len(estimated):
        raise SizeupError("an interval needs estimates of networks that the fit had not seen")
    off = np.log(np.asarray(measured) / np.asarray(estimated))
    if groups is not None:
        sizes = np.bincount(groups)
        few = 1 + 1 / _independent(off, groups)
        half = _weighted_quantile(np.abs(off), 1 / sizes[groups], min(level * few, 1.0))
        return Band(-half, half)
    ordered = np.sort(off)
    # So many of n + 1 equally likely places lie outside that a new error does so no more often.
    outer = max(int((1 - level) / 2 * (len(off) + 1)) - 1, 0)
    return Band(float(ordered[outer]), float(ordered[len(off) - 1 - outer]))


def _independent(off: Floats, groups: Codes) -> float:
    """How many samples that have nothing in common say as much as these groups, each counted once.

    The part of the variance that lies between groups (the correlation within one, from the analysis of
    variance) decides: none of it, and every member is a sample; all of it, and every group is one.
    """
    sizes = np.bincount(groups).astype(np.float64)
    totals = np.bincount(groups, off)[sizes > 0]
    member_of = np.cumsum(sizes > 0)[groups] - 1
    sizes = sizes[sizes > 0]
    count, members = len(sizes), len(off)
    if count < 2 or members == count:
        return float(count)
    means = totals / sizes
    between = float((sizes * (means - off.mean()) ** 2).sum()) / (count - 1)
    within = float(((off - means[member_of]) ** 2).sum()) / (members - count)
    usual = (members - float((sizes**2).sum()) / members) / (count - 1)
    whole = between + (usual - 1) * within
    alike = min(max((between - within) / whole, 0.0), 1.0) if whole > 0 else 1.0
    return float(count / np.mean((1 + (sizes - 1) * alike) / sizes))


def _weighted_quantile(values: Floats, weights: Floats, level: float) -> float:
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return float(values[order[min(int(np.searchsorted(mass, level * mass[-1])), len(values) - 1)]])


def drift(estimated: Floats, measured: Floats, distance: Floats, level: float = LEVEL) -> float:
    """How far errors wander over one unit of the logarithm of size: from estimates of networks by fits to
    others that lie so far from them."""
    off = np.abs(np.log(np.asarray(measured) / np.asarray(estimated)))
    return float(np.quantile(off / np.sqrt(np.asarray(distance)), level))


def unseen_share(rates: Rates, work: Work, taken: Floats | None = None) -> Floats:
    """Which part of every network's estimated time lies in classes that the fit has not met.

    Whoever knows what each kernel takes may hand it over.
    """
    foreign = np.array([not rates.knows(name) for name in work.names], np.bool_)
    if not foreign.any():
        return np.zeros(work.networks)
    taken = kernels(rates, work).seconds if taken is None else taken
    total, unseen = work.totals(taken), work.totals(taken * foreign[work.kind])
    return np.divide(unseen, total, out=np.zeros(work.networks), where=total > 0)


def unseen_spread(rates: Rates, work: Work, level: float = LEVEL) -> float:
    """How far classes of kernels lie from the rate of all, in logarithms: one not met may do so too."""
    pooled = replace(rates, classes={}, run=0.0, cache=0.0, far=0.0)
    own, shared = kernels(rates, work).seconds * work.count, kernels(pooled, work).seconds * work.count
    by_own = np.bincount(work.kind, own, len(work.names))
    by_shared = np.bincount(work.kind, shared, len(work.names))
    there = (by_own > 0) & (by_shared > 0)
    if not there.any():
        return 0.0
    return float(np.quantile(np.abs(np.log(by_own[there] / by_shared[there])), level))
