"""Devices: compute units, memories, power. Unknown values are None or absent, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sizeup.units import FLOPS_PER_MAC

DeviceKind = Literal[
    "microcontroller", "single-board computer", "phone", "npu", "cpu", "gpu", "accelerator", "computer"
]
# A coprocessor is a further core that applications use for other tasks, such as the radio.
UnitKind = Literal["cpu", "gpu", "npu", "coprocessor"]
Role = Literal[
    "ram", "instruction ram", "external ram", "npu ram", "npu weights", "flash", "external flash", "cache"
]

DEVICE_CLASSES: tuple[str, ...] = get_args(DeviceKind)
UNIT_KINDS: tuple[str, ...] = get_args(UnitKind)
ROLES: tuple[str, ...] = get_args(Role)

# Dtypes of MACs. fp16 products are summed in fp32, except `fp16_acc16`, which graphics cards run at twice the
# rate, but which frameworks do not use by default.
RATE_TYPES = (
    "fp64",
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp16_acc16",
    "fp8",
    "fp4",
    "int32",
    "int16",
    "int8",
    "int4",
)


@dataclass(frozen=True, slots=True)
class Core:
    """A processor core, and its peak MACs per cycle by dtype; the cores of a family execute code alike."""

    name: str
    title: str
    architecture: str
    macs_per_cycle: Mapping[str, float]
    source: str
    note: str = ""
    family: str = ""
    instructions_per_cycle: float | None = None  # at most, by the instructions that it issues at a time


@dataclass(frozen=True, slots=True)
class Unit:
    """Identical cores of a device; units of one kind, such as large and small cores, can share the work."""

    unit_class: str
    name: str
    source: str
    core: Core | None = None
    cores: int | None = None
    clock_hz: float | None = None
    boost_hz: float | None = None
    macs_per_second: Mapping[str, float] = field(default_factory=dict)
    basis: Mapping[str, str] = field(default_factory=dict)  # provenance of the rate, by dtype
    note: str = ""
    family: str = ""  # of units that execute code alike; empty if unknown


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory: a contiguous RAM bank, storage, or a cache."""

    name: str
    role: str
    source: str
    bytes: int | None = None
    bytes_per_second: float | None = None
    basis: str = ""  # provenance of the bandwidth
    note: str = ""


@dataclass(frozen=True, slots=True)
class Power:
    """Watts: idle, typical under load, and the thermal design power (TDP)."""

    source: str
    idle_watts: float | None = None
    typical_watts: float | None = None
    tdp_watts: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Energy:
    """Picojoules per MAC by dtype, and per byte by memory."""

    source: str
    pj_per_mac: Mapping[str, float] = field(default_factory=dict)
    pj_per_byte: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """Hardware that a network can run on, as in its data sheet."""

    name: str
    title: str
    device_class: str
    vendor: str
    units: tuple[Unit, ...]
    memories: tuple[Memory, ...]
    runtimes: tuple[str, ...]  # names; the first is the default
    source: str
    recorded: str  # date on which the values were recorded
    power: Power | None = None
    energy: Energy | None = None
    aliases: tuple[str, ...] = ()
    note: str = ""
    file: str = ""  # that describes it
    verified: str = ""  # date on which the values were compared with the source

    def peak(self, dtype: str, kind: str | None = None) -> float | None:
        """Peak MACs per second in a dtype of all units of a kind, by default that of the first unit.

        None if no unit of the kind has a known rate.
        """
        unit_kind = kind or self.units[0].unit_class
        rates = [unit.macs_per_second.get(dtype) for unit in self.units if unit.unit_class == unit_kind]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    @property
    def word_bits(self) -> int:
        """The word size of its processor: 32 bits for microcontrollers and the hosts of NPUs."""
        return 32 if self.device_class in ("microcontroller", "npu") else 64

    @property
    def ram_bytes(self) -> int | None:
        """On-chip RAM for data, over all banks; None if a size is unknown."""
        return _total(self.memories, "ram")

    @property
    def largest_ram_bytes(self) -> int | None:
        """The largest RAM bank, which limits a single array such as the arena."""
        return self.largest_bytes("ram")

    def largest_bytes(self, role: str) -> int | None:
        """The largest memory with a role; None if there is none or a size is unknown."""
        sizes = [memory.bytes for memory in self.memories if memory.role == role]
        known = [size for size in sizes if size is not None]
        return max(known) if known and len(known) == len(sizes) else None

    @property
    def flash_bytes(self) -> int | None:
        """On-chip flash; None if it has none."""
        return _total(self.memories, "flash")

    @property
    def npu_ram_bytes(self) -> int | None:
        """RAM that only its NPU uses, for activations; None if it has none or the size is unknown."""
        return _total(self.memories, "npu ram")

    @property
    def npu_weight_bytes(self) -> int | None:
        """Memory of its NPU for weights alone; None if it has none or the size is unknown."""
        return _total(self.memories, "npu weights")

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of the fastest RAM; None if unknown."""
        known = [m.bytes_per_second for m in self.memories if m.role in ("ram", "external ram")]
        return max((rate for rate in known if rate is not None), default=None)

    @property
    def cache_bytes(self) -> int | None:
        """The caches together; None if a size is unknown."""
        return _total(self.memories, "cache")

    def flops_per_byte(self, dtype: str, kind: str | None = None) -> float | None:
        """FLOPs per byte (2 FLOPs per MAC) above which a kernel is compute-bound."""
        peak, bandwidth = self.peak(dtype, kind), self.bandwidth
        return None if peak is None or bandwidth is None else FLOPS_PER_MAC * peak / bandwidth

    @property
    def flops_per_byte_by_dtype(self) -> dict[str, float]:
        """FLOPs per byte for each dtype with a known rate on units of the first unit's kind."""
        dtypes = dict.fromkeys(dtype for unit in self.units for dtype in unit.macs_per_second)
        ratios = ((dtype, self.flops_per_byte(dtype)) for dtype in dtypes)
        return {dtype: ratio for dtype, ratio in ratios if ratio is not None}


def _total(memories: tuple[Memory, ...], role: str) -> int | None:
    sizes = [memory.bytes for memory in memories if memory.role == role]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None
