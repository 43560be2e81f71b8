"""Rows of measured servers as operating points that sizeup can predict; measured columns are never read.

A row names a model by its path on the Hugging Face Hub; its configuration is a file
`owner--name_config.json` in a folder. `harness` decides two things that the columns do not state:
InferenceMAX draws lengths from 0.8 to 1.0 of the stated ones, and serves quantized checkpoints with an fp8
cache, as TensorRT-LLM and checkpoints of NVIDIA do. `serving_flags` has how it sends requests.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from serving_flags import benchmark_of

from sizeup.errors import SizeupError
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.reader import read
from sizeup.serving.steps.step import Server, server_of
from sizeup.serving.times.closed_form import Benchmark
from sizeup.targets.clusters import cluster

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
ROWS, CONFIGS = SHARED / "llm" / "silicon.csv", SHARED / "llm" / "configs"
MEASURED = ("silicon_ttft_ms", "silicon_tpot_ms")
WEIGHTS = {"fp8": "fp8", "fp4": "nvfp4", "nvfp4": "nvfp4", "int4": "int4", "mxfp4": "mxfp4", "bf16": "bf16"}
_QUANTIZED = {"fp8": "fp8", "nvfp4": "fp4", "mxfp4": "mxfp4", "int4": "int4"}


@dataclass(frozen=True)
class Point:
    """One row: the server without calibration, its load, and the capacity of its cache."""

    row: dict[str, str]
    server: Server
    device: str
    input: float
    output: float
    concurrency: int
    capacity: int
    benchmark: Benchmark


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows without what was measured."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: text for key, text in row.items() if key not in MEASURED} for row in csv.DictReader(file)
        ]


def measured(path: Path) -> list[tuple[float, float]]:
    """Measured TPOT and TTFT in ms, NaN if missing."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            (float(row.get(MEASURED[1]) or "nan"), float(row.get(MEASURED[0]) or "nan"))
            for row in csv.DictReader(file)
        ]


def point(row: dict[str, str], configs: Path) -> Point | None:
    """The operating point of a row; None if sizeup does not support the model or the machine."""
    try:
        architecture = architecture_of(row["model_path"], row["precision_fixed"], str(configs))
        sizes = [int(float(row[name])) for name in ("tp_fixed", "attn_dp_fixed", "moe_ep_fixed", "gpus")]
        tensor, data, expert, gpus = sizes
        layout = Layout(tensor, 1, data, expert if architecture.expert_count else 1, gpus // (tensor * data))
        harness = row["harness"]
        is_drawn = harness == "inferencemax"
        kv = architecture.kv_dtype or "bf16"
        if row["precision_fixed"] != "bf16" and (
            is_drawn or row["backend"] == "trtllm" or row["model_path"].startswith("nvidia/")
        ):
            kv = "fp8"
        share = 0.9 if is_drawn else 1.0
        input, output = share * float(row["isl"]), share * float(row["osl"])
        device, server, capacity = _server(
            architecture, layout, row["system"], gpus, row["backend"], kv, int(input + output)
        )
    except (SizeupError, ValueError, KeyError, ZeroDivisionError):
        return None
    if server is None:
        return None
    clients = int(float(row["concurrency"]))
    return Point(row, server, device, input, output, clients, capacity, benchmark_of(row))


@cache
def _server(
    architecture: Architecture, layout: Layout, system: str, gpus: int, backend: str, kv: str, context: int
) -> tuple[str, Server | None, int]:
    machines, _ = cluster(f"{gpus}x{system.removesuffix('_sxm')}")
    assert machines.memory_bytes is not None
    gpu = gpus_of(architecture, layout, engine_of(backend), machines.memory_bytes, kv)[0]
    capacity = layout.data * layout.replicas * max(gpu.capacity.max_sequences(context), 1)
    return machines.device.name, server_of(architecture, layout, machines, kv), capacity


@cache
def architecture_of(model_path: str, precision: str, configs: str) -> Architecture:
    """The architecture of a model at a precision: from a checkpoint at that precision, else converted."""
    files = sorted(Path(configs).glob("*_config.json"))
    names = {file.name.removesuffix("_config.json"): file for file in files}
    names = {name: file for name, file in names.items() if not name.endswith("_hf_quant")}
    wanted = _words(model_path.split("/")[-1])
    matches = [name for name in names if _words(name.split("--")[-1]) == wanted]
    if not matches:
        raise SizeupError(f"no configuration of {model_path}")
    exact = model_path.replace("/", "--")
    matches.sort(key=lambda name: (name != exact, not name.endswith(_SUFFIXES.get(precision, "")), name))
    for name in matches:
        architecture = read(names[name])
        if precision_of(architecture) == precision:
            return architecture
    return read(names[matches[0]], WEIGHTS[precision])


_SUFFIXES = {"fp8": "FP8", "fp4": "NVFP4"}


def _words(name: str) -> frozenset[str]:
    """The words of a model's name that are not about its precision or its training."""
    words = re.split(r"[-_]", name.casefold().replace("meta-", ""))
    ignored = {"fp8", "nvfp4", "fp4", "bf16", "instruct", "it", "static", "pertensor", "0528", "v2", "int4"}
    return frozenset(_ALIASES.get(word, word) for word in words if word not in ignored)


_ALIASES = {"r1": "v3", "v3.1": "v3", "3.3": "3.1"}  # one architecture


def precision_of(architecture: Architecture) -> str:
    """The precision of most weight bytes, as the column `precision_fixed` names it."""
    sums: dict[str, int] = {}
    for weight in architecture.weights():
        label = weight.precision.split(" ")[0]
        key = next((name for word, name in _QUANTIZED.items() if label.startswith(word)), "bf16")
        sums[key] = sums.get(key, 0) + weight.parameters
    return max(sums, key=lambda key: sums[key])


def points_of(rows: Iterable[dict[str, str]], configs: Path) -> list[Point | None]:
    """One point per row."""
    return [point(row, configs) for row in rows]


def errors(predicted: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Mean and median absolute error, and the share within 20 %, all in percent."""
    off = np.abs(predicted / truth - 1)
    return 100 * float(off.mean()), 100 * float(np.median(off)), 100 * float((off <= 0.2).mean())
