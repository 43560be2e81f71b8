"""What executes a network, the pair of it and a device, and calibrations of such pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sizeup.targets.device import Device, Unit

# What may write over its dying input.
InPlace = Literal["view", "elementwise", "softmax", "depthwise"]
IN_PLACE: tuple[str, ...] = get_args(InPlace)
READ = ("tflite", "onnx", "torch")
# The kernels that TFLite Micro is built with, which decide about scratch.
Micro = Literal["reference", "cmsis-nn", "esp-nn", "ethos-u"]
MICRO: tuple[str, ...] = get_args(Micro)


@dataclass(frozen=True, slots=True)
class Code:
    """What a runtime's own code takes of a device's flash, which depends on the kernels that are linked."""

    least_bytes: int
    most_bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class WeightOnly:
    """A precision that a runtime has for weights alone: which op kinds take it, and what they compute in."""

    dtype: str
    computes_in: str
    op_kinds: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """An inference engine: where it runs, what it merges, and the number types that it has kernels for."""

    name: str
    title: str
    units: tuple[str, ...]  # kinds of units that it runs on
    dtypes: tuple[str, ...]
    source: str
    recorded: str
    fuses: tuple[str, ...] | None = None  # None: not known
    in_place: tuple[str, ...] | None = None
    reads: tuple[str, ...] | None = None  # formats that it takes as they are; None: not known
    overhead_seconds: float | None = None  # per kernel
    micro: str = ""  # the kernels, where it is TFLite Micro
    code: Code | None = None  # None: not known, or nothing that limits
    packs: bool = False  # whether it may keep a second copy of weights, laid out for its kernels
    weight_only: tuple[WeightOnly, ...] = ()
    version: str = ""
    aliases: tuple[str, ...] = ()
    note: str = ""
    file: str = ""

    def weights_at(self, dtype: str) -> WeightOnly | None:
        """How a precision is supported for weights alone; None if activations have it too."""
        return next((each for each in self.weight_only if each.dtype == dtype), None)


def word_bits_of(target: Target | None) -> int:
    """The word size of a target's processor, 32 bits without a target."""
    return 32 if target is None else target.device.word_bits


@dataclass(frozen=True, slots=True)
class Target:
    """A device and the runtime on it: what latency and memory depend on."""

    device: Device
    runtime: Runtime

    @property
    def name(self) -> str:
        """How it is written: `stm32f746/tflm`."""
        return f"{self.device.name}/{self.runtime.name}"

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that the runtime computes on: the device's first that it knows, and all of that kind."""
        first = next(unit for unit in self.device.units if unit.kind in self.runtime.units)
        return tuple(unit for unit in self.device.units if unit.kind == first.kind)

    @property
    def overhead_seconds(self) -> float | None:
        """What each kernel costs beside its work; None where it is not known."""
        return self.runtime.overhead_seconds

    def peak(self, dtype: str) -> float | None:
        """The most MACs per second of those units in a number type; None where it is not known."""
        return self.device.peak(dtype, self.units[0].kind)

    def flops_per_byte(self, dtype: str) -> float | None:
        """FLOPs per byte moved (2 per MAC) above which arithmetic, not memory, is the limit."""
        return self.device.flops_per_byte(dtype, self.units[0].kind)

    def __str__(self) -> str:
        return self.name


RATES_SCHEMA = 1
"""The layout of `Fit.rates` that is written and read."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Rates fitted to networks measured on one target, and the errors on those that the fit had not seen."""

    name: str  # the target: device/runtime
    precisions: tuple[str, ...]  # number types that were measured
    measurements: int
    error: float  # mean absolute error of held-out estimates: 0.08 is 8 %
    held_out: str  # what was held out together
    rates: Mapping[str, Any]
    band: Mapping[str, float]
    source: str
    recorded: str
    within: float | None = None  # the share of held-out estimates that are off by less than a tenth
    tau: float | None = None  # their rank correlation with the measurements
    version: str = ""  # of the runtime
    threads: int | None = None
    note: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """How many times longer than its data sheet says a kind of device takes, with any runtime or with one:
    the middle, and nine of ten."""

    name: str  # the kind of device, or kind/runtime
    times: float
    low: float
    high: float
    measurements: int
    devices: int
    source: str
    recorded: str
    file: str = ""
