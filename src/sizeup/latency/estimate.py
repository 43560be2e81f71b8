"""Latency of a network on a target, with its prediction interval, basis and provenance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sizeup import units
from sizeup.cost import Cost
from sizeup.dtypes import DType, precision_name
from sizeup.errors import NoLatency, SizeupError, TargetError
from sizeup.formats.names import is_unreadable
from sizeup.latency import coefficients, provenance
from sizeup.latency.backend import latency_backend
from sizeup.latency.counted import InstructionsPrediction, LeastInstructions
from sizeup.latency.execution import Execution
from sizeup.latency.execution import execution_of as kernels_of
from sizeup.latency.gaps import dependent_steps, gaps, is_counted, steps_gap
from sizeup.latency.interval import LEVEL
from sizeup.latency.model import Kernels, rates_from
from sizeup.latency.pipelined import PipelinedThroughput, pipelined_throughput
from sizeup.latency.prediction import (
    Basis,
    CalibratedPrediction,
    RooflinePrediction,
    check_own_estimate,
    is_covered,
    not_calibrated_error,
    predict_calibrated,
    predict_roofline,
)
from sizeup.latency.roofline import BOUNDS, Bound
from sizeup.latency.standing import standing_of
from sizeup.latency.work import Floats, Work
from sizeup.targets import Standing, Target, TargetCalibration, current_catalog

BASES: tuple[Basis, ...] = ("calibrated", "instructions", "vela", "roofline", "coefficients")
_MOST_REASONS = 4  # in a message


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate:
    """Seconds of one inference on a target, their 90 % prediction interval, and the kernels.

    `low` and `high` are None if no measurements support an interval. `high` is also None if time is missing:
    that of unknown operators, of sizes that the file does not fix, or the overhead of a network much shorter
    than those of its calibration.
    """

    target: Target | None
    basis: Basis
    seconds: float
    low: float | None
    high: float | None
    overhead_seconds: float  # per-inference overhead
    executed: Execution
    kernels: Kernels
    provenance: str  # provenance of the numbers, as text
    notes: tuple[str, ...] = ()
    calibration: TargetCalibration | None = None
    is_applicable: bool = True  # False if the model does not fit the target's memory
    standing: Standing | None = None  # of the target; None without one
    pipelined: PipelinedThroughput | None = None  # None if the target was not measured as a pipeline

    def __repr__(self) -> str:
        target = "" if self.target is None else f" on {self.target.name}"
        caveat = "" if self.is_applicable else ", not applicable: does not fit"
        return f"<Estimate{target}: {self.ms:.4g} ms ({self.basis}){caveat}>"

    @property
    def level(self) -> float:
        """The level of the prediction interval, 0.9."""
        return LEVEL

    @property
    def is_lower_bound(self) -> bool:
        """Whether `seconds` is a lower bound, by the data sheet or by instructions, and no estimate."""
        return self.low is None and self.basis in ("roofline", "instructions")

    @property
    def ms(self) -> float:
        """Milliseconds of one inference."""
        return 1e3 * self.seconds

    @property
    def low_ms(self) -> float | None:
        """The lower end of the interval in milliseconds."""
        return None if self.low is None else 1e3 * self.low

    @property
    def high_ms(self) -> float | None:
        """The upper end of the interval in milliseconds."""
        return None if self.high is None else 1e3 * self.high

    @property
    def work(self) -> Work:
        """The kernels that run, one row per kernel."""
        return self.executed.work

    def by_op(self) -> tuple[Floats, tuple[Bound | None, ...]]:
        """Seconds and bound of each op.

        The main op of a kernel has all of the kernel's time; ops fused into it have 0 seconds and no bound.
        """
        seconds = np.zeros(len(self.executed.kernel))
        bounds: list[Bound | None] = [None] * len(seconds)
        by_kernel = self.kernels.seconds * self.work.count
        parts = np.stack([self.kernels.compute, self.kernels.traffic, self.kernels.launch])
        limits = np.where(parts.any(axis=0), parts.argmax(axis=0), -1)
        longest = np.zeros(len(seconds))
        for op, part, time in zip(self.executed.main_op.tolist(), limits.tolist(), by_kernel, strict=True):
            seconds[op] += time  # layout copies of a matrix product have the product as main op
            if bounds[op] is None or time > longest[op]:
                longest[op] = time
                bounds[op] = "nothing" if part < 0 else BOUNDS[part]
        return seconds, tuple(bounds)


def estimate(
    cost: Cost,
    target: Target | None = None,
    precision: DType | None = None,
    *,
    basis: Basis | None = None,
    table: coefficients.Table | None = None,
    executed: Execution | None = None,
) -> Estimate:
    """The latency of a counted network on a target, at its own dtypes or at one precision.

    By default a calibration of the target takes precedence over its data sheet. `table` holds the
    coefficients of the basis `coefficients`. `executed` saves time if several targets have the same fusions.
    Raises TargetError if the target has neither a calibration nor data-sheet rates, and NoLatency if no
    operator has a known latency: unknown is not 0 seconds.
    """
    if basis not in (None, *BASES):
        raise SizeupError(f"unknown basis {basis!r}; known: {', '.join(BASES)}")
    if basis == "coefficients" and table is None and target is not None:
        check_own_estimate(target)
    if basis == "coefficients" or (basis is None and table is not None):
        return _by_coefficients(cost, target, precision, table or coefficients.DEFAULT)
    if target is None:
        raise TargetError("an estimate needs a target or a coefficient table")
    check_own_estimate(target, basis)
    latency = _Estimator(cost, target, precision, executed).by(basis)
    pipelined = pipelined_throughput(latency.work, target)
    return replace(latency, standing=standing_of(target), pipelined=pipelined)


def check_types(target: Target, precision: DType | None) -> None:
    """Raises TargetError if the runtime of a target has no kernels for a precision."""
    names = target.runtime.dtypes
    if precision is not None and precision_name(precision) not in names:
        raise TargetError(
            f"{target.runtime.name} has no kernels for {precision_name(precision)}; it has {', '.join(names)}"
        )


class _Estimator:
    def __init__(
        self, cost: Cost, target: Target, precision: DType | None, executed: Execution | None = None
    ) -> None:
        self.target = target
        self.notes: list[str] = []
        self.basis: Basis | None = None  # that was asked for
        if target.runtime.fusions is None:
            self.notes.append(
                f"the fusions of {target.runtime.name} are unknown: each operator is a separate kernel"
            )
        self._check_format(cost.graph.format)
        self.cost, self.precision = cost, precision
        self.executed = executed or kernels_of(cost, precision, target.runtime.fusions or ())
        self.work = self.executed.work
        check_types(target, precision)
        recurrent = dependent_steps(cost.graph, target)
        sizes = cost.graph.open_sizes(uses_record=latency_backend(target).uses_recorded_shapes)
        self.is_complete = not cost.reasons and not recurrent and not sizes
        self.notes += gaps(cost)
        if recurrent:
            self.notes.append(steps_gap(recurrent, target))
        self.notes += (f"no upper end: {reason}" for reason in sizes)

    def by(self, basis: Basis | None) -> Estimate:
        self.basis = basis
        if basis == "instructions":
            counted = self._counted()
            if counted is None:
                raise TargetError(
                    f"the instructions of this network on {self.target.name} are unknown; known: .tflite"
                    " files in TFLite Micro with CMSIS-NN on Cortex-M4 and Cortex-M33"
                )
            return self._instructions(counted)
        calibration = None if basis == "roofline" else current_catalog().calibration(self.target)
        if calibration is not None and is_covered(self.work, calibration)[0]:
            fitted = predict_calibrated(self.work, self.target, calibration)
            seconds = float(fitted.seconds[0])
            least = latency_backend(self.target).least_counted(self.cost, self.precision, self.executed)
            if least is not None and seconds < least.seconds:
                self.notes.append(provenance.shorter_than_instructions(seconds, least))
                unknown = np.full(1, np.nan)  # its interval would be as impossible
                without = replace(fitted, low=unknown, high=unknown)
                return self._calibrated(without) if basis == "calibrated" else self._least(least)
            if basis == "calibrated" or fitted.is_applicable[0]:
                return self._calibrated(fitted)
            overhead = fitted.overhead_seconds if fitted.is_mostly_run[0] else None
            self.notes.append(provenance.not_calibrated(seconds, overhead, self.target))
        elif basis == "calibrated":
            raise not_calibrated_error(self.target, calibration)
        elif calibration is not None:
            self.notes.append(provenance.covered_precisions(calibration, self.target))
        counted = self._counted() if calibration is None else None
        if counted is not None and basis is None:
            return self._instructions(counted)
        if counted is not None:
            self.notes.append(f"by instructions, which are closer: {units.duration(counted.seconds)}")
        return self._roofline()

    def _counted(self) -> InstructionsPrediction | None:
        return latency_backend(self.target).counted(self.cost, self.precision, self.executed)

    def _instructions(self, counted: InstructionsPrediction) -> Estimate:
        if counted.unknown:
            names = ", ".join(sorted(set(counted.unknown)))
            self.notes.append(f"incomplete: the instructions of {names} are not known")
        if counted.high is None:
            self.notes.append("operators on real numbers: their cycles per instruction were not measured")
        return Estimate(
            self.target,
            "instructions",
            counted.seconds,
            counted.low,
            None if counted.unknown or not self.is_complete else counted.high,
            counted.overhead_seconds,
            self.executed,
            counted.kernels,
            provenance.of_instructions(counted, self.target),
            tuple(dict.fromkeys(self.notes)),
        )

    def _least(self, least: LeastInstructions) -> Estimate:
        self.notes.append("lower bound: the cycles per instruction of this core were not measured")
        return Estimate(
            self.target,
            "instructions",
            least.seconds,
            None,
            None,
            least.overhead_seconds,
            self.executed,
            least.kernels,
            provenance.of_least_instructions(least, self.target),
            tuple(dict.fromkeys(self.notes)),
        )

    def _check_format(self, format: str) -> None:
        runtime = self.target.runtime
        if is_unreadable(format, runtime.formats):
            self.notes.append(
                f"{runtime.name} does not read .{format} files: the latency is for the same operators"
            )

    def _calibrated(self, fitted: CalibratedPrediction) -> Estimate:
        rates, share = rates_from(fitted.calibration.rates), float(fitted.unseen_share[0])
        unseen = [name for name in self.work.names if not rates.covers(name)]
        if share > 0.01:
            listed = ", ".join(unseen[:4])
            self.notes.append(
                f"{100 * share:.0f} % of the time is in kernels not covered by the calibration ({listed})"
            )
        if fitted.lacks_overhead[0]:
            self.notes.append(provenance.WITHOUT_OVERHEAD)
        if fitted.lacks_kernels[0]:
            self.notes.append(provenance.WITHOUT_KERNELS)
        if fitted.calibration.note:
            self.notes.append(f"calibration: {fitted.calibration.note}")
        return self._estimate(
            "calibrated",
            fitted,
            fitted.overhead_seconds,
            fitted.kernels,
            provenance.of_calibration(fitted.calibration, self.target)
            + provenance.equal_precisions(fitted.calibration, self.target, self.work.names),
            fitted.calibration,
        )

    def _roofline(self) -> Estimate:
        sheet = predict_roofline(self.work, self.target)
        self.notes += sheet.notes
        origin = f"{self.target.device.title} data sheet"
        if np.isnan(sheet.low[0]):
            self.notes.append(f"lower bound: {self._lower_bound_reason(sheet)}")
        elif sheet.slowdown is not None:
            if sheet.seconds[0] > sheet.slowed[0]:
                self.notes.append(provenance.slowdown_below_data_sheet(float(sheet.slowed[0]), self.target))
            origin += f", {provenance.of_slowdown(sheet.slowdown)}"
        return self._estimate("roofline", sheet, 0.0, sheet.kernels, origin)

    def _lower_bound_reason(self, sheet: RooflinePrediction) -> str:
        if sheet.slowdown is not None and np.isnan(sheet.slowed[0]):
            return "the slowdown does not apply if a rate is unknown"
        if sheet.slowdown is not None:
            return provenance.slowdown_impossible(float(sheet.slowed_high[0]), self.target)
        if self.basis == "roofline" and current_catalog().calibration(self.target) is not None:
            return provenance.without_calibration(self.target)
        return "the slowdown against the data sheet was not measured"

    def _estimate(
        self,
        basis: Basis,
        prediction: CalibratedPrediction | RooflinePrediction,
        run: float,
        kernels: Kernels,
        origin: str,
        calibration: TargetCalibration | None = None,
    ) -> Estimate:
        seconds = float(prediction.seconds[0])
        bounds = (prediction.low, prediction.high)
        low, high = (None if np.isnan(bound[0]) else float(bound[0]) for bound in bounds)
        high = high if self.is_complete else None
        return _with_a_latency(
            Estimate(
                self.target,
                basis,
                seconds,
                low,
                high,
                run,
                self.executed,
                kernels,
                origin,
                tuple(dict.fromkeys(self.notes)),
                calibration,
            ),
            self.cost,
        )


def _with_a_latency(estimate: Estimate, cost: Cost) -> Estimate:
    """The estimate; raises NoLatency if no op with a known cost takes time."""
    if estimate.by_op()[0][is_counted(cost)].any():
        return estimate
    location = "" if estimate.target is None else f" on {estimate.target.name}"
    reasons = list(dict.fromkeys(cost.reasons.values()))[:_MOST_REASONS]
    moves = bool(estimate.work.traffic @ estimate.work.count)
    if moves and estimate.calibration is not None and estimate.calibration.note:
        reasons.append(estimate.calibration.note)  # such as why traffic takes 0 s
    reasons += [note.partition(": ")[0] for note in estimate.notes if " is unknown: " in note]
    if not reasons and estimate.basis == "coefficients":
        reasons.append("coefficients count only convolutions and matrix products")
    listed = "; ".join(reasons) or "they neither compute nor move data"
    raise NoLatency(f"no operator has a known latency{location} (basis {estimate.basis}): {listed}")


def _by_coefficients(
    cost: Cost, target: Target | None, precision: DType | None, table: coefficients.Table
) -> Estimate:
    if precision is None:
        types, missing = coefficients.own_types(cost, table)
    else:
        types, missing = [precision] * len(cost.graph.ops), []
    times = coefficients.layer_times(cost, types, table)
    executed = kernels_of(cost, precision)
    # Layout copies share the main op of their product; only the first kernel of an op takes its time.
    _, first = np.unique(executed.main_op, return_index=True)
    compute = np.zeros(len(executed.main_op))
    compute[first] = times.milliseconds[executed.main_op[first]] / 1e3
    zeros = np.zeros(len(compute))
    kernels = Kernels(compute, zeros, zeros, compute)
    notes = ["no prediction interval: coefficients count only convolutions and matrix products"]
    if missing:
        notes.append(f"no coefficient for {', '.join(missing)}: fp32 is assumed")
    origin = "milliseconds per 2,000,000 MACs by layer and precision"
    return _with_a_latency(
        Estimate(
            target,
            "coefficients",
            times.total / 1e3,
            None,
            None,
            0.0,
            executed,
            kernels,
            origin,
            tuple(notes),
        ),
        cost,
    )
