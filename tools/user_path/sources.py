"""All pairs of networks and measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from user_path import device_tables, image_tables
from user_path.pairs import Pair

SOURCES: dict[str, Callable[[Path], Iterator[Pair]]] = {
    "timm_infer": image_tables.timm,
    "help_nasbench201": device_tables.help_cells,
    "ncnn_bench": image_tables.ncnn_bench,
    "aihub": image_tables.aihub,
    "openvino_bench": image_tables.openvino,
    "neusight_e2e": device_tables.neusight,
    "mlperf_tiny": device_tables.mlperf_tiny,
    "small_tables": device_tables.small_tables,
    "stm32_modelzoo": device_tables.model_zoo,
    "hailo_zoo": image_tables.hailo,
    "coral_ref": image_tables.coral,
    "hwnas360": device_tables.hwnas360,
    "mlperf_inference_v41": image_tables.mlperf_inference,
}


def pairs(folder: Path, only: str = "") -> Iterator[Pair]:
    """The pairs of the tables in a folder whose name contains `only`."""
    for name, read in SOURCES.items():
        if only in name:
            yield from read(folder)
