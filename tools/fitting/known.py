"""Tables that tell times of networks that everybody knows, whose totals another table has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of, whole_networks
from latency.truth.tables import Table, read
from sizeup.latency import Work
from sizeup.targets import Target

# As the tables call them, and as ncnn does.
_SAME = {
    "mobilenet-v2": "mobilenet_v2",
    "resnet-50": "resnet50",
    "inception_v1_224_quant_edgetpu.tflite": "googlenet",
    "mobilenet_v1_1.0_224_quant_edgetpu.tflite": "mobilenet",
    "mobilenet_v2_1.0_224_quant_edgetpu.tflite": "mobilenet_v2",
    "MobileNet v1 1.0X": "mobilenet",
    "MobileNet v2 1.0X": "mobilenet_v2",
}
_WIDTHS = {"int8": 1.0, "fp16": 2.0, "fp32": 4.0}


def _work(folder: Path, rows: Table) -> Work:
    """The totals of the networks of some rows, at the precision of each."""
    totals = read(folder / "ncnn_bench.parquet")
    place = {name: index for index, name in enumerate(totals.words("model").tolist())}
    index = [place[_SAME[name]] for name in rows.words("model").tolist()]
    columns = {name: totals.numbers(name)[index] for name in ("macs", "act_elems", "params", "n_ops")}
    precisions = rows.words("precision").tolist()
    width = np.array([_WIDTHS[each] for each in precisions])
    names = ["*" if each == "fp32" else f"*.{each}" for each in precisions]
    moved, weights = width * columns["act_elems"], width * columns["params"]
    return whole_networks(names, columns["macs"], moved, weights, columns["n_ops"])


def _runtime(name: str, device: str) -> str:
    """The runtime behind a table and the device as it spells it."""
    if name == "openvino_bench":
        ending = {"iGPU-only": "openvino-gpu", "dGPU": "openvino-gpu", "NPU-only": "openvino-npu"}
        return next((ending[each] for each in ending if device.endswith(each)), "openvino")
    return "edgetpu" if name == "coral_ref" else "litert-xnnpack"


def measured(folder: Path) -> Iterator[Measured]:
    """OpenVINO's, Coral's and XNNPACK's own tables, as far as networks and devices are known."""
    for name in ("openvino_bench", "coral_ref", "small_tables"):
        table = read(folder / f"{name}.csv")
        kept = np.isin(table.words("model"), [*_SAME]) & (table.numbers("latency_ms") > 0)
        if name == "small_tables":
            kept &= table.words("runtime") == "XNNPACK threads=all big"
        table = table.where(kept & np.isin(table.words("precision"), [*_WIDTHS]))
        by_target: dict[str, tuple[Target, list[str]]] = {}
        for device in np.unique(table.words("device")).tolist():
            target = target_of(device, _runtime(name, device))
            if target is not None:
                by_target.setdefault(target.name, (target, []))[1].append(device)
        for target, devices in by_target.values():
            here = table.where(np.isin(table.words("device"), devices))
            seconds = here.numbers("latency_ms") / 1e3
            yield Measured(name, target, _work(folder, here), seconds, here.words("model"))
