"""Measurements without a licence: nothing is fitted to them, they only judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of, whole_networks
from fitting.reach import Ratios, ratios_of
from latency.truth.cells import work_of_cells
from latency.truth.splits import sample
from latency.truth.tables import read

_PI = {"pi5_litert": "litert-xnnpack", "pi5_onnx": "ort", "pi5_torchmobile": "torch-mobile"}
_ONE_OF = 4  # cores that ran, of all that the data sheet counts


def judges(folder: Path) -> list[Ratios]:
    """Ratios to the data sheet on a Raspberry Pi 5 (one core) and on boards of STMicroelectronics."""
    found = [ratios_of(each) for each in _model_zoo(folder)]
    one_core = [ratios_of(each) for each in _pi(folder)]
    found += [each._replace(times=each.times / _ONE_OF) for each in one_core if each is not None]
    return [each for each in found if each is not None]


def _pi(folder: Path) -> Iterator[Measured]:
    table = read(folder / "hwnas360.parquet")
    table = table.where(sample(table.words("arch"), 20) & (table.numbers("latency_ms") > 0.5))
    for tag, runtime in _PI.items():
        here = table.where(table.words("device_tag") == tag)
        target = target_of(here.words("device")[0], runtime)
        assert target is not None
        shapes = [tuple(map(int, each.split("x")[1:])) for each in here.words("input_shape").tolist()]
        sizes = [(channels, height, width) for channels, height, width in shapes]
        work = work_of_cells(here.words("arch").tolist(), "reached", sizes, classes=100)
        yield Measured("hwnas360", target, work, here.numbers("latency_ms") / 1e3, here.words("arch"))


def _model_zoo(folder: Path) -> Iterator[Measured]:
    table = read(folder / "stm32_modelzoo.csv")
    kept = (np.char.lower(table.words("precision")) == "int8") & ~np.isnan(table.numbers("macs"))
    table = table.where(kept & (table.numbers("latency_ms") > 0) & (table.words("device") != ""))
    for device in np.unique(table.words("device")).tolist():
        here = table.where(table.words("device") == device)
        runtime = "stedgeai" if here.words("runtime")[0].startswith("STEdgeAI") else "x-linux-ai"
        target = target_of(device, runtime)
        if target is not None:
            work = whole_networks(
                ["*.int8"] * len(here),
                here.numbers("macs"),
                here.numbers("act_elems"),
                here.numbers("weight_bytes"),
                here.numbers("n_ops"),
            )
            seconds = here.numbers("latency_ms") / 1e3
            yield Measured("stm32_modelzoo", target, work, seconds, here.words("model"))
