"""Hailo's model zoo: frames a second of a chip that works on several pictures at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of
from latency.truth.splits import family
from latency.truth.tables import read
from sizeup.latency import from_columns


def measured(folder: Path) -> Iterator[Measured]:
    """Batch 1; of the networks MACs are known, not what they move."""
    table = read(folder / "hailo_zoo.parquet")
    table = table.where(
        (table.numbers("batch") == 1) & (table.numbers("fps") > 0) & (table.numbers("macs") > 0)
    )
    for device in np.unique(table.words("device")).tolist():
        target = target_of(device, "hailort")
        if target is not None:
            here = table.where(table.words("device") == device)
            names = ["*.int8"] * len(here)
            work = from_columns(names, len(here), np.arange(len(here)), macs=here.numbers("macs"))
            groups = np.array([family(each) for each in here.words("model").tolist()])
            yield Measured("hailo_zoo", target, work, 1 / here.numbers("fps"), groups)
