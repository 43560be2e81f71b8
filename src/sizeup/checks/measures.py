"""The measures that a budget can limit, and the model that they are computed for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sizeup.backends import EXTERNAL_RAM, MemoryFit, MemoryNeed, Needs, backend_of, fit_memory
from sizeup.backends.tflm.needs import TflmNeeds, converted_parts
from sizeup.checks.limits import Contribution, Limit, Unit, limit_of
from sizeup.cost import Column, Cost, count
from sizeup.dtypes import DType
from sizeup.errors import TargetError
from sizeup.graph import Graph, name_of
from sizeup.targets import Target

if TYPE_CHECKING:
    from pathlib import Path

    from sizeup.backends.backend import HostRun
    from sizeup.backends.compiled import NpuFit
    from sizeup.latency import EnergyEstimate, Estimate
    from sizeup.memory import Usage

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Amount:
    """Lower and upper bound of an amount; `reason` is set if one of them is not known."""

    least: float | None
    most: float | None
    expected: float | None = None
    reason: str = ""
    largest: tuple[Contribution, ...] = ()
    assumptions: tuple[str, ...] = ()


_REFERENCE_KERNELS = (
    "arena with TFLite Micro's reference kernels: CMSIS-NN and others may need more; set a target"
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity that a budget can limit."""

    name: str
    unit: Unit
    compute: Callable[[Subject], Amount]
    words: str
    has_growth: bool = True  # whether a budget may limit its growth
    needs_target: bool = False


def check_limit(measure: Measure, subject: Subject, most: float, of: str, expected: bool = False) -> Limit:
    """A limit and the need of a model; `expected` compares the expected amount instead of the bounds."""
    amount = measure.compute(subject)
    least, upper = amount.least, amount.most
    if expected and amount.expected is not None:
        least = upper = amount.expected
    return Limit(
        measure.name,
        measure.unit,
        most,
        least,
        upper,
        amount.expected,
        of,
        (amount.reason,) if amount.reason else (),
        (),
        amount.assumptions,
        amount.largest,
    )


def memory_limits(subject: Subject) -> tuple[Limit, ...]:
    """The memories of the target as limits."""
    if subject.memory_fit is None:
        return ()
    return tuple(limit_of(space, _largest_in(space, subject)) for space in subject.memory_fit.memories)


def _largest_in(space: MemoryNeed, subject: Subject) -> tuple[Contribution, ...]:
    return subject.peak_tensors if space.name == "ram" else subject.largest(subject.cost.params)


def _macs(subject: Subject) -> Amount:
    cost, total = subject.cost, subject.cost.total_macs
    reason = uncounted_text(cost)
    return Amount(total, None if reason else total, None, reason, subject.largest(cost.macs))


def uncounted_text(cost: Cost) -> str:
    """That operators are not counted, which makes an amount a lower bound; empty if all are."""
    missing = len(cost.reasons)
    return f"{missing:,} operator{'s are' if missing != 1 else ' is'} not counted" if missing else ""


def _params(subject: Subject) -> Amount:
    total = subject.cost.total_params
    return Amount(total, total, largest=subject.largest(subject.cost.params))


def _weights(subject: Subject) -> Amount:
    total = subject.needs.weight_bytes
    return Amount(total, total, largest=subject.largest(subject.cost.params))


def _peak(subject: Subject) -> Amount:
    usage = subject.usage
    reason = usage.unmodeled_reason or usage.unavailable_reason
    return Amount(usage.peak_bytes, None if reason else usage.peak_bytes, None, reason, subject.peak_tensors)


def _arena(subject: Subject) -> Amount:
    """TFLite Micro's arena for .tflite files; for others, the memory plan that its planner would make."""
    needs = subject.needs
    npu = None if subject.target is None else backend_of(subject.target).compiled(needs)
    if npu is not None:
        return _npu_arena(npu)
    if needs.usage.unknown_sizes:
        return _peak(subject)
    micro = needs.part(TflmNeeds)
    arena, bounds = micro.arena(subject.target), micro.arena_bounds(subject.target)
    if bounds is not None:
        assumptions = () if subject.target is not None else (_REFERENCE_KERNELS,)
        return Amount(*bounds, largest=subject.peak_tensors, assumptions=assumptions)
    if arena is not None:
        return Amount(arena.head_bytes, None, None, arena.tail_unknown_reason, subject.peak_tensors)
    if reason := micro.unsupported_reason(subject.target):
        return Amount(None, None, None, f"TFLite Micro does not run this file: {reason}")
    if needs.usage.unmodeled:
        return _peak(subject)
    parts = converted_parts(needs.converted, subject.target)
    low, highs = sum(part.low_bytes for part in parts), [part.high_bytes for part in parts]
    high = None if None in highs else sum(filter(None, highs))
    reason = "" if high is not None else parts[-1].basis
    return Amount(low, high, None, reason, subject.peak_tensors)


def _npu_arena(npu: NpuFit) -> Amount:
    """TFLite Micro's arena for the file that Vela compiled."""
    if npu.arena is None:
        return Amount(None, None, None, npu.arena_unknown_reason or npu.reason)
    return Amount(*npu.arena)


def _ram(subject: Subject) -> Amount:
    assert subject.memory_fit is not None
    return _of_space(subject.memory_fit.ram, subject.peak_tensors)


def _flash(subject: Subject) -> Amount:
    """The size of the model, plus the code size of the runtime if there is a target."""
    largest = subject.largest(subject.cost.params)
    if subject.memory_fit is not None and subject.memory_fit.flash is not None:
        return _of_space(subject.memory_fit.flash, largest)
    least, most = subject.needs.stored_bytes
    return Amount(least, most, largest=largest)


def _of_space(space: MemoryNeed, largest: tuple[Contribution, ...]) -> Amount:
    if not space.parts:
        return Amount(None, None, None, "; ".join(space.unknown))
    most = space.high_bytes
    unbounded = [part.basis for part in space.parts if part.high_bytes is None]
    return Amount(space.low_bytes, most, None, "; ".join(unbounded), largest)


def _latency(subject: Subject) -> Amount:
    estimate = subject.estimate
    if isinstance(estimate, str):
        return Amount(None, None, None, estimate)
    column = subject.op_seconds
    largest = () if column is None else subject.largest(column)
    if estimate.basis == "vela":
        return Amount(None, None, estimate.seconds, "Vela's estimate has no prediction interval", largest)
    if reason := _open_end(subject):
        return Amount(estimate.seconds if estimate.low is None else estimate.low, None, None, reason, largest)
    if estimate.low is None:
        return Amount(estimate.seconds, None, None, "only a lower bound of the latency is known", largest)
    low, high = subject.latency_bounds
    reason = "" if high is not None else "the interval of the latency has no upper end"
    if high is None and estimate.high is not None:
        reason = "a converter may write operators whose time is not known"
    return Amount(low, high, estimate.seconds, reason, largest)


def _open_end(subject: Subject) -> str:
    """Why latency and energy have neither an upper bound nor an expected value; empty if they may have."""
    assert not isinstance(subject.estimate, str)
    compiled_by_vela = subject.estimate.basis == "vela"  # with all operators
    uncounted = "" if compiled_by_vela else uncounted_text(subject.cost)
    return uncounted or (EXTERNAL_RAM if subject.is_in_external_ram else "")


def latency_caveats(subject: Subject, limits: Iterable[Limit]) -> tuple[str, ...]:
    """The caveats of the latency, if one of the limits is on a latency or an energy, or on its growth."""
    is_judged = any(
        limit.unit in ("seconds", "joules") or limit.name in ("growth of latency", "growth of energy")
        for limit in limits
        if limit.is_applicable
    )
    return () if not is_judged or isinstance(subject.estimate, str) else subject.estimate.notes


def _energy(subject: Subject) -> Amount:
    energy = subject.energy
    if isinstance(energy, str):
        return Amount(None, None, None, energy)
    least = 0.0 if energy.low is None or energy.is_upper_bound else energy.low
    if reason := _open_end(subject):
        return Amount(least, None, None, reason)
    high, reason = energy.high, ""
    if high is None:
        is_known = energy.low is not None
        reason = "its interval has no upper end" if is_known else "no prediction interval is known"
    elif not isinstance(subject.estimate, str) and subject.estimate.high:
        slowest = subject.latency_bounds[1]
        high = None if slowest is None else high * slowest / subject.estimate.high
        reason = "" if high is not None else "a converter may write operators whose time is not known"
    return Amount(least, high, energy.joules, reason)


_ALL = (
    Measure("macs", "count", _macs, "multiply-accumulates per inference"),
    Measure("params", "count", _params, "parameters"),
    Measure("weights", "bytes", _weights, "weights"),
    Measure("peak", "bytes", _peak, "peak activation memory"),
    Measure("arena", "bytes", _arena, "TFLite Micro's arena"),
    Measure("ram", "bytes", _ram, "RAM of the target that model and runtime need", False, True),
    Measure("flash", "bytes", _flash, "model size, plus the runtime's code size if there is a target", False),
    Measure("latency", "seconds", _latency, "latency on the target", needs_target=True),
    Measure("energy", "joules", _energy, "energy per inference", needs_target=True),
)
MEASURES = {measure.name: measure for measure in _ALL}


@dataclass(frozen=True)
class Subject:
    """A model at a precision on a target; `ram_bytes` and `flash_bytes` override its memory sizes."""

    needs: Needs
    target: Target | None = None
    ram_bytes: int | None = None
    flash_bytes: int | None = None

    @property
    def graph(self) -> Graph:
        """The graph of the model."""
        return self.needs.graph

    @property
    def cost(self) -> Cost:
        """The cost of the model."""
        return self.needs.cost

    @property
    def precision(self) -> DType | None:
        """The precision assumed for the whole model, or None."""
        return self.needs.precision

    @cached_property
    def memory_fit(self) -> MemoryFit | None:
        """The fit in the target's memories; None without a target."""
        if self.target is None:
            return None
        return fit_memory(self.needs, self.target, ram=self.ram_bytes, flash=self.flash_bytes)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """Why the sizes of tensors are only lower bounds; empty if they are known."""
        uses_record = self.target is not None and backend_of(self.target).uses_recorded_shapes
        return self.graph.open_sizes(uses_record=uses_record)

    @property
    def is_in_external_ram(self) -> bool:
        """Whether activations are in external RAM, whose speed is not measured."""
        return self.memory_fit is not None and self.memory_fit.ram.is_external

    @cached_property
    def estimate(self) -> Estimate | str:
        """The latency on the target, or the reason why there is none."""
        if self.target is None:
            return "latency needs a target: add -d TARGET"
        try:
            return backend_of(self.target).estimate(self.needs)
        except TargetError as error:
            return str(error)

    @cached_property
    def latency_bounds(self) -> tuple[float | None, float | None]:
        """The interval of the latency, also of the files that converters for microcontrollers may write."""
        from sizeup import latency

        estimate, target = self.estimate, self.target
        if isinstance(estimate, str) or target is None:
            return None, None
        low, high = estimate.low, estimate.high
        if low is None:
            return low, high
        for graph in backend_of(target).converted_graphs(self.needs):
            try:
                other = latency.estimate(count(graph), target)
            except TargetError:
                return low, None
            low = min(low, other.seconds if other.low is None else other.low)
            high = None if high is None or other.high is None else max(high, other.high)
        return low, high

    def host_run(
        self, file: Path | None, run: bool | None, *, is_over: bool, is_unsupported: bool
    ) -> HostRun | None:
        """One inference of the model's file on the host; see `Backend.host_run`."""
        if self.target is not None:
            return backend_of(self.target).host_run(
                self.needs, file, run, is_over=is_over, is_unsupported=is_unsupported
            )
        from sizeup.backends.backend import not_run

        return not_run(run)

    @cached_property
    def energy(self) -> EnergyEstimate | str:
        """The energy per inference, or the reason why there is none."""
        from sizeup import latency

        if isinstance(self.estimate, str):
            return self.estimate
        energy = latency.energy(self.estimate)
        if energy is not None:
            return energy
        assert self.target is not None
        device = self.target.device
        if self.estimate.low is None and (device.power or device.energy):
            return "the latency has no prediction interval"
        return f"the power of {device.title} is not known"

    @cached_property
    def peak_tensors(self) -> tuple[Contribution, ...]:
        """The tensors live at the peak, the largest first; none if a compiler plans the memory."""
        if self.target is not None and backend_of(self.target).compiles_models:
            return ()
        return tuple(Contribution(tensor.name, tensor.bytes) for tensor in self.usage.peak_tensors)

    @property
    def usage(self) -> Usage:
        """Memory use in the target's runtime; without a target as in a report."""
        return self.needs.usage_as_run if self.target is None else backend_of(self.target).usage(self.needs)

    @cached_property
    def op_seconds(self) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """The latency of every operator; None if there is no estimate."""
        return None if isinstance(self.estimate, str) else self.estimate.by_op()[0]

    def largest(
        self, column: Column | np.ndarray[tuple[int], np.dtype[np.float64]]
    ) -> tuple[Contribution, ...]:
        """The operators with the largest values of a column."""
        order = np.argsort(-column, kind="stable")[:_MOST_NAMED].tolist()
        ops = self.graph.ops
        return tuple(
            Contribution(name_of(self.graph, ops[index]) or ops[index].kind, float(column[index]))
            for index in order
            if column[index]
        )
