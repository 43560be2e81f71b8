"""Reads calibrations and slowdowns from the tables of a file, and validates them."""

from __future__ import annotations

from sizeup.targets.read import DTYPES
from sizeup.targets.runtime import (
    MEASURED_QUANTITIES,
    RATES_SCHEMA,
    MeasuredQuantity,
    Slowdown,
    TargetCalibration,
)
from sizeup.targets.table import Table

_FIT_KEYS = (
    "name",
    "precisions",
    "measurements",
    "error",
    "within",
    "tau",
    "held_out",
    "quantity",
    "rates",
    "band",
    "version",
    "threads",
    "source",
    "recorded",
    "note",
)
_SLOWDOWN_KEYS = (
    "name",
    "compute",
    "traffic",
    "launch",
    "low",
    "high",
    "measurements",
    "devices",
    "source",
    "recorded",
)
_MOST = 10**9  # measurements, and the largest ratio


def calibration(table: Table) -> TargetCalibration:
    """A calibration from its table."""
    table.check_keys(_FIT_KEYS)
    rates, interval = table.table("rates"), table.table("band")
    if rates is None or interval is None:
        raise table.error("[fit.rates] or [fit.band] is missing")
    _check_rates(rates)
    _check_interval(interval)
    precisions = table.choices("precisions", DTYPES)
    if not precisions:
        raise table.error("precisions is missing; it is a list of the dtypes that were measured")
    return TargetCalibration(
        name=table.text("name"),
        precisions=precisions,
        measurements=table.integer("measurements", 1, _MOST) or 0,
        mape=table.number("error", 0, _MOST),
        held_out=table.text("held_out"),
        rates=rates.values,
        interval={name: interval.number(name, -_MOST, _MOST) for name in interval.values},
        source=table.source(),
        recorded=table.date("recorded"),
        within_10_percent=None if "within" not in table.values else table.number("within", 0, 1),
        kendall_tau=None if "tau" not in table.values else table.number("tau", -1, 1),
        version=table.text("version", ""),
        threads=table.integer("threads", 1, 10**6),
        note=table.text("note", ""),
        file=table.file,
        quantity=_quantity(table),
    )


def _quantity(table: Table) -> MeasuredQuantity:
    name = table.choice("quantity", MEASURED_QUANTITIES, "latency")
    return next(each for each in MEASURED_QUANTITIES if each == name)


_RATES_KEYS = ("schema", "run", "power", "saturation", "cache", "pooled", "classes")
_RATES_PARTS = {
    "saturation": ("length", "columns", "rows", "tile", "wave"),
    "cache": ("bytes", "far", "reread", "cold"),
}
_RATE_KEYS = ("mac", "byte", "launch")
_SLOPES = ("low_longer", "low_shorter", "high_longer", "high_shorter")
_INTERVAL_PARTS = ("unseen", "drift", "typical", *_SLOPES)
_WIDEST = 20.0  # an interval of a factor of e^20 is useless
_LONGEST = 1e6  # seconds of an inference


def _check_rates(rates: Table) -> None:
    rates.check_keys(_RATES_KEYS)
    schema = rates.integer("schema", 1, _MOST)
    if schema not in (None, RATES_SCHEMA):
        raise rates.error(
            f"schema is {schema:,}; this version of sizeup reads schema {RATES_SCHEMA}: update sizeup, or"
            " calibrate again with sizeup calibrate"
        )
    pooled, classes = rates.table("pooled"), rates.table("classes")
    if pooled is None:
        raise rates.error("pooled is missing; it is a table of mac, byte and launch, in seconds")
    for rate in (pooled, *(() if classes is None else map(classes.table, classes.values))):
        assert rate is not None
        rate.check_keys(_RATE_KEYS)
        for name in _RATE_KEYS:
            rate.number(name, 0, _MOST)
    if "run" in rates.values:
        rates.number("run", 0, _MOST)
    if "power" in rates.values:
        rates.number("power", 1, 1e3)
    for part, keys in _RATES_PARTS.items():
        if (table := rates.table(part)) is not None:
            table.check_keys(keys)
            for name in table.values:
                table.number(name, 0, 1e15)


def _check_interval(interval: Table) -> None:
    interval.check_keys(("low", "high", *_INTERVAL_PARTS))
    low, high = (interval.number(name, -_WIDEST, _WIDEST) for name in ("low", "high"))
    if low > high:
        raise interval.error("low is above high")
    for name in set(_INTERVAL_PARTS) & set(interval.values):
        interval.number(name, 0, _LONGEST if name == "typical" else _WIDEST)


def slowdown(table: Table) -> Slowdown:
    """A slowdown against data sheets from its table."""
    table.check_keys(_SLOWDOWN_KEYS)
    low, high = (table.number(name, 0, _MOST) for name in ("low", "high"))
    if not 0 < low <= 1 <= high:
        raise table.error("low and high must be positive, with low <= 1 <= high")
    name = table.text("name")
    if not all(name.partition("/")):
        raise table.error(f"name is {name!r}, not family/runtime")
    return Slowdown(
        name=name,
        compute=table.number("compute", 1, _MOST),
        traffic=table.number("traffic", 0, _MOST),
        launch_seconds=table.number("launch", 0, _MOST),
        low=low,
        high=high,
        measurements=table.integer("measurements", 1, _MOST) or 0,
        devices=table.integer("devices", 1, _MOST) or 0,
        source=table.source(),
        recorded=table.date("recorded"),
        file=table.file,
    )
