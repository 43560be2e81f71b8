"""One answer from three estimators: how long a network takes on a target, and on what that rests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType, precision, precision_name
from sizeup.errors import SizeupError, TargetError
from sizeup.latency import coefficients
from sizeup.latency.executed import Executed
from sizeup.latency.executed import executed as kernels_of
from sizeup.latency.interval import LEVEL, Band, unseen_share
from sizeup.latency.model import Kernels, kernels, rates_from, seconds
from sizeup.latency.roofline import BOUNDS, Bound
from sizeup.latency.sheet import by_data_sheet, type_of
from sizeup.latency.work import Floats, Work
from sizeup.targets import Fit, Reach, Target, current

Basis = Literal["calibrated", "roofline", "coefficients"]
BASES: tuple[Basis, ...] = ("calibrated", "roofline", "coefficients")
_FILES = ("tflite", "onnx")
_TRACE = 0.01  # of all MACs, in number types that a fit has not met
# No runtime on an operating system starts a kernel in less: where kernels take less, starting them is most of
# the time, and no multiple of a data sheet tells of it.
_LEAST_START = 1e-6


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
        self._check_types()
        missing = len(cost.reasons)
        self.is_whole = not missing
        if missing:
            self.notes.append(
                f"the time of {missing:,} operators that are not known is missing, at least in part"
            )

    def by(self, basis: Basis | None) -> Estimate:
        fit = current().fit(self.target)
        if basis != "roofline" and fit is not None and self._covers(fit):
            if basis == "calibrated" or not self._waits_for_launches(fit):
                return self._calibrated(fit)
            self.notes.append(
                f"{self.target.name} was fitted to networks that keep it busy, which this one does not"
            )
            return self._roofline()
        if basis == "calibrated":
            known = (
                "nothing was measured on it"
                if fit is None
                else f"only {', '.join(fit.precisions)} was measured"
            )
            raise TargetError(f"{self.target.name} is not calibrated for this network: {known}")
        if fit is not None and basis is None:
            self.notes.append(
                f"the fit of {self.target.name} was measured at {', '.join(fit.precisions)} only"
            )
        return self._roofline()

    def _check_types(self) -> None:
        kinds = self.target.runtime.dtypes
        if self.asked is not None and precision_name(self.asked) not in kinds:
            raise TargetError(
                f"{self.target.runtime.name} has no kernels for {precision_name(self.asked)};"
                f" it has {', '.join(kinds)}"
            )

    def _check_format(self, format: str) -> None:
        """Code can be exported to anything; a file is what it is."""
        runtime = self.target.runtime
        if format in _FILES and runtime.reads is not None and format not in runtime.reads:
            self.notes.append(
                f"{runtime.name} does not read .{format} files: this is for the same operators there"
            )

    def _types(self) -> list[str]:
        return [type_of(name) for name in self.work.names]

    def _covers(self, fit: Fit) -> bool:
        """Whether all of the arithmetic, but for a trace, is in number types that were measured."""
        measured = np.array([kind in fit.precisions for kind in self._types()], np.bool_)
        macs = self.work.macs * self.work.count
        weights = macs if macs.any() else self.work.traffic * self.work.count
        return not weights.any() or bool(weights[~measured[self.work.kind]].sum() <= _TRACE * weights.sum())

    def _waits_for_launches(self, fit: Fit) -> bool:
        """Whether the runtime takes longer to start the kernels than the fit says for all of it."""
        overhead = self.target.overhead_seconds or 0.0
        least = overhead * float(self.work.totals(np.ones(len(self.work)))[0])
        return float(seconds(rates_from(fit.rates), self.work)[0]) < least

    def _calibrated(self, fit: Fit) -> Estimate:
        rates = rates_from(fit.rates)
        found = kernels(rates, self.work)
        total = float(self.work.totals(found.seconds)[0]) + rates.run
        share = float(unseen_share(rates, self.work)[0])
        unseen = [name for name in self.work.names if not rates.knows(name)]
        if share > 0.01:
            listed = ", ".join(unseen[:4])
            self.notes.append(f"{100 * share:.0f} % of it is in kernels that the fit has not met ({listed})")
        if fit.note:
            self.notes.append(f"the fit: {fit.note}")
        low, high = Band(**fit.band).around(np.array([total]), share)
        return self._estimate(
            "calibrated", total, float(low[0]), float(high[0]), rates.run, found, _origin(fit), fit
        )

    def _roofline(self) -> Estimate:
        found, is_whole, notes = by_data_sheet(self.work, self.target)
        self.notes += notes
        # What a data sheet leaves out is not a multiple of what it tells.
        times = current().reach(self.target) if is_whole else None
        fastest = float(self.work.totals(found.seconds)[0])
        origin = f"data sheet of {self.target.device.title}"
        if times is None or self._is_lost_in_starting(fastest * times.times):
            if times is not None:
                runtime = self.target.runtime.name
                self.notes.append(f"what {runtime} takes to start a kernel is not known, and most of it here")
            self.notes.append("no measurement tells how much longer it takes: this is the least")
            return self._estimate("roofline", fastest, None, None, 0.0, found, origin)
        origin += f", x {times.times:.3g} as {times.measurements:,} networks on {_devices(times)} took"
        parts = (found.compute, found.traffic, found.launch, found.seconds)
        return self._estimate(
            "roofline",
            fastest * times.times,
            fastest * times.low,
            fastest * times.high,
            0.0,
            Kernels(*(part * times.times for part in parts)),
            origin,
        )

    def _is_lost_in_starting(self, total: float) -> bool:
        """Whether kernels are so short that a start of unknown length takes longer."""
        if self.target.overhead_seconds is not None or self.target.device.kind == "microcontroller":
            return False
        return total < _LEAST_START * float(self.work.totals(np.ones(len(self.work)))[0])

    def _estimate(
        self,
        basis: Basis,
        seconds: float,
        low: float | None,
        high: float | None,
        run: float,
        found: Kernels,
        origin: str,
        fit: Fit | None = None,
    ) -> Estimate:
        if not seconds:
            self.notes.append("nothing that it runs takes time on this basis")
            low = high = None
        notes = tuple(dict.fromkeys(self.notes))
        high = high if self.is_whole else None
        return Estimate(self.target, basis, seconds, low, high, run, self.executed, found, origin, notes, fit)


def _devices(times: Reach) -> str:
    """The devices that a multiple was measured on, in words."""
    runtime = times.name.partition("/")[2]
    return f"{times.devices} such device{'s' * (times.devices != 1)}{f' with {runtime}' * bool(runtime)}"


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
