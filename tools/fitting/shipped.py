"""A fit as it is shipped: judged by what was held out, and written down as targets are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import kendalltau

from sizeup.latency import Band, Rate, Rates, band
from sizeup.latency.work import Codes, Floats

RECORDED = "2026-11-15"
_DIGITS = 4


@dataclass(frozen=True)
class Shipped:
    """Everything that a `[[fit]]` table says; `source` is a word of the file's `[sources]`."""

    target: str
    precisions: tuple[str, ...]
    measurements: int
    error: float
    within: float
    tau: float
    held_out: str
    rates: Rates
    band: Band
    source: str
    version: str = ""
    threads: int | None = None
    note: str = ""
    elsewhere: float = 0.0  # the mean error of like targets, where they tell more than this one can

    @property
    def doubt(self) -> float:
        """The mean error that decides whether it is worth shipping."""
        return max(self.error, self.elsewhere)


def judged(
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
    """A fit to all of its measurements, with what estimates of held-out ones by fits to the others say of it.

    Where errors of a group are alike, the range counts every group once. `unseen` is how far classes of
    kernels lie from the rate of all.
    """
    off = np.abs(estimated / measured - 1)
    return Shipped(
        target,
        tuple(precisions),
        len(measured),
        float(off.mean()),
        float((off < 0.1).mean()),
        float(kendalltau(estimated, measured).statistic),
        held_out,
        rates,
        replace(band(estimated, measured, groups), unseen=unseen),
        source,
        version,
        threads,
        note,
    )


def text_of(fits: Sequence[Shipped], sources: Mapping[str, str], head: str) -> str:
    """The file of some fits, by name: a comment, the sources that they name, one table each."""
    lines = [*(f"# {line}" for line in head.splitlines()), "", "[sources]"]
    lines += [f"{word} = {_quoted(text)}" for word, text in sources.items()]
    lines += ["", "[common]", f'recorded = "{RECORDED}"']
    for each in sorted(fits, key=lambda fit: fit.target):
        lines += ["", *_table(each)]
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
    lines += [f"version = {_quoted(fit.version)}"] if fit.version else []
    lines += [f"threads = {fit.threads}"] if fit.threads else []
    lines += [f"note = {_quoted(fit.note)}"] if fit.note else []
    lines.append(f"band = {_inline({name: value for name, value in fit.band.to_dict().items() if value})}")
    return [*lines, "", *_rates(fit.rates)]


def _rates(rates: Rates) -> list[str]:
    """The table of `Rates.to_dict` without what is zero anyway."""
    plain = rates.to_dict()
    lines = ["[fit.rates]", f"schema = {plain['schema']}", f"run = {number(rates.run)}"]
    lines += [f"power = {number(rates.power)}"] if rates.power != 1 else []
    for name in ("saturation", "cache"):
        kept = {key: value for key, value in plain[name].items() if value}
        lines += [f"{name} = {_inline(kept)}"] if kept else []
    lines.append(f"pooled = {_inline(plain['pooled'])}")
    if rates.classes:
        lines += ["", "[fit.rates.classes]"]
        lines += [f"{_quoted(name)} = {_of_class(rate)}" for name, rate in sorted(rates.classes.items())]
    return lines


def _of_class(rate: Rate) -> str:
    return _inline({"mac": rate.mac, "byte": rate.byte, "launch": rate.launch})


def number(value: float) -> str:
    """Four digits, which is more than any of these measurements has."""
    return f"{value:.{_DIGITS}g}"


def _inline(values: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{name} = {number(value)}" for name, value in values.items()) + " }"


def _quoted(text: str) -> str:
    assert not set(text) & set('"\\\n'), text
    return f'"{text}"'
