"""Evaluates one language model at its points: read once per precision of weights, then per cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from sizeup import units
from sizeup.checks.limits import Limit
from sizeup.errors import LoadError, SizeupError
from sizeup.serving.checks.check import serving_limit, serving_times
from sizeup.serving.memory.deployment import Deployment, deploy
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.cache import sequence_cost
from sizeup.serving.models.reader import read
from sizeup.serving.sweeps.spec import DEFAULT_LAYOUT
from sizeup.sweeps.evaluate import Row, classify_error, failure_row, is_out_of_memory, point_columns
from sizeup.sweeps.points import Point, PointSet, ServingPoint
from sizeup.sweeps.schema import OK, STORED

LANGUAGE_MODEL = "language model"
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
            "format": LANGUAGE_MODEL,
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
            raise LoadError(f"not a {LANGUAGE_MODEL}: give a config.json, its folder, or a .gguf file")
        return read(self.source, None if weights == STORED else weights)

    def _deploy(self, target: str, weights: str, input: int, output: int, kv: str, layout: str) -> Deployment:
        return deploy(
            self.architecture(weights),
            self.clusters[target],
            engine_of(target.rpartition("/")[2]),
            input=input,
            output=output,
            kv=None if kv == STORED else kv,
            layout=None if layout == DEFAULT_LAYOUT else layout,
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
