"""OpenVINO's table of times of well-known networks, whose totals are in ncnn's table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of, whole_networks
from latency.truth.tables import Table, read
from sizeup.latency import Work
from sizeup.targets import Target

# Network names in this table, and in ncnn's.
_SAME = {"mobilenet-v2": "mobilenet_v2", "resnet-50": "resnet50"}
_WIDTHS = {"int8": 1.0, "fp16": 2.0, "fp32": 4.0}


def _work(folder: Path, rows: Table) -> Work:
    """The networks of some rows by their totals, at the precision of each."""
    totals = read(folder / "ncnn_bench.parquet")
    row_of = {name: index for index, name in enumerate(totals.words("model").tolist())}
    index = [row_of[_SAME[name]] for name in rows.words("model").tolist()]
    columns = {name: totals.numbers(name)[index] for name in ("macs", "act_elems", "params", "n_ops")}
    precisions = rows.words("precision").tolist()
    width = np.array([_WIDTHS[each] for each in precisions])
    names = ["*" if each == "fp32" else f"*.{each}" for each in precisions]
    moved, weights = width * columns["act_elems"], width * columns["params"]
    return whole_networks(names, columns["macs"], moved, weights, columns["n_ops"])


def _runtime(device: str) -> str:
    """The runtime of the rows for a device, as the table spells it."""
    runtimes = {"iGPU-only": "openvino-gpu", "dGPU": "openvino-gpu", "NPU-only": "openvino-npu"}
    return next((runtimes[suffix] for suffix in runtimes if device.endswith(suffix)), "openvino")


def measured(folder: Path) -> Iterator[Measured]:
    """The table of OpenVINO, for known networks and devices."""
    table = read(folder / "openvino_bench.csv")
    is_usable = np.isin(table.words("model"), [*_SAME]) & (table.numbers("latency_ms") > 0)
    table = table.where(is_usable & np.isin(table.words("precision"), [*_WIDTHS]))
    by_target: dict[str, tuple[Target, list[str]]] = {}
    for device in np.unique(table.words("device")).tolist():
        target = target_of(device, _runtime(device))
        if target is not None:
            by_target.setdefault(target.name, (target, []))[1].append(device)
    for target, devices in by_target.values():
        rows = table.where(np.isin(table.words("device"), devices))
        seconds = rows.numbers("latency_ms") / 1e3
        yield Measured("openvino_bench", target, _work(folder, rows), seconds, rows.words("model"))
