"""What hardware is made of: compute units, memories, power. What is not known is None or absent, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sizeup.units import FLOPS_PER_MAC

DeviceKind = Literal[
    "microcontroller", "single-board computer", "phone", "npu", "cpu", "gpu", "accelerator", "computer"
]
# A coprocessor is a further core that applications use for other things, such as the radio.
UnitKind = Literal["cpu", "gpu", "npu", "coprocessor"]
Role = Literal["ram", "instruction ram", "external ram", "flash", "external flash", "cache"]

DEVICE_KINDS: tuple[str, ...] = get_args(DeviceKind)
UNIT_KINDS: tuple[str, ...] = get_args(UnitKind)
ROLES: tuple[str, ...] = get_args(Role)

# Number types that products are made of. Sums of fp16 products are fp32 but for `fp16_acc16`, which
# graphics cards run at twice the rate, and which frameworks do not use by themselves.
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
    """A processor core, and the MACs that it completes per cycle at most, by number type."""

    name: str
    title: str
    architecture: str
    macs_per_cycle: Mapping[str, float]
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """Equal cores of a device; units of one kind, such as large and small cores, can share the work."""

    kind: str
    name: str
    source: str
    core: Core | None = None
    cores: int | None = None
    clock_hz: float | None = None
    boost_hz: float | None = None
    macs_per_second: Mapping[str, float] = field(default_factory=dict)
    basis: Mapping[str, str] = field(default_factory=dict)  # by number type: where the rate is from
    note: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory: a bank that an array may lie in without a gap, or storage, or a cache."""

    name: str
    role: str
    source: str
    bytes: int | None = None
    bytes_per_second: float | None = None
    basis: str = ""  # where the bandwidth is from
    note: str = ""


@dataclass(frozen=True, slots=True)
class Power:
    """Watts: doing nothing, at work, and the most that the maker designs cooling or supply for."""

    source: str
    idle_watts: float | None = None
    typical_watts: float | None = None
    tdp_watts: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Energy:
    """Picojoules for one MAC by number type, and for one byte by the memory that it moves to or from."""

    source: str
    pj_per_mac: Mapping[str, float] = field(default_factory=dict)
    pj_per_byte: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A chip, board, phone or card that a network may run on, as its maker describes it."""

    name: str
    title: str
    kind: str
    maker: str
    units: tuple[Unit, ...]
    memories: tuple[Memory, ...]
    runtimes: tuple[str, ...]  # names; the first is the usual one
    source: str
    recorded: str  # the date on which the values were written down
    power: Power | None = None
    energy: Energy | None = None
    aliases: tuple[str, ...] = ()
    note: str = ""
    file: str = ""  # where it is described
    verified: str = ""  # the date on which the values were compared with a document that the source names

    def peak(self, dtype: str, kind: str | None = None) -> float | None:
        """The most MACs per second in a number type that units of a kind complete together.

        Without a kind it is that of the first unit. None where no unit of the kind tells.
        """
        wanted = kind or self.units[0].kind
        rates = [unit.macs_per_second.get(dtype) for unit in self.units if unit.kind == wanted]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    @property
    def word_bits(self) -> int:
        """The word size of its processor: microcontrollers and the hosts of their NPUs have 32 bits."""
        return 32 if self.kind in ("microcontroller", "npu") else 64

    @property
    def ram_bytes(self) -> int | None:
        """All memory on the device that data may lie in, over all banks; None where a size is not known."""
        return _total(self.memories, "ram")

    @property
    def largest_ram_bytes(self) -> int | None:
        """The largest single bank of RAM: what one array, such as an arena, can take."""
        banks = [memory.bytes for memory in self.memories if memory.role == "ram"]
        known = [size for size in banks if size is not None]
        return max(known) if known and len(known) == len(banks) else None

    @property
    def flash_bytes(self) -> int | None:
        """The device's own memory that keeps its content without power; None where it has none."""
        return _total(self.memories, "flash")

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second to the fastest RAM whose bandwidth is known."""
        known = [m.bytes_per_second for m in self.memories if m.role in ("ram", "external ram")]
        return max((rate for rate in known if rate is not None), default=None)

    def flops_per_byte(self, dtype: str, kind: str | None = None) -> float | None:
        """FLOPs per byte moved (2 per MAC) above which arithmetic, not memory, is the limit."""
        peak, bandwidth = self.peak(dtype, kind), self.bandwidth
        return None if peak is None or bandwidth is None else FLOPS_PER_MAC * peak / bandwidth

    @property
    def flops_per_byte_by_dtype(self) -> dict[str, float]:
        """The same ratio for every number type whose rate on the first unit's kind is known."""
        dtypes = dict.fromkeys(dtype for unit in self.units for dtype in unit.macs_per_second)
        ratios = ((dtype, self.flops_per_byte(dtype)) for dtype in dtypes)
        return {dtype: ratio for dtype, ratio in ratios if ratio is not None}


def _total(memories: tuple[Memory, ...], role: str) -> int | None:
    sizes = [memory.bytes for memory in memories if memory.role == role]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None
