"""A shipped calibration: evaluated on held-out networks, and written as a device file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau

from sizeup.latency import PredictionInterval, Rate, Rates, prediction_interval
from sizeup.latency.work import Codes, Floats

RECORDED = "2026-11-15"
_DIGITS = 4


@dataclass(frozen=True)
class Shipped:
    """The content of a `[[fit]]` table; `source` is a key of the file's `[sources]`."""

    target: str
    precisions: tuple[str, ...]
    measurements: int
    error: float
    within: float
    tau: float
    held_out: str
    rates: Rates
    interval: PredictionInterval
    source: str
    version: str = ""
    threads: int | None = None
    note: str = ""
    quantity: str = "latency"
    elsewhere: float = 0.0  # MAPE of similar targets, if this one has too few groups to hold out

    @property
    def worst_error(self) -> float:
        """The MAPE that decides whether it is shipped."""
        return max(self.error, self.elsewhere)


class Source(NamedTuple):
    """A file of calibrations: its sources by key, its comment, and the function that computes it."""

    file: str
    sources: dict[str, str]
    head: str
    make: Callable[[Path, Path], list[Shipped]]


def github(repository: str, commit: str, license: str, title: str) -> str:
    """The source of a table in a repository."""
    return f"{title}, https://github.com/{repository}, commit {commit[:7]}, {license}"


def shipped_calibration(
    target: str,
    precisions: Sequence[str],
    rates: Rates,
    estimated: Floats,
    measured: Floats,
    held_out: str,
    source: str,
    *,
    groups: Codes | None = None,
    unseen: float = 0.0,
    version: str = "",
    threads: int | None = None,
    note: str = "",
) -> Shipped:
    """A calibration on all measurements, with the errors and the interval of held-out estimates.

    With `groups`, all groups have the same weight in the interval. `unseen` is the spread of the class rates.
    """
    errors = np.abs(estimated / measured - 1)
    return Shipped(
        target,
        tuple(precisions),
        len(measured),
        float(errors.mean()),
        float((errors < 0.1).mean()),
        float(kendalltau(estimated, measured).statistic),
        held_out,
        rates,
        replace(prediction_interval(estimated, measured, groups), unseen=unseen),
        source,
        version,
        threads,
        note,
    )


def calibration_file(fits: Sequence[Shipped], sources: Mapping[str, str], head: str) -> str:
    """The content of a calibration file: a comment, the sources, and one table per calibration."""
    lines = [*(f"# {line}" for line in head.splitlines()), "", "[sources]"]
    lines += [f"{word} = {_quoted(text)}" for word, text in sources.items()]
    lines += ["", "[common]", f'recorded = "{RECORDED}"']
    for calibration in sorted(fits, key=lambda fit: fit.target):
        lines += ["", *_table(calibration)]
    return "\n".join(lines) + "\n"


def _table(fit: Shipped) -> list[str]:
    precisions = ", ".join(map(_quoted, fit.precisions))
    lines = [
        "[[fit]]",
        f"name = {_quoted(fit.target)}",
        f"precisions = [{precisions}]",
        f"measurements = {fit.measurements}",
        f"error = {number(fit.error)}",
        f"within = {number(fit.within)}",
        f"tau = {number(fit.tau)}",
        f"held_out = {_quoted(fit.held_out)}",
        f"source = {_quoted(fit.source)}",
    ]
    lines += [f"quantity = {_quoted(fit.quantity)}"] if fit.quantity != "latency" else []
    lines += [f"version = {_quoted(fit.version)}"] if fit.version else []
    lines += [f"threads = {fit.threads}"] if fit.threads else []
    lines += [f"note = {_quoted(fit.note)}"] if fit.note else []
    lines.append(
        f"band = {_inline({name: value for name, value in fit.interval.to_dict().items() if value})}"
    )
    return [*lines, "", *_rates(fit.rates)]


def _rates(rates: Rates) -> list[str]:
    """The table of `Rates.to_dict` without zeros."""
    plain = rates.to_dict()
    lines = ["[fit.rates]", f"schema = {plain['schema']}", f"run = {number(rates.run)}"]
    lines += [f"power = {number(rates.power)}"] if rates.power != 1 else []
    for name in ("saturation", "cache"):
        nonzero = {key: value for key, value in plain[name].items() if value}
        lines += [f"{name} = {_inline(nonzero)}"] if nonzero else []
    lines.append(f"pooled = {_inline(plain['pooled'])}")
    if rates.classes:
        lines += ["", "[fit.rates.classes]"]
        lines += [f"{_quoted(name)} = {_of_class(rate)}" for name, rate in sorted(rates.classes.items())]
    return lines


def _of_class(rate: Rate) -> str:
    return _inline({"mac": rate.mac, "byte": rate.byte, "launch": rate.launch})


def number(value: float) -> str:
    """A number with four significant digits, more than the measurements have."""
    return f"{value:.{_DIGITS}g}"


def _inline(values: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{name} = {number(value)}" for name, value in values.items()) + " }"


def _quoted(text: str) -> str:
    assert not set(text) & set('"\\\n'), text
    return f'"{text}"'
