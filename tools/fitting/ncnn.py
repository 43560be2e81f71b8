"""ncnn's own benchmark: about thirty networks on each device, of which totals are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of, whole_networks
from latency.truth.ncnn_sets import Sections, sections
from latency.truth.tables import Table
from sizeup.latency import Work
from sizeup.targets import Target

RUNTIMES = {"ncnn-cpu": "ncnn", "ncnn-vulkan": "ncnn-vulkan"}


def measured(folder: Path) -> Iterator[Measured]:
    """One section for each target: the one with the most threads, and of those the last that was sent in."""
    for told, runtime in RUNTIMES.items():
        found = sections(folder, told)
        chosen: dict[str, tuple[tuple[int, int], str, Target]] = {}
        for section in np.unique(found.section).tolist():
            target = target_of(section.split(" | ")[0], runtime)
            if target is not None:
                place = _place(found, section)
                best = chosen.get(target.name)
                if best is None or place > best[0]:
                    chosen[target.name] = (place, section, target)
        for _, section, target in sorted(chosen.values(), key=lambda each: each[2].name):
            yield _of(found.table.where(found.section == section), target, runtime)


def _place(found: Sections, section: str) -> tuple[int, int]:
    here = found.table.where(found.section == section)
    return int(here.numbers("threads")[0]), int(here.numbers("line").max())


def _of(table: Table, target: Target, runtime: str) -> Measured:
    # Vulkan has no int8: such networks run on the processor instead.
    kept = ~np.isnan(table.numbers("macs"))
    if runtime == "ncnn-vulkan":
        kept &= ~_is_int8(table)
    table = table.where(kept)
    models = [name.removesuffix("int8").rstrip("_-") for name in table.words("model").tolist()]
    threads = int(table.numbers("threads")[0]) if runtime == "ncnn" else None
    seconds = table.numbers("latency_ms") / 1e3
    return Measured("ncnn_bench", target, work_of_totals(table), seconds, np.array(models), threads)


def _is_int8(table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([name.endswith("int8") for name in table.words("model").tolist()], np.bool_)


def work_of_totals(table: Table) -> Work:
    """Float networks and int8 ones, each in the bytes of their own numbers."""
    narrow = _is_int8(table)
    width = np.where(narrow, 1.0, 4.0)
    return whole_networks(
        np.where(narrow, "*.int8", "*").tolist(),
        table.numbers("macs"),
        width * table.numbers("act_elems"),
        width * table.numbers("params"),
        table.numbers("n_ops"),
    )
