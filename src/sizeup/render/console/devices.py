"""Devices as text: a table per device class, one device in full, and a page of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.render.console import clusters
from sizeup.render.vocabulary import standing_text, verified_text
from sizeup.targets import (
    DEVICE_CLASSES,
    Board,
    Device,
    LatencyStanding,
    Memory,
    Runtime,
    Standing,
    TargetCalibration,
    Unit,
    best_of,
)

if TYPE_CHECKING:
    from rich.console import Console

    from sizeup.targets.clusters import Cluster

_WIDE = 100  # cells of a terminal that has room for all columns and for whole names
_SHOWN = ("int8", "fp16", "fp32")
_LESS_IMPORTANT = ("FLOP/B", "fp16", "fp32", "flash", "bandwidth")  # hidden in this order in narrow terminals
_SHORT: dict[LatencyStanding, str] = {
    "calibrated": "cal",
    "instructions": "inst",
    "vela": "vela",
    "slowdown": "slow",
    "data sheet only": "data",
    "unknown": "-",
}
_Columns = dict[str, Callable[[Device], str]]
_HEADINGS = {name: f"{name}s" for name in DEVICE_CLASSES} | {"gpu": "GPUs", "npu": "NPUs", "cpu": "CPUs"}
_PREFACE = """\
# Devices

The hardware and runtimes that `sizeup` knows. A missing value is unknown; no value is guessed.
`sizeup devices NAME` shows the source of each value. [targets.md](targets.md) explains the columns and how to
add a device.

This page is generated: `sizeup devices --markdown > docs/devices.md`.
"""


def render_list(
    devices: Sequence[Device],
    console: Console,
    standings: Mapping[str, Sequence[Standing]],
    listed_clusters: Sequence[Cluster] = (),
) -> None:
    """Print a table per device class, without columns that are empty for all its devices, and the clusters.

    `standings` are those of each device, by its name.
    """
    from rich.text import Text

    from sizeup.render.console.layout import print_listing

    is_wide = console.width >= _WIDE
    columns: _Columns = {"FLOP/B": _flops_per_byte} if is_wide else {}
    columns["basis"] = lambda device: _basis(device, standings[device.name])
    for device_class, group in _by_class(devices):
        titles, rows = _table(group, columns)
        console.print(Text(_HEADINGS[device_class], style="bold"))
        ordered = [[*row[1:], row[0]] for row in (titles, *rows)]
        print_listing(console, ordered[0], ordered[1:], _LESS_IMPORTANT)
    if listed_clusters:
        clusters.render_list(listed_clusters, console)
    for text in (
        f"peak MACs per second{'; FLOP/B: ops:byte ratio, 2 FLOPs per MAC' if is_wide else ''}",
        "RAM: total (largest bank)",
        "basis of latency, the best of all runtimes: cal: calibrated, inst: instructions,",
        "vela: Arm's compiler, slow: slowdown, data: data sheet only (lower bound);",
        "?: device data not verified",
        "sizeup devices NAME shows one device in full",
    ):
        console.print(Text(text, style="dim"))


def render_one(
    device: Device,
    runtimes: Sequence[Runtime],
    console: Console,
    standings: Sequence[Standing],
    fits: Sequence[TargetCalibration] = (),
) -> None:
    """Print all values of a device with their sources, and the standings and calibrations of its targets."""
    from rich.text import Text

    from sizeup.render.console.layout import print_labeled

    console.print(
        Text(f"{device.name}: {device.title} ({device.device_class}, {device.vendor})", style="bold")
    )
    previous = ""
    for label, text, style in _facts(device, runtimes, standings, fits):
        print_labeled(console, "" if label == previous else label, text, style, width=19)
        previous = label


def markdown(
    devices: Sequence[Device],
    runtimes: Sequence[Runtime],
    standings: Mapping[str, Sequence[Standing]],
    listed_clusters: Sequence[Cluster] = (),
) -> Iterator[str]:
    """Yields a page of the documentation: one section per device class, then clusters and runtimes."""
    yield _PREFACE
    for device_class, group in _by_class(devices):
        columns: _Columns = {
            "FLOP/B": _flops_per_byte,
            "latency": lambda device: _best_standing(standings[device.name]),
            "verified": lambda device: device.verified,
        }
        titles, rows = _table(group, columns)
        yield f"\n## {_HEADINGS[device_class]}\n\n"
        yield f"| {' | '.join(['device', 'title', *titles[1:]])} |\n|{'---|' * (len(titles) + 1)}\n"
        for device, row in zip(group, rows, strict=True):
            yield f"| {' | '.join([f'`{device.name}`', device.title, *row[1:]])} |\n"
    if listed_clusters:
        yield from clusters.markdown(listed_clusters)
    yield "\n## Runtimes\n\n| runtime | title | runs on | dtypes | fuses | in place |\n"
    yield "|---|---|---|---|---|---|\n"
    for runtime in sorted(runtimes, key=lambda runtime: runtime.name):
        fusion = (_listed(runtime.fusions), _listed(runtime.in_place))
        cells = (f"`{runtime.name}`", runtime.title, _listed(runtime.units), _listed(runtime.dtypes), *fusion)
        yield f"| {' | '.join(cells)} |\n"
    yield (
        "\n### Operators\n\nThose that the makers of a runtime list. `check` is undetermined for a model with"
        " others: [vendor-runtimes.md](vendor-runtimes.md).\n\n"
    )
    for runtime in runtimes:
        if listed := runtime.operators:
            names = " ".join(f"`{name}`" for name in sorted(listed.names))
            without = f", without: {', '.join(listed.excluded)}" if listed.excluded else ""
            yield f"- `{runtime.name}`: {names}{without}. Source: {listed.source}\n"


def _listed(words: tuple[str, ...] | None) -> str:
    return "?" if words is None else " ".join(words) or "none"


def _by_class(devices: Sequence[Device]) -> Iterator[tuple[str, list[Device]]]:
    for device_class in DEVICE_CLASSES:
        group = [device for device in devices if device.device_class == device_class]
        if group:
            yield device_class, group


def _table(group: Sequence[Device], further_columns: _Columns) -> tuple[list[str], list[list[str]]]:
    """Returns titles and cells, without columns that are empty for all devices."""
    columns: _Columns = {
        "device": lambda device: device.name,
        **{dtype: _rate_column(dtype) for dtype in _SHOWN},
        "RAM": _ram,
        "flash": lambda device: _size(device.flash_bytes),
        "bandwidth": lambda device: _per_second(device.bandwidth, "B/s"),
        **further_columns,
    }
    cells = {title: [text(device) for device in group] for title, text in columns.items()}
    titles = [title for title, column in cells.items() if any(column)]
    rows = [[cells[title][index] or "-" for title in titles] for index in range(len(group))]
    return titles, rows


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


def _basis(device: Device, standings: Sequence[Standing]) -> str:
    """Returns the best standing in short, with a question mark if the device was not verified."""
    return f"{_SHORT[best_of(standings)[0]]}{'' if device.verified else '?'}"


def _best_standing(standings: Sequence[Standing]) -> str:
    """Returns the best standing and a runtime with it: `calibrated (ncnn +1)`."""
    best, runtimes = best_of(standings)
    if any(standing.is_default and standing.best == best for standing in standings):
        return best
    more = f" +{len(runtimes) - 1}" if len(runtimes) > 1 else ""
    return f"{best} ({runtimes[0]}{more})" if runtimes else best


def _flops_per_byte(device: Device) -> str:
    """Returns the highest ops:byte ratio of all dtypes."""
    known = [ratio for dtype in _SHOWN if (ratio := device.flops_per_byte(dtype)) is not None]
    return f"{max(known):,.0f}" if known else ""


def _facts(
    device: Device,
    runtimes: Sequence[Runtime],
    standings: Sequence[Standing],
    calibrations: Sequence[TargetCalibration],
) -> Iterator[tuple[str, str, str]]:
    """Yields label, text and style of every line."""
    for unit in device.units:
        yield unit.unit_class, _unit(unit), ""
        for dtype, rate in unit.macs_per_second.items():
            yield dtype, f"{units.count(rate)}MAC/s", "bold"
        # Dtypes mostly share a source, which is printed once.
        for basis in dict.fromkeys(unit.basis.values()):
            yield "peak from", basis, "dim"
    for memory in device.memories:
        yield memory.role, memory_text(memory), "bold" if memory.role in ("ram", "flash") else ""
        yield from (("from", text, "dim") for text in _memory_sources(memory, device))
    ratios = ", ".join(f"{name} {ratio:,.3g}" for name, ratio in device.flops_per_byte_by_dtype.items())
    if ratios:
        yield "ops:byte", f"{ratios} FLOP/B, 2 FLOPs per MAC", "bold"
    yield from _power(device)
    for index, runtime in enumerate(runtimes):
        yield "runtimes", f"{runtime.name}: {runtime.title}{' (default)' * (index == 0)}", ""
    for standing in standings:
        yield "latency", f"{standing.runtime}: {standing_text(standing)}", ""
    yield from _calibrations(calibrations)
    yield from provenance_lines(device)


def provenance_lines(entry: Device | Board) -> Iterator[tuple[str, str, str]]:
    """The other names of a device or board, its note, and where its data are from."""
    if entry.aliases:
        yield "aliases", ", ".join(entry.aliases), ""
    if entry.note:
        yield "note", entry.note, ""
    dated = f", recorded on {entry.recorded}" if entry.recorded else ""
    yield "data", verified_text(entry.verified).removeprefix("device data "), ""
    yield "source", f"{entry.source}{dated}", "dim"
    yield "file", entry.file, "dim"


def _unit(unit: Unit) -> str:
    core = f" ({unit.core.architecture})" if unit.core else ""
    count = "" if unit.cores is None else f", {unit.cores:,} core{'s' * (unit.cores != 1)}"
    clock = "" if unit.clock_hz is None else f" at {units.count(unit.clock_hz)}Hz"
    boost = "" if unit.boost_hz is None else f", up to {units.count(unit.boost_hz)}Hz"
    note = f"; {unit.note}" if unit.note else ""
    return f"{unit.name}{core}{count}{clock}{boost}{note}"


def memory_text(memory: Memory) -> str:
    """Returns the name, size, bandwidth and note of a memory."""
    size = "size unknown" if memory.bytes is None else units.size(memory.bytes)
    speed = "" if memory.bytes_per_second is None else f" at {units.count(memory.bytes_per_second)}B/s"
    note = f"; {memory.note}" if memory.note else ""
    return f"{memory.name}, {size}{speed}{note}"


def _memory_sources(memory: Memory, device: Device) -> list[str]:
    """Returns the sources of a memory's values, except the source of the device."""
    return [text for text in dict.fromkeys((memory.source, memory.basis)) if text and text != device.source]


def _calibrations(calibrations: Sequence[TargetCalibration]) -> Iterator[tuple[str, str, str]]:
    for calibration in calibrations:
        runtime, dtypes = calibration.name.partition("/")[2], ", ".join(calibration.precisions)
        error = f"MAPE {100 * calibration.mape:.1f} %, {calibration.held_out.rstrip(',')} held out"
        label = "calibrated" if calibration.quantity == "latency" else "pipelined"
        yield label, f"{runtime}: {calibration.measurements:,} measurements in {dtypes}; {error}", ""
    yield from (
        ("calibrated from", source, "dim")
        for source in dict.fromkeys(calibration.source for calibration in calibrations)
    )


def _power(device: Device) -> Iterator[tuple[str, str, str]]:
    power, energy = device.power, device.energy
    if power is not None:
        levels = {"idle": power.idle_watts, "typical": power.typical_watts, "at most": power.tdp_watts}
        known = [f"{watts:g} W {word}" for word, watts in levels.items() if watts is not None]
        yield "power", ", ".join(known) + (f"; {power.note}" if power.note else ""), ""
        if power.source != device.source:
            yield "from", power.source, "dim"
    if energy is not None:
        for unit, table in (("MAC", energy.pj_per_mac), ("byte", energy.pj_per_byte)):
            for name, value in table.items():
                yield "energy", f"{value:g} pJ per {unit} ({name})", ""
        yield "from", energy.source, "dim"
