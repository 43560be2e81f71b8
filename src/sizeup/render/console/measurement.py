"""A measurement beside what was counted: how long a model took, and how fast that makes the machine."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from sizeup import targets, units
from sizeup.cost import Cost, total
from sizeup.files import write_text
from sizeup.latency import Hardware, executed, hardware
from sizeup.render.console import latency as timing_data
from sizeup.render.console.layout import LEAST_ROOM, print_labelled, print_rows
from sizeup.render.console.report import plain
from sizeup.render.console.table import shortened
from sizeup.render.files import check_ending
from sizeup.results.rollup import TOP_LEVEL
from sizeup.runtimes import Timing
from sizeup.runtimes.attribution import AttributedKernel, ModuleTime, attribute, by_module, macs_of
from sizeup.targets import Target

SCHEMA_VERSION = 1
UNATTRIBUTED = "(unattributed)"
"""The row of kernels that match no operator of the model."""
_FIGURES = 32  # cells that the columns before the names take


@dataclass(frozen=True, slots=True, repr=False)
class Measured:
    """Times of a model in a real runtime on this machine, and what it computed and moved in them."""

    name: str
    format: str
    timing: Timing
    cost: Cost
    target: Target | None = None  # what this machine is, where that was said
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        timing = self.timing
        least, median = units.duration(timing.least), units.duration(timing.median)
        return (
            f"<{self.name} in {timing.title}: {least} least, {median} median of {len(timing.seconds)} runs>"
        )

    @property
    def ms(self) -> float:
        """Milliseconds of the fastest run."""
        return 1e3 * self.timing.least

    @property
    def median_ms(self) -> float:
        """Milliseconds of the run in the middle."""
        return 1e3 * self.timing.median

    @property
    def macs_per_second(self) -> float | None:
        """MACs counted over the fastest run; None where not every operator is known."""
        return self.cost.total_macs / self.timing.least if self.cost.known.all() else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes that operators read and write, one by one, over the fastest run."""
        moved = self.cost.bytes_at()
        return (
            (total(moved.read) + total(moved.written)) / self.timing.least if self.cost.known.all() else None
        )

    @property
    def hardware(self) -> Hardware | None:
        """What the fastest run attains of the target, its kernels merged as it does; None without one."""
        if self.target is None or not self.cost.known.all():
            return None
        work = executed(self.cost, None, self.target.runtime.fuses or ()).work
        inside = sum(each.seconds for each in self.timing.kernels)
        overhead = max(self.timing.least - inside, 0.0) if self.timing.kernels else None
        return hardware(work, self.timing.least, self.target, overhead)

    @property
    def kernels(self) -> tuple[AttributedKernel, ...]:
        """The kernels of the profile with their modules; empty without a profile."""
        return attribute(self.cost, self.timing.kernels, self._fuses)

    @property
    def modules(self) -> tuple[ModuleTime, ...]:
        """Times and MACs by module, the slowest first; rows add up to the profile's total."""
        return by_module(self.cost, self.kernels, self.target, self._fuses)

    @property
    def _fuses(self) -> tuple[str, ...]:
        return targets.runtime(self.timing.runtime).fuses or ()

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, seconds and bytes raw."""
        timing = self.timing
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.name, "format": self.format},
            "runtime": {"name": timing.runtime, "version": timing.version, "threads": timing.threads},
            "seconds": {
                "least": timing.least,
                "median": timing.median,
                "mean": statistics.fmean(timing.seconds),
                "cpu_least": min(timing.cpu_seconds),
                "loading": timing.loading_seconds,
                "runs": list(timing.seconds),
                "warm_up": list(timing.warm_up_seconds),
            },
            "achieved": {
                "macs_per_second": self.macs_per_second,
                "bytes_per_second": self.bytes_per_second,
            },
            "target": None if self.target is None else self.target.name,
            "hardware": timing_data.plain(self.hardware),
            "notes": list(self.notes),
            "kernels": [
                {
                    "name": each.kernel.name,
                    "kind": each.kernel.kind,
                    "seconds": each.kernel.seconds,
                    "module": each.module,
                    "macs": _macs(self.cost, each),
                }
                for each in self.kernels
            ],
            "modules": [timing_data.plain(each) for each in self.modules],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a .json file."""
        check_path(path)
        write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a measurement is not written as."""
    check_ending(path, "a measurement is", ".json")


def render(found: Measured, console: Console, top: int = 10, by: str | None = None) -> None:
    """Print the time first, then how fast that is, then where it goes, by `kernel` or by `module`."""
    console.print(Text(plain(f"{found.name} ({found.format})"), style="bold"))
    for label, text in _lines(found):
        print_labelled(console, label, text, "bold" if label == "time" else "")
    if by is not None and not found.timing.kernels:
        print_labelled(console, "note", f"no times by {by}: there is no profile of this run")
    if found.timing.kernels:
        console.print()
        (_print_modules if by == "module" else _print_kernels)(console, found, top)


def _lines(found: Measured) -> Iterator[tuple[str, str]]:
    timing = found.timing
    least, median = units.duration(timing.least), units.duration(timing.median)
    warm = len(timing.warm_up_seconds)
    yield "time", f"{least} least, {median} median of {len(timing.seconds):,} runs after {warm} to warm up"
    threads = f"{timing.threads} thread{'s' if timing.threads > 1 else ''}"
    yield "runtime", f"{timing.title} {timing.version}, {threads}, on this machine"
    slowest = max(timing.seconds)
    if slowest > 1.5 * timing.least:
        yield "spread", f"up to {units.duration(slowest)}: other work on the machine slows runs down"
    macs, moved = found.macs_per_second, found.bytes_per_second
    if macs is not None and moved is not None:
        each = f"{units.count(macs)}MAC/s" if found.cost.total_macs else "no MACs"
        yield (
            "achieved",
            f"{each.replace('  ', ' ')}, {units.size(moved)}/s read and written by its operators",
        )
    else:
        yield "achieved", "not known: not every operator could be counted"
    attained = found.hardware
    if attained is not None and found.target is not None:
        yield "hardware", f"{timing_data.attained(attained)}, of {found.target.device.title}"
        if (attained.compute_share or 0.0) > 1:
            yield "but", f"no {found.target.device.title} is that fast: this machine is another one"
    yield "loading", units.duration(timing.loading_seconds)
    yield from (("note", note) for note in found.notes)


def _print_kernels(console: Console, found: Measured, top: int) -> None:
    ranked = sorted(found.kernels, key=lambda each: -each.kernel.seconds)
    whole = _profiled(found)
    modules, kernels = _names(console, ranked[:top])
    rows = [
        (*_row(whole, each.kernel.seconds, _macs(found.cost, each)), f"{module}  {kernel}")
        for each, module, kernel in zip(ranked, modules, kernels, strict=False)
    ]
    rest = ranked[top:]
    if rest:
        macs = _sum([_macs(found.cost, each) for each in rest])
        rows.append((*_row(whole, sum(each.kernel.seconds for each in rest), macs), _more(len(rest))))
    rows.append((*_total(found), "total"))
    title = "module".ljust(len(modules[0]))
    print_rows(console, ("time", "share", "MACs", f"{title}  kernel of the profile"), rows)


def _names(console: Console, kernels: Sequence[AttributedKernel]) -> tuple[list[str], list[str]]:
    """The modules and names of kernels, each cut to its part of the line."""
    room = max(console.width - _FIGURES, 2 * LEAST_ROOM)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    modules = [_module_name(each.module) for each in kernels]
    width = max(min(max(map(cell_len, modules)), room // 2), len("module"))
    texts = [plain(f"{each.kernel.kind}  {each.kernel.name}") for each in kernels]
    padded = [set_cell_size(each, width) for each in shortened(modules, width, dots)]
    return padded, shortened(texts, room - width, dots)


def _print_modules(console: Console, found: Measured, top: int) -> None:
    whole, modules = _profiled(found), found.modules
    named = [each for each in modules if each.module is not None]
    shown = [*named[:top], *(each for each in modules if each.module is None)]
    rows = [
        (*_row(whole, each.seconds, each.macs), *_rates(found, each), _module_name(each.module))
        for each in shown
    ]
    rest = named[top:]
    if rest:
        seconds, macs = sum(each.seconds for each in rest), _sum([each.macs for each in rest])
        blank = ("" for _ in _rate_titles(found))
        rows.insert(top, (*_row(whole, seconds, macs), *blank, _more(len(rest))))
    rows.append((*_total(found), *("" for _ in _rate_titles(found)), "total"))
    print_rows(console, ("time", "share", "MACs", *_rate_titles(found), "module"), rows)


def _rate_titles(found: Measured) -> tuple[str, ...]:
    return ("MAC/s",) if found.target is None else ("MAC/s", "of peak")


def _rates(found: Measured, row: ModuleTime) -> tuple[str, ...]:
    rate = units.count(row.macs_per_second) if row.macs_per_second else "-"
    if found.target is None:
        return (rate,)
    return rate, "-" if row.compute_share is None else f"{100 * row.compute_share:.3g} %"


def _row(whole: float, seconds: float, macs: int | None) -> tuple[str, ...]:
    return (
        units.duration(seconds),
        units.share(seconds, whole),
        "?" if macs is None else units.count(macs) if macs else "-",
    )


def _total(found: Measured) -> tuple[str, ...]:
    whole = _profiled(found)
    return _row(whole, whole, found.cost.total_macs if found.cost.known.all() else None)


def _module_name(module: str | None) -> str:
    return UNATTRIBUTED if module is None else plain(module) or TOP_LEVEL


def _more(count: int) -> str:
    return f"{count:,} more: --top N shows them"


def _profiled(found: Measured) -> float:
    return sum(each.seconds for each in found.timing.kernels)


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if any(each is None for each in counts) else sum(each or 0 for each in counts)


def _macs(cost: Cost, kernel: AttributedKernel) -> int | None:
    """MACs of a kernel; None if it could not be matched with operators."""
    return None if kernel.ops is None else macs_of(cost, kernel.ops)
