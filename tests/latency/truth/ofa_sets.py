"""Sub-networks of Once-For-All (MobileNetV3) on GPUs, at batch 1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from latency.truth.judge import Outcome, joined, split
from latency.truth.splits import drawn, sample
from latency.truth.tables import Table, read
from sizeup.latency import FitOptions, Work, from_columns

GPUS = ("2080ti_1", "titan_rtx_1", "titan_xp_1", "v100_1")
# Stages of MobileNetV3 whose blocks squeeze and excite: three kernels more each.
_SQUEEZED = (1, 3, 4)


def _blocks(table: Table) -> Work:
    """Blocks of two kinds and the rest; totals of the network are divided among them."""
    names, network, count = [], [], []
    for index, text in enumerate(table.words("arch").tolist()):
        depths = json.loads(text)["d"]
        names += ["squeezed block" if stage in _SQUEEZED else "block" for stage in range(len(depths))] + [
            "rest"
        ]
        network += [index] * (len(depths) + 1)
        count += [*depths, 1]
    owner = np.array(network, np.int64)
    shares = np.bincount(owner, count)

    def shared_out(name: str, width: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return (width * table.numbers(name) / shares)[owner]

    return from_columns(
        names,
        len(table),
        owner,
        macs=shared_out("macs", 1),
        read=shared_out("act_elems", 4),
        weights=shared_out("params", 4),
        count=count,
    )


def outcome(folder: Path) -> Outcome:
    """One network in sixteen is seen on each GPU."""
    table = read(folder / "help_ofa.parquet")
    outcomes = []
    for tag in GPUS:
        rows = table.where(table.words("device_tag") == tag)
        models = rows.words("model").tolist()
        seen = sample(models, 16)
        known, unknown = np.flatnonzero(seen), np.flatnonzero(~seen)
        inner = np.array([drawn(f"inner {models[index]}") % 5 for index in known.tolist()], np.int64)
        times = rows.numbers("latency_ms") / 1e3
        outcomes.append(split("", _blocks(rows), times, known, unknown, FitOptions(), inner))
    return joined("HELP OFA GPUs, batch 1", outcomes)
