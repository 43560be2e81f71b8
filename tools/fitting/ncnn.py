"""ncnn's benchmark: about 30 networks per device, of which only totals are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of, whole_networks
from latency.truth.ncnn_sets import Sections, sections
from latency.truth.tables import Table
from sizeup.latency import Work
from sizeup.targets import Target

RUNTIMES = {"ncnn-cpu": "ncnn", "ncnn-vulkan": "ncnn-vulkan"}
_FAMILIES = {
    "mobilenet": "mobilenet mobilenet_v2 mobilenet_v3 mnasnet proxylessnasnet efficientnet_b0"
    " efficientnetv2_b0 mobilenet_ssd mobilenet_yolo mobilenetv2_yolov3 yolo-fastest-1.1",
    "resnet": "resnet18 resnet50",
    "shufflenet": "shufflenet shufflenet_v2 nanodet_m yolo-fastestv2 FastestDet",
    "squeezenet": "squeezenet squeezenet_ssd",
}
# MACs and elements of activations by ncnn's own file of the network, whose shapes the table has too small.
_CORRECTED = {"efficientnetv2_b0": (718086176, 23627240)}
_FAMILY_OF = {network: family for family, names in _FAMILIES.items() for network in names.split()}


def family(network: str) -> str:
    """The family of a network by its blocks, or of its backbone; other networks are families of one."""
    return _FAMILY_OF.get(network, network)


def by_family(samples: Measured) -> Measured:
    """With the families of networks as groups."""
    return samples._replace(group=np.array([family(name) for name in samples.group.tolist()]))


def measured(folder: Path) -> Iterator[Measured]:
    """One section per target: the one with the most threads, and of those the last in the file."""
    for tag, runtime in RUNTIMES.items():
        table_sections = sections(folder, tag)
        chosen: dict[str, tuple[tuple[int, int], str, Target]] = {}
        for section in np.unique(table_sections.section).tolist():
            target = target_of(section.split(" | ")[0], runtime)
            if target is not None:
                rank = _rank(table_sections, section)
                best = chosen.get(target.name)
                if best is None or rank > best[0]:
                    chosen[target.name] = (rank, section, target)
        for _, section, target in sorted(chosen.values(), key=lambda item: item[2].name):
            yield _of(table_sections.table.where(table_sections.section == section), target, runtime)


def _rank(table_sections: Sections, section: str) -> tuple[int, int]:
    rows = table_sections.table.where(table_sections.section == section)
    return int(rows.numbers("threads")[0]), int(rows.numbers("line").max())


def _of(table: Table, target: Target, runtime: str) -> Measured:
    # ncnn has no int8 kernels for Vulkan: int8 networks run on the CPU instead.
    is_usable = ~np.isnan(table.numbers("macs"))
    if runtime == "ncnn-vulkan":
        is_usable &= ~_is_int8(table)
    table = table.where(is_usable)
    models = [name.removesuffix("int8").rstrip("_-") for name in table.words("model").tolist()]
    threads = int(table.numbers("threads")[0]) if runtime == "ncnn" else None
    seconds = table.numbers("latency_ms") / 1e3
    return Measured("ncnn_bench", target, work_of_totals(table), seconds, np.array(models), threads)


def _is_int8(table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([name.endswith("int8") for name in table.words("model").tolist()], np.bool_)


def work_of_totals(table: Table) -> Work:
    """Float and int8 networks by their totals, with 4 and 1 bytes per element."""
    is_int8 = _is_int8(table)
    width = np.where(is_int8, 1.0, 4.0)
    costs = zip(table.numbers("macs").tolist(), table.numbers("act_elems").tolist(), strict=True)
    rows = zip(table.words("model").tolist(), costs, strict=True)
    macs, elements = np.array([_CORRECTED.get(model, cost) for model, cost in rows], np.float64).T
    return whole_networks(
        np.where(is_int8, "*.int8", "*").tolist(),
        macs,
        width * elements,
        width * table.numbers("params"),
        table.numbers("n_ops"),
    )
