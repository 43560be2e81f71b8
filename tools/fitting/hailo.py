"""Hailo's model zoo: frames per second of a chip that processes several images at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of
from latency.truth.splits import family
from latency.truth.tables import read
from sizeup.latency import from_columns


def measured(folder: Path) -> Iterator[Measured]:
    """Networks at batch 1, with known MACs but unknown traffic."""
    table = read(folder / "hailo_zoo.parquet")
    table = table.where(
        (table.numbers("batch") == 1) & (table.numbers("fps") > 0) & (table.numbers("macs") > 0)
    )
    for device in np.unique(table.words("device")).tolist():
        target = target_of(device, "hailort")
        if target is not None:
            rows = table.where(table.words("device") == device)
            names = ["*.int8"] * len(rows)
            work = from_columns(names, len(rows), np.arange(len(rows)), macs=rows.numbers("macs"))
            groups = np.array([family(name) for name in rows.words("model").tolist()])
            yield Measured("hailo_zoo", target, work, 1 / rows.numbers("fps"), groups)
