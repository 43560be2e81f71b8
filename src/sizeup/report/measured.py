"""A measurement beside what was counted: how long a model took, and how fast that makes the machine."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.cost import Cost, total
from sizeup.files import write_text
from sizeup.latency import Hardware, executed, hardware
from sizeup.report import timing as timing_data
from sizeup.report.console import print_labelled, print_rows
from sizeup.report.files import check_ending
from sizeup.report.text import plain
from sizeup.runtimes import Timing
from sizeup.targets import Target

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, repr=False)
class Measured:
    """Times of a model in a real runtime on this machine, and what it computed and moved in them."""

    name: str
    format: str
    timing: Timing
    cost: Cost
    target: Target | None = None  # what this machine is, where that was said

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
            "kernels": [
                {"name": each.name, "kind": each.kind, "seconds": each.seconds} for each in timing.kernels
            ],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a .json file."""
        check_path(path)
        write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a measurement is not written as."""
    check_ending(path, "a measurement is", ".json")


def render(found: Measured, console: Console, top: int = 10) -> None:
    """Print the time first, then how fast that is, then where it goes."""
    console.print(Text(plain(f"{found.name} ({found.format})"), style="bold"))
    for label, text in _lines(found):
        print_labelled(console, label, text, "bold" if label == "time" else "")
    if found.timing.kernels:
        _print_kernels(console, found.timing, top)


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


def _print_kernels(console: Console, timing: Timing, top: int) -> None:
    whole = sum(each.seconds for each in timing.kernels)
    ranked = sorted(timing.kernels, key=lambda each: -each.seconds)
    rows = [
        (units.duration(each.seconds), units.share(each.seconds, whole), f"{each.kind}  {each.name}")
        for each in ranked[:top]
    ]
    if ranked[top:]:
        seconds = sum(each.seconds for each in ranked[top:])
        rest = f"{len(ranked) - top:,} more: --top N shows them"
        rows.append((units.duration(seconds), units.share(seconds, whole), rest))
    console.print()
    print_rows(console, ("time", "share", "kernel in the runtime's own profile"), rows)
