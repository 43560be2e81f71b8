"""Regression of the rates of serving engines, with shared strength between engines and systems.

Every number has a prior value and a deviation per engine, per GPU architecture, per system, and per engine
and architecture, each shrunk towards zero by its spread. Efficiencies are logistic in the sum of
deviations, so that they stay in (0, 1); other numbers are exponential. The loss is the absolute relative
error of TPOT and TTFT, smooth below 15 %; Gauss-Newton with damping minimizes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace

import numpy as np
from damped_newton import minimum
from serving_rows import Point

from sizeup.serving.steps.rates import Rates
from sizeup.serving.steps.step import Demand
from sizeup.serving.times.closed_form import Load, load, times_of

SMOOTH, SHRINKAGE = 0.15, 0.4
TTFT_WEIGHT = 0.3  # of an error of TTFT, in errors of TPOT
ENGINES = ("vllm", "sglang", "trtllm")
SYSTEMS = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm")
LEVELS = (len(ENGINES), 2, len(SYSTEMS), 2 * len(ENGINES))


@dataclass(frozen=True)
class Number:
    """A number to fit: its prior, whether it is an efficiency, and spreads of its deviations."""

    name: str
    prior: float
    is_efficiency: bool
    engine: float
    system: float  # also of an architecture
    both: float  # of an engine on an architecture

    def values(self, deviation: np.ndarray) -> np.ndarray:
        """The number from its deviation."""
        if not self.is_efficiency:
            return self.prior * np.exp(deviation)
        return 1 / (1 + np.exp(-(np.log(self.prior / (1 - self.prior)) + deviation)))

    @property
    def spreads(self) -> np.ndarray:
        """The spread of each deviation."""
        return np.repeat([self.engine, self.system, self.system, self.both], LEVELS)


TPOT = (
    Number("weights", 0.75, True, 0.5, 0.3, 0.2), Number("experts", 0.6, True, 0.5, 0.3, 0.2),
    Number("cache", 0.7, True, 0.5, 0.3, 0.2), Number("bf16", 0.6, True, 0.4, 0.3, 0.2),
    Number("fp8", 0.5, True, 0.4, 0.3, 0.2), Number("fp4", 0.4, True, 0.4, 0.3, 0.2),
    Number("fp8_block", 0.4, True, 0.4, 0.3, 0.2), Number("expert_products", 0.7, True, 0.5, 0.3, 0.2),
    Number("attention", 0.5, True, 0.5, 0.3, 0.2), Number("links", 0.6, True, 0.5, 0.3, 0.2),
    Number("kernel_seconds", 3e-6, False, 0.5, 0.1, 0.4),
    Number("quantization_seconds", 2e-6, False, 0.5, 0.1, 0.4),
    Number("collective_seconds", 8e-6, False, 0.5, 0.1, 0.4),
    Number("sequence_seconds", 1e-5, False, 1.0, 0.3, 0.2),
    Number("step_seconds", 1e-4, False, 0.7, 0.3, 0.2),
    Number("prefill_share", 1.0, False, 0.3, 0.1, 0.1), Number("prefill_seconds", 2e-3, False, 0.7, 0.3, 0.2),
)  # fmt: skip
TTFT = (
    Number("first_seconds", 0.03, False, 0.5, 0.1, 0.2),
    Number("launch_seconds", 3e-5, False, 0.5, 0.1, 0.2),
    Number("first_steps", 1.0, False, 0.5, 0.1, 0.2),
)
NUMBERS = (*TPOT, *TTFT)


@dataclass(frozen=True)
class Table:
    """Points as arrays."""

    load: Load
    engine: np.ndarray
    system: np.ndarray

    def __len__(self) -> int:
        return len(self.engine)

    @property
    def levels(self) -> tuple[np.ndarray, ...]:
        """The column of the deviation that applies, by level."""
        architecture = self.system // 2
        return self.engine, architecture, self.system, 2 * self.engine + architecture

    def part(self, rows: np.ndarray) -> Table:
        """Some of the rows."""
        return Table(
            Load(*(_part(getattr(self.load, field.name), rows) for field in fields(Load))),
            self.engine[rows], self.system[rows],
        )  # fmt: skip


def _part(column: object, rows: np.ndarray) -> object:
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, dict):
        return {key: each[rows] for key, each in column.items()}
    return Demand(*(_part(getattr(column, field.name), rows) for field in fields(Demand)))


def table_of(points: Sequence[Point]) -> Table:
    """Points of different models in one table."""
    loads = [
        load(each.server, each.concurrency, each.input, each.output, each.capacity, each.benchmark)
        for each in points
    ]
    columns = [
        demands_of([getattr(each, field.name) for each in loads])
        if field.name in ("decode", "prefill", "wave")
        else np.array([float(getattr(each, field.name)) for each in loads])
        for field in fields(Load)
    ]
    return Table(
        Load(*columns),
        np.array([ENGINES.index(each.row["backend"]) for each in points]),
        np.array([SYSTEMS.index(each.device) for each in points]),
    )


def demands_of(each: list[Demand]) -> Demand:
    """Demands of single points as one of arrays."""

    def column(name: str) -> object:
        first = getattr(each[0], name)
        if not isinstance(first, dict):
            return np.array([float(getattr(demand, name)) for demand in each])
        keys = sorted({key for demand in each for key in getattr(demand, name)})
        return {
            key: np.array([float(getattr(demand, name).get(key, 0.0)) for demand in each]) for key in keys
        }

    return Demand(*(column(field.name) for field in fields(Demand)))


Values = dict[str, np.ndarray]


def predicted(table: Table, values: Values) -> np.ndarray:
    """TPOT and TTFT by row."""
    ideal = Rates()
    merged = {field.name: values.get(field.name, getattr(ideal, field.name)) for field in fields(Rates)}
    rates: Rates = SimpleNamespace(**merged)  # type: ignore[assignment]  # arrays instead of numbers
    times = times_of(table.load, rates)
    return np.stack([times.tpot, times.ttft], axis=1)


def values_of(deviations: np.ndarray, table: Table) -> Values:
    """The fitted numbers by row."""
    offsets = np.cumsum((0, *LEVELS))[:-1]
    sums = sum(deviations[:, offset + level] for offset, level in zip(offsets, table.levels, strict=True))
    return {each.name: each.values(sums[row]) for row, each in enumerate(NUMBERS)}


def fit(table: Table, truth: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Deviations of the numbers that minimize the loss; `truth` is TPOT and TTFT by row."""
    spreads = np.stack([each.spreads for each in NUMBERS])
    penalty = (SHRINKAGE / spreads.ravel()) ** 2
    offsets, rows = np.cumsum((0, *LEVELS))[:-1], np.arange(2 * len(table))
    levels = [np.tile(level, 2) for level in table.levels]
    weight = np.concatenate([weight, TTFT_WEIGHT * weight])
    width = spreads.shape[1]

    def residual(values: Values) -> np.ndarray:
        return (predicted(table, values) / truth - 1).T.ravel()

    def numbers(flat: np.ndarray) -> Values:
        return values_of(flat.reshape(spreads.shape), table)

    def jacobian(flat: np.ndarray, rest: np.ndarray) -> np.ndarray:
        values, slopes = numbers(flat), np.zeros((len(rows), spreads.size))
        for row, each in enumerate(NUMBERS):
            slope = (residual({**values, each.name: nudged(each, values[each.name])}) - rest) / 1e-4
            for offset, level in zip(offsets, levels, strict=True):
                slopes[rows, row * width + offset + level] = slope
        return slopes

    return minimum(
        np.zeros(spreads.size), lambda flat: residual(numbers(flat)), jacobian, SMOOTH,
        weight=weight, penalty=penalty, move=lambda flat, step: flat + np.clip(step, -1, 1),
    ).reshape(spreads.shape)  # fmt: skip


def nudged(number: Number, value: np.ndarray) -> np.ndarray:
    """The number at a deviation that is larger by 1e-4."""
    if not number.is_efficiency:
        return value * np.exp(1e-4)
    return 1 / (1 + (1 / value - 1) * np.exp(-1e-4))
