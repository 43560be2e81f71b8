"""Fitted rates of serving engines on devices, from `calibrations.toml`.

An engine has one calibration with rates for several devices. A device with few measurements has rates near
those of the others. Efficiencies are shares of data-sheet rates and in (0, 1]; times are in seconds. Without
a calibration, `IDEAL` has efficiencies of 1 and no overhead: times are lower bounds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Rates:
    """Numbers of the step time and of TTFT for one engine on one device."""

    weights: float = 1.0  # share of memory bandwidth when dense weights are read
    experts: float = 1.0  # when routed experts are read
    cache: float = 1.0  # when the key-value cache is read
    bf16: float = 1.0  # share of peak arithmetic of matrix products
    fp8: float = 1.0
    fp8_block: float = 1.0
    fp4: float = 1.0
    expert_products: float = 1.0  # share of those rates in grouped products
    attention: float = 1.0  # share of peak bf16 arithmetic of attention
    links: float = 1.0  # share of link bandwidth of collectives
    kernel_seconds: float = 0.0  # floor per kernel
    quantization_seconds: float = 0.0  # floor per kernel that quantizes activations
    collective_seconds: float = 0.0  # latency of a collective
    sequence_seconds: float = 0.0  # per sequence of a step: sampling, scheduling
    step_seconds: float = 0.0  # per step
    prefill_seconds: float = 0.0  # per prompt
    prefill_share: float = 1.0  # of a prompt's prefill time, by which it delays the tokens of others
    first_seconds: float = 0.0  # per first token: tokenization, scheduling, streaming
    launch_seconds: float = 0.0  # per kernel of a first token, which runs without a recorded graph
    prefill_factor: float = 1.0  # of a prompt's prefill time, in TTFT
    queue_factor: float = 0.0  # of prefill times of other prompts: factor x (sequences - 1) ^ exponent
    queue_exponent: float = 1.0
    first_steps: float = 0.0  # steps that a prompt waits for


IDEAL = Rates()
"""Data-sheet rates without overhead."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Held-out errors of one quantity, and its prediction interval as factors of the estimate."""

    mape: float  # models held out
    median: float
    within_20: float  # share
    low: float | None = None  # 90 % interval, families held out; None with fewer than four families
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted for one engine."""

    engine: str
    versions: str  # of the engine, in the measurements
    source: str
    date: str
    measurements: int
    families: tuple[str, ...]
    tpot: Errors
    ttft: Errors
    rates: dict[str, Rates]  # by device
    counts: dict[str, int]  # measurements by device
    mape: dict[str, tuple[float, float]]  # of TPOT and TTFT by device, models held out


@cache
def calibrations() -> dict[str, Calibration]:
    """The shipped calibrations by engine."""
    text = resources.files(__package__).joinpath("calibrations.toml").read_text("utf-8")
    return {name: _calibration(name, table) for name, table in tomllib.loads(text)["engine"].items()}


def _calibration(name: str, table: dict[str, object]) -> Calibration:
    devices = table["device"]
    assert isinstance(devices, dict)
    names = [field.name for field in fields(Rates)]
    return Calibration(
        name,
        str(table["versions"]),
        str(table["source"]),
        str(table["date"]),
        int(str(table["measurements"])),
        tuple(str(table["families"]).split(", ")),
        _errors(table["tpot"]),
        _errors(table["ttft"]),
        {key: Rates(**{name: float(values[name]) for name in names}) for key, values in devices.items()},
        {key: int(values["measurements"]) for key, values in devices.items()},
        {key: (float(values["tpot_mape"]), float(values["ttft_mape"])) for key, values in devices.items()},
    )


def _errors(table: object) -> Errors:
    assert isinstance(table, dict)
    low, high = table.get("low"), table.get("high")
    return Errors(
        float(table["mape"]),
        float(table["median"]),
        float(table["within_20"]),
        None if low is None else float(low),
        None if high is None else float(high),
    )
