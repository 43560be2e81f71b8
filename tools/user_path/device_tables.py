"""Search spaces, language models, microcontrollers and single-board computers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fitting import tiny
from fitting.measured import target_of
from latency.truth import gpu_networks
from latency.truth.board_sets import board_of, engine_of
from latency.truth.splits import drawn
from latency.truth.tables import Table, read
from user_path.pairs import Network, Pair, pair

_CELLS = 12
_NONE = "none"  # runtimes differ in what they do with this operator of a cell


@cache
def cells(folder: Path, count: int = _CELLS) -> tuple[tuple[str, float, float], ...]:
    """Random cells of NAS-Bench-201 that all runtimes execute alike, with their MACs and parameters."""
    table = read(folder / "nb201_archs.parquet")
    costs = zip(table.numbers("macs_all").tolist(), table.numbers("params_all").tolist(), strict=True)
    rows = [
        (arch, macs, params)
        for arch, (macs, params) in zip(table.words("arch").tolist(), costs, strict=True)
        if _NONE not in arch
    ]
    return tuple(sorted(rows, key=lambda row: drawn(row[0]))[:count])


def _of_cells(table: Table, folder: Path) -> Iterator[tuple[str, Network, str, str, float]]:
    """The tag, network, device, runtime and seconds of the rows of the sampled cells."""
    cost_of = {arch: (macs, params) for arch, macs, params in cells(folder)}
    rows = table.where(np.isin(table.words("arch"), [*cost_of]))
    names = ("device_tag", "arch", "input_shape", "device", "runtime")
    words = [rows.words(name).tolist() for name in names]
    numbers = [rows.numbers(name).tolist() for name in ("batch", "latency_ms")]
    for tag, arch, text, device, runtime, batch, latency in zip(*words, *numbers, strict=True):
        shape = (int(batch), *map(int, text.split("x")[1:]))
        macs, params = cost_of[arch]
        at_base = shape[1:] == (3, 32, 32)
        network = Network(f"nb201:{arch}", shape, macs if at_base else None, params if at_base else None)
        yield tag, network, device, runtime, latency / 1e3


def help_cells(folder: Path) -> Iterator[Pair]:
    """NAS-Bench-201 on graphics cards, Xeons, phones and a Raspberry Pi."""
    table = read(folder / "help_nasbench201.parquet")
    table = table.where(table.words("provenance") == "measured")
    for _, network, device, runtime, seconds in _of_cells(table, folder):
        name = "torch-eager" if runtime == "pytorch" else "litert"
        yield from pair("help_nasbench201", network, "fp32", device, name, seconds)


_PI = {"pi5_litert": "litert-xnnpack", "pi5_onnx": "ort", "pi5_torchmobile": "torch-mobile"}


def hwnas360(folder: Path) -> Iterator[Pair]:
    """NAS-Bench-201 on one of the four cores of a Raspberry Pi 5, for images of 32 x 32."""
    table = read(folder / "hwnas360.parquet")
    table = table.where(table.words("input_shape") == "1x3x32x32")
    for tag, network, device, _, seconds in _of_cells(table, folder):
        if tag in _PI:
            yield from pair("hwnas360", network, "fp32", device, _PI[tag], seconds, "one core")


def neusight(folder: Path) -> Iterator[Pair]:
    """Language models on graphics cards, one inference without a cache; no mixture of experts."""
    table = gpu_networks.cases(folder)
    words = [table.words(name).tolist() for name in ("device", "model_name")]
    numbers = [table.numbers(name).tolist() for name in ("batch", "seqlen", "label_all_e2e_latency")]
    for device, model, batch, length, latency in zip(*words, *numbers, strict=True):
        network = Network(f"hf:{model}", (int(batch), int(length)))
        if not model.startswith("switch"):
            card = device.replace("_", " ")
            yield from pair("neusight_e2e", network, "fp32", card, "torch-eager", latency / 1e3)


# TFLite Micro is left out: results do not say whether it used the kernels of CMSIS-NN.
_ENGINES = {"x-cube-ai": "stedgeai", "microtvm": "microtvm", "microtvm cmsis": "tflm-cmsis-nn"}
_FILES = {"ad": "ad01", "ic": "resnet8", "kws": "kws", "sww": "strww"}


def mlperf_tiny(folder: Path) -> Iterator[Pair]:
    """All results in int8; microTVM with CMSIS-NN counts as TFLite Micro with the same kernels."""
    table = tiny.benchmark(folder)
    names = ("device", "runtime", "system", "org", "bench")
    words = [table.words(name).tolist() for name in names]
    seconds = (table.numbers("latency_ms") / 1e3).tolist()
    for device, runtime, system, org, bench, latency in zip(*words, seconds, strict=True):
        engine = _ENGINES.get(engine_of(f"{runtime} {system} {org}"))
        if engine is None and "cmsis" in f"{system} {device}".lower() and "microtvm" in runtime.lower():
            engine = "tflm-cmsis-nn"
        if engine is not None:
            board = device if target_of(device, engine) else board_of(device)
            network = Network(f"mlperf_{_FILES[bench]}_int8.tflite")
            yield from pair("mlperf_tiny", network, None, board, engine, latency)


_TINY_ENGINE = {
    "TFLite-Micro@713b6ed": "tflm",
    "CMSIS-NN@011bf32": "tflm-cmsis-nn",
    "X-CUBE-AI 7.3.0": "stedgeai",
    "TinyEngine@0363956": "tinyengine",
}
_MOBILENETS = {
    "MobileNet v1 1.0X": "timm:mobilenetv1_100",
    "MobileNet v2 1.0X": "torchvision:mobilenet_v2",
    "MobileNet v3 Large": "torchvision:mobilenet_v3_large",
    "MobileNet v3 Small": "torchvision:mobilenet_v3_small",
}


def small_tables(folder: Path) -> Iterator[Pair]:
    """TinyEngine's network that has a file, MobileNets in XNNPACK, and MobileNet v2 in ESP-DL on one core."""
    table = read(folder / "small_tables.csv")
    names = ("dataset", "device", "runtime", "precision", "model")
    words = [table.words(name).tolist() for name in names]
    numbers = [table.numbers(name).tolist() for name in ("macs", "latency_ms")]
    for source, device, runtime, precision, model, macs, latency in zip(*words, *numbers, strict=True):
        if source == "tinyengine" and model == "mcunet-vww1":
            network, name, dtype = Network("te_vww.tflite", macs=macs), _TINY_ENGINE[runtime], None
        elif source == "xnnpack_readme" and runtime == "XNNPACK threads=all big":
            network, name, dtype = Network(_MOBILENETS[model], (1, 3, 224, 224)), "litert-xnnpack", precision
        elif source == "espdl" and runtime == "esp-dl" and model.startswith("mobilenetv2_s8"):
            network, name, dtype = Network("torchvision:mobilenet_v2", (1, 3, 224, 224)), "esp-dl", "int8"
        else:
            continue
        yield from pair(source, network, dtype, device, name, latency / 1e3)


def _square(reference: str, size: int) -> Network:
    return Network(reference, (1, 3, size, size))


# By model and input of the table. Files run at their own precision unless it is fp32.
_MODEL_ZOO = {
    ("MobileNet v1 0.25", "224x224x3"): _square("mobilenet_v1 0.25", 224),
    ("MobileNet v1 0.25 fft", "224x224x3"): _square("mobilenet_v1 0.25 flowers", 224),
    ("MobileNet v1 0.25 fft", "96x96x3"): Network("mlperf_vww96_int8.tflite"),
    ("MobileNet v1 0.25 tfs", "96x96x1"): Network("tflm_person_detect.tflite"),
    ("MobileNet v1 0.5", "224x224x3"): _square("mobilenet_v1 0.5", 224),
    ("MobileNet v1 0.5 fft", "224x224x3"): _square("mobilenet_v1 0.5 flowers", 224),
    ("MobileNet v1 1.0", "224x224x3"): _square("timm:mobilenetv1_100", 224),
    ("MobileNet v2 0.35", "128x128x3"): _square("mobilenet_v2 0.35", 128),
    ("MobileNet v2 0.35", "224x224x3"): _square("mobilenet_v2 0.35", 224),
    ("MobileNet v2 0.35 fft", "128x128x3"): _square("mobilenet_v2 0.35 flowers", 128),
    ("MobileNet v2 0.35 fft", "224x224x3"): _square("mobilenet_v2 0.35 flowers", 224),
    ("MobileNet v2 1.0", "224x224x3"): _square("torchvision:mobilenet_v2", 224),
    ("MobileNet v2 1.0_per_tensor", "224x224x3"): _square("torchvision:mobilenet_v2", 224),
    ("ResNet v1 8 tfs", "32x32x3"): Network("mlperf_resnet8_int8.tflite"),
    ("efficientnetv2b0_224 onnx", "224x224x3"): _square("timm:tf_efficientnetv2_b0", 224),
    ("efficientnetv2b1_240 onnx", "240x240x3"): _square("timm:tf_efficientnetv2_b1", 240),
    ("efficientnetv2b2_260 onnx", "260x260x3"): _square("timm:tf_efficientnetv2_b2", 260),
    ("efficientnetv2b3_300 onnx", "300x300x3"): _square("timm:tf_efficientnetv2_b3", 300),
    ("efficientnetv2s_384 onnx", "384x384x3"): _square("timm:tf_efficientnetv2_s", 384),
    ("hand_landmarks", "224x224x3"): Network("mp_hand_landmark_full.tflite"),
    ("handlandmarks", "224x224x3"): Network("mp_hand_landmark_full.tflite"),
}


def model_zoo(folder: Path) -> Iterator[Pair]:
    """ST's model zoo in int8: networks with a known equivalent, with the MACs that the table has for some.

    On devices with a GPU, only networks that run on the NPU for the most part.
    """
    table = read(folder / "stm32_modelzoo.csv")
    table = table.where(np.char.lower(table.words("precision")) == "int8")
    names = ("model", "input_shape", "in_shape", "device", "engine", "runtime")
    words = [table.words(name).tolist() for name in names]
    numbers = [table.numbers(name).tolist() for name in ("macs", "pct_npu", "latency_ms")]
    for model, size, of_file, device, engine, runtime, macs, share, latency in zip(
        *words, *numbers, strict=True
    ):
        network = _MODEL_ZOO.get((model, size))
        is_on_gpu = engine == "NPU/GPU" and not share > 50
        if network is None or is_on_gpu or "HSP" in device.replace("Without HSP", ""):
            continue
        if of_file and of_file.split("x")[1] == size.split("x")[0]:  # some rows have another size's MACs
            network = network._replace(macs=macs)
        name = "stedgeai" if runtime.startswith("STEdgeAI") else "x-linux-ai"
        dtype = None if network.reference.endswith("int8.tflite") else "int8"
        yield from pair("stm32_modelzoo", network, dtype, device, name, latency / 1e3)
