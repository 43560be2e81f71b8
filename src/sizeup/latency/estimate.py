"""One answer from three estimators: how long a network takes on a target, and on what that rests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType, precision, precision_name
from sizeup.errors import SizeupError, TargetError
from sizeup.latency import coefficients
from sizeup.latency.executed import Executed
from sizeup.latency.executed import executed as kernels_of
from sizeup.latency.interval import LEVEL
from sizeup.latency.model import Kernels, rates_from
from sizeup.latency.roofline import BOUNDS, Bound
from sizeup.latency.timed import Basis, Fitted, Sheet, by_fit, by_sheet, is_covered, not_calibrated
from sizeup.latency.work import Floats, Work
from sizeup.targets import Fit, Reach, Target, current

BASES: tuple[Basis, ...] = ("calibrated", "roofline", "coefficients")
_FILES = ("tflite", "onnx")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate:
    """Seconds of one pass on a target, the range that nine of ten measurements fall into, and every kernel.

    `low` and `high` are None where nothing was measured that tells how far the estimate may be off; `high`
    also where operators are not known, whose time is missing.
    """

    target: Target | None
    basis: Basis
    seconds: float
    low: float | None
    high: float | None
    run_seconds: float  # what a pass adds beside its kernels
    executed: Executed
    kernels: Kernels
    origin: str  # where the numbers are from, for people
    notes: tuple[str, ...] = ()
    fit: Fit | None = None

    def __repr__(self) -> str:
        where = "" if self.target is None else f" on {self.target.name}"
        return f"<Estimate{where}: {self.ms:.4g} ms ({self.basis})>"

    @property
    def level(self) -> float:
        """The share of measurements that the range is stated for."""
        return LEVEL

    @property
    def ms(self) -> float:
        """Milliseconds of one pass."""
        return 1e3 * self.seconds

    @property
    def low_ms(self) -> float | None:
        """The least milliseconds that it stands for."""
        return None if self.low is None else 1e3 * self.low

    @property
    def high_ms(self) -> float | None:
        """The most milliseconds that it stands for."""
        return None if self.high is None else 1e3 * self.high

    @property
    def work(self) -> Work:
        """What runs, one row a kernel."""
        return self.executed.work

    def by_op(self) -> tuple[Floats, tuple[Bound | None, ...]]:
        """Of every operator its seconds and what bounds it: the operator that names a kernel has all of its
        time, those merged into it have none and no bound."""
        seconds = np.zeros(len(self.executed.kernel))
        bounds: list[Bound | None] = [None] * len(seconds)
        taken = self.kernels.seconds * self.work.count
        parts = np.stack([self.kernels.compute, self.kernels.traffic, self.kernels.launch])
        longest = np.zeros(len(seconds))
        for op, part, time in zip(
            self.executed.main.tolist(), parts.argmax(axis=0).tolist(), taken, strict=True
        ):
            seconds[op] += time  # copies that a product needs run under its name
            if bounds[op] is None or time > longest[op]:
                longest[op] = time
                bounds[op] = BOUNDS[part] if time > 0 else "nothing"
        return seconds, tuple(bounds)


def estimate(
    cost: Cost,
    target: Target | None = None,
    asked: DType | None = None,
    *,
    basis: Basis | None = None,
    table: coefficients.Table | None = None,
    executed: Executed | None = None,
) -> Estimate:
    """How long a counted network takes on a target, at its own number types or at one precision.

    Measurements of the target go before its data sheet, unless a basis is asked for; `table` holds the
    coefficients of that basis. Whoever asks for many targets may hand over the kernels that the runtime
    executes, which are the same for all that merge the same. Raises TargetError where nothing
    is known that an estimate could rest on.
    """
    if basis not in (None, *BASES):
        raise SizeupError(f"no basis is called {basis!r}; there are {', '.join(BASES)}")
    if basis == "coefficients" or (basis is None and table is not None):
        return _by_coefficients(cost, target, asked, table or coefficients.DEFAULT)
    if target is None:
        raise TargetError("an estimate needs a target, or a table of coefficients")
    return _Estimator(cost, target, asked, executed).by(basis)


def check_types(target: Target, asked: DType | None) -> None:
    """Refuse a precision that the runtime of a target has no kernels for."""
    kinds = target.runtime.dtypes
    if asked is not None and precision_name(asked) not in kinds:
        raise TargetError(
            f"{target.runtime.name} has no kernels for {precision_name(asked)}; it has {', '.join(kinds)}"
        )


class _Estimator:
    def __init__(self, cost: Cost, target: Target, asked: DType | None, ran: Executed | None = None) -> None:
        self.cost, self.target, self.asked = cost, target, asked
        self.notes: list[str] = []
        if target.runtime.fuses is None:
            self.notes.append(
                f"what {target.runtime.name} merges is not known: operators are priced one by one"
            )
        self._check_format(cost.graph.format)
        self.executed = ran or kernels_of(cost, asked, target.runtime.fuses or ())
        self.work = self.executed.work
        check_types(target, asked)
        missing = len(cost.reasons)
        self.is_whole = not missing
        if missing:
            self.notes.append(
                f"the time of {missing:,} operators that are not known is missing, at least in part"
            )

    def by(self, basis: Basis | None) -> Estimate:
        fit = None if basis == "roofline" else current().fit(self.target)
        if fit is not None and is_covered(self.work, fit)[0]:
            fitted = by_fit(self.work, self.target, fit)
            if basis == "calibrated" or not fitted.waits_for_launches[0]:
                return self._calibrated(fitted)
            self.notes.append(
                f"{self.target.name} was fitted to networks that keep it busy, which this one does not"
            )
        elif basis == "calibrated":
            raise not_calibrated(self.target, fit)
        elif fit is not None:
            self.notes.append(
                f"the calibration of {self.target.name} was measured at {', '.join(fit.precisions)} only"
            )
        return self._roofline()

    def _check_format(self, format: str) -> None:
        """Code can be exported to anything; a file is what it is."""
        runtime = self.target.runtime
        if format in _FILES and runtime.reads is not None and format not in runtime.reads:
            self.notes.append(
                f"{runtime.name} does not read .{format} files: this is for the same operators there"
            )

    def _calibrated(self, found: Fitted) -> Estimate:
        rates, share = rates_from(found.fit.rates), float(found.share[0])
        unseen = [name for name in self.work.names if not rates.knows(name)]
        if share > 0.01:
            listed = ", ".join(unseen[:4])
            self.notes.append(
                f"{100 * share:.0f} % of it is in kernels that the calibration has not seen ({listed})"
            )
        if found.fit.note:
            self.notes.append(f"calibration: {found.fit.note}")
        return self._estimate("calibrated", found, found.run, found.kernels, _origin(found.fit), found.fit)

    def _roofline(self) -> Estimate:
        found = by_sheet(self.work, self.target)
        self.notes += found.notes
        origin = f"data sheet of {self.target.device.title}"
        if np.isnan(found.low[0]):
            if found.is_lost[0]:
                runtime = self.target.runtime.name
                self.notes.append(f"what {runtime} takes to start a kernel is not known, and most of it here")
            self.notes.append("no measurement tells how much longer it takes: this is the least")
            return self._estimate("roofline", found, 0.0, found.kernels, origin)
        if found.reach is not None:
            origin += f", {_multiple(found.reach)}"
        least, times = found.kernels, found.times[0]
        parts = (least.compute, least.traffic, least.launch, least.seconds)
        return self._estimate("roofline", found, 0.0, Kernels(*(part * times for part in parts)), origin)

    def _estimate(
        self,
        basis: Basis,
        found: Fitted | Sheet,
        run: float,
        each: Kernels,
        origin: str,
        fit: Fit | None = None,
    ) -> Estimate:
        seconds = float(found.seconds[0])
        low, high = (None if np.isnan(side[0]) else float(side[0]) for side in (found.low, found.high))
        if not seconds:
            self.notes.append("nothing that it runs takes time on this basis")
            low = high = None
        notes = tuple(dict.fromkeys(self.notes))
        high = high if self.is_whole else None
        return Estimate(self.target, basis, seconds, low, high, run, self.executed, each, origin, notes, fit)


def _multiple(times: Reach) -> str:
    """How many times longer than its data sheet says networks took, and where, in words."""
    runtime = times.name.partition("/")[2]
    devices = f"{times.devices} such device{'s' * (times.devices != 1)}{f' with {runtime}' * bool(runtime)}"
    return f"x {times.times:.3g} as {times.measurements:,} networks on {devices} took"


def _origin(fit: Fit) -> str:
    """What a fit rests on, in words."""
    threads = f", {fit.threads} thread{'s' * (fit.threads != 1)}" if fit.threads else ""
    version = f" in version {fit.version}" if fit.version else ""
    return (
        f"fitted to {fit.measurements:,} measurements{version}{threads};"
        f" {100 * fit.error:.1f} % off on average with the {fit.held_out} held out"
    )


def _by_coefficients(
    cost: Cost, target: Target | None, asked: DType | None, table: coefficients.Table
) -> Estimate:
    """Milliseconds for two million MACs, operator by operator."""
    types, missing = ([asked] * len(cost.graph.ops), []) if asked else _own_types(cost, table)
    times = coefficients.layer_times(cost, types, table)
    whole = kernels_of(cost, asked)
    _, first = np.unique(whole.main, return_index=True)  # copies run under a product's name
    compute = np.zeros(len(whole.main))
    compute[first] = times.milliseconds[whole.main[first]] / 1e3
    empty = np.zeros(len(compute))
    found = Kernels(compute, empty, empty, compute)
    notes = ["a table has no error bar, and only products take time in it"]
    if missing:
        notes.append(f"no coefficient is known for {', '.join(missing)}: priced at fp32")
    origin = "milliseconds for 2,000,000 MACs by layer and precision"
    return Estimate(
        target, "coefficients", times.total / 1e3, None, None, 0.0, whole, found, origin, tuple(notes)
    )


def _own_types(cost: Cost, table: coefficients.Table) -> tuple[list[DType], list[str]]:
    """The number type that every operator makes, fp32 where the table lacks it, and which it lacks."""
    types, missing = [], dict[str, None]()
    for op in cost.graph.ops:
        layer = coefficients.layer_of(cost.graph, op)
        made = cost.graph.tensors[op.outputs[0]].dtype if op.outputs else precision("fp32")
        is_known = not layer or precision_name(made) in table[layer]
        types.append(made if is_known else precision("fp32"))
        if not is_known:
            missing[precision_name(made)] = None
    return types, list(missing)
