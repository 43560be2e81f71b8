"""Next and first tokens of laptops (OpenVINO) and phones (Qualcomm AI Hub), one sequence at a time.

    next token = bytes of weights / rate by precision + bytes of the cache / rate + layers x floor + constant
    first token = MACs / rate + MACs of attention / rate + bytes of weights / rate + layers x floor + constant

All numbers are non-negative and fitted per device (`sizeup.serving.times.next_token` has the columns).
INT4-MIXED is taken as 4 bits in groups of 128 with embedding and head of 8 bits; how many layers have 8
bits is not stated. Times of images, drafts and mixtures are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls
from serving_fit import weighted_interval
from serving_models import ON_LAPTOPS, ON_PHONES, Model, architecture
from serving_rows import SHARED, errors

from sizeup.serving.memory.local import stored_locally
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.times.next_token import PRECISIONS, first_columns, next_columns
from sizeup.targets import device as device_of

LAPTOPS = SHARED / "truth" / "openvino_llm.csv"
PHONES = SHARED / "truth" / "aihub_llm.csv"
BYTES = {"INT4-MIXED": "int4", "INT8-CW": "int8", "FP16": "fp16"}
NEXT = ("int4", "int8", "fp16", "cache", "layers", "constant")
FIRST = ("macs", "attention", "int4", "int8", "fp16", "layers", "constant")
FEW = {False: ("int4 int8 cache", "layers"), True: ("macs", "layers")}  # columns of phones
CHUNK = 128  # tokens of a prompt that AI Hub's models process at once
SMOOTH = 0.05  # relative error below which the loss is quadratic
LEAST_ROWS = 4  # of a device
LEAST_FAMILIES = 4  # of an interval


@dataclass(frozen=True)
class Tokens:
    """Rows as arrays: what a token needs, and its seconds."""

    device: np.ndarray
    kin: np.ndarray
    columns: np.ndarray
    truth: np.ndarray
    input: np.ndarray  # tokens of the prompt
    weights: np.ndarray  # bytes that a token reads
    names: tuple[str, ...] = NEXT  # of the columns

    def part(self, rows: np.ndarray) -> Tokens:
        """Some of the rows."""
        return replace(
            self, device=self.device[rows], kin=self.kin[rows], columns=self.columns[rows],
            truth=self.truth[rows], input=self.input[rows], weights=self.weights[rows],
        )  # fmt: skip


def laptops(*, is_first: bool = False) -> Tokens:
    """Next or first tokens of OpenVINO after prompts of a stated length."""
    cells = []
    with LAPTOPS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            model, size = ON_LAPTOPS.get(row["Topology"]), row["Input Size"]
            seconds = float(row["1st latency (ms)" if is_first else "2nd latency (ms)"] or 0) / 1e3
            if model is not None and row["Precision"] in BYTES and size.isdigit() and seconds > 0:
                columns = (_first_columns if is_first else _columns)(model, row["Precision"], int(size))
                weights = _weights(_stored(model, row["Precision"]))
                cells.append((row["device"], model.kin, columns, seconds, int(size), weights))
    return _tokens(cells, FIRST if is_first else NEXT)


def phones(*, is_first: bool = False) -> Tokens:
    """Next tokens, or the first step of a prompt, of AI Hub at w4a16, on devices with `LEAST_ROWS` rows.

    Too few rows for more than one rate and a floor; the whole cache is read, at 8 bits. Checkpoints of one
    architecture with equal times are one measurement. AI Hub states the time of one step of 128 tokens, and
    of a full context as that many times the step.
    """
    cells: dict[tuple[object, ...], tuple[object, ...]] = {}
    with PHONES.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            model, context = ON_PHONES.get(row["model"]), int(row["context_length"])
            step, whole = float(row["ttft_min_ms"]) / 1e3, float(row["ttft_max_ms"]) / 1e3
            has_steps = round(whole / step) == context // CHUNK
            if model is None or row["precision"] != "w4a16" or (is_first and not has_steps):
                continue
            if is_first:
                seconds, needed = step, first_columns(_stored(model, "INT4-MIXED"), CHUNK, CHUNK)
            else:
                seconds = 1 / float(row["tokens_per_s"])
                needed = next_columns(_stored(model, "INT4-MIXED"), "int8", context)
            few = np.array([sum(needed[name] for name in names.split()) for names in FEW[is_first]])
            weights = _weights(_stored(model, "INT4-MIXED"))
            cells[row["device"], model, seconds] = (row["device"], model.kin, few, seconds, context, weights)
    tokens = _tokens(list(cells.values()), FEW[is_first])
    counts = {name: int((tokens.device == name).sum()) for name in set(tokens.device)}
    return tokens.part(np.array([counts[name] >= LEAST_ROWS for name in tokens.device]))


def _stored(model: Model, precision: str) -> Architecture:
    return stored_locally(architecture(model, BYTES[precision]))


def _weights(stored: Architecture) -> float:
    needed = next_columns(stored, "fp16", 1)
    return sum(needed[name] for name in PRECISIONS)


def _columns(model: Model, precision: str, context: int) -> np.ndarray:
    needed = next_columns(_stored(model, precision), "fp16", context)
    return np.array([needed[name] for name in NEXT])


def _first_columns(model: Model, precision: str, tokens: int) -> np.ndarray:
    needed = first_columns(_stored(model, precision), tokens)
    return np.array([needed[name] for name in FIRST])


def _tokens(cells: list[tuple[object, ...]], names: tuple[str, ...]) -> Tokens:
    device, kin, columns, *others = zip(*cells, strict=True)
    return Tokens(np.array(device), np.array(kin), np.stack(columns), *map(np.array, others), names)


def fitted(tokens: Tokens) -> np.ndarray:
    """Seconds per unit of each column, by least absolute relative error."""
    scale = np.maximum(tokens.columns.max(axis=0), 1e-300)
    columns = tokens.columns / scale / tokens.truth[:, None]
    weight = np.ones(len(tokens.truth))
    for _ in range(20):
        numbers = nnls(columns * np.sqrt(weight)[:, None], np.sqrt(weight))[0]
        weight = SMOOTH / np.sqrt((columns @ numbers - 1) ** 2 + SMOOTH**2)
    return numbers / scale


def held_out(tokens: Tokens) -> np.ndarray:
    """Predictions of rows, each by numbers of its device that were fitted without its kin."""
    result = np.zeros(len(tokens.truth))
    for device in set(tokens.device):
        for kin in set(tokens.kin[tokens.device == device]):
            here = tokens.device == device
            rows = here & (tokens.kin == kin)
            result[rows] = tokens.columns[rows] @ fitted(tokens.part(here & ~rows))
    return result


def error_rows(
    tokens: Tokens, times: np.ndarray
) -> Iterator[tuple[str, int, int, tuple[float, float, float]]]:
    """Device, rows, kin and errors, in the order of the file."""
    for device in dict.fromkeys(tokens.device):
        rows = tokens.device == device
        yield device, int(rows.sum()), len(set(tokens.kin[rows])), errors(times[rows], tokens.truth[rows])
    count = len(set(tokens.kin))
    yield "all", len(tokens.truth), count, errors(times, tokens.truth)


@dataclass(frozen=True)
class Source:
    """A table of measurements, and the runtime that it is of."""

    engine: str
    title: str
    description: str
    precisions: str
    tokens: Callable[..., Tokens]
    chunk: int = 0


SOURCES = (
    Source(
        "openvino-gpu", "OpenVINO",
        "docs/sphinx_setup/_static/benchmarks_files/llm_models_*.csv of"
        " https://github.com/openvinotoolkit/openvino (commit 7c4d273, Apache-2.0; version not stated)",
        "int4, int8, fp16", laptops,
    ),
    Source(
        "qnn", "Qualcomm AI Hub, w4a16",
        "qai_hub_models/models/*/perf.yaml of https://github.com/qualcomm/ai-hub-models (commit b61a009,"
        " BSD-3-Clause; version not stated)",
        "int4", phones, CHUNK,
    ),
)  # fmt: skip


def interval(tokens: Tokens, times: np.ndarray, device: str, without: str = "") -> tuple[float, float] | None:
    """The 90 % interval of a device as factors of the estimate; None with fewer than four families.

    It is as wide as that of its own rows and that of all devices; `without` is a family that is left out.
    """
    here, others = tokens.device == device, tokens.kin != without
    if len(set(tokens.kin[here])) < LEAST_FAMILIES:
        return None
    residuals = np.log(tokens.truth / times)
    bounds = [weighted_interval(residuals[rows], tokens.kin[rows]) for rows in (here & others, others)]
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def covered(tokens: Tokens, times: np.ndarray, device: str) -> float | None:
    """The share of rows of a device in intervals of the other families; None without an interval."""
    here, hits = tokens.device == device, 0
    for kin in set(tokens.kin[here]):
        bounds = interval(tokens, times, device, without=kin)
        if bounds is None:
            return None
        ratio = (tokens.truth / times)[here & (tokens.kin == kin)]
        hits += int(((ratio >= bounds[0]) & (ratio <= bounds[1])).sum())
    return hits / here.sum() if here.any() else None


def calibration_lines() -> Iterator[str]:
    """The calibrations of laptops and phones, as TOML."""
    yield "# Written by benchmarks/serving_other_sources.py. Seconds per byte, MAC, layer and token.\n"
    for source in SOURCES:
        both = [source.tokens(is_first=is_first) for is_first in (False, True)]
        estimates = [held_out(tokens) for tokens in both]
        tokens = both[0]
        yield f'\n[engine.{source.engine}]\nversions = "(version not stated)"\n'
        yield f'source = "{source.description}"\ndate = ""\nmeasurements = {len(tokens.truth)}\n'
        yield f'precisions = "{source.precisions}"\nfamilies = "{", ".join(sorted(set(tokens.kin)))}"\n'
        yield f"chunk = {source.chunk}\n" if source.chunk else ""
        for name, each, times in zip(("tpot", "ttft"), both, estimates, strict=True):
            yield f"{name} = {{ {_figures(times, each.truth)} }}\n"
        for device in dict.fromkeys(tokens.device):
            yield from _device_lines(source, device, both, estimates)


def _device_lines(
    source: Source, device: str, both: list[Tokens], estimates: list[np.ndarray]
) -> Iterator[str]:
    rows = both[0].device == device
    yield f"\n[engine.{source.engine}.device.{device_of(device).name}]\nmeasurements = {rows.sum()}\n"
    yield f'families = "{", ".join(sorted(set(both[0].kin[rows])))}"\n'
    for name, each in (("tokens", both[0].input[rows]), ("bytes", both[0].weights[rows])):
        yield f"least_{name} = {each.min():.0f}\nmost_{name} = {each.max():.0f}\n"
    kinds = (("tpot", "next"), ("ttft", "first"))
    for (name, numbers), tokens, times in zip(kinds, both, estimates, strict=True):
        here, bounds = tokens.device == device, interval(tokens, times, device)
        shown = "" if bounds is None else f", low = {bounds[0]:.4g}, high = {bounds[1]:.4g}"
        mape = errors(times[here], tokens.truth[here])[0] / 100
        yield f"{name}_mape = {mape:.3f}\n{name} = {{ {_figures(times[here], tokens.truth[here])}{shown} }}\n"
        fit = dict(zip(tokens.names, fitted(tokens.part(here)), strict=True))
        cells = (f"{each} = {value:.4g}" for names, value in fit.items() for each in names.split())
        yield f"{numbers} = {{ {', '.join(cells)} }}\n"


def _figures(times: np.ndarray, truth: np.ndarray) -> str:
    mean, median, within = (each / 100 for each in errors(times, truth))
    return f"mape = {mean:.3f}, median = {median:.3f}, within_20 = {within:.3f}"
