"""Tables of well-known image networks on GPUs, processors, phones, boards and accelerators."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fitting import known, ncnn
from fitting.measured import CATALOG, Measured
from latency.truth import image_models
from latency.truth.splits import drawn, family
from latency.truth.tables import read
from user_path.pairs import Network, Pair, pair

_IMAGE = (1, 3, 224, 224)
_UNUSED_WEIGHTS = "googlenet"  # torchvision's has heads for training, which other tables leave out
_TIMM_NETWORKS = 25
_LEAST_RUNS = 10  # in which a network of timm must have been measured


def timm(folder: Path, count: int = _TIMM_NETWORKS) -> Iterator[Pair]:
    """One network of each of the largest families at its smallest image, in one run per target and dtype."""
    table = read(folder / "timm_infer.parquet")
    runs = {**image_models.RUNS, **image_models.MORE_RUNS}
    # The runs of PyTorch 2.4 on a card that was measured again are older than its calibration.
    kept = {run.tag: run for name, run in runs.items() if not name.endswith(", 2.4")}
    table = table.where(np.isin(table.words("device_tag"), [*kept]) & (table.numbers("latency_ms") > 0))
    chosen = spread(table.words("model").tolist(), count)
    rows = table.where(np.isin(table.words("model"), chosen))
    columns = [rows.words(name).tolist() for name in ("device_tag", "model")]
    numbers = [rows.numbers(name).tolist() for name in ("img", "batch", "macs", "params", "latency_ms")]
    smallest: dict[tuple[str, str], tuple[float, ...]] = {}
    for tag, model, *values in zip(*columns, *numbers, strict=True):
        smallest[tag, model] = min(smallest.get((tag, model), tuple(values)), tuple(values))
    for (tag, model), (size, batch, macs, params, latency) in smallest.items():
        run, shape = kept[tag], (int(batch), 3, int(size), int(size))
        network = Network(f"timm:{model}", shape, macs if macs == macs else None, params)
        yield from pair("timm_infer", network, run.precision, run.device, run.runtime, latency / 1e3)


def spread(models: list[str], count: int) -> list[str]:
    """A random network of each family, of the families with the most measurements."""
    times: dict[str, int] = {}
    for model in models:
        times[model] = times.get(model, 0) + 1
    families: dict[str, list[str]] = {}
    for model in sorted(times):
        if times[model] >= _LEAST_RUNS:
            families.setdefault(family(model), []).append(model)
    largest = sorted(families, key=lambda name: (-len(families[name]), name))[:count]
    return [min(families[name], key=drawn) for name in largest]


# Networks of ncnn's table with an equal one elsewhere; the costs are compared for each.
NCNN = {
    "efficientnet_b0": "torchvision:efficientnet_b0",
    "mnasnet": "torchvision:mnasnet1_0",
    "mobilenet": "timm:mobilenetv1_100",
    "regnety_400m": "torchvision:regnet_y_400mf",
    "resnet18": "torchvision:resnet18",
    "resnet50": "resnet50 v1",
    "shufflenet_v2": "torchvision:shufflenet_v2_x1_0",
    "vgg16": "torchvision:vgg16",
}


def ncnn_bench(folder: Path) -> Iterator[Pair]:
    """The section of each target that its calibration uses, else one that uses at least half of its cores."""
    totals = read(folder / "ncnn_bench.parquet")
    costs = zip(totals.numbers("macs").tolist(), totals.numbers("params").tolist(), strict=True)
    cost_of = dict(zip(totals.words("model").tolist(), costs, strict=True))
    for samples in ncnn.measured(folder):
        if _states_its_threads(samples):
            for index, (model, seconds) in enumerate(
                zip(samples.group.tolist(), samples.seconds, strict=True)
            ):
                if model in NCNN:
                    network = Network(NCNN[model], _IMAGE, *cost_of[model])
                    yield Pair("ncnn_bench", network, _precision(samples, index), samples.target, seconds)


def _states_its_threads(samples: Measured) -> bool:
    """Whether the threads are those of the calibration, or at least half of the cores without one."""
    if samples.threads is None:
        return True
    calibration = CATALOG.calibration(samples.target)
    if calibration is not None:
        return calibration.threads == samples.threads
    return 2 * samples.threads >= sum(unit.cores or 1 for unit in samples.target.units)


def _precision(samples: Measured, index: int) -> str | None:
    """The precision of a network; None if it is fp32."""
    name = samples.work.names[int(samples.work.class_index[index])]
    return name.partition(".")[2] or None


_OPENVINO = {"mobilenet-v2": "torchvision:mobilenet_v2", "resnet-50": "torchvision:resnet50"}


def openvino(folder: Path) -> Iterator[Pair]:
    """Latencies of OpenVINO's benchmark at batch 1."""
    for samples in known.measured(folder):
        if samples.table == "openvino_bench":
            for index, (model, seconds) in enumerate(
                zip(samples.group.tolist(), samples.seconds, strict=True)
            ):
                network = Network(_OPENVINO[model], _IMAGE)
                yield Pair(samples.table, network, _precision(samples, index), samples.target, seconds)


AIHUB = {
    "convnext_base": "torchvision:convnext_base",
    "convnext_tiny": "torchvision:convnext_tiny",
    "densenet121": "torchvision:densenet121",
    "efficientnet_b0": "torchvision:efficientnet_b0",
    "googlenet": "torchvision:googlenet",
    "mnasnet05": "torchvision:mnasnet0_5",
    "mobilenet_v2": "torchvision:mobilenet_v2",
    "mobilenet_v3_large": "torchvision:mobilenet_v3_large",
    "mobilenet_v3_small": "torchvision:mobilenet_v3_small",
    "regnet": "torchvision:regnet_x_3_2gf",
    "resnet101": "torchvision:resnet101",
    "resnet18": "torchvision:resnet18",
    "resnet50": "torchvision:resnet50",
    "resnext50": "torchvision:resnext50_32x4d",
    "resnext101": "torchvision:resnext101_32x8d",
    "shufflenet_v2": "torchvision:shufflenet_v2_x0_5",
    "squeezenet1_1": "torchvision:squeezenet1_1",
    "swin_base": "torchvision:swin_b",
    "swin_small": "torchvision:swin_s",
    "swin_tiny": "torchvision:swin_t",
    "vit": "torchvision:vit_b_16",
    "wideresnet50": "torchvision:wide_resnet50_2",
}
_AIHUB_PRECISIONS = {"float": "fp16", "w8a8": "int8"}
# Runtimes on the NPU; others of the table run there through a delegate that the catalog lacks.
_ON_NPU = ("qnn_dlc", "qnn_context_binary", "precompiled_qnn_onnx")
_ON_CPU = {"tflite": "litert-xnnpack", "onnx": "ort"}
_CHIPS = {"Samsung Galaxy S24": "snapdragon-8-gen-3", "Samsung Galaxy S25": "snapdragon-8-elite"}


def aihub(folder: Path) -> Iterator[Pair]:
    """Qualcomm's devices: classifiers at 224 x 224 on the NPU, or on the processor without a delegate."""
    table = read(folder / "aihub.parquet")
    kept = np.isin(table.words("model"), [*AIHUB]) & (table.words("component") == "")
    kept &= np.isin(table.words("precision"), [*_AIHUB_PRECISIONS]) & (
        table.words("input_shape") == "224x224"
    )
    rows = table.where(kept)
    columns = ("device", "runtime", "compute_unit", "precision", "model")
    words = [rows.words(name).tolist() for name in columns]
    numbers = [rows.numbers(name).tolist() for name in ("params", "latency_ms")]
    for device, runtime, unit, precision, model, params, latency in zip(*words, *numbers, strict=True):
        if unit == "NPU" and runtime in _ON_NPU:
            name, dtype = "qnn", _AIHUB_PRECISIONS[precision]
        elif unit == "CPU" and runtime in _ON_CPU:
            name, dtype = _ON_CPU[runtime], "fp32" if precision == "float" else "int8"
        else:
            continue
        is_stated = params == params and model != _UNUSED_WEIGHTS
        network = Network(AIHUB[model], _IMAGE, params=params if is_stated else None)
        yield from pair("aihub", network, dtype, _CHIPS.get(device, device), name, latency / 1e3)


_CORAL = {
    "inception_v1_224_quant_edgetpu.tflite": Network("torchvision:googlenet", _IMAGE),
    "inception_v4_299_quant_edgetpu.tflite": Network("timm:inception_v4", (1, 3, 299, 299)),
    "mobilenet_v1_1.0_224_quant_edgetpu.tflite": Network("timm:mobilenetv1_100", _IMAGE),
    "mobilenet_v2_1.0_224_quant_edgetpu.tflite": Network("torchvision:mobilenet_v2", _IMAGE),
}


def coral(folder: Path) -> Iterator[Pair]:
    """The Edge TPU on five hosts."""
    table = read(folder / "coral_ref.csv")
    words = [table.words(name).tolist() for name in ("device", "model")]
    for device, model, latency in zip(*words, table.numbers("latency_ms").tolist(), strict=True):
        if model in _CORAL:
            yield from pair("coral_ref", _CORAL[model], "int8", device, "edgetpu", latency / 1e3)


_HAILO = {
    "inception_v1": "torchvision:googlenet",
    "mobilenet_v1": "timm:mobilenetv1_100",
    "mobilenet_v2_1.0": "torchvision:mobilenet_v2",
    "regnetx_1.6gf": "torchvision:regnet_x_1_6gf",
    "regnetx_800mf": "torchvision:regnet_x_800mf",
    "resnet_v1_18": "torchvision:resnet18",
    "resnet_v1_34": "torchvision:resnet34",
    "resnext50_32x4d": "torchvision:resnext50_32x4d",
    "vit_base": "torchvision:vit_b_16",
}


def hailo(folder: Path) -> Iterator[Pair]:
    """Frames per second at batch 1, which are no latency: the chip processes several frames at once."""
    table = read(folder / "hailo_zoo.parquet")
    rows = table.where((table.numbers("batch") == 1) & np.isin(table.words("model"), [*_HAILO]))
    words = [rows.words(name).tolist() for name in ("device", "model")]
    numbers = [rows.numbers(name).tolist() for name in ("macs", "params", "fps")]
    for device, model, macs, params, frames in zip(*words, *numbers, strict=True):
        is_equal = _HAILO[model] != f"torchvision:{_UNUSED_WEIGHTS}"
        network = Network(_HAILO[model], _IMAGE, macs, params if is_equal else None)
        if frames > 0:
            yield from pair("hailo_zoo", network, "int8", device, "hailort", 1 / frames, "throughput")


def mlperf_inference(folder: Path) -> Iterator[Pair]:
    """ResNet-50 one image at a time on one accelerator with TensorRT."""
    with gzip.open(folder / "mlperf_inference_v41.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    network = Network("torchvision:resnet50", _IMAGE)
    for row in rows:
        if row["scenario"] == "SingleStream" and row["model"] == "resnet50" and "TensorRT" in row["runtime"]:
            seconds = float(row["mean_ms"]) / 1e3
            yield from pair("mlperf_inference_v41", network, "int8", row["device"], "tensorrt", seconds)
