"""Measurements without a license: used only to evaluate, not to calibrate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of, whole_networks
from fitting.slowdowns import Samples, samples_of
from latency.truth.cells import work_of_cells
from latency.truth.splits import sample
from latency.truth.tables import read

_PI = {"pi5_litert": "litert-xnnpack", "pi5_onnx": "ort", "pi5_torchmobile": "torch-mobile"}
_ONE_OF = 4  # cores that ran, of all that the data sheet counts


def judges(folder: Path) -> list[Samples]:
    """Networks on a Raspberry Pi 5 (one core) and on STMicroelectronics devices."""
    samples = [samples_of(item) for item in _model_zoo(folder)]
    one_core = [samples_of(item) for item in _pi(folder)]
    samples += [item._replace(compute=item.compute * _ONE_OF) for item in one_core if item is not None]
    return [item for item in samples if item is not None]


def _pi(folder: Path) -> Iterator[Measured]:
    table = read(folder / "hwnas360.parquet")
    table = table.where(sample(table.words("arch"), 20) & (table.numbers("latency_ms") > 0.5))
    for tag, runtime in _PI.items():
        rows = table.where(table.words("device_tag") == tag)
        target = target_of(rows.words("device")[0], runtime)
        assert target is not None
        shapes = [tuple(map(int, shape.split("x")[1:])) for shape in rows.words("input_shape").tolist()]
        sizes = [(channels, height, width) for channels, height, width in shapes]
        work = work_of_cells(rows.words("arch").tolist(), "reached", sizes, classes=100)
        yield Measured("hwnas360", target, work, rows.numbers("latency_ms") / 1e3, rows.words("arch"))


def _model_zoo(folder: Path) -> Iterator[Measured]:
    table = read(folder / "stm32_modelzoo.csv")
    is_usable = (np.char.lower(table.words("precision")) == "int8") & ~np.isnan(table.numbers("macs"))
    table = table.where(is_usable & (table.numbers("latency_ms") > 0) & (table.words("device") != ""))
    for device in np.unique(table.words("device")).tolist():
        rows = table.where(table.words("device") == device)
        runtime = "stedgeai" if rows.words("runtime")[0].startswith("STEdgeAI") else "x-linux-ai"
        target = target_of(device, runtime)
        if target is not None:
            work = whole_networks(
                ["*.int8"] * len(rows),
                rows.numbers("macs"),
                rows.numbers("act_elems"),
                rows.numbers("weight_bytes"),
                rows.numbers("n_ops"),
            )
            seconds = rows.numbers("latency_ms") / 1e3
            yield Measured("stm32_modelzoo", target, work, seconds, rows.words("model"))
