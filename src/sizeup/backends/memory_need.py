"""The memories of a target, what a model needs of each, and whether it fits in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sizeup.backends.compiled import NpuFit

EXTERNAL_RAM = "the arena does not fit on chip: in external RAM, the latency of on-chip RAM is a lower bound"
"""The caveat of a model whose activations are in external RAM, whose speed is not measured."""

_TITLES = {"ram": "RAM"}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the bytes needed in a memory; `high_bytes` is None if there is no known upper bound."""

    name: str
    low_bytes: int
    high_bytes: int | None
    basis: str  # source of the number, or the assumption

    @property
    def is_exact(self) -> bool:
        """Whether both bounds are equal."""
        return self.low_bytes == self.high_bytes


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """A memory of a device, and the parts of it that a model and its runtime need.

    If the limit or the need is not known, `unknown` has the reasons. Without parts, no bound is known.
    """

    name: str  # 'ram' or 'flash'
    limit_bytes: int | None
    parts: tuple[MemoryPart, ...]
    reserve_bytes: int = 0  # part of the limit that other software may take
    source: str = ""  # the device or option that sets the limit
    unknown: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    is_external: bool = False  # the memory is external to the chip, for a need that exceeds the one on it

    @property
    def title(self) -> str:
        """Its name in text."""
        return _TITLES.get(self.name, self.name)

    @property
    def low_bytes(self) -> int:
        """Lower bound of the need; 0 if nothing about it is known."""
        return sum(part.low_bytes for part in self.parts)

    @property
    def high_bytes(self) -> int | None:
        """Upper bound of the need; None if it is not known."""
        known = [part.high_bytes for part in self.parts if part.high_bytes is not None]
        return sum(known) if self.parts and len(known) == len(self.parts) else None

    @property
    def need_bytes(self) -> int:
        """The upper bound of the need, or the lower bound if the upper one is not known."""
        most = self.high_bytes
        return self.low_bytes if most is None else most

    @property
    def fits(self) -> bool | None:
        """Whether the need is within the limit; None if undetermined."""
        if self.limit_bytes is None:
            return None
        if self.low_bytes > self.limit_bytes:
            return False
        most = self.high_bytes
        return True if most is not None and most + self.reserve_bytes <= self.limit_bytes else None

    def undetermined(self, name: str, reason: str) -> MemoryNeed:
        """The need with a further part of unknown size."""
        part = MemoryPart(name, 0, None, reason)
        return replace(self, parts=(*self.parts, part), unknown=(*self.unknown, reason))

    def without_upper_bound(self, reasons: Sequence[str]) -> MemoryNeed:
        """The need without an upper bound, for these reasons; itself if there are none."""
        if not reasons:
            return self
        parts = tuple(replace(part, high_bytes=None) for part in self.parts)
        return replace(self, parts=parts, unknown=(*self.unknown, *reasons))


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """The fit of a model in the memories of a target, and why the runtime cannot run it, if so."""

    ram: MemoryNeed
    flash: MemoryNeed | None  # None if weights are loaded into RAM, so that flash does not limit
    unsupported_reason: str | None = None
    # That the runtime does not read the file, or does not run it as its reference kernels do.
    caveats: tuple[str, ...] = ()
    weight_memory: MemoryNeed | None = None  # of an NPU that has one for weights alone
    npu: NpuFit | None = None  # on an Ethos-U: the compiled model, or why there is none
    missing_operators: tuple[str, ...] = ()  # op kinds or operators that the runtime may not run

    @property
    def memories(self) -> tuple[MemoryNeed, ...]:
        """The memories that limit the model."""
        return tuple(space for space in (self.ram, self.flash, self.weight_memory) if space is not None)

    @property
    def fits(self) -> bool | None:
        """Whether the model fits and the runtime can run it; None if undetermined."""
        answers = [space.fits for space in self.memories]
        if self.unsupported_reason or False in answers:
            return False
        return None if None in answers else True
