"""Robust regression of non-negative rates on measured times.

The time of a network is linear in its rates if compute and traffic add up, and homogeneous of degree one if
they overlap. So each step is a non-negative least squares problem in the current derivatives. Its weights
turn squared errors into absolute relative errors, and each rate is shrunk towards a prior: the rate of all
classes together, or the rates of another device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.latency.model import (
    Rate,
    Rates,
    cache_miss_bytes,
    cold_weights,
    extents,
    idle_factor,
    power_norm,
    seconds,
)
from sizeup.latency.work import Floats, Work

_STEPS = 20
# Scale of the prior on the saturation extents (at which half of the rate is lost): a few vector registers.
_USUAL_EXTENT = 16.0
# Unknowns are multiples of the prior, so a prior of zero is replaced by this share of the median network.
_LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class FitOptions:
    """The form of the regression; `selection.choose_form` chooses between several."""

    by_class: bool = True  # False: four coefficients, or the prior times one factor
    power: float = 1.0  # of the norm of compute and traffic: 1 adds them up, more lets them overlap
    saturating: bool = False
    launching: bool = True  # False: networks of similar size do not separate launches from work
    tile: float = 0.0  # rows of a product that a kernel computes at once; 0: unknown
    wave: float = 0.0  # results of a product that the device computes at once; 0: unknown
    cache: float = 0.0  # bytes of the device's last-level cache; 0: unknown
    cold: bool = False  # weights of networks that exceed the cache have a separate cost
    shrink: float = 0.1  # strength of the shrinkage towards the prior
    smallest: float = 0.03  # relative errors below this are squared


def fit_rates(
    work: Work, measured: Floats, form: FitOptions | None = None, prior: Rates | None = None
) -> Rates:
    """The rates that minimize the error on the measured seconds of these networks.

    Raises SizeupError if a time is not positive and finite, or if there is not one time per network.
    """
    form = form or FitOptions()
    times = np.asarray(measured, np.float64)
    if len(times) != work.networks or not len(times):
        raise SizeupError(f"{len(times)} times for {work.networks} networks; give one per network")
    if not bool(np.isfinite(times).all() and (times > 0).all()):
        raise SizeupError("a measured time must be a positive, finite number of seconds")
    pooled = _fit_pooled(work, times, form) if prior is None else _rescaled(prior, work, times)
    return _Regression(work, times, form, pooled).rates() if form.by_class else pooled


def _rescaled(prior: Rates, work: Work, measured: Floats) -> Rates:
    """The prior, scaled by the median ratio of measured to predicted times."""
    factor = float(np.median(measured / seconds(prior, work)))

    def scaled(rate: Rate) -> Rate:
        return Rate(rate.mac * factor, rate.byte * factor, rate.launch * factor)

    classes = {name: scaled(rate) for name, rate in prior.classes.items()}
    others = {name: getattr(prior, name) * factor for name in ("far", "run", "reread", "cold")}
    return replace(prior, pooled=scaled(prior.pooled), classes=classes, **others)


def _fit_pooled(work: Work, measured: Floats, form: FitOptions) -> Rates:
    """One rate for all classes, and the per-inference overhead."""
    macs = work.macs * idle_factor(work, 0, 0, 0, form.tile, form.wave)
    launches = np.full(len(work), float(form.launching))
    totals = [work.totals(column) for column in (macs, work.traffic, launches)]
    design = np.stack([*totals, np.ones(work.networks)], axis=1)
    scale = _typical(design, measured)
    solution = np.zeros(4)
    weights = np.ones(len(measured))
    for _ in range(_STEPS):
        solution = _solve(design * scale, measured, measured, weights, np.full(4, 1e-6), np.zeros(4))
        weights = _weights((design * scale) @ solution, measured, form.smallest)
    mac, byte, launch, run = (solution * scale).tolist()
    return Rates(Rate(mac, byte, launch), {}, run, tile=form.tile, wave=form.wave)


def _typical(design: Floats, measured: Floats) -> Floats:
    """The coefficient at which a column alone would explain the median network that has it."""
    scale = np.ones(design.shape[1])
    for index, column in enumerate(design.T):
        is_positive = column > 0
        if is_positive.any():
            scale[index] = np.median(measured[is_positive] / column[is_positive])
    return scale


def _weights(predicted: Floats, measured: Floats, smallest: float) -> Floats:
    """Weights under which squared relative errors count as absolute ones."""
    return np.asarray(1 / np.maximum(np.abs(predicted / measured - 1), smallest), np.float64)


def _solve(
    design: Floats, target: Floats, measured: Floats, weights: Floats, pull: Floats, towards: Floats
) -> Floats:
    """argmin over x >= 0 of sum w ((design x - target) / measured)^2 + sum pull (x - towards)^2."""
    try:
        from scipy.optimize import nnls
    except ImportError:
        raise MissingLibrary("calibration", "scipy", "solve") from None
    relative = design / measured[:, None]
    weighted = relative * weights[:, None]
    gram = weighted.T @ relative + np.diag(pull)
    right = weighted.T @ (target / measured) + pull * towards
    gram += 1e-12 * np.trace(gram) * np.eye(len(gram))
    root = np.linalg.cholesky(gram)
    solution, _ = nnls(root.T, np.linalg.solve(root, right), maxiter=100 * len(gram))
    return np.asarray(solution, np.float64)


class _Regression:
    """Fits rates by class.

    The unknowns are multiples of the prior's rates, of its extra costs per byte beyond the cache and per byte
    of cold weights, and of its per-inference overhead, then the extents of saturation.
    """

    def __init__(self, work: Work, measured: Floats, form: FitOptions, prior: Rates) -> None:
        self.work, self.measured, self.form, self.prior = work, measured, form, prior
        self.class_count = len(work.names)
        self.far = cache_miss_bytes(work, form.cache)
        self.cold = cold_weights(work, form.cache * form.cold)
        self.launches = work.by_class(np.full(len(work), float(form.launching)))
        self.scale = self._scale()
        self.multiples = np.ones(3 * self.class_count + 3)
        self.extents = np.array([prior.length, prior.columns, prior.rows]) * form.saturating

    def _scale(self) -> Floats:
        """The prior's rates in the order of the unknowns, zeros replaced by a small rate (`_LEAST_SHARE`)."""
        work, prior = self.work, self.prior
        totals = [work.totals(column) for column in (work.macs, work.traffic, np.ones(len(work)))]
        least = _LEAST_SHARE * _typical(np.stack([*totals, np.ones(work.networks)], axis=1), self.measured)
        rates = [prior.of(name) for name in work.names]
        table = [[r.mac for r in rates], [r.byte for r in rates], [r.launch for r in rates]]
        by_class = [np.maximum(row, lowest) for row, lowest in zip(table, least, strict=False)]
        far = max(prior.far or prior.pooled.byte, least[1])
        return np.concatenate([*by_class, [far, prior.cold or far, max(prior.run, least[3])]])

    def rates(self) -> Rates:
        """Iterates to the rates with the smallest error."""
        weights = np.ones(len(self.measured))
        linear = self.form.power == 1 and not self.form.saturating
        for step in range(_STEPS if linear else 2 * _STEPS):
            design, by_extent, predicted = self._derivatives()
            if step:
                weights = _weights(predicted, self.measured, self.form.smallest)
            self._step(design, by_extent, weights, 1.0 if linear or step < 2 else 0.5)
        return self._as_rates()

    def _step(self, design: Floats, by_extent: Floats, weights: Floats, stride: float) -> None:
        # The time is homogeneous of degree one in the rates: derivatives times rates are the time itself, so
        # the linearization adds only the share of the extents to the target.
        target = self.measured + by_extent @ self.extents
        # The penalty is on the ratio: a rate 10 times slower costs no more than one 10 times faster.
        pull = self.form.shrink / np.maximum(1.0, self.multiples) ** 2
        extent_pull = np.full(3, self.form.shrink / _USUAL_EXTENT**2)
        towards = np.concatenate([np.ones(len(pull)), np.zeros(3)])
        columns = np.concatenate([design, by_extent], axis=1)
        pulls = np.concatenate([pull, extent_pull])
        solution = _solve(columns, target, self.measured, weights, pulls, towards)
        self.multiples += stride * (solution[:-3] - self.multiples)
        if self.form.saturating:
            self.extents += stride * (solution[-3:] - self.extents)

    def _split(self, numbers: Floats) -> tuple[Floats, Floats, Floats, float, float, float]:
        """Per class: seconds per MAC, byte and launch; then per far byte, cold byte and inference."""
        mac, byte, launch = numbers[:-3].reshape(3, self.class_count)
        far, cold, run = numbers[-3:].tolist()
        has_cache = bool(self.form.cache)
        return mac, byte, launch * self.form.launching, far * has_cache, cold * self.cold.any(), run

    def _derivatives(self) -> tuple[Floats, Floats, Floats]:
        """Derivatives of each network's time by the multiples and by the extents, and the time itself."""
        work = self.work
        length, columns, rows = self.extents.tolist()
        short = idle_factor(work, length, columns, rows, self.form.tile)
        wave = self.form.wave
        slow = idle_factor(work, length, columns, rows, self.form.tile, wave) if wave else short
        mac, byte, _, far, cold, _ = self._split(self.scale * self.multiples)
        compute = mac[work.class_index] * work.macs * slow
        traffic = byte[work.class_index] * work.traffic + far * self.far + cold * self.cold
        together = power_norm(compute, traffic, self.form.power)
        by_compute, by_traffic = (_share(part, together, self.form.power) for part in (compute, traffic))
        design = self.scale * np.concatenate(
            [
                work.by_class(by_compute * work.macs * slow),
                work.by_class(by_traffic * work.traffic),
                self.launches,
                work.totals(by_traffic * self.far)[:, None],
                work.totals(by_traffic * self.cold)[:, None],
                np.ones((work.networks, 1)),
            ],
            axis=1,
        )
        # The extents affect only short sides, not the time that partial waves add.
        by_extent = self._by_extent(by_compute * compute * short / slow)
        return design, by_extent, design @ self.multiples

    def _by_extent(self, computed: Floats) -> Floats:
        if not self.form.saturating:
            return np.zeros((self.work.networks, 3))
        columns = []
        for extent, half in zip(extents(self.work, self.form.tile), self.extents, strict=True):
            growth = np.divide(1.0, extent + half, out=np.zeros(len(extent)), where=extent > 0)
            columns.append(self.work.totals(computed * growth))
        return np.stack(columns, axis=1)

    def _as_rates(self) -> Rates:
        mac, byte, launch, far, cold, run = self._split(self.scale * self.multiples)
        rows = zip(mac.tolist(), byte.tolist(), launch.tolist(), strict=True)
        classes = {name: Rate(*row) for name, row in zip(self.work.names, rows, strict=True)}
        form = self.form
        length, columns, lines = self.extents.tolist()
        return Rates(
            self.prior.pooled,
            classes,
            run,
            form.power,
            length,
            columns,
            lines,
            form.tile,
            form.cache,
            far,
            form.wave,
            cold=cold,
        )


def _share(part: Floats, together: Floats, power: float) -> Floats:
    """The derivative of the norm of two durations by one of them."""
    if power == 1:
        return np.ones_like(part)
    ratio = np.divide(part, together, out=np.ones_like(part), where=together > 0)
    return np.asarray(ratio ** (power - 1), np.float64)
