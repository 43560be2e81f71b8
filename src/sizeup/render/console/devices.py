"""Devices for people: a table by kind, all that is known of one, and the page of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.targets import DEVICE_KINDS, Device, Fit, Memory, Runtime, Unit

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = ("int8", "fp16", "fp32")
_KINDS = {kind: f"{kind}s" for kind in DEVICE_KINDS} | {"gpu": "GPUs", "npu": "NPUs", "cpu": "CPUs"}
_PREFACE = """\
# Devices

What `sizeup` knows of hardware, and of the runtimes on it. A value that is missing is not known; none is
guessed. `sizeup devices NAME` shows the source of each, and [targets.md](targets.md) says what the columns
mean and how to add a device of your own.

This page is made from the files: `sizeup devices --markdown > docs/devices.md`.
"""


def render_list(found: Sequence[Device], console: Console) -> None:
    """Print a table for each kind, with the columns that at least one of its devices fills."""
    from rich.text import Text

    from sizeup.render.console.layout import print_rows

    for kind, group in _by_kind(found):
        titles, rows = _table(group)
        console.print(Text(_KINDS[kind], style="bold"))
        print_rows(console, [*titles[1:], titles[0]], [[*row[1:], row[0]] for row in rows])
    for text in (
        "peak MACs per second; FLOP/B: ops:byte ratio, 2 FLOPs per MAC",
        "sizeup devices NAME tells all of one",
    ):
        console.print(Text(text, style="dim"))


def render_one(
    device: Device, runtimes: Sequence[Runtime], console: Console, fits: Sequence[Fit] = ()
) -> None:
    """Print all that is known of a device, each value with its source, and the fits of targets on it."""
    from rich.text import Text

    from sizeup.render.console.layout import print_labelled

    console.print(Text(f"{device.name}: {device.title} ({device.kind}, {device.maker})", style="bold"))
    previous = ""
    for label, text, style in _facts(device, runtimes, fits):
        print_labelled(console, "" if label == previous else label, text, style, width=19)
        previous = label


def markdown(found: Sequence[Device], runtimes: Sequence[Runtime]) -> Iterator[str]:
    """The page of the documentation: one section a kind, one line a device, then the runtimes."""
    yield _PREFACE
    for kind, group in _by_kind(found):
        titles, rows = _table(group)
        yield f"\n## {_KINDS[kind]}\n\n"
        yield f"| {' | '.join(['device', 'title', *titles[1:]])} |\n|{'---|' * (len(titles) + 1)}\n"
        for device, row in zip(group, rows, strict=True):
            yield f"| {' | '.join([f'`{device.name}`', device.title, *row[1:]])} |\n"
    yield "\n## Runtimes\n\n| runtime | title | runs on | number types | runs as one kernel | in place |\n"
    yield "|---|---|---|---|---|---|\n"
    for each in sorted(runtimes, key=lambda each: each.name):
        merged = (_listed(each.fuses), _listed(each.in_place))
        cells = (f"`{each.name}`", each.title, _listed(each.units), _listed(each.dtypes), *merged)
        yield f"| {' | '.join(cells)} |\n"


def _listed(words: tuple[str, ...] | None) -> str:
    return "?" if words is None else " ".join(words) or "nothing"


def _by_kind(found: Sequence[Device]) -> Iterator[tuple[str, list[Device]]]:
    for kind in DEVICE_KINDS:
        group = [device for device in found if device.kind == kind]
        if group:
            yield kind, group


def _table(group: Sequence[Device]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells, without the columns that would be empty for all of them."""
    columns: dict[str, Callable[[Device], str]] = {
        "device": lambda device: device.name,
        **{dtype: _rate_column(dtype) for dtype in _SHOWN},
        "RAM": _ram,
        "flash": lambda device: _size(device.flash_bytes),
        "bandwidth": lambda device: _per_second(device.bandwidth, "B/s"),
        "FLOP/B": _flops_per_byte,
    }
    cells = {title: [text(device) for device in group] for title, text in columns.items()}
    kept = [title for title, column in cells.items() if any(column)]
    rows = [[cells[title][place] or "-" for title in kept] for place in range(len(group))]
    return kept, rows


def _rate_column(dtype: str) -> Callable[[Device], str]:
    return lambda device: _per_second(device.peak(dtype), "")


def _per_second(value: float | None, unit: str) -> str:
    return "" if value is None else f"{units.count(value)}{unit}"


def _size(value: int | None) -> str:
    return "" if value is None else units.size(value)


def _ram(device: Device) -> str:
    total, largest = device.ram_bytes, device.largest_ram_bytes
    if total is None or total == largest:
        return _size(total)
    return f"{_size(total)} ({_size(largest)})"


def _flops_per_byte(device: Device) -> str:
    """Of the precision with the highest rate."""
    known = [ratio for dtype in _SHOWN if (ratio := device.flops_per_byte(dtype)) is not None]
    return f"{max(known):,.0f}" if known else ""


def _facts(
    device: Device, runtimes: Sequence[Runtime], fits: Sequence[Fit]
) -> Iterator[tuple[str, str, str]]:
    """Label, text and style of every line."""
    for unit in device.units:
        yield unit.kind, _unit(unit), ""
        for dtype, rate in unit.macs_per_second.items():
            yield dtype, f"{units.count(rate)}MAC/s", "bold"
        # Number types mostly share a source, which is then said once.
        for basis in dict.fromkeys(unit.basis.values()):
            yield "from", basis, "dim"
    for memory in device.memories:
        yield memory.role, _memory(memory), "bold" if memory.role in ("ram", "flash") else ""
        yield from (("from", text, "dim") for text in _memory_sources(memory, device))
    ratios = ", ".join(f"{name} {ratio:,.3g}" for name, ratio in device.flops_per_byte_by_dtype.items())
    if ratios:
        yield "ops:byte", f"{ratios} FLOP/B, 2 FLOPs per MAC", "bold"
    yield from _power(device)
    for index, runtime in enumerate(runtimes):
        yield "runtimes", f"{runtime.name}: {runtime.title}{' (the usual one)' * (index == 0)}", ""
    yield from _fits(fits)
    if device.aliases:
        yield "also called", ", ".join(device.aliases), ""
    if device.note:
        yield "note", device.note, ""
    dated = f", recorded on {device.recorded}" if device.recorded else ""
    checked = f", verified on {device.verified}" if device.verified else ""
    yield "source", f"{device.source}{dated}{checked}", "dim"
    yield "file", device.file, "dim"


def _unit(unit: Unit) -> str:
    core = f" ({unit.core.architecture})" if unit.core else ""
    count = "" if unit.cores is None else f", {unit.cores:,} core{'s' * (unit.cores != 1)}"
    clock = "" if unit.clock_hz is None else f" at {units.count(unit.clock_hz)}Hz"
    boost = "" if unit.boost_hz is None else f", up to {units.count(unit.boost_hz)}Hz"
    note = f"; {unit.note}" if unit.note else ""
    return f"{unit.name}{core}{count}{clock}{boost}{note}"


def _memory(memory: Memory) -> str:
    size = "size not known" if memory.bytes is None else units.size(memory.bytes)
    speed = "" if memory.bytes_per_second is None else f" at {units.count(memory.bytes_per_second)}B/s"
    note = f"; {memory.note}" if memory.note else ""
    return f"{memory.name}, {size}{speed}{note}"


def _memory_sources(memory: Memory, device: Device) -> list[str]:
    """Where a memory's values are from, unless it is the device's own source."""
    return [text for text in dict.fromkeys((memory.source, memory.basis)) if text and text != device.source]


def _fits(fits: Sequence[Fit]) -> Iterator[tuple[str, str, str]]:
    for fit in fits:
        runtime, kinds = fit.name.partition("/")[2], ", ".join(fit.precisions)
        off = f"{100 * fit.error:.1f} % off with the {fit.held_out.rstrip(',')} held out"
        yield "measured", f"{runtime}: {fit.measurements:,} measurements in {kinds}; {off}", ""
    yield from (("from", source, "dim") for source in dict.fromkeys(fit.source for fit in fits))


def _power(device: Device) -> Iterator[tuple[str, str, str]]:
    power, energy = device.power, device.energy
    if power is not None:
        named = {"idle": power.idle_watts, "typical": power.typical_watts, "at most": power.tdp_watts}
        known = [f"{watts:g} W {word}" for word, watts in named.items() if watts is not None]
        yield "power", ", ".join(known) + (f"; {power.note}" if power.note else ""), ""
        if power.source != device.source:
            yield "from", power.source, "dim"
    if energy is not None:
        for what, table in (("MAC", energy.pj_per_mac), ("byte", energy.pj_per_byte)):
            for name, value in table.items():
                yield "energy", f"{value:g} pJ for a {what} ({name})", ""
        yield "from", energy.source, "dim"
