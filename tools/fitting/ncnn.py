"""ncnn's benchmark: about 30 networks per device, of which only totals are known."""

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
    """One section per target: the one with the most threads, and of those the last in the file."""
    for tag, runtime in RUNTIMES.items():
        table_sections = sections(folder, tag)
        chosen: dict[str, tuple[tuple[int, int], str, Target]] = {}
        for section in np.unique(table_sections.section).tolist():
            target = target_of(section.split(" | ")[0], runtime)
            if target is not None:
                rank = _rank(table_sections, section)
                best = chosen.get(target.name)
                if best is None or rank > best[0]:
                    chosen[target.name] = (rank, section, target)
        for _, section, target in sorted(chosen.values(), key=lambda item: item[2].name):
            yield _of(table_sections.table.where(table_sections.section == section), target, runtime)


def _rank(table_sections: Sections, section: str) -> tuple[int, int]:
    rows = table_sections.table.where(table_sections.section == section)
    return int(rows.numbers("threads")[0]), int(rows.numbers("line").max())


def _of(table: Table, target: Target, runtime: str) -> Measured:
    # ncnn has no int8 kernels for Vulkan: int8 networks run on the CPU instead.
    is_usable = ~np.isnan(table.numbers("macs"))
    if runtime == "ncnn-vulkan":
        is_usable &= ~_is_int8(table)
    table = table.where(is_usable)
    models = [name.removesuffix("int8").rstrip("_-") for name in table.words("model").tolist()]
    threads = int(table.numbers("threads")[0]) if runtime == "ncnn" else None
    seconds = table.numbers("latency_ms") / 1e3
    return Measured("ncnn_bench", target, work_of_totals(table), seconds, np.array(models), threads)


def _is_int8(table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([name.endswith("int8") for name in table.words("model").tolist()], np.bool_)


def work_of_totals(table: Table) -> Work:
    """Float and int8 networks by their totals, with 4 and 1 bytes per element."""
    is_int8 = _is_int8(table)
    width = np.where(is_int8, 1.0, 4.0)
    return whole_networks(
        np.where(is_int8, "*.int8", "*").tolist(),
        table.numbers("macs"),
        width * table.numbers("act_elems"),
        width * table.numbers("params"),
        table.numbers("n_ops"),
    )
