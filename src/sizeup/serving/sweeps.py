"""Specs and models of a sweep enter; points and rows of language models leave.

A device is a cluster of one GPU. A model is read once per precision of weights, then deployed per cluster.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sizeup import units
from sizeup.checks.limits import Limit
from sizeup.errors import LoadError, SizeupError
from sizeup.serving.checks.check import serving_limit, serving_times
from sizeup.serving.memory.deployment import INPUT, MOST_SEQUENCES, MOST_TOKENS, OUTPUT, Deployment, deploy
from sizeup.serving.memory.engines import engine_of, server_engine
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.cache import CACHE_BITS, sequence_cost
from sizeup.serving.models.modules import WEIGHT_PRECISIONS
from sizeup.serving.models.reader import checkpoint_digest, read
from sizeup.serving.steps.rates import calibrations
from sizeup.sweeps.evaluate import Row, classify_error, failure_row, is_out_of_memory, point_columns
from sizeup.sweeps.points import Point, PointSet, ServingPoint
from sizeup.sweeps.schema import OK, STORED
from sizeup.targets import current_catalog
from sizeup.targets.clusters import Cluster, cluster
from sizeup.targets.table import Table
from sizeup.units import quoted

__all__ = ["checkpoint_digest", "cluster_parts", "evaluate_serving", "serving_grid", "serving_point"]

_DEFAULT_LAYOUT = "default"
_KEYS = ("weights", "kv", "layouts", "input", "output", "concurrency")
_POINT_KEYS = ("weights", "kv", "layout", "input", "output", "concurrency")
_OTHERS = {
    "precisions": "weights and kv",
    "precision": "weights and kv",
    "batch": "concurrency",
    "shapes": "input and output",
    "bind": "input and output",
}


def serving_grid(
    table: Table, targets: Sequence[str], folder: Path, clusters: dict[str, Cluster]
) -> Iterator[Point]:
    """Every combination of cluster, precisions, layout, tokens and concurrent sequences."""
    _refuse_others(table)
    if not targets:
        key = next(key for key in _KEYS if key in table.values)
        raise table.error(f'{key} without targets; name them as targets = ["8xh100/vllm"]')
    names = [_added(clusters, table, text, folder) for text in targets]
    axes = (
        _integers(table, "input", INPUT, MOST_TOKENS),
        _integers(table, "output", OUTPUT, MOST_TOKENS),
        _integers(table, "concurrency", 1, MOST_SEQUENCES),
        _precisions(table, "kv"),
        _texts(table, "layouts", _DEFAULT_LAYOUT),
    )
    weights = _precisions(table, "weights")
    for serving in itertools.product(*axes):
        for precision in weights:
            yield from (Point(name, precision, serving=ServingPoint(*serving)) for name in names)


def serving_point(table: Table, folder: Path, clusters: dict[str, Cluster]) -> Point:
    """The point of a table of `[[points]]`."""
    for key in _POINT_KEYS:
        if isinstance(table.values.get(key), list):
            raise table.error(f"{key} is a list; a point has one")
    layout = {} if "layout" not in table.values else {"layouts": table.text("layout")}
    values = {key: value for key, value in table.values.items() if key not in ("target", "layout")} | layout
    grid = Table(values, table.file, table.location, table.sources)
    return next(serving_grid(grid, (table.text("target"),), folder, clusters))


def cluster_parts(target: str, cluster: Cluster) -> tuple[str, ...]:
    """Texts of a cluster, the serving engine of a target and what times are based on, for a digest.

    They do not depend on file paths.
    """
    engine = engine_of(target.rpartition("/")[2])
    plain = replace(cluster, device=replace(cluster.device, file=""))
    measured = f"{cluster.device.name}/{engine.name}"
    anchors = [repr(anchor) for anchor in current_catalog().anchors() if anchor.target == measured]
    return repr(plain), repr(engine), repr(calibrations().get(engine.name)), *anchors


def _added(clusters: dict[str, Cluster], table: Table, text: str, folder: Path) -> str:
    """The name of the target of a text, whose cluster is added."""
    machines, engine = cluster(text, folder)
    name = f"{machines.name}/{server_engine(engine, machines.device).name}"
    if clusters.setdefault(name, machines) != machines:
        raise table.error(f"two different clusters are named {quoted(machines.name)}; rename one")
    return name


def _refuse_others(table: Table) -> None:
    for key, other in _OTHERS.items():
        if key in table.values:
            raise table.error(f"{key} does not apply to language models on clusters; set {other}")


def _texts(table: Table, key: str, default: str) -> tuple[str, ...]:
    if isinstance(table.values.get(key), str):
        return (table.text(key),)
    return table.texts(key) or (default,)


def _precisions(table: Table, key: str) -> tuple[str, ...]:
    texts = _texts(table, key, STORED)
    known = (STORED, *(CACHE_BITS if key == "kv" else WEIGHT_PRECISIONS))
    for text in texts:
        if text not in known:
            raise table.error(f"{key}: precision {quoted(text)} is unknown; use one of {', '.join(known)}")
    return texts


def _integers(table: Table, key: str, default: int, most: int) -> list[int]:
    """An integer or a list of them."""
    value: Any = table.values.get(key, default)
    numbers = value if isinstance(value, list) else [value]
    if not numbers or not all(_is_count(number, most) for number in numbers):
        raise table.error(f"{key} is {quoted(value)}, not an integer from 1 to {most:,} or a list of them")
    return numbers


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


_LANGUAGE_MODEL = "language model"
_NO_ENERGY = "the energy of language models is not estimated"
_NO_LATENCY = "a language model has tpot_ms and ttft_ms instead"
_FITS = {"yes": True, "no": False, "undetermined": None}


def evaluate_serving(
    source: Any, point_set: PointSet, *, is_last: bool = True
) -> Iterator[tuple[Point, Row]]:
    """One row per point of a language model, an error row if it cannot be read or deployed.

    Raises MemoryError if memory runs out and this is not the last try, so that a new worker can retry.
    """
    results = _Results(source, point_set)
    for point in point_set.points:
        assert point.serving is not None
        try:
            yield point, results.row(point, point.serving)
        except (SizeupError, MemoryError) as error:
            if is_out_of_memory(error) and not is_last:
                raise MemoryError from error
            yield point, failure_row(point, *classify_error(error))


class _Results:
    """The results of one language model; what several points share is computed once."""

    def __init__(self, source: Any, point_set: PointSet) -> None:
        self.source, self.clusters = source, point_set.clusters
        self.architecture = cache(self._read)
        self.deployment = cache(self._deploy)

    def row(self, point: Point, serving: ServingPoint) -> Row:
        deployment = self.deployment(
            point.target, point.precision, serving.input, serving.output, serving.kv, serving.layout
        )
        architecture = deployment.architecture
        return {
            **point_columns(point),
            "status": OK,
            "format": _LANGUAGE_MODEL,
            "params": architecture.parameters,
            "weight_bytes": architecture.stored_bytes,
            "assumptions": "; ".join(architecture.caveats) or None,
            **_capacity_columns(deployment, serving.concurrency),
            **_fit_columns(deployment, serving.concurrency),
            **_time_columns(deployment, serving),
            "latency_missing": _NO_LATENCY,
            "energy_missing": _NO_ENERGY,
        }

    def _read(self, weights: str) -> Architecture:
        if not isinstance(self.source, str | os.PathLike):
            raise LoadError(f"not a {_LANGUAGE_MODEL}: give a config.json, its folder, or a .gguf file")
        return read(self.source, None if weights == STORED else weights)

    def _deploy(self, target: str, weights: str, input: int, output: int, kv: str, layout: str) -> Deployment:
        return deploy(
            self.architecture(weights),
            self.clusters[target],
            engine_of(target.rpartition("/")[2]),
            input=input,
            output=output,
            kv=None if kv == STORED else kv,
            layout=None if layout == _DEFAULT_LAYOUT else layout,
        )


def _capacity_columns(deployment: Deployment, concurrency: int) -> Row:
    low, high = deployment.sequences_range()
    cost = sequence_cost(deployment.architecture, deployment.kv)
    memory = deployment.memory
    return {
        "layout": str(deployment.layout),
        "kv": deployment.kv,
        "gpu_weight_bytes": memory.weights_bytes + memory.tower_bytes,
        "kv_token_bytes": cost.full_bytes + sum(per_token for _, per_token in cost.windows),
        "sequence_bytes": cost.bytes_of(deployment.context),
        "max_context": deployment.max_context(concurrency),
        "max_sequences": deployment.max_sequences(),
        "max_sequences_low": low,
        "max_sequences_high": high,
    }


def _fit_columns(deployment: Deployment, concurrency: int) -> Row:
    limit = serving_limit(deployment, concurrency)
    fits = _FITS[deployment.fits_at(concurrency)]
    need, available = int(limit.need or 0), int(limit.maximum or 0)
    return {
        "ram_need_bytes": need,
        "ram_bytes": available,
        "free_bytes": available - need,
        "fits": fits,
        "fits_reason": None if fits else _reason(limit, fits),
    }


def _time_columns(deployment: Deployment, serving: ServingPoint) -> Row:
    """TPOT, TTFT and throughput; without a calibration, lower bounds of times alone."""
    if deployment.fits_at(serving.concurrency) == "no":
        return {"times_missing": "the model and its sequences do not fit"}
    times = serving_times(deployment, serving.input, serving.output, serving.concurrency)
    if times is None:
        return {"times_missing": f"unknown bandwidth or arithmetic of {deployment.cluster.device.name}"}
    (point,) = times.points
    durations = {"tpot": point.tpot, "ttft": point.ttft}
    if times.calibration is None:
        reasons = times.caveats or (f"not calibrated for {deployment.engine.title}: lower bounds",)
        bounds = {f"{name}_low_ms": 1e3 * each.seconds for name, each in durations.items()}
        return {**bounds, "times_missing": "; ".join(reasons)}
    row: Row = {"times_missing": "; ".join(times.caveats) or None}
    for name, each in durations.items():
        for suffix, seconds in (("", each.seconds), ("_low", each.low), ("_high", each.high)):
            row[f"{name}{suffix}_ms"] = None if seconds is None else 1e3 * seconds
    row["user_tokens_per_second"] = point.user_tokens_per_second
    row["gpu_tokens_per_second"] = point.gpu_tokens_per_second
    return row


def _reason(limit: Limit, fits: bool | None) -> str:
    low, high, available = (
        units.size(int(size or 0)) for size in (limit.need_low, limit.need_high, limit.maximum)
    )
    needed = f"at least {low}" if fits is False else f"{low} to {high}"
    return f"fullest GPU: {needed} needed, {available} available"
