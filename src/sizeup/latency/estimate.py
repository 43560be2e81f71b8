"""One answer from three estimators: how long a network takes on a target, and on what that rests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType, precision, precision_name
from sizeup.errors import SizeupError, TargetError
from sizeup.latency import coefficients
from sizeup.latency.executed import Executed, executed
from sizeup.latency.interval import LEVEL, Band, unseen_share
from sizeup.latency.model import Kernels, kernels, rates_from
from sizeup.latency.roofline import BOUNDS, Bound
from sizeup.latency.work import Floats, Work
from sizeup.targets import Fit, Target, current

Basis = Literal["calibrated", "roofline", "coefficients"]
BASES: tuple[Basis, ...] = ("calibrated", "roofline", "coefficients")
# Where the data sheet has no rate for a number type, the kernel runs at that of the next wider one.
_WIDER = {
    "int2": "int4",
    "int4": "int8",
    "fp4": "fp8",
    "fp8": "fp16",
    "int8": "int16",
    "int16": "fp16",
    "bf16": "fp16",
    "fp16": "fp32",
    "tf32": "fp32",
}


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
        for op, part, time in zip(
            self.executed.main.tolist(), parts.argmax(axis=0).tolist(), taken, strict=True
        ):
            seconds[op] = time
            bounds[op] = BOUNDS[part] if time > 0 else "nothing"
        return seconds, tuple(bounds)


def estimate(
    cost: Cost,
    target: Target | None = None,
    asked: DType | None = None,
    *,
    basis: Basis | None = None,
    table: coefficients.Table | None = None,
) -> Estimate:
    """How long a counted network takes on a target, at its own number types or at one precision.

    Measurements of the target go before its data sheet, unless a basis is asked for; `table` holds the
    coefficients of that basis. Raises TargetError where nothing is known that an estimate could rest on.
    """
    if basis not in (None, *BASES):
        raise SizeupError(f"no basis is called {basis!r}; there are {', '.join(BASES)}")
    if basis == "coefficients" or (basis is None and table is not None):
        return _by_coefficients(cost, target, asked, table or coefficients.DEFAULT)
    if target is None:
        raise TargetError("an estimate needs a target, or a table of coefficients")
    return _Estimator(cost, target, asked).by(basis)


def type_of(name: str) -> str:
    """The number type that a class of kernels computes in: `conv.int8` in int8."""
    kind = name.partition(".")[2]
    return kind if kind and not kind.startswith("w") else "fp32"


class _Estimator:
    def __init__(self, cost: Cost, target: Target, asked: DType | None) -> None:
        self.cost, self.target, self.asked = cost, target, asked
        self.notes: list[str] = []
        if target.runtime.fuses is None:
            self.notes.append(
                f"what {target.runtime.name} merges is not known: operators are priced one by one"
            )
        self.executed = executed(cost, asked, target.runtime.fuses or ())
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
            return self._calibrated(fit)
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

    def _types(self) -> list[str]:
        return [type_of(name) for name in self.work.names]

    def _covers(self, fit: Fit) -> bool:
        """Whether most of the arithmetic is in number types that were measured."""
        measured = np.array([kind in fit.precisions for kind in self._types()], np.bool_)
        macs = self.work.macs * self.work.count
        weights = macs if macs.any() else self.work.traffic * self.work.count
        return not weights.any() or bool(2 * weights[measured[self.work.kind]].sum() >= weights.sum())

    def _calibrated(self, fit: Fit) -> Estimate:
        rates = rates_from(fit.rates)
        found = kernels(rates, self.work)
        seconds = float(self.work.totals(found.seconds)[0]) + rates.run
        share = float(unseen_share(rates, self.work)[0])
        unseen = [name for name in self.work.names if rates.classes and name not in rates.classes]
        if share > 0.01:
            listed = ", ".join(unseen[:4])
            self.notes.append(f"{100 * share:.0f} % of it is in kernels that the fit has not met ({listed})")
        low, high = Band(**fit.band).around(np.array([seconds]), share)
        return self._estimate(
            "calibrated", seconds, float(low[0]), float(high[0]), rates.run, found, _origin(fit), fit
        )

    def _roofline(self) -> Estimate:
        found, times = self._by_data_sheet(), current().reach(self.target.device.kind)
        fastest = float(self.work.totals(found.seconds)[0])
        origin = f"data sheet of {self.target.device.title}"
        if times is None:
            self.notes.append("no measurement tells how much longer it takes: this is the least")
            return self._estimate("roofline", fastest, None, None, 0.0, found, origin)
        origin += (
            f", x {times.times:.3g} as {times.measurements:,} networks on {times.devices} such devices took"
        )
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

    def _by_data_sheet(self) -> Kernels:
        rates = np.array([self._peak(kind) or math.inf for kind in self._types()])[self.work.kind]
        device, overhead = self.target.device, self.target.overhead_seconds
        bandwidth = device.bandwidth
        if bandwidth is None and not np.isfinite(rates).any():
            raise TargetError(f"{device.name}: neither its arithmetic nor its memory has a known rate")
        if bandwidth is None:
            self.notes.append(f"the bandwidth of {device.name} is not known: traffic takes no time here")
        compute = self.work.macs / rates
        traffic = self.work.traffic / (bandwidth or math.inf)
        launch = np.full(len(self.work), overhead or 0.0)
        return Kernels(compute, traffic, launch, np.maximum(compute, traffic) + launch)

    def _peak(self, kind: str) -> float | None:
        """The most MACs a second in a number type, or in the next wider one that is known."""
        asked, rate = kind, self.target.peak(kind)
        while rate is None and kind in _WIDER:
            kind = _WIDER[kind]
            rate = self.target.peak(kind)
        if rate is None:
            self.notes.append(
                f"no rate is known of {self.target.device.name} in {asked}: it takes no time here"
            )
        elif kind != asked:
            self.notes.append(f"{asked} is priced at the rate of {kind}")
        return rate

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
        notes = tuple(dict.fromkeys(self.notes))
        high = high if self.is_whole else None
        return Estimate(self.target, basis, seconds, low, high, run, self.executed, found, origin, notes, fit)


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
    whole = executed(cost, asked)
    compute = times.milliseconds[whole.main] / 1e3
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
