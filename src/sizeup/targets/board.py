"""Boards: products that carry a device, with their external memories and the memory that software leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizeup.targets.device import Device, Memory


@dataclass(frozen=True, slots=True)
class MemoryAmounts:
    """Bytes of a board's RAM and flash, with their source; None if unknown."""

    source: str
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    note: str = ""  # what takes the memory


@dataclass(frozen=True, slots=True)
class Board:
    """A product that carries a device. Unknown values are None or absent, never 0."""

    name: str
    title: str
    vendor: str
    device: str  # the name of its device
    source: str
    recorded: str  # date on which the values were recorded
    memories: tuple[Memory, ...] = ()  # in addition to those of the device, or instead of those with its name
    usable: MemoryAmounts | None = None  # what radio, operating system and bootloader leave, from a document
    reserve: MemoryAmounts | None = None  # what they are assumed to take
    aliases: tuple[str, ...] = ()
    note: str = ""
    file: str = ""  # that describes it
    verified: str = ""  # date on which the values were compared with the source

    def equip(self, device: Device) -> Device:
        """The device with the memories of this board."""
        own = {memory.name: memory for memory in self.memories}
        kept = tuple(own.pop(memory.name, memory) for memory in device.memories)
        return replace(device, memories=(*kept, *own.values()))

    def ram_limit(self, device: Device) -> int | None:
        """The RAM for one array: what is usable according to a document, else the largest bank."""
        usable = None if self.usable is None else self.usable.ram_bytes
        return device.largest_ram_bytes if usable is None else usable

    def flash_limit(self, device: Device) -> int | None:
        """The flash for code and model: what is usable, else what is on the chip, else external flash."""
        usable = None if self.usable is None else self.usable.flash_bytes
        if usable is not None:
            return usable
        on_chip = device.flash_bytes
        return device.largest_bytes("external flash") if on_chip is None else on_chip

    @property
    def ram_reserve(self) -> int:
        """The RAM that is assumed to be in use; 0 if nothing is assumed."""
        return (0 if self.reserve is None else self.reserve.ram_bytes) or 0

    @property
    def flash_reserve(self) -> int:
        """The flash that is assumed to be in use; 0 if nothing is assumed."""
        return (0 if self.reserve is None else self.reserve.flash_bytes) or 0
