"""LLM-Inference-Bench: total times of fixed batches on A100, H100 and GH200, and calibrations fitted to them.

A row is the time in which a batch of equal prompts of n tokens is answered with n tokens each:

    batch / running x (prefill of the running sequences + (n - 1) steps at a context of 1.5 n)

Running are those whose cache fits. The table states neither precision nor memory: 16 bits and the A100 with
40 GB are assumed. Rows are left out if their tokens exceed the positions of the model, or if they are faster
than 0.6 of the time that the data sheet allows: answers ended early.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from damped_newton import minimum
from serving_fit import weighted_interval
from serving_models import FIXED_BATCHES, Model, architecture
from serving_regression import SHRINKAGE, SMOOTH, TPOT, Number, Values, demands_of, nudged
from serving_rows import SHARED, errors

from sizeup.serving.memory.engines import engine_of
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.rates import Rates, calibrations
from sizeup.serving.steps.step import Demand, Server, demand, seconds, server_of
from sizeup.targets.clusters import cluster

ROWS = SHARED / "truth" / "llm_inference_bench.csv.gz"
SOURCE = (
    "All_results.csv of https://github.com/argonne-lcf/LLM-Inference-Bench (commit 4211f5d, BSD-3-Clause):"
    " total times of fixed batches; first tokens as in calibrations.toml"
)
DEVICES = {
    "Nvidia A100 GPU": "a100-40gb-sxm", "Nvidia H100 GPU": "h100-sxm", "Nvidia GH200 GPU": "gh200-96gb",
}  # fmt: skip
SYSTEMS = tuple(DEVICES.values())
ARCHITECTURES = (0, 1, 1)  # Ampere, Hopper
ALSO = {"a100-40gb-sxm": ("a100-80gb-sxm",)}
FRAMEWORKS = {"vLLM": "vllm", "TensorRT-LLM": "trtllm"}
ENGINES = tuple(FRAMEWORKS.values())
LEVELS = (
    len(ENGINES),
    2,
    len(SYSTEMS),
    2 * len(ENGINES),
)  # engine, architecture, system, engine on architecture
# Attention kernels of 2024 read keys again for other query heads of a group, unless a cache holds them.
NUMBERS = (*TPOT, Number("grouping", 0.3, False, 0.5, 0.1, 0.2))
SPREADS = np.stack(
    [np.repeat([each.engine, each.system, each.system, each.both], LEVELS) for each in NUMBERS]
)
LEAST_SHARE = 0.6  # of the time that the data sheet allows


@dataclass(frozen=True)
class Batches:
    """Rows as arrays; `decode` and `prefill` are of the running sequences."""

    decode: Demand
    prefill: Demand
    engine: np.ndarray
    system: np.ndarray
    kin: np.ndarray
    devices: np.ndarray
    batch: np.ndarray
    running: np.ndarray
    length: np.ndarray
    truth: np.ndarray  # seconds

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def columns(self) -> np.ndarray:
        """The deviations that apply to each row, one per level."""
        architectures = np.array(ARCHITECTURES)[self.system]
        levels = self.engine, architectures, self.system, 2 * self.engine + architectures
        return np.stack(levels, axis=1) + np.cumsum((0, *LEVELS))[:-1]

    def part(self, rows: np.ndarray) -> Batches:
        """Some of the rows."""
        return Batches(*(_part(getattr(self, field.name), rows) for field in fields(self)))  # type: ignore[arg-type]


def _part(column: object, rows: np.ndarray) -> object:
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, dict):
        return {key: each[rows] for key, each in column.items()}
    return Demand(*(_part(getattr(column, field.name), rows) for field in fields(Demand)))  # type: ignore[arg-type]


def total(table: Batches, values: Values) -> np.ndarray:
    """Seconds of each batch."""
    ideal = Rates()
    merged = {field.name: values.get(field.name, getattr(ideal, field.name)) for field in fields(Rates)}
    rates: Rates = SimpleNamespace(**merged)  # type: ignore[assignment]  # arrays instead of numbers
    once = seconds(table.prefill, rates) + (table.length - 1) * seconds(table.decode, rates)
    return table.batch / table.running * once


def read(path: Path = ROWS) -> tuple[Batches, int]:
    """Rows of vLLM and TensorRT-LLM on NVIDIA GPUs that are kept, and how many were left out."""
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["Hardware"] in DEVICES and row["Framework"] in FRAMEWORKS
        ]
    table = _table(list(map(_cells, rows)))
    positions = np.array([FIXED_BATCHES[row["Model"]].positions for row in rows])
    is_possible = table.truth > LEAST_SHARE * total(table, {})
    kept = (2 * table.length <= positions) & is_possible
    return table.part(kept), int((~kept).sum())


def _cells(row: dict[str, str]) -> tuple[object, ...]:
    model = FIXED_BATCHES[row["Model"]]
    engine, device = FRAMEWORKS[row["Framework"]], DEVICES[row["Hardware"]]
    count, batch, length = (
        int(row[name]) for name in ("Num of Hardware", "Batch Size", "Input Output Length")
    )
    server, capacity = _server(model, device, count, engine, 2 * length)
    running = min(batch, max(capacity, 1))
    return (
        demand(server, running, 1.5 * length), demand(server, running, 0, length), ENGINES.index(engine),
        SYSTEMS.index(device), model.kin, count, batch, running, length, float(row["Latency"]),
    )  # fmt: skip


def _table(cells: list[tuple[object, ...]]) -> Batches:
    decode, prefill, *columns = zip(*cells, strict=True)
    return Batches(demands_of(list(decode)), demands_of(list(prefill)), *(np.array(each) for each in columns))  # type: ignore[arg-type]


@cache
def _server(model: Model, device: str, count: int, engine: str, context: int) -> tuple[Server, int]:
    machines, _ = cluster(device if count == 1 else f"{count}x{device}")
    layout = Layout(count)
    assert machines.memory_bytes is not None
    gpu = gpus_of(architecture(model), layout, engine_of(engine), machines.memory_bytes, "bf16")[0]
    server = server_of(architecture(model), layout, machines, "bf16")
    assert server is not None
    return server, gpu.capacity.max_sequences(context)


def values_of(deviations: np.ndarray, table: Batches) -> Values:
    """The fitted numbers by row; deviations are in units of their spreads."""
    sums = (deviations * SPREADS)[:, table.columns].sum(axis=2)
    return {each.name: each.values(sums[row]) for row, each in enumerate(NUMBERS)}


def fitted(table: Batches) -> np.ndarray:
    """Deviations that minimize the loss of serving_regression, on total times."""

    def residual(values: Values) -> np.ndarray:
        return total(table, values) / table.truth - 1

    def numbers(flat: np.ndarray) -> Values:
        return values_of(flat.reshape(SPREADS.shape), table)

    return minimum(
        np.zeros(SPREADS.size), lambda flat: residual(numbers(flat)),
        lambda flat, rest: _jacobian(table, residual, numbers(flat), rest), SMOOTH, penalty=SHRINKAGE**2,
    ).reshape(SPREADS.shape)  # fmt: skip


def _jacobian(
    table: Batches, residual: Callable[[Values], np.ndarray], values: Values, rest: np.ndarray
) -> np.ndarray:
    """Slopes of the residuals with the deviations."""
    result = np.zeros((len(table), *SPREADS.shape))
    for row, each in enumerate(NUMBERS):
        slope = (residual({**values, each.name: nudged(each, values[each.name])}) - rest) / 1e-4
        np.put_along_axis(result[:, row], table.columns, slope[:, None] * SPREADS[row][table.columns], axis=1)
    return result.reshape(len(table), -1)


def held_out(table: Batches, groups: np.ndarray, is_trained: np.ndarray | None = None) -> np.ndarray:
    """Predictions of rows by numbers that were fitted without their group (to `is_trained` of the others)."""
    result = np.zeros(len(table))
    for group in sorted(set(groups)):
        rows = groups == group
        others = ~rows if is_trained is None else ~rows & is_trained
        part = table.part(rows)
        result[rows] = total(part, values_of(fitted(table.part(others)), part))
    return result


def error_rows(table: Batches, by_kin: np.ndarray) -> Iterator[tuple[str, int, tuple[float, float, float]]]:
    """Label, rows and errors: all, batch 1, by kin and engine, and devices that were left out."""

    def of(rows: np.ndarray, times: np.ndarray) -> tuple[int, tuple[float, float, float]]:
        return int(rows.sum()), errors(times[rows], table.truth[rows])

    yield "all", *of(np.ones(len(table), bool), by_kin)
    yield "batch 1", *of(table.batch == 1, by_kin)
    for name in sorted(set(table.kin)):
        yield name, *of(table.kin == name, by_kin)
    for engine in FRAMEWORKS.values():
        is_engine = table.engine == ENGINES.index(engine)
        yield engine, *of(is_engine, by_kin)
    for engine in FRAMEWORKS.values():
        is_engine = table.engine == ENGINES.index(engine)
        unseen = held_out(table, table.system, is_engine)
        for index, device in enumerate(SYSTEMS):
            yield f"{engine}, {device} unseen", *of(is_engine & (table.system == index), unseen)


def calibration_lines(table: Batches, by_kin: np.ndarray) -> Iterable[str]:
    """Calibrations of devices that have none from servers under load, as TOML."""
    values = values_of(fitted(table), table)
    yield "# Written by benchmarks/serving_other_sources.py. Efficiencies are shares of data-sheet rates,"
    yield " times are in seconds.\n"
    for engine in FRAMEWORKS.values():
        rows, known = table.engine == ENGINES.index(engine), calibrations()[engine]
        mean, median, within = (each / 100 for each in errors(by_kin[rows], table.truth[rows]))
        yield f'\n[engine.{engine}]\nversions = "of 2024 (version not stated)"\nsource = "{SOURCE}"\n'
        yield f'date = "2024-10"\nmeasurements = {rows.sum()}\nprecisions = "bf16, fp16"\n'
        yield f'families = "{", ".join(sorted(set(table.kin[rows])))}"\n'
        yield f"tpot = {{ mape = {mean:.3f}, median = {median:.3f}, within_20 = {within:.3f} }}\n"
        first = next(iter(known.rates.values()))
        for index, device in enumerate(SYSTEMS):
            here = rows & (table.system == index)
            if device in known.rates or not here.any():
                continue
            yield f"\n[engine.{engine}.device.{device}]\nmeasurements = {here.sum()}\n"
            if device in ALSO:
                yield f"also = {list(ALSO[device])}\n".replace("'", '"')
            yield f"tpot_mape = {errors(by_kin[here], table.truth[here])[0] / 100:.3f}\n"
            row = int(np.flatnonzero(here)[0])
            for field in fields(Rates):
                value = values[field.name][row] if field.name in values else getattr(first, field.name)
                yield f"{field.name} = {value:.4g}\n"


def interval_hits(table: Batches, by_kin: np.ndarray, engine: str) -> tuple[int, int]:
    """How many rows of an engine 90 % intervals of the other kin hold, and how many there are."""
    of_engine, hits = table.engine == ENGINES.index(engine), 0
    residuals, kin = np.log(table.truth / by_kin)[of_engine], table.kin[of_engine]
    for name in set(kin):
        rows = kin == name
        low, high = weighted_interval(residuals[~rows], kin[~rows])
        hits += int(((residuals[rows] >= np.log(low)) & (residuals[rows] <= np.log(high))).sum())
    return hits, len(kin)
