"""Fit forms of single kernels to measured operators, and print errors on shapes that were left out.

python benchmarks/serving_kernels.py TABLES    # fitted numbers, then the table of docs/llm-times.md
python benchmarks/serving_kernels.py TABLES --kernels gemm --systems h100 b200 --write    # rows of that table

TABLES is the folder `aiconfigurator_core/systems/data` of the wheel `aiconfigurator-core`. One in five shapes
is left out by its digest: (n, k) of products, layer and layout of experts, heads of attention, bytes of
collectives. The forms were chosen with these errors in view. Of each table, 2,000 rows are drawn with a fixed
seed to fit, and as many to judge.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow.parquet as parquet
import serving_kernel_forms as forms
from damped_newton import minimum

from sizeup.targets.clusters import cluster

ENGINES = ("vllm", "sglang", "trtllm")
# Folder, multiprocessors, and L2 cache in MB.
SYSTEMS = {
    "a100": ("a100_sxm", 108, 40), "l40s": ("l40s", 142, 96), "h100": ("h100_sxm", 132, 50),
    "h200": ("h200_sxm", 132, 50), "b200": ("b200_sxm", 148, 126), "b300": ("b300_sxm", 148, 126),
    "gb200": ("gb200", 148, 126),
}  # fmt: skip
GEMM = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "fp4"}
EXPERTS = {**GEMM, "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8"}
ROWS, SMOOTH = 2000, 0.1
# Start and bounds of each number; those that end at 1 are efficiencies.
BOUNDS = {
    "floor": (1e-5, 5e-7, 4e-4), "tile": (3e-7, 1e-9, 1e-5), "arithmetic": (0.8, 0.02, 1.0),
    "bandwidth": (0.8, 0.05, 1.0), "loads": (3.0, 0.1, 50.0), "sharpness": (2.5, 1.0, 8.0),
    "split": (2e-6, 1e-7, 1e-4), "outputs": (2.0, 0.1, 30.0), "throttle": (0.1, 1e-3, 2.0),
    "weight_cache": (0.2, 0.01, 2.0), "activation_cache": (0.5, 0.01, 2.0), "quantization": (0.3, 0.01, 1.0),
    "row": (1e-9, 1e-12, 1e-6), "expert": (2e-8, 1e-11, 2e-6), "activations": (0.4, 0.01, 1.0),
    "routing": (0.7, 0.1, 1.0), "imbalance": (0.2, 1e-3, 3.0), "combination": (2e-6, 1e-8, 1e-4),
    "growth": (0.2, 1e-2, 2.0), "one_shot": (0.6, 0.05, 1.0), "two_shot": (0.6, 0.05, 1.0),
    "multicast": (0.6, 0.05, 1.0), "step": (3e-6, 1e-7, 2e-5), "start": (2e-5, 1e-6, 2e-4),
}  # fmt: skip
NOT_GATED = {(2688, 1856), (1024, 2688), (2048, 5120)}  # experts with two matrices instead of three
SHAPE = ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
# TensorRT-LLM reads the cache once per query head if more query heads share a key-value head.
MOST_SHARED, APART = 32, "query heads apart"
LARGEST = (*(2.0**power for power in range(19, 28)), np.inf)  # bytes that an engine's own all-reduce sends
PAGE = Path(__file__).resolve().parents[1] / "docs" / "llm-times.md"
BLOCK = re.compile(r"(<!-- kernels -->\n).*?(<!-- end -->)", re.DOTALL)
ROW = re.compile(r"^\| (\S+) \| (.+?) \| (\S+) \|.*\n", re.MULTILINE)
HEADER = "| kernel | dtype | device | vLLM | SGLang | TensorRT-LLM |\n|---|---|---|--:|--:|--:|\n"
Model = Callable[[np.ndarray], np.ndarray]
Models = Callable[[np.ndarray], Model]  # the model of some rows
Variant = TypeVar("Variant")


def encode(name: str, value: float) -> float:
    """A number on the scale of the regression: logistic for efficiencies, else logarithmic."""
    value = min(value, 1 - 1e-6) if BOUNDS[name][2] == 1 else value
    return float(np.log(value / (1 - value) if BOUNDS[name][2] == 1 else value))


def decode(names: list[str], flat: np.ndarray) -> dict[str, float]:
    """Numbers from that scale."""
    return {
        name: float(1 / (1 + np.exp(-value)) if BOUNDS[name][2] == 1 else np.exp(value))
        for name, value in zip(names, flat, strict=True)
    }


def fit(names: list[str], model: Model, measured: np.ndarray, floor: float) -> np.ndarray:
    """Numbers that minimize the absolute logarithmic error, smooth below 10 %; damped Gauss-Newton."""
    low, high = (np.array([encode(name, BOUNDS[name][side]) for name in names]) for side in (1, 2))
    start = np.array([encode(name, floor if name == "floor" else BOUNDS[name][0]) for name in names])

    def residual(flat: np.ndarray) -> np.ndarray:
        return np.log(model(flat) / measured)

    def jacobian(flat: np.ndarray, rest: np.ndarray) -> np.ndarray:
        nudged = flat + 1e-3 * np.eye(len(names))
        return np.stack([(residual(each) - rest) / 1e-3 for each in nudged], axis=1)

    return minimum(
        np.clip(start, low, high), residual, jacobian, SMOOTH, ridge=1e-9 * SMOOTH, damping=1e-2,
        move=lambda flat, step: np.clip(flat + np.clip(step, -0.7, 0.7), low, high),
    )  # fmt: skip


def chosen(
    names: list[str],
    variants: Mapping[Variant, Models],
    measured: np.ndarray,
    train: np.ndarray,
    floor: float,
) -> tuple[Variant, np.ndarray]:
    """The variant of a form with the least error on the rows to fit, and its numbers."""
    fits = {key: fit(names, models(train), measured[train], floor) for key, models in variants.items()}
    error = {key: judged(variants[key](train)(flat), measured[train])[0] for key, flat in fits.items()}
    best = min(fits, key=lambda key: error[key])
    return best, fits[best]


def drawn(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to judge, of different shapes."""
    shapes, index = np.unique(keys, axis=0, return_inverse=True)
    texts = ["|".join(f"{value:.0f}" for value in shape) for shape in shapes]
    digests = [hashlib.sha256(text.encode()).digest()[:4] for text in texts]
    is_out = np.array([int.from_bytes(digest, "big") % 5 == 0 for digest in digests])[np.ravel(index)]
    source = np.random.default_rng(0)
    parts = (np.flatnonzero(~is_out), np.flatnonzero(is_out))
    train, test = (np.sort(source.permutation(rows)[:ROWS]) for rows in parts)
    return train, test


def judged(predicted: np.ndarray, measured: np.ndarray) -> tuple[float, float]:
    """MAPE and median error."""
    off = np.abs(predicted / measured - 1)
    return float(off.mean()), float(np.median(off))


def version_key(version: str) -> list[int]:
    """The numbers of a version."""
    return [int(text) for text in re.findall(r"\d+", version)]


def newest(
    folder: Path, name: str, column: str, dtype: str, least: int = 500
) -> tuple[dict[str, np.ndarray], str] | None:
    """The rows of a dtype, of the version that has most of them."""
    best: tuple[dict[str, np.ndarray], str] | None = None
    paths = sorted(folder.glob(f"*/{name}"), key=lambda path: version_key(path.parent.name))
    for path in paths:
        table = parquet.read_table(path)
        rows = np.array(table[column]) == dtype
        if rows.sum() >= least and (best is None or rows.sum() >= len(best[0]["latency"])):
            best = ({each: np.array(table[each])[rows] for each in table.column_names}, path.parent.name)
    return best


def chip_of(system: str, dtype: str) -> forms.Chip | None:
    """The data sheet of a system; None if it does not have the dtype."""
    device = cluster(system)[0].device
    peak = device.peak({"fp8_block": "fp8"}.get(dtype, dtype))
    if peak is None or device.bandwidth is None:
        return None
    return forms.Chip(SYSTEMS[system][1], device.bandwidth, peak, SYSTEMS[system][2] * 1e6)


Row = tuple[str, str, int, float, float, dict[str, object]]  # version, dtype, rows, errors, numbers


def gemm_models(
    chip: forms.Chip, tiles: str, sides: tuple[np.ndarray, ...], size: float, names: list[str]
) -> Models:
    """The model of some rows."""

    def of(rows: np.ndarray) -> Model:
        m, n, k = (side[rows] for side in sides)
        shapes = forms.shapes(chip, tiles, m, n, k, size)
        return lambda flat: forms.gemm_seconds(forms.GemmForm(**decode(names, flat)), chip, shapes)

    return of


def expert_models(
    chip: forms.Chip, keys: np.ndarray, balanced: np.ndarray, size: float, names: list[str]
) -> Models:
    """The model of some rows."""

    def of(rows: np.ndarray) -> Model:
        hidden, whole, per_token, count, ways, groups, tokens = keys[rows, :7].T
        inter = whole / ways
        layer = forms.RoutedExperts(hidden, inter, per_token, count, groups, 3 * hidden * inter * size)
        return lambda flat: forms.expert_seconds(
            forms.ExpertForm(**decode(names, flat)), chip, layer, tokens, size, balanced[rows]
        )

    return of


def gemm_rows(tables: Path, system: str, engine: str) -> Iterable[Row]:
    """Forms of matrix products."""
    for label, dtype in GEMM.items():
        size = forms.ELEMENTS[dtype][1]
        chip = chip_of(system, dtype)
        measured = newest(
            tables / SYSTEMS[system][0] / "gemm" / engine, "gemm_perf.parquet", "gemm_dtype", label
        )
        if chip is None or measured is None:
            continue
        table, version = measured
        seconds = table["latency"] * 1e-3
        m, n, k = (table[name].astype(float) for name in "mnk")
        train, test = drawn(np.stack([n, k], axis=1))
        names = [each.name for each in fields(forms.GemmForm)][: 11 if size == 2 else 13]
        variants = {tiles: gemm_models(chip, tiles, (m, n, k), size, names) for tiles in forms.TILES}
        tiles, flat = chosen(names, variants, seconds, train, 0.9 * float(np.quantile(seconds, 0.002)))
        errors = judged(variants[tiles](test)(flat), seconds[test])
        yield version, dtype, len(seconds), *errors, {"tiles": tiles, **decode(names, flat)}


def expert_rows(tables: Path, system: str, engine: str) -> Iterable[Row]:
    """Forms of routed experts, of balanced and of skewed routing; the fastest of several kernels."""
    for label, name in EXPERTS.items():
        dtype, size = forms.ELEMENTS[name]
        chip = chip_of(system, dtype)
        measured = newest(
            tables / SYSTEMS[system][0] / "moe" / engine, "moe_perf.parquet", "moe_dtype", label
        )
        if chip is None or measured is None:
            continue
        table, version = measured
        gated = [
            (h, i) not in NOT_GATED for h, i in zip(table["hidden_size"], table["inter_size"], strict=True)
        ]
        kept = np.array(gated) & np.isin(table["distribution"], ("balanced", "power_law_1.01"))
        kept &= np.array(["nongated" not in text for text in table["kernel_source"]])
        table = {key: column[kept] for key, column in table.items()}
        balanced = table["distribution"] == "balanced"
        keys = np.stack([*(table[each] for each in SHAPE), table["num_tokens"], balanced], axis=1).astype(
            float
        )
        order = np.lexsort((table["latency"], *keys.T))
        first = order[np.r_[True, (keys[order][1:] != keys[order][:-1]).any(axis=1)]]
        keys, balanced, seconds = keys[first], balanced[first], table["latency"][first] * 1e-3
        if len(seconds) < 300:
            continue
        train, test = drawn(keys[:, :6])
        names = [each.name for each in fields(forms.ExpertForm)]
        model = expert_models(chip, keys, balanced, size, names)
        flat = fit(names, model(train), seconds[train], 0.9 * float(np.quantile(seconds, 0.002)))
        yield version, name, len(seconds), *judged(model(test)(flat), seconds[test]), decode(names, flat)


def attention_rows(tables: Path, system: str, engine: str) -> Iterable[Row]:
    """Forms of attention in decode, by the dtype of the cache; windows limit what is read."""
    for label, dtype in (("bfloat16", "bf16"), ("fp8", "fp8")):
        chip = chip_of(system, "bf16")
        folder = tables / SYSTEMS[system][0] / "attention" / engine
        measured = newest(folder, "generation_attention_perf.parquet", "kv_cache_dtype", label)
        if chip is None or measured is None:
            continue
        table, version = measured
        table.setdefault("window_size", np.zeros_like(table["step"]))
        names = ("num_heads", "num_key_value_heads", "head_dim", "window_size")
        keys = np.stack([table[name] for name in (*names, "batch_size", "step")], axis=1).astype(float)
        seconds = table["latency"] * 1e-3
        train, test = drawn(keys[:, :4])
        names = [each.name for each in fields(forms.AttentionForm)]
        kernels, numbers, predicted = attention_kernels(table), {}, np.zeros_like(seconds)
        for kernel in sorted(set(kernels[test].tolist())):
            rows, judged_rows = (part[kernels[part] == kernel] for part in (train, test))
            rows = rows if len(rows) else train
            variants = {
                tiles: attention_models(chip, tiles, keys, forms.ELEMENTS[dtype][1], kernel == APART, names)
                for tiles in forms.ATTENTION_TILES
            }
            floor = 0.9 * float(np.quantile(seconds[rows], 0.002))
            tiles, flat = chosen(names, variants, seconds, rows, floor)
            predicted[judged_rows] = variants[tiles](judged_rows)(flat)
            numbers[kernel] = {"tiles": tiles, **decode(names, flat)}
        yield version, f"{dtype} cache", len(seconds), *judged(predicted[test], seconds[test]), numbers


def attention_kernels(table: dict[str, np.ndarray]) -> np.ndarray:
    """The kernel of each row; the table of TensorRT-LLM does not name them."""
    ratio = table["num_heads"] / table["num_key_value_heads"]
    by_ratio = np.where(ratio > MOST_SHARED, APART, np.where(ratio == 1, "one query head", "shared"))
    sources = table["kernel_source"].astype(str)
    return np.where(sources == "torch_flow", by_ratio, sources)


def attention_models(
    chip: forms.Chip,
    tiles: tuple[int, int, int],
    keys: np.ndarray,
    size: float,
    apart: bool,
    names: list[str],
) -> Models:
    """The model of some rows."""

    def of(rows: np.ndarray) -> Model:
        heads, groups, width, window, sequences, step = keys[rows].T
        is_cut = (window > 0) & (step + 1 > window)
        context, blocks = np.where(is_cut, window, step + 1), heads if apart else groups
        shape = forms.DecodeAttention(sequences, heads, groups, width, context, is_cut, blocks)
        return lambda flat: forms.attention_seconds(
            forms.AttentionForm(**decode(names, flat)), chip, tiles, shape, size
        )

    return of


def collective_rows(tables: Path, system: str, engine: str) -> Iterable[Row]:
    """Forms of the all-reduce of an engine, in recorded graphs if there are such rows."""
    folder = tables / SYSTEMS[system][0] / "comm" / engine
    measured = newest(folder, "custom_allreduce_perf.parquet", "allreduce_dtype", "bfloat16", 50)
    link = cluster(f"8x{system}")[0].link
    if measured is None or link is None:
        return
    table, version = measured
    is_graph = np.array([text.endswith("_graph") for text in table["kernel_source"]])
    kept = is_graph if is_graph.any() else ~is_graph
    devices, sent = (table[name][kept].astype(float) for name in ("num_gpus", "message_size"))
    seconds = table["latency"][kept] * 1e-3
    train, test = drawn(np.stack([devices, sent], axis=1))
    names = [each.name for each in fields(forms.CollectiveForm)]
    rate = float(link.bytes_per_second or 0)
    variants = {
        largest: collective_models(rate, largest, devices, 2 * sent, names) for largest in LARGEST
    }  # messages are counted in numbers of 16 bits
    largest, flat = chosen(names, variants, seconds, train, float(seconds.min()))
    errors = judged(variants[largest](test)(flat), seconds[test])
    yield version, "bf16", len(seconds), *errors, {"largest": largest, **decode(names, flat)}


def collective_models(
    link: float, largest: float, devices: np.ndarray, sent: np.ndarray, names: list[str]
) -> Models:
    """The model of some rows."""

    def of(rows: np.ndarray) -> Model:
        return lambda flat: forms.collective_seconds(
            forms.CollectiveForm(**decode(names, flat)), link, largest, sent[rows], devices[rows]
        )

    return of


KERNELS = {
    "gemm": gemm_rows, "experts": expert_rows, "attention": attention_rows, "all-reduce": collective_rows,
}  # fmt: skip


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", type=Path)
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--write", action="store_true", help="write these rows to docs/llm-times.md")
    args = parser.parse_args()
    rows: dict[tuple[str, ...], str] = {}
    for system in args.systems:
        device = cluster(system)[0].device.name
        for kernel in args.kernels:
            cells: dict[str, dict[str, str]] = {}
            for engine in ENGINES:
                for version, dtype, count, mape, median, numbers in KERNELS[kernel](
                    args.tables, system, engine
                ):
                    text = f"{100 * mape:.1f} / {100 * median:.1f} % ({count:,})"
                    print(device, engine, version, kernel, dtype, text, numbers, flush=True)
                    cells.setdefault(dtype, {})[engine] = text
            for dtype, texts in cells.items():
                key = (kernel, dtype, device)
                rows[key] = f"| {' | '.join((*key, *(texts.get(engine, '') for engine in ENGINES)))} |\n"
    print(HEADER + "".join(rows.values()), end="")
    if args.write:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(BLOCK.sub(lambda match: match[1] + merged(match[0], rows) + match[2], page), "utf-8")


def merged(block: str, rows: dict[tuple[str, ...], str]) -> str:
    """The table of the page with new rows."""
    old = {match.groups(): match[0] for match in ROW.finditer(block) if match[1] in KERNELS}
    lines = {**old, **rows}
    order = {name: index for index, name in enumerate(KERNELS)}
    return HEADER + "".join(lines[key] for key in sorted(lines, key=lambda key: (order[key[0]], key[1:])))


if __name__ == "__main__":
    main()
