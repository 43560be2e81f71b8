"""What a page opens with: does the model fit the target, yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sizeup import units
from sizeup.report.rows import NO_TARGET
from sizeup.report.text import plain

if TYPE_CHECKING:
    from sizeup.report.summary import Report
    from sizeup.targets import Device

State = Literal["fits", "does not fit", "cannot tell", "no target"]


@dataclass(frozen=True, slots=True)
class Room:
    """What is needed of one memory, and what there is of it; None where that is not known."""

    what: str
    needed_bytes: int | None
    there_bytes: int | None
    why: str

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None where that cannot be told."""
        if self.needed_bytes is None or self.there_bytes is None:
            return None
        return self.needed_bytes <= self.there_bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes, no or neither in a few words, what to add to that, and the numbers behind it."""

    state: State
    words: str
    sentence: str
    rooms: tuple[Room, ...] = ()


def verdict(report: Report) -> Verdict:
    """Whether the model fits its target's memories."""
    target = None if report.latency is None else report.latency.target
    if target is None:
        if report.no_latency not in ("", NO_TARGET):
            return Verdict("cannot tell", "Cannot tell whether it fits", plain(report.no_latency))
        return Verdict("no target", "No target given", "Name one with -d TARGET to see whether it fits.")
    rooms = _rooms(report, target.device)
    told = [each.fits for each in rooms]
    title = plain(target.device.title)
    if False in told:
        short = " and ".join(each.what for each in rooms if each.fits is False)
        return Verdict("does not fit", f"Does not fit {title}", f"There is too little {short} for it.", rooms)
    if None in told or not told:
        return Verdict("cannot tell", f"Cannot tell whether it fits {title}", "", rooms)
    doubt = "Not every operator is known, and those may take more." if report.unknown else ""
    return Verdict("fits", f"Fits {title}", doubt, rooms)


def _rooms(report: Report, device: Device) -> tuple[Room, ...]:
    memory, weights = report.memory, report.totals.weight_bytes
    arena = None if memory.arena is None else memory.arena.needed_bytes_32
    if device.kind != "microcontroller":
        peak = memory.peak_bytes
        needed = None if peak is None else peak + weights
        return (Room("memory", needed, device.ram_bytes, "weights, and what is in use at the peak"),)
    why = "the arena of TFLite Micro" if arena is not None else "in use at the peak, without the runtime"
    ram = Room("RAM", arena if arena is not None else memory.peak_bytes, device.largest_ram_bytes, why)
    return (ram, Room("flash", weights, device.flash_bytes, "weights, without code"))


def told(room: Room) -> str:
    """The numbers of one memory in words: `54 KiB of 320 KiB (17 %)`."""
    needed = "an unknown amount" if room.needed_bytes is None else units.size(room.needed_bytes)
    if room.there_bytes is None:
        return f"{needed}; how much there is of it is not known"
    if room.needed_bytes is None:
        return f"{needed} of {units.size(room.there_bytes)}"
    return f"{needed} of {units.size(room.there_bytes)} ({100 * room.needed_bytes / room.there_bytes:.0f} %)"
