"""Runtimes, targets (a device with a runtime), and calibrations of targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from sizeup.targets.board import Board
from sizeup.targets.device import Device, Unit
from sizeup.units import FLOPS_PER_MAC

# Ops that may overwrite an input that is not live afterwards.
InPlace = Literal["view", "elementwise", "softmax", "depthwise"]
IN_PLACE: tuple[str, ...] = get_args(InPlace)
FORMATS = ("tflite", "onnx", "torch")
# Kernel libraries of TFLite Micro, which determine the scratch buffers.
Micro = Literal["reference", "cmsis-nn", "esp-nn", "ethos-u"]
MICRO: tuple[str, ...] = get_args(Micro)
# Formats whose operators have a name for each function, unlike those of PyTorch.
OperatorFormat = Literal["onnx", "tflite"]
OPERATOR_FORMATS: tuple[str, ...] = get_args(OperatorFormat)
Exclusion = Literal["grouped conv", "dilated conv", "conv above 3 x 3", "above 4-D"]
EXCLUSIONS: tuple[str, ...] = get_args(Exclusion)


@dataclass(frozen=True, slots=True)
class CodeSize:
    """The code size of a runtime in flash, which depends on the kernels that are linked."""

    least_bytes: int
    most_bytes: int
    source: str
    per_op_bytes: int = 0  # at most, for code that a compiler generates per op


@dataclass(frozen=True, slots=True)
class OperatorList:
    """The operators that the makers of a runtime list, by their names in a model format."""

    format: OperatorFormat
    names: frozenset[str]
    source: str
    excluded: tuple[Exclusion, ...] = ()  # uses of the listed operators that they do not run


@dataclass(frozen=True, slots=True)
class WeightOnly:
    """A weight-only precision of a runtime: the op kinds that support it, and the dtype they compute in."""

    dtype: str
    computes_in: str
    op_kinds: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """What a process of a runtime takes of a GPU's memory in addition to its tensors."""

    makers: tuple[str, ...]  # of the GPUs on which the runtime uses CUDA's caching allocator
    context_least_bytes: int
    context_most_bytes: int
    # Bytes by the first words of a unit's name, of which the first match counts, and for `other` units.
    blas_workspaces: Mapping[str, int]
    source: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """An inference engine: the units it runs on, its fusions, and the dtypes of its kernels."""

    name: str
    title: str
    units: tuple[str, ...]  # unit kinds that it runs on
    dtypes: tuple[str, ...]
    source: str
    recorded: str
    fusions: tuple[str, ...] | None = None  # None: unknown
    in_place: tuple[str, ...] | None = None
    formats: tuple[str, ...] | None = None  # model formats; None: unknown
    overhead_seconds: float | None = None  # per kernel
    cores: int | None = None  # most CPU cores that one inference uses; None: all
    fp32_as: tuple[str, ...] = ()  # dtypes in which it may compute fp32 by default
    fp16_as_fp32: bool = False  # computes both in the same dtype: fp16 if the device supports it, else fp32
    backend: str = ""  # the folder of `sizeup.backends` that describes it, or an installed one; empty: usual
    micro: str = ""  # the kernel library, for TFLite Micro
    operators: OperatorList | None = None  # None: unknown, or TFLite Micro's
    code: CodeSize | None = None  # None: unknown, or irrelevant
    packs_weights: bool = False  # may hold a second copy of the weights, packed for its kernels
    has_memory_pools: bool = False  # spreads activations over several RAM banks
    weight_only: tuple[WeightOnly, ...] = ()
    gpu_process: GpuProcess | None = None  # None: it has another allocator than PyTorch's for CUDA
    version: str = ""
    aliases: tuple[str, ...] = ()
    note: str = ""
    file: str = ""

    def weight_only_at(self, dtype: str) -> WeightOnly | None:
        """The weight-only support of a precision; None if activations have it too."""
        return next((support for support in self.weight_only if support.dtype == dtype), None)


def word_bits_of(target: Target | None) -> int:
    """The word size of a target's processor, 32 bits without a target."""
    return 32 if target is None else target.device.word_bits


@dataclass(frozen=True, slots=True)
class Target:
    """A device with a runtime; on a board, the device has the board's memories."""

    device: Device
    runtime: Runtime
    board: Board | None = None
    file: str = field(default="", compare=False, repr=False)  # that was named with it, not on the search path

    @property
    def name(self) -> str:
        """Its name, such as `stm32f746/tflm`, or `nano33ble/tflm` on a board."""
        return f"{self.device.name if self.board is None else self.board.name}/{self.runtime.name}"

    @property
    def calibration_name(self) -> str:
        """The name of its calibration, which is the same for all boards with a device."""
        return f"{self.device.name}/{self.runtime.name}"

    @property
    def title(self) -> str:
        """The title of its board, else of its device."""
        return self.device.title if self.board is None else self.board.title

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that the runtime uses: the first supported one of the device, and all of its kind."""
        first = next(unit for unit in self.device.units if unit.unit_class in self.runtime.units)
        return tuple(unit for unit in self.device.units if unit.unit_class == first.unit_class)

    @property
    def architectures(self) -> tuple[str, ...]:
        """The architectures of its cores, such as `Armv7E-M`; empty text for an unknown core."""
        return tuple("" if unit.core is None else unit.core.architecture for unit in self.units)

    @property
    def family(self) -> str:
        """The family of its fastest cores, or of its GPU or NPU; empty if unknown."""
        return max(self.units, key=_rate_of_one_core).family

    @property
    def is_cpu(self) -> bool:
        """Whether the runtime uses the device's CPU."""
        return self.units[0].unit_class == "cpu"

    @property
    def overhead_seconds(self) -> float | None:
        """Launch overhead per kernel; None if unknown."""
        return self.runtime.overhead_seconds

    @property
    def cores(self) -> int | None:
        """The CPU cores that one inference uses; None if unknown or if it does not run on the CPU."""
        counts = [unit.cores or 1 for unit in self.units if self.is_cpu]
        if not counts or (len(counts) > 1 and not all(unit.cores for unit in self.units)):
            return None
        return sum(counts) if self.runtime.cores is None else min(sum(counts), self.runtime.cores)

    def peak(self, dtype: str) -> float | None:
        """Peak MACs per second in a dtype of the cores that the runtime uses, the fastest first.

        None if unknown.
        """
        limit = self.runtime.cores if self.is_cpu else None
        if limit is None:
            return self.device.peak(dtype, self.units[0].unit_class)
        rates = [
            rate / (unit.cores or 1)
            for unit in self.units
            if (rate := unit.macs_per_second.get(dtype)) is not None
            for _ in range(min(unit.cores or 1, limit))
        ]
        return sum(sorted(rates, reverse=True)[:limit]) if rates else None

    def flops_per_byte(self, dtype: str) -> float | None:
        """FLOPs per byte (2 FLOPs per MAC) above which a kernel is compute-bound."""
        peak, bandwidth = self.peak(dtype), self.device.bandwidth
        return None if peak is None or bandwidth is None else FLOPS_PER_MAC * peak / bandwidth

    def __str__(self) -> str:
        return self.name


def _rate_of_one_core(unit: Unit) -> float:
    rates = unit.macs_per_second
    return rates.get("fp32", max(rates.values(), default=0.0)) / (unit.cores or 1)


# What a calibration predicts: the latency of one inference, or the time per inference of a pipeline.
MeasuredQuantity = Literal["latency", "throughput"]
MEASURED_QUANTITIES: tuple[MeasuredQuantity, ...] = get_args(MeasuredQuantity)

RATES_SCHEMA = 1
"""The version of the layout of `Fit.rates`."""


@dataclass(frozen=True, slots=True)
class TargetCalibration:
    """The calibration of a target: rates fitted to measured networks, and errors on held-out networks."""

    name: str  # the target: device/runtime
    precisions: tuple[str, ...]  # dtypes that were measured
    measurements: int
    mape: float  # MAPE of held-out estimates: 0.08 is 8 %
    held_out: str  # the groups that were held out
    rates: Mapping[str, Any]
    interval: Mapping[str, float]
    source: str
    recorded: str
    within_10_percent: float | None = None  # the share of held-out estimates with an error below 10 %
    kendall_tau: float | None = None  # their rank correlation with the measurements
    version: str = ""  # of the runtime
    threads: int | None = None
    note: str = ""
    file: str = ""
    # With "throughput" the seconds are those between two results of a pipeline, which are no latency.
    quantity: MeasuredQuantity = "latency"
    equal_precisions: tuple[str, ...] = ()  # not measured, but with the rates of a measured one

    @property
    def covered_precisions(self) -> tuple[str, ...]:
        """The dtypes that it has rates for."""
        return (*self.precisions, *self.equal_precisions)

    def with_equal_precisions(self, target: Target) -> TargetCalibration:
        """Itself with the rates of fp16 also for bf16, if the data sheet has the same peak for both.

        Of a runtime that computes fp32 and fp16 alike, with the rates of fp32 also for fp16.
        """
        known = self.precisions
        if target.runtime.fp16_as_fp32 and "fp32" in known and "fp16" not in known:
            return self._with_fp16_as_fp32()
        peak = target.peak("fp16")
        if "fp16" not in known or "bf16" in known or peak is None or peak != target.peak("bf16"):
            return self
        classes = self.rates.get("classes", {})
        equal = {f"{name[:-4]}bf16": rate for name, rate in classes.items() if name.endswith(".fp16")}
        rates = {**self.rates, "classes": {**equal, **classes}}
        return replace(self, rates=rates, equal_precisions=("bf16",))

    def _with_fp16_as_fp32(self) -> TargetCalibration:
        """Itself with the latency of fp32 for fp16: a byte of half as many takes twice as long."""
        classes = self.rates.get("classes", {}) or {"*": self.rates["pooled"]}
        halves = {
            f"{name}.fp16": {**rate, "byte": 2 * rate["byte"]}
            for name, rate in classes.items()
            if "." not in name
        }
        rates = {**self.rates, "classes": {**classes, **halves}}
        return replace(self, rates=rates, equal_precisions=("fp16",))


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The slowdown of a family of units with a runtime against the data sheet, with a 90 % interval.

    A kernel takes `compute` times its arithmetic at the peak rate, plus `traffic` times its bytes at the full
    bandwidth, plus `launch_seconds`. `low` and `high` are multiples of the sum over all kernels, from devices
    that were held out.
    """

    name: str  # family/runtime
    compute: float
    traffic: float
    launch_seconds: float
    low: float
    high: float
    measurements: int
    devices: int
    source: str
    recorded: str
    file: str = ""
