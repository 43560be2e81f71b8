"""Espressif's chips: networks in TFLite Micro with and without ESP-NN, and in ESP-DL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of
from latency.truth.tables import read
from sizeup.api.models import count
from sizeup.latency import execution_of, from_columns

# ESP-NN, README.md, model-level performance: milliseconds without and with ESP-NN. Its table of kernels is
# not used: kernels without ESP-NN are its own in C, which TFLite Micro does not run.
_RUNTIMES = ("tflm", "tflm-esp-nn")
_NETWORKS = {
    "esp32": {"person_detect": (4084, 380)},
    "esp32-c3": {"person_detect": (3355, 426)},
    "esp32-p4": {"person_detect": (1395, 73), "mobilenet_v3_small": (11600, 1050)},
    "esp32-s3": {"person_detect": (2300, 54), "mobilenet_v3_small": (26000, 1434)},
}
# MACs of networks that are no files here: MobileNetV3 and MobileNetV2 as recorded by sizeup (the latter also
# at half of its width, 128 x 128), YOLO11 by Ultralytics, and face recognition by ESP-DL's README.md.
_MACS = {
    "mobilenet_v3_small": 56.5e6,
    "mobilenetv2_s8_v1": 300.8e6,
    "mobilenetv2_0_5_s8_v1": 31.7e6,
    "yolo11n_s8_v1": 3.25e9,
    "yolo11n_320_s8_v1": 0.8125e9,
    "mfn_s8_v1": 0.23e9,
    "mbf_s8_v1": 0.45e9,
}


def _measured(
    table: str, device: str, runtime: str, seconds: dict[str, float], macs: list[float]
) -> Measured:
    target = target_of(device, runtime)
    assert target is not None
    work = from_columns(["*.int8"] * len(macs), len(macs), np.arange(len(macs)), macs=np.array(macs))
    return Measured(table, target, work, np.array([*seconds.values()]), np.array([*seconds]))


def micro(models: Path) -> Iterator[Measured]:
    """One or two networks in TFLite Micro on each chip, by their MACs."""
    person = execution_of(count(models / "tflm_person_detect.tflite")).work
    macs = {"person_detect": float(person.totals(person.macs)[0]), **_MACS}
    for device, networks in _NETWORKS.items():
        for index, runtime in enumerate(_RUNTIMES):
            seconds = {name: times[index] / 1e3 for name, times in networks.items()}
            yield _measured("esp_nn", device, runtime, seconds, [macs[name] for name in seconds])


def esp_dl(folder: Path) -> Iterator[Measured]:
    """Networks in ESP-DL on one core, by their MACs."""
    table = read(folder / "small_tables.csv")
    table = table.where((table.words("dataset") == "espdl") & (table.words("runtime") == "esp-dl"))
    for device, suffix in (("esp32-s3", "_s3"), ("esp32-p4", "_p4")):
        names = [name.split(" ")[0] for name in table.words("model").tolist()]
        rows = zip(names, table.numbers("latency_ms").tolist(), strict=True)
        known = [(name.removesuffix(suffix), time) for name, time in rows if name.endswith(suffix)]
        seconds = {name: time / 1e3 for name, time in known if name in _MACS}
        yield _measured("esp_dl", device, "esp-dl", seconds, [_MACS[name] for name in seconds])
