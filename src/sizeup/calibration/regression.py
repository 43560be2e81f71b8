"""Fit rates to measured networks and kernels, with held-out errors."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.latency import (
    Execution,
    FitOptions,
    PredictionInterval,
    Rate,
    Rates,
    dtype_of,
    execution_of,
    fit_rates,
    kernels,
    prediction_interval,
    seconds,
    stack,
    unseen_spread,
)
from sizeup.latency.selection import MAX_NESTED, MIN_NETWORKS, choose_form, family_folds
from sizeup.latency.work import Codes, Floats, Work, from_columns
from sizeup.runtimes import Kernel, Profile
from sizeup.runtimes.profiles import named_ops, op_of

MIN_MEASUREMENTS = 5
"""Minimum number of measurements for a calibration."""
RECOMMENDED_MEASUREMENTS = MIN_NETWORKS
"""Number of measurements from which the prediction interval is reliable."""
_MOST_FOLDS, _FOLDS_WITH_CHOICE = 40, 10
_MIN_NETWORKS = 3
_DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int32", "int16", "int8", "int4")


@dataclass(frozen=True, slots=True)
class HeldOutPrediction:
    """A held-out network: measured latency, and the prediction of a fit to the others."""

    name: str
    measured: float
    estimated: float

    @property
    def error(self) -> float:
        """Relative error: 0.1 is 10 % too long."""
        return self.estimated / self.measured - 1


@dataclass(frozen=True, slots=True, eq=False)
class FittedRates:
    """Fitted rates, their prediction interval, and the predictions for held-out networks."""

    rates: Rates
    interval: PredictionInterval
    held_out_predictions: tuple[HeldOutPrediction, ...]
    measurements: int
    precisions: tuple[str, ...]
    held_out: str

    @property
    def mape(self) -> float:
        """MAPE over the held-out networks."""
        return float(np.mean([abs(prediction.error) for prediction in self.held_out_predictions]))


def fit_calibration(points: Sequence[NetworkMeasurement], cache: float = 0.0) -> FittedRates:
    """Fit rates to measured networks or kernels; `cache` is the cache size per core in bytes.

    Raises SizeupError if there are fewer than MIN_MEASUREMENTS measurements.
    """
    if len(points) < MIN_MEASUREMENTS:
        raise SizeupError(
            f"{len(points)} measurement{'s' * (len(points) != 1)} cannot calibrate a target:"
            f" at least {MIN_MEASUREMENTS} are required, {RECOMMENDED_MEASUREMENTS} or more recommended"
        )
    work = stack([measurement.work for measurement in points])
    times = np.array([measurement.seconds for measurement in points])
    every = list(range(len(points)))
    estimated = np.full(len(points), np.nan)
    has_choice = len(points) >= MIN_NETWORKS and not any(measurement.is_probe for measurement in points)
    folds = _FOLDS_WITH_CHOICE if has_choice else _MOST_FOLDS
    form = _regression_form(points, every, work, times, cache)
    for left_out, rest in _splits(points, every, folds):
        # Chosen without the networks that are held out, so that their errors include those of the choice.
        inner = form if len(points) > MAX_NESTED else _regression_form(points, rest, work, times, cache)
        estimated[left_out] = seconds(_fit(points, rest, work, times, inner), work.select(left_out))
    held_out = np.flatnonzero(np.isfinite(estimated)).tolist()
    rates = _fit(points, every, work, times, form)
    judged = tuple(HeldOutPrediction(points[i].name, float(times[i]), float(estimated[i])) for i in held_out)
    spread = unseen_spread(rates, work) if rates.classes else 0.0
    return FittedRates(
        rates,
        replace(prediction_interval(estimated[held_out], times[held_out]), unseen=spread),
        judged,
        len(points),
        _precisions(work),
        "family of networks" if any(measurement.is_probe for measurement in points) else "network",
    )


def _regression_form(
    points: Sequence[NetworkMeasurement], indices: list[int], work: Work, times: Floats, cache: float
) -> FitOptions:
    """The form of the regression: with probes, by class and with saturation.

    Without probes, by class only if that lowers the errors on held-out families.
    """
    if any(measurement.is_probe for measurement in points):
        return FitOptions(by_class=True, saturating=True, cache=cache, cold=True)
    families = [points[i].family for i in indices]
    fit = _fit_kernels if all(points[i].is_kernel for i in indices) else fit_rates
    sample = (work.select(indices), times[indices], families)
    return choose_form([sample], (FitOptions(by_class=False), FitOptions(by_class=True)), fit)


def _splits(
    points: Sequence[NetworkMeasurement], indices: list[int], most: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Networks that are held out, by family, and the rest; probes are never held out."""
    judged = [i for i in indices if not points[i].is_probe]
    fold = family_folds([points[i].family for i in judged], most)
    for label in range(int(fold.max(initial=-1)) + 1):
        left_out = [i for i, own in zip(judged, fold.tolist(), strict=True) if own == label]
        held = set(left_out)
        yield left_out, [i for i in indices if i not in held]


def _fit(
    points: Sequence[NetworkMeasurement], indices: list[int], work: Work, times: Floats, form: FitOptions
) -> Rates:
    if all(points[i].is_kernel for i in indices):
        return _fit_kernels(work.select(indices), times[indices], form)
    rates = fit_rates(work.select(indices), times[indices], form)
    reference = [i for i in indices if not points[i].is_probe]
    if len(reference) == len(indices):
        return rates
    return _rescale_to_networks(rates, work.select(reference), times[reference])


def _rescale_to_networks(rates: Rates, work: Work, times: Floats) -> Rates:
    """Scale the rates of each dtype to the speed of complete networks.

    Probes run faster than networks: their few layers stay in the cache, and no layout changes between them.
    """
    kernel_seconds = kernels(rates, work).seconds
    ratio, classes = times / seconds(rates, work), dict(rates.classes)
    for dtype in {dtype_of(name) for name in work.names}:
        has_dtype = np.array([dtype_of(name) == dtype for name in work.names])[work.class_index]
        mostly = work.totals(kernel_seconds * has_dtype) > 0.5 * work.totals(kernel_seconds)
        if mostly.sum() < _MIN_NETWORKS:
            continue
        factor = float(np.median(ratio[mostly]))
        for name, rate in rates.classes.items():
            if dtype_of(name) == dtype:
                classes[name] = Rate(rate.mac * factor, rate.byte * factor, rate.launch * factor)
    return replace(rates, classes=classes)


def _fit_kernels(work: Work, times: Floats, form: FitOptions) -> Rates:
    """Fit rates to kernels of a profile, which have no per-inference overhead: it belongs to the launch."""
    rates = fit_rates(work, times, form)

    def with_run_overhead(rate: Rate) -> Rate:
        return replace(rate, launch=rate.launch + rates.run)

    classes = {name: with_run_overhead(rate) for name, rate in rates.classes.items()}
    return replace(rates, pooled=with_run_overhead(rates.pooled), classes=classes, run=0.0)


def _precisions(work: Work) -> tuple[str, ...]:
    """Return the dtypes of the measured MACs, or of all measured work if there are no MACs."""
    weights = work.macs if work.macs.any() else work.traffic
    present = {dtype_of(work.names[code]) for code in np.unique(work.class_index[weights > 0]).tolist()}
    return tuple(dtype for dtype in _DTYPES if dtype in present) or ("fp32",)


_LONGEST = 1e6  # seconds


@dataclass(frozen=True, slots=True, eq=False)
class NetworkMeasurement:
    """A measurement: kernels and their total latency; a `family` is held out together."""

    name: str
    family: str
    work: Work
    seconds: float
    is_probe: bool = False  # always in the fit, never held out
    is_kernel: bool = False  # kernels of a network, without per-inference overhead


def network_measurement(
    name: str,
    cost: Cost,
    seconds: float,
    fuses: Sequence[str] | None,
    *,
    family: str | None = None,
    is_probe: bool = False,
    precision: DType | None = None,
) -> NetworkMeasurement:
    """Return the measurement of a network as executed by a runtime with these fusions."""
    if not math.isfinite(seconds) or not 0 < seconds < _LONGEST:
        raise SizeupError(f"{name}: latency {seconds!r} s is out of range (0 to {_LONGEST:g} s)")
    work = execution_of(cost, precision, fuses or ()).work
    if not work.count.any():
        raise SizeupError(f"{name}: the model executes no kernels, so it cannot be used for calibration")
    return NetworkMeasurement(name, family or name, work, seconds, is_probe)


def kernel_measurements(
    name: str, cost: Cost, profile: Profile, fuses: Sequence[str] | None, precision: DType | None = None
) -> list[NetworkMeasurement]:
    """Match the kernels of a profile to the model's: one measurement per kernel, or per op kind.

    Raises SizeupError if less than half of the profiled time can be matched.
    """
    execution = execution_of(cost, precision, fuses or ())
    matches = _match_by_name(cost, execution, profile.kernels)
    matches = matches or _match_by_op_kind(cost, execution, profile.kernels)
    matched = sum(seconds for _, seconds, _ in matches)
    total = sum(kernel.seconds for kernel in profile.kernels)
    if not matches or matched < 0.5 * total:
        share = 100 * matched / total if total else 0
        raise SizeupError(
            f"the profile is not of {name}: only {share:.0f} % of its time is in kernels of the model;"
            " pass the profiled model"
        )
    labeled = [(f"{name}, {label}", rows, seconds) for rows, seconds, label in matches if seconds > 0]
    return [
        NetworkMeasurement(label, label, _select_kernels(execution.work, rows), seconds, is_kernel=True)
        for label, rows, seconds in labeled
    ]


_Match = tuple[list[int], float, str]  # kernel indices, total seconds, label


def _match_by_name(cost: Cost, execution: Execution, kernels: Sequence[Kernel]) -> list[_Match]:
    running = [
        index for index, kernel in enumerate(execution.kernel) if kernel >= 0 and execution.work.count[kernel]
    ]
    known = named_ops(cost.graph, running)
    seconds: dict[int, float] = defaultdict(float)
    for profiled in kernels:
        op = op_of(known, profiled)
        if op is not None:
            seconds[int(execution.kernel[op])] += profiled.seconds
    return [([kernel_index], total, f"kernel {kernel_index}") for kernel_index, total in seconds.items()]


def _match_by_op_kind(cost: Cost, execution: Execution, kernels: Sequence[Kernel]) -> list[_Match]:
    """Match kernels by op kind, in execution order within each kind, over repeated runs."""
    ours: dict[str, list[int]] = defaultdict(list)
    for kernel, main in enumerate(execution.main_op.tolist()):
        if execution.work.count[kernel]:
            ours[_canonical_op_kind(cost.graph.ops[main].source)].append(kernel)
    theirs: dict[str, list[Kernel]] = defaultdict(list)
    for profiled in kernels:
        theirs[_canonical_op_kind(profiled.op_kind)].append(profiled)
    matches: list[_Match] = []
    for op_kind, rows in theirs.items():
        indices = ours.get(op_kind, [])
        calls = sum(row.calls for row in rows)
        if not indices or calls % len(indices):
            continue
        runs = calls // len(indices)
        if len(rows) == calls:
            for offset, kernel_index in enumerate(indices):
                fastest = min(row.seconds for row in rows[offset :: len(indices)])
                matches.append(([kernel_index], fastest, f"kernel {kernel_index}"))
        else:
            matches.append((indices, sum(row.seconds for row in rows) / runs, op_kind))
    return matches


def _canonical_op_kind(op_kind: str) -> str:
    """Return `conv2d` for `aten::conv2d`, `aten.conv2d.default` and `CONV_2D`."""
    words = re.split(r"[.:]+", op_kind.lower())
    core = words[1] if words[0] == "aten" and len(words) > 1 else words[0]
    return core.replace("_", "")


def _select_kernels(work: Work, rows: list[int]) -> Work:
    """Return some kernels as a separate network."""
    selection: Codes = np.asarray(rows, np.int64)
    columns = {
        column: getattr(work, column)[selection]
        for column in ("macs", "read", "written", "weights", "length", "columns", "rows", "count")
    }
    names = [work.names[code] for code in work.class_index[selection].tolist()]
    return from_columns(names, 1, np.zeros(len(rows), np.int64), **columns)
