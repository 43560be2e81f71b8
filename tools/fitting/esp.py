"""Espressif's chips: networks in TFLite Micro with and without ESP-NN, and in ESP-DL."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from fitting import espdl
from fitting.measured import Measured, target_of
from latency.truth.tables import read
from sizeup.api.models import count
from sizeup.latency import Rate, Rates, Work, execution_of, from_columns
from sizeup.latency.model import reread_macs
from sizeup.latency.work import Floats

# ESP-NN, README.md, model-level performance: milliseconds without and with ESP-NN. Its table of kernels is
# not used: kernels without ESP-NN are its own in C, which TFLite Micro does not run.
_RUNTIMES = ("tflm", "tflm-esp-nn")
_NETWORKS = {
    "esp32": {"person_detect": (4084, 380)},
    "esp32-c3": {"person_detect": (3355, 426)},
    "esp32-p4": {"person_detect": (1395, 73), "mobilenet_v3_small": (11600, 1050)},
    "esp32-s3": {"person_detect": (2300, 54), "mobilenet_v3_small": (26000, 1434)},
}
_MACS = {"mobilenet_v3_small": 56.5e6}  # recorded by sizeup


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


# Networks of ESP-DL: the name in the table without the chip, the file, and the family.
_ESP_DL = {
    "espdet_pico_224_224_cat_s8": ("espdet_pico_224_224_cat", "espdet"),
    "espdet_pico_416_416_cat_s8": ("espdet_pico_416_416_cat", "espdet"),
    "espdet_pico_224_224_face_s8": ("espdet_pico_224_224_face", "espdet"),
    "espdet_pico_416_416_face_s8": ("espdet_pico_416_416_face", "espdet"),
    "mobilenetv2_0_5_s8_v1": ("mobilenetv2_0_5_128_128_gesture", "mobilenet_v2"),
    "mobilenetv2_s8_v1": ("imagenet_cls_mobilenetv2_s8_v1", "mobilenet_v2"),
    "msr_s8_v1": ("human_face_detect_msr_s8_v1", "msr"),
    "mnp_s8_v1": ("human_face_detect_mnp_s8_v1", "mnp"),
    "mfn_s8_v1": ("human_face_feat_mfn_s8_v1", "mobilefacenet"),
    "mbf_s8_v1": ("human_face_feat_mbf_s8_v1", "mobilefacenet"),
    "pico_s8_v1": ("pedestrian_detect_pico_s8_v1", "pico"),
    "osn_s8_v1": ("person_reid_feat_osn_s8_v1", "osnet"),
    "yolo11n_s8_v1": ("coco_detect_yolo11n_s8_v1", "yolo"),
    "yolo11n_320_s8_v1": ("coco_detect_yolo11n_320_s8_v1", "yolo"),
    "yolo11n_pose_s8_v1": ("coco_pose_yolo11n_pose_s8_v1", "yolo"),
    "yolo11n_seg_s8_v1": ("coco_seg_yolo11n_seg_s8_v1", "yolo"),
    "yolo26n_512_s8": ("yolo26n_512_s8", "yolo"),
    "yolo26n_640_s8": ("yolo26n_640_s8", "yolo"),
    "pp_ocr_v6_det_s8": ("pp_ocr_v6_det_s8", "pp_ocr"),
    "pp_ocr_v6_rec_s8": ("pp_ocr_v6_rec_s8", "pp_ocr"),
}
# The data cache of an ESP32-S3 (ESP-NN, README.md: 64 KB), and the biases of filters of that size. No filter
# of these networks has between 65,536 and 73,728 weights, so any limit between them is the same.
CACHE = 65 * 1024
_STEPS = 20
_SMALLEST = 0.03  # relative errors below this are squared


def esp_dl(folder: Path) -> Iterator[Measured]:
    """Networks in ESP-DL on one core, from their .espdl files; those of a family are held out together."""
    table = read(folder / "small_tables.csv")
    table = table.where((table.words("dataset") == "espdl") & (table.words("runtime") == "esp-dl"))
    names = [name.strip("`").split(" ")[0] for name in table.words("model").tolist()]
    rows = [*zip(names, (table.numbers("latency_ms") / 1e3).tolist(), strict=True)]
    for chip in ("s3", "p4"):
        target = target_of(f"esp32-{chip}", "esp-dl")
        assert target is not None
        known = [(name.removesuffix(f"_{chip}"), time) for name, time in rows if name.endswith(f"_{chip}")]
        known = [(name, time) for name, time in known if name in _ESP_DL]
        files = [_ESP_DL[name][0] for name, _ in known]
        families = np.array([_ESP_DL[name][1] for name, _ in known])
        yield Measured("esp_dl", target, _work(chip, files), np.array([time for _, time in known]), families)


def _work(chip: str, files: list[str]) -> Work:
    """The kernels of some files of a chip."""
    columns: list[tuple[float, ...]] = []
    by_file = _recorded()
    for index, file in enumerate(files):
        rows = by_file.get((chip, file)) or by_file[chip, f"{file}_{chip}"]
        columns += [(index, *row) for row in rows]
    network, macs, moved, weights, count = np.array(columns, np.float64).T
    return from_columns(
        ["*.int8"] * len(macs),
        len(files),
        network.astype(np.int64),
        macs=macs,
        read=moved,
        weights=weights,
        count=count,
    )


@cache
def _recorded() -> dict[tuple[str, str], list[tuple[float, ...]]]:
    """The kernels of each file, by chip and name."""
    by_file: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    with espdl.PATH.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            kernel = tuple(float(row[name]) for name in espdl.COLUMNS[2:])
            by_file.setdefault((row["chip"], row["network"]), []).append(kernel)
    return by_file


def rates(work: Work, measured: Floats, peak: float) -> Rates:
    """MACs at the peak of the data sheet, and fitted seconds per byte and per MAC of re-read weights.

    Non-negative least squares of relative errors, with weights that turn squared into absolute errors.
    """
    arithmetic = work.totals(work.macs) / peak
    design = np.stack([work.totals(work.traffic), work.totals(reread_macs(work, CACHE))], axis=1)
    relative, rest = design / measured[:, None], 1 - arithmetic / measured
    scale = np.abs(relative).max(axis=0)
    solution, weights = np.zeros(2), np.ones(len(measured))
    for _ in range(_STEPS):
        root = np.sqrt(weights)
        solution, _ = nnls(relative / scale * root[:, None], rest * root)
        weights = 1 / np.maximum(np.abs(relative / scale @ solution - rest), _SMALLEST)
    byte, reread = (solution / scale).tolist()
    return Rates(Rate(1 / peak, byte, 0.0), cache=float(CACHE), reread=reread)
