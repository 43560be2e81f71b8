"""What executes a network, and the pair of it and the hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

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
