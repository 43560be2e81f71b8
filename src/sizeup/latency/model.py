"""The calibrated basis: fitted rates by class of kernel, and the time of work at these rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sizeup.latency.paths import without_path
from sizeup.latency.work import Floats, Work
from sizeup.targets import RATES_SCHEMA


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of a class of kernels: seconds per MAC, per byte and per launch."""

    mac: float
    byte: float
    launch: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Fitted rates of a target: one per class, one pooled for other classes, and the per-inference overhead.

    A kernel takes soft(macs x mac x idle, bytes x byte) + launch. soft is the `power` norm of both (1: their
    sum, large: their maximum). idle is (1 + length / length of the product), times the same for columns and
    rows: short products leave lanes and cores idle. Rows are computed in tiles of `tile`, the last of which
    may be partly empty. A device that computes a `wave` of results at once leaves half of the last wave idle
    on average. If a kernel's bytes exceed the `cache`, each byte takes `far` seconds more. If its weights
    alone exceed it, they are read again for each row of the result: each MAC takes `reread` seconds more. If
    only the weights of the whole network exceed it, each byte of their share beyond it takes `cold` seconds
    more.
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
    reread: float = 0.0
    cold: float = 0.0

    def of(self, name: str) -> Rate:
        """The rate of a class, else of the class without its path, else of its dtype, else the pooled one."""
        known = self.classes.get(name) or self.classes.get(without_path(name))
        return known or self.classes.get(dtype_wildcard(name), self.pooled)

    def covers(self, name: str) -> bool:
        """Whether the calibration covers a class, or does not distinguish classes."""
        names = (name, without_path(name), dtype_wildcard(name))
        return not self.classes or any(known in self.classes for known in names)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and tables for TOML and JSON."""
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
            "cache": {
                "bytes": self.cache,
                "far": self.far,
                **({"reread": self.reread} if self.reread else {}),
                **({"cold": self.cold} if self.cold else {}),
            },
            "pooled": _plain(self.pooled),
            "classes": {name: _plain(rate) for name, rate in sorted(self.classes.items())},
        }


def dtype_wildcard(name: str) -> str:
    """The name for all classes of a dtype: `*.int8` for `conv.int8`, `*` for `conv`."""
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
        reread=float(cache.get("reread", 0.0)),
        cold=float(cache.get("cold", 0.0)),
        **{key: float(saturation.get(key, 0.0)) for key in ("length", "columns", "rows", "tile", "wave")},
    )


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """Seconds of one run of each kernel: compute, memory traffic, launch, and in total."""

    compute: Floats
    traffic: Floats
    launch: Floats
    seconds: Floats


def extents(work: Work, tile: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Length, columns and rows of the products; rows rounded up to full tiles."""
    rows = np.ceil(work.rows / tile) * tile if tile else work.rows
    return work.length, work.columns, rows


def idle_factor(
    work: Work, length: float, columns: float, rows: float, tile: float = 0.0, wave: float = 0.0
) -> Floats:
    """The slowdown of matrix products against the full rate because of short sides; 1 for other kernels."""
    sides = extents(work, tile)
    slow = np.ones(len(work))
    if tile:
        np.divide(sides[2], work.rows, out=slow, where=work.rows > 0)
    for extent, half in zip(sides, (length, columns, rows), strict=True):
        if half:
            slow *= 1 + np.divide(half, extent, out=np.zeros(len(work)), where=extent > 0)
    if not wave:
        return slow
    # Added, not multiplied: half a wave takes the same time however short the sides of the product are.
    results = sides[1] * sides[2]
    return slow + np.divide(wave / 2, results, out=np.zeros(len(work)), where=results > 0)


def power_norm(left: Floats, right: Floats, power: float) -> Floats:
    """The `power` norm of two durations: their sum at 1, towards their maximum (full overlap) above."""
    if power == 1:
        return left + right
    longer = np.maximum(left, right)
    share = np.divide(np.minimum(left, right), longer, out=np.zeros_like(longer), where=longer > 0)
    return np.asarray(longer * (1 + share**power) ** (1 / power), np.float64)


def cache_miss_bytes(work: Work, cache: float) -> Floats:
    """Bytes of the kernels that exceed the cache; 0 if the cache size is unknown."""
    moved = work.traffic
    return np.where(moved > cache, moved, 0.0) if cache else np.zeros(len(work))


def cold_weights(work: Work, cache: float) -> Floats:
    """Bytes of the weights that other kernels displace from the cache between two inferences."""
    if not cache:
        return np.zeros(len(work))
    return np.where(work.traffic > cache, 0.0, work.weights * cold_share(work, cache)[work.network])


def cold_share(work: Work, cache: float) -> Floats:
    """The share of the weights of each network that does not fit into the cache."""
    return np.maximum(0.0, 1 - cache / np.maximum(work.totals(work.weights), 1.0))


def reread_macs(work: Work, cache: float) -> Floats:
    """MACs of the kernels whose weights exceed the cache."""
    return np.where(work.weights > cache, work.macs, 0.0)


def kernels(rates: Rates, work: Work) -> Kernels:
    """Seconds of each kernel at these rates."""
    table = np.array([[r.mac, r.byte, r.launch] for r in map(rates.of, work.names)]).reshape(-1, 3)
    mac, byte, launch = table[work.class_index].T
    idle = idle_factor(work, rates.length, rates.columns, rates.rows, rates.tile, rates.wave)
    compute = mac * work.macs * idle
    traffic = byte * work.traffic + rates.far * cache_miss_bytes(work, rates.cache)
    if rates.cold:
        traffic = traffic + rates.cold * cold_weights(work, rates.cache)
    if rates.reread:
        traffic = traffic + rates.reread * reread_macs(work, rates.cache)
    return Kernels(compute, traffic, launch, power_norm(compute, traffic, rates.power) + launch)


def seconds(rates: Rates, work: Work) -> Floats:
    """Seconds of each network at these rates."""
    return work.totals(kernels(rates, work).seconds) + rates.run
