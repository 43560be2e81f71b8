"""HELP: three search spaces on graphics cards, Xeons, phones and a Raspberry Pi, one kernel per operator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of
from fitting.spaces import SPACES, work_of_networks
from latency.truth.cells import uses_its_input
from latency.truth.splits import sample
from latency.truth.tables import Table, read
from sizeup.errors import SizeupError
from sizeup.latency import Work, stack
from sizeup.latency.work import Floats
from sizeup.targets import Target

# One network in N is sampled; more do not change the result.
_ONE_IN = {"help_nasbench201": 24, "help_fbnet": 12, "help_ofa": 12}
# Three times slower than a similar Xeon, and than the same one on other networks.
_SUSPECT = {("help_fbnet", "gold_6226")}


@cache
def _networks(folder: Path, space: str, folded: bool) -> tuple[tuple[str, ...], Work]:
    """The sampled networks and their kernels; raises SizeupError if their costs differ from the table."""
    table = read(folder / f"{space}.parquet")
    table = table.where(table.words("device_tag") == table.words("device_tag")[0])
    table = table.where(sample(table.words("arch"), _ONE_IN[space]))
    archs = table.words("arch").tolist()
    is_used = [not folded or space != "help_nasbench201" or uses_its_input(arch) for arch in archs]
    built = [SPACES[space](arch, folded) for arch in archs]
    if (
        space != "help_nasbench201"
    ):  # its table counts only ops that reach the output; runtimes run others too
        costs = zip(table.numbers("macs"), table.numbers("params"), strict=True)
        if [(network.macs, network.parameters) for network in built] != [*costs]:
            raise SizeupError(f"{space}: the costs of the networks differ from the table")
    chosen = [index for index, used in enumerate(is_used) if used]
    return tuple(archs[i] for i in chosen), work_of_networks([built[i] for i in chosen])


def measured(folder: Path) -> Iterator[Measured]:
    """The measurements of each target, over all search spaces and batch sizes."""
    parts: dict[str, list[tuple[str, str, Table]]] = {}
    targets: dict[str, Target] = {}
    for space in SPACES:
        table = read(folder / f"{space}.parquet")
        table = table.where(table.words("provenance") == "measured")
        for tag in np.unique(table.words("device_tag")).tolist():
            rows = table.where(table.words("device_tag") == tag)
            runtime = "torch-eager" if rows.words("runtime")[0] == "pytorch" else "litert"
            target = target_of(rows.words("device")[0], runtime)
            if target is not None and (space, tag) not in _SUSPECT:
                targets[target.name] = target
                parts.setdefault(target.name, []).append((space, tag, rows))
    for name in sorted(parts):
        yield _concatenate(folder, targets[name], parts[name])


def _concatenate(folder: Path, target: Target, parts: list[tuple[str, str, Table]]) -> Measured:
    folded = target.runtime.name == "litert"
    works: list[Work] = []
    seconds: list[Floats] = []
    group: list[str] = []
    for space, _, table in parts:
        archs, work = _networks(folder, space, folded)
        times = dict(
            zip(table.words("arch").tolist(), (table.numbers("latency_ms") / 1e3).tolist(), strict=True)
        )
        works.append(work.at_batch(float(table.numbers("batch")[0])))
        seconds.append(np.array([times[arch] for arch in archs]))
        group += [space] * len(archs)
    return Measured("help", target, stack(works), np.concatenate(seconds), np.array(group))
