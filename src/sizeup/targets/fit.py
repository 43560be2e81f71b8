"""What measurements say of a target, as files hold it: fitted rates, and how far estimates were off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RATES_SCHEMA = 1
"""The layout of `Fit.rates` that is written and read."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Rates fitted to networks measured on one target, and the errors on those that the fit had not seen."""

    name: str  # the target: device/runtime
    precisions: tuple[str, ...]  # number types that were measured
    measurements: int
    error: float  # mean absolute error of held-out estimates: 0.08 is 8 %
    held_out: str  # what was held out together
    rates: Mapping[str, Any]
    band: Mapping[str, float]
    source: str
    recorded: str
    within: float | None = None  # the share of held-out estimates that are off by less than a tenth
    tau: float | None = None  # their rank correlation with the measurements
    version: str = ""  # of the runtime
    threads: int | None = None
    note: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """How many times longer than its data sheet says a kind of device takes, with any runtime or with one:
    the middle, and nine of ten."""

    name: str  # the kind of device, or kind/runtime
    times: float
    low: float
    high: float
    measurements: int
    devices: int
    source: str
    recorded: str
    file: str = ""
