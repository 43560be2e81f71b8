"""Qualcomm AI Hub: 37 networks on the accelerators of Qualcomm's chips, and some on their processors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of
from fitting.networks import NETWORKS, recorded, work_of_networks
from latency.truth.tables import Table, read
from sizeup.latency import Rates

DEVICES = {
    "Dragonwing IQ-9075 EVK": "iq-9075",
    "Dragonwing RB3 Gen 2 Vision Kit": "qcs6490",
    "SA8295P ADP": "sa8295p",
    "SA8775P ADP": "sa8775p",
    "Samsung Galaxy S24": "galaxy-s24",
    "Samsung Galaxy S25": "galaxy-s25",
    "Snapdragon 7 Gen 4 QRD": "snapdragon-7-gen-4",
    "Snapdragon 8 Elite Gen 5 QRD": "snapdragon-8-elite-gen-5",
    "Snapdragon X Elite CRD": "snapdragon-x-elite",
    "Snapdragon X2 Elite CRD": "snapdragon-x2-elite",
}
CHIPS = {"galaxy-s24": "snapdragon-8-gen-3", "galaxy-s25": "snapdragon-8-elite"}
"""The chips of phones: their calibrations are the phone's."""
# Runtimes by their name in the table and the unit that all layers of a network ran on.
RUNTIMES = {
    ("qnn_dlc", "NPU"): "qnn",
    ("tflite", "NPU"): "litert-qnn",
    ("onnx", "NPU"): "ort-qnn",
    ("onnx", "CPU"): "ort",
}
# Float networks are computed in fp16; w8a16 has int16 activations.
_PRECISIONS = {"float": "fp16", "w8a8": "int8", "w8a16": "int16"}
_LEAST = 8  # networks of a precision


def with_fp32(rates: Rates) -> Rates:
    """Rates also for fp32 networks, which are computed in fp16: the same at twice the bytes."""
    fp16 = rates.classes.get("*.fp16")
    classes = {} if fp16 is None else {"*": replace(fp16, byte=fp16.byte / 2)}
    return replace(rates, classes={**rates.classes, **classes})


def _table(folder: Path) -> Table:
    table = read(folder / "aihub.parquet")
    layers = table.numbers("layers_total")
    units = table.words("compute_unit")
    on_one = np.where(units == "NPU", table.numbers("layers_npu"), table.numbers("layers_cpu")) == layers
    is_usable = on_one & (table.numbers("latency_ms") > 0) & (table.numbers("n_components") == 1)
    is_usable &= np.isin(table.words("model"), [*recorded()])
    is_usable &= np.isin(table.words("precision"), [*_PRECISIONS])
    return table.where(is_usable)


def measured(folder: Path) -> Iterator[Measured]:
    """The networks of each target, in precisions with enough of them; families are held out together."""
    table = _table(folder)
    for device, name in DEVICES.items():
        for (runtime, unit), own_runtime in RUNTIMES.items():
            target = target_of(name, own_runtime)
            is_here = (table.words("device") == device) & (table.words("runtime") == runtime)
            rows = table.where(is_here & (table.words("compute_unit") == unit))
            precisions = np.array([_PRECISIONS[each] for each in rows.words("precision").tolist()], np.str_)
            # On a processor, ONNX Runtime computes operators on 16-bit integers in float.
            known = [each for each in np.unique(precisions) if (precisions == each).sum() >= _LEAST]
            is_usable = np.isin(precisions, [each for each in known if unit == "NPU" or each == "int8"])
            if target is not None and is_usable.any():
                rows = rows.where(is_usable)
                models = rows.words("model").tolist()
                work = work_of_networks(models, precisions[is_usable].tolist())
                families = np.array([NETWORKS[model].family for model in models])
                yield Measured("aihub", target, work, rows.numbers("latency_ms") / 1e3, families)
