"""Fitted rates of serving engines on devices.

An engine has one calibration from servers under load (`calibrations.toml`), and may have another from fixed
batches (`fixed_batches.toml`) for other devices. Runtimes of laptops and phones have one from single
sequences (`next_tokens.toml`). A device with few measurements has rates near those of the others of its
calibration. Efficiencies are shares of data-sheet rates and in (0, 1]; times are in seconds.
Without a calibration, `IDEAL` has efficiencies of 1 and no overhead: times are lower bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from typing import Any

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
    grouping: float = 0.0  # cache time grows by (query heads per key-value head) ^ grouping
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
    first_steps: float = 0.0  # steps that a prompt waits for


# Precisions of servers under load.
_PRECISIONS = ("bf16", "fp16", "fp32", "fp8", "nvfp4", "mxfp4")
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
class TokenRates:
    """Seconds per unit of each column of `next_token`, for one sequence on one device."""

    next: Mapping[str, float]
    first: Mapping[str, float]
    tpot: Errors  # families held out
    ttft: Errors
    families: tuple[str, ...]  # of models, among the measurements
    least_tokens: int  # of a prompt, among the measurements
    most_tokens: int
    least_bytes: int  # of the weights that a token reads, among the measurements
    most_bytes: int


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
    ttft: Errors | None  # None if no first token was measured
    rates: dict[str, Rates]  # by device
    counts: dict[str, int]  # measurements by device
    mape: dict[str, tuple[float, float | None]]  # of TPOT and TTFT by device, models held out
    measured_on: dict[str, str]  # devices with the rates of another one
    precisions: tuple[str, ...]  # beginnings of the names of weight precisions among the measurements
    tokens: Mapping[str, TokenRates] = field(default_factory=dict)  # by device, of a laptop or phone
    chunk: int = 0  # tokens of a prompt in one step; 0: all


def calibration_of(engine: str, device: str) -> Calibration | None:
    """The calibration of an engine with rates for a device; None without one."""
    for known in (calibrations(), fixed_batches()):
        if engine in known and device in known[engine].rates:
            return known[engine]
    return None


def calibrated_devices(engine: str) -> str:
    """The end of a message about a device without a calibration: those that have one."""
    shipped = [known[engine].rates for known in (calibrations(), fixed_batches()) if engine in known]
    return f"; calibrated: {', '.join(device for rates in shipped for device in rates)}" if shipped else ""


@cache
def calibrations() -> dict[str, Calibration]:
    """The shipped calibrations from servers under load, by engine."""
    return _read("calibrations.toml")


@cache
def fixed_batches() -> dict[str, Calibration]:
    """The shipped calibrations from fixed batches, by engine."""
    return _read("fixed_batches.toml")


@cache
def next_tokens() -> dict[str, Calibration]:
    """The shipped calibrations of laptops and phones, by runtime."""
    return _read("next_tokens.toml")


def _read(file: str) -> dict[str, Calibration]:
    text = resources.files(__package__).joinpath(file).read_text("utf-8")
    return {name: _calibration(name, table) for name, table in tomllib.loads(text)["engine"].items()}


def _calibration(name: str, table: dict[str, object]) -> Calibration:
    measured = table["device"]
    assert isinstance(measured, dict)
    names = [field.name for field in fields(Rates)]
    others = {other: key for key, values in measured.items() for other in values.get("also", ())}
    devices = {**measured, **{other: measured[key] for other, key in others.items()}}
    return Calibration(
        name,
        str(table["versions"]),
        str(table["source"]),
        str(table["date"]),
        int(str(table["measurements"])),
        tuple(str(table["families"]).split(", ")),
        _errors(table["tpot"]),
        _errors(table["ttft"]) if "ttft" in table else None,
        {
            key: Rates(**{name: float(values[name]) for name in names if name in values})
            for key, values in devices.items()
        },
        {key: int(values["measurements"]) for key, values in devices.items()},
        {key: (float(values["tpot_mape"]), values.get("ttft_mape")) for key, values in devices.items()},
        others,
        tuple(str(table["precisions"]).split(", ")) if "precisions" in table else _PRECISIONS,
        {key: _token_rates(values) for key, values in measured.items() if "next" in values},
        int(str(table.get("chunk", 0))),
    )


def _token_rates(values: dict[str, Any]) -> TokenRates:
    return TokenRates(
        values["next"],
        values["first"],
        _errors(values["tpot"]),
        _errors(values["ttft"]),
        tuple(values["families"].split(", ")),
        **{name: int(values[name]) for name in ("least_tokens", "most_tokens", "least_bytes", "most_bytes")},
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
