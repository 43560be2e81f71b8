"""The calibrated estimate: rates by class of kernel, and the time that they give for any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sizeup.latency.work import Floats, Work
from sizeup.targets import RATES_SCHEMA


@dataclass(frozen=True, slots=True)
class Rate:
    """What a kernel of one class costs: seconds a MAC, seconds a byte, seconds a launch."""

    mac: float
    byte: float
    launch: float


@dataclass(frozen=True, slots=True)
class Rates:
    """A fitted target: a rate for every class seen, one for all others, and what a whole run adds.

    A kernel takes soft(macs x mac x idle, bytes x byte) + launch, where soft is the `power` norm of both
    (1: they add up, large: the longer one alone), and idle = (1 + length / length of the product) x the
    same for columns and rows: short products leave lanes, columns and cores without work; and rows are
    computed by the `tile`, the last of which may be part empty. A device that computes a `wave` of results
    at once leaves half of the last wave idle, on average. Where all that a kernel touches exceeds the
    `cache`, each byte takes `far` seconds more.
    """

    pooled: Rate
    classes: Mapping[str, Rate] = field(default_factory=dict)
    run: float = 0.0
    power: float = 1.0
    length: float = 0.0
    columns: float = 0.0
    rows: float = 0.0
    tile: float = 0.0
    cache: float = 0.0
    far: float = 0.0
    wave: float = 0.0

    def of(self, name: str) -> Rate:
        """The rate of a class; else that of its number type, or of all classes together."""
        return self.classes.get(name) or self.classes.get(of_type(name), self.pooled)

    def knows(self, name: str) -> bool:
        """Whether the fit has met a class, or all classes are one to it."""
        return not self.classes or name in self.classes or of_type(name) in self.classes

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and tables, as TOML and JSON hold them."""
        return {
            "schema": RATES_SCHEMA,
            "run": self.run,
            "power": self.power,
            "saturation": {
                "length": self.length,
                "columns": self.columns,
                "rows": self.rows,
                "tile": self.tile,
                "wave": self.wave,
            },
            "cache": {"bytes": self.cache, "far": self.far},
            "pooled": _plain(self.pooled),
            "classes": {name: _plain(rate) for name, rate in sorted(self.classes.items())},
        }


def of_type(name: str) -> str:
    """How rates name all classes of a number type together: `*.int8` for `conv.int8`, `*` for `conv`."""
    return "".join(("*", *name.partition(".")[1:]))


def _plain(rate: Rate) -> dict[str, float]:
    return {"mac": rate.mac, "byte": rate.byte, "launch": rate.launch}


def rates_from(table: Mapping[str, Any]) -> Rates:
    """The rates that `Rates.to_dict` wrote."""
    saturation: Mapping[str, float] = table.get("saturation", {})
    cache: Mapping[str, float] = table.get("cache", {})
    return Rates(
        Rate(**table["pooled"]),
        {name: Rate(**rate) for name, rate in table.get("classes", {}).items()},
        float(table.get("run", 0.0)),
        float(table.get("power", 1.0)),
        cache=float(cache.get("bytes", 0.0)),
        far=float(cache.get("far", 0.0)),
        **{each: float(saturation.get(each, 0.0)) for each in ("length", "columns", "rows", "tile", "wave")},
    )


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """Seconds of every kernel, one run of it: computing, moving bytes, being launched, and all together."""

    compute: Floats
    traffic: Floats
    launch: Floats
    seconds: Floats


def extents(work: Work, tile: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Length, columns and rows of the products; rows in full tiles where they are computed so."""
    rows = np.ceil(work.rows / tile) * tile if tile else work.rows
    return work.length, work.columns, rows


def idleness(
    work: Work, length: float, columns: float, rows: float, tile: float = 0.0, wave: float = 0.0
) -> Floats:
    """How many times longer products take than at full rate because they are short; 1 for what is none."""
    found = extents(work, tile)
    slow = np.divide(found[2], work.rows, out=np.ones(len(work)), where=work.rows > 0)
    for extent, half in zip(found, (length, columns, rows), strict=True):
        if half:
            slow *= 1 + np.divide(half, extent, out=np.zeros(len(work)), where=extent > 0)
    # Added, not multiplied: half a wave takes its time however short the sides of the product are.
    results = found[1] * found[2]
    return slow + np.divide(wave / 2, results, out=np.zeros(len(work)), where=results > 0)


def soft(left: Floats, right: Floats, power: float) -> Floats:
    """The norm of two durations: their sum at power 1, the longer one where they overlap perfectly."""
    if power == 1:
        return left + right
    longer = np.maximum(left, right)
    share = np.divide(np.minimum(left, right), longer, out=np.zeros_like(longer), where=longer > 0)
    return np.asarray(longer * (1 + share**power) ** (1 / power), np.float64)


def far_bytes(work: Work, cache: float) -> Floats:
    """Bytes of kernels that touch more than the cache holds; none where no cache is known."""
    moved = work.traffic
    return np.where(moved > cache, moved, 0.0) if cache else np.zeros(len(work))


def kernels(rates: Rates, work: Work) -> Kernels:
    """What every kernel of the work takes at these rates."""
    table = np.array([[r.mac, r.byte, r.launch] for r in map(rates.of, work.names)]).reshape(-1, 3)
    mac, byte, launch = table[work.kind].T
    idle = idleness(work, rates.length, rates.columns, rates.rows, rates.tile, rates.wave)
    compute = mac * work.macs * idle
    traffic = byte * work.traffic + rates.far * far_bytes(work, rates.cache)
    return Kernels(compute, traffic, launch, soft(compute, traffic, rates.power) + launch)


def seconds(rates: Rates, work: Work) -> Floats:
    """What every network of the work takes at these rates."""
    return work.totals(kernels(rates, work).seconds) + rates.run
