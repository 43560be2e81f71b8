"""Networks of NAS-Bench-201 on a Raspberry Pi 5 and a Pixel (three input shapes), and on GPUs and Xeons."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np

from latency.truth.cells import Policy, uses_its_input, work_of_cells
from latency.truth.judge import Outcome, joined, split
from latency.truth.splits import drawn, sample
from latency.truth.tables import Table, Words, read
from sizeup.latency import FitOptions
from sizeup.latency.work import Codes, Floats, Work

# How each runtime executes a cell, and the form of its calibration. ONNX Runtime multiplies matrices 16
# columns at a time. Two shapes of similar size do not separate launches from work, so there are none.
RUNTIMES: dict[str, tuple[str, Policy, FitOptions]] = {
    "ONNX Runtime": ("pi5_onnx", "merged", FitOptions(power=2, launching=False, tile=16)),
    "TorchMobile": ("pi5_torchmobile", "merged", FitOptions()),
    "LiteRT": ("pi5_litert", "reached", FitOptions(launching=False)),
    "Pixel": ("pixel_litert", "reached", FitOptions(launching=False)),
}
_INNER = 5


@cache
def _pi(folder: Path) -> Table:
    """The table without networks whose output does not depend on the input, which a compiler folds away."""
    table = read(folder / "hwnas360.parquet")
    archs = table.words("arch")
    used = {arch for arch in set(archs.tolist()) if uses_its_input(arch)}
    return table.where(np.array([arch in used for arch in archs.tolist()]))


def _inner(archs: list[str]) -> Codes:
    return np.array([drawn(f"inner {arch}") % _INNER for arch in archs], np.int64)


def _shape(text: str) -> tuple[int, int, int]:
    _, channels, height, width = map(int, text.split("x"))
    return channels, height, width


def in_shape(folder: Path, runtime: str) -> Outcome:
    """One network in ten is seen, at the same input shape; all three shapes together."""
    return _pi_outcome(folder, runtime, across=False)


def third_shape(folder: Path, runtime: str) -> Outcome:
    """One network in ten is seen, at the two other input shapes; each shape is held out in turn.

    The interval is from the errors between the two others.
    """
    return _pi_outcome(folder, runtime, across=True)


@cache
def _pi_cells(folder: Path, runtime: str) -> tuple[list[str], Words, Floats, Work]:
    """Networks, input shapes and seconds of a runtime, and the work of all."""
    tag, policy, _ = RUNTIMES[runtime]
    table = _pi(folder)
    table = table.where(table.words("device_tag") == tag)
    archs, shapes = table.words("arch").tolist(), table.words("input_shape")
    work = work_of_cells(archs, policy, [_shape(each) for each in shapes.tolist()], classes=100)
    return archs, shapes, table.numbers("latency_ms") / 1e3, work


def _pi_outcome(folder: Path, runtime: str, across: bool) -> Outcome:
    form = RUNTIMES[runtime][2]
    archs, shapes, times, work = _pi_cells(folder, runtime)
    seen = sample(archs, 10)
    name = f"hwnas360 {runtime}, {'unseen' if across else 'known'} input shape"
    pixels = np.log([math.prod(_shape(each)[1:]) for each in shapes.tolist()])
    outcomes = []
    for shape in np.unique(shapes):
        here = shapes == shape
        known = np.flatnonzero(seen & (here != across))
        inner = _inner([archs[index] for index in known.tolist()])
        unknown = np.flatnonzero(~seen & here)
        outcomes.append(split(name, work, times, known, unknown, form, inner, pixels if across else None))
    return joined(name, outcomes)


HELP = {
    "batch 1": ("1080ti_1", "2080ti_1", "titan_rtx_1", "titanx_1", "titanxp_1"),
    "batch 256": ("1080ti_256", "2080ti_256", "titan_rtx_256", "titanx_256", "titanxp_256"),
    "Xeons": ("gold_6226", "gold_6240", "silver_4114", "silver_4210r"),
    "Raspberry Pi 4": ("raspi4",),
}


def help_cells(folder: Path, group: str, one_in: int = 16, judged_one_in: int = 4) -> Outcome:
    """One network in sixteen is seen on each device; of the others one in four is judged, for time."""
    table = read(folder / "help_nasbench201.parquet")
    archs = sorted(set(table.words("arch").tolist()))
    policy: Policy = "reached" if group == "Raspberry Pi 4" else "each"
    if policy == "reached":
        archs = [arch for arch in archs if uses_its_input(arch)]
    seen = sample(archs, one_in)
    judged = ~seen & np.array([drawn(f"judged {arch}") % judged_one_in == 0 for arch in archs])
    chosen = np.flatnonzero(seen | judged)
    names = [archs[index] for index in chosen.tolist()]
    work = work_of_cells(names, policy, [(3, 32, 32)] * len(names))
    known, unknown = np.flatnonzero(seen[chosen]), np.flatnonzero(judged[chosen])
    inner = _inner([names[index] for index in known.tolist()])
    outcomes, tags = [], table.words("device_tag")
    for tag in HELP[group]:
        rows = table.where(tags == tag)
        time_of = dict(
            zip(rows.words("arch").tolist(), (rows.numbers("latency_ms") / 1e3).tolist(), strict=True)
        )
        times = np.array([time_of[name] for name in names])
        batch = float(rows.numbers("batch")[0])
        name = f"HELP NB201 {group}"
        outcomes.append(split(name, work.at_batch(batch), times, known, unknown, FitOptions(), inner))
    return joined(f"HELP NB201 {group}", outcomes)
