"""Serving estimates as plain data, in bytes, tokens and MACs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope

if TYPE_CHECKING:
    from sizeup.results.llm import LayoutRow, Serving
    from sizeup.results.parts import ByteRange, Duration, GpuMemory, ServingEstimate, ServingPoint, Traffic

LAYOUTS = 20
"""Layouts in a file."""


def to_dict(serving: Serving) -> dict[str, Any]:
    """Returns a serving estimate as plain data."""
    model = serving.architecture
    low, high = serving.sequences_range()
    return {
        **envelope.head(),
        "model": {
            "name": serving.name,
            "model_type": model.model_type,
            "parameters": model.parameters,
            "weights_bytes": model.stored_bytes,
            "max_context": model.max_context or None,
            "parts": [
                {"name": part.name, "parameters": part.parameters, "bytes": part.stored_bytes}
                for part in model.parts
            ],
        },
        "target": {
            "cluster": serving.cluster.name,
            "device": serving.cluster.device.name,
            "devices": serving.cluster.devices,
            "nodes": serving.cluster.nodes,
            "engine": serving.engine.name,
            "engine_version": serving.engine.version,
        },
        "layout": str(serving.layout),
        "precision": {"weights": serving.weights or None, "kv": serving.kv},
        "input_tokens": serving.input,
        "output_tokens": serving.output,
        "fits": serving.fits,
        "remedies": list(serving.remedies),
        "max_sequences": {"low": low, "expected": serving.max_sequences(), "high": high},
        "max_context": serving.max_context(),
        "prefill_macs": serving.prefill_macs,
        "decode_macs": serving.decode_macs,
        "gpus": [gpu_of(gpu) for gpu in serving.gpus],
        "fullest_stage": serving.memory.stage,
        "concurrency": [
            {
                "sequences": point.sequences,
                "cache_bytes": point.cache_bytes,
                "fits": point.fits,
                "max_context": point.max_context,
            }
            for point in serving.points()
        ],
        "times": times_of(serving.times()),
        "goals": _goals(serving),
        "traffic": _traffic(serving.traffic),
        "curve": [{"sequences": count, "max_context": context} for count, context in serving.curve()],
        "layouts": [_layout(row) for row in serving.layouts(LAYOUTS)],
        "assumptions": list(serving.assumptions),
        "not_modeled": list(serving.not_modeled),
        "sources": list(serving.sources),
    }


def times_of(times: ServingEstimate | None) -> dict[str, Any] | None:
    """Returns times as plain data, in seconds."""
    if times is None:
        return None
    calibration = times.calibration
    return {
        "basis": "lower bound" if calibration is None else "calibrated",
        "calibration": None
        if calibration is None
        else {
            "engine_versions": calibration.versions,
            "measurements": calibration.counts[times.device],
            "families": list(calibration.families),
            "tpot_mape": calibration.mape[times.device][0],
            "ttft_mape": calibration.mape[times.device][1],
            "date": calibration.date,
            "source": calibration.source,
        },
        "caveats": list(times.caveats),
        "points": [_point(point) for point in times.points],
    }


def _point(point: ServingPoint) -> dict[str, Any]:
    return {
        "requests": point.requests,
        "running": point.running,
        "tpot_seconds": _duration(point.tpot),
        "ttft_seconds": _duration(point.ttft),
        "user_tokens_per_second": _digits(point.user_tokens_per_second),
        "gpu_tokens_per_second": _digits(point.gpu_tokens_per_second),
        "limiter": point.limiter,
        "causes_seconds": {name: _digits(value) for name, value in point.causes.items()},
    }


def _goals(serving: Serving) -> dict[str, Any] | None:
    if serving.goals is None:
        return None
    rows = [
        {"layout": str(row.layout), "is_tied": row.is_tied, **_point(row.point)}
        for row in serving.goal_rows(LAYOUTS)
    ]
    return {"ttft_seconds": serving.goals.ttft, "tpot_seconds": serving.goals.tpot, "layouts": rows}


def _traffic(traffic: Traffic | None) -> dict[str, Any] | None:
    if traffic is None:
        return None
    return {
        "requests_per_second": traffic.rate if math.isfinite(traffic.rate) else None,
        "max_requests_per_second": traffic.max_rate,
        "is_overloaded": traffic.is_overloaded,
        "requests": traffic.requests,
        "seed": traffic.seed,
        "ttft_seconds": None if traffic.ttft is None else asdict(traffic.ttft),
        "tpot_seconds": None if traffic.tpot is None else asdict(traffic.tpot),
        "output_tokens_per_second": traffic.output_tokens_per_second,
        "preemptions": traffic.preemptions,
    }


def _duration(duration: Duration) -> dict[str, float | None]:
    bounds = {"expected": duration.seconds, "low": duration.low, "high": duration.high}
    return {name: None if value is None else _digits(value) for name, value in bounds.items()}


def _digits(value: float) -> float:
    """Returns six significant digits: the last ones of a power differ between platforms."""
    return float(f"{value:.6g}")


def gpu_of(gpu: GpuMemory) -> dict[str, Any]:
    """Returns the memory of one GPU as plain data."""
    return {
        "stage": gpu.stage,
        "layers": gpu.layers,
        "total_bytes": gpu.total_bytes,
        "usable_bytes": gpu.usable_bytes,
        "weights_bytes": gpu.weights_bytes,
        "tower_bytes": gpu.tower_bytes,
        "activations_bytes": _range(gpu.activations),
        "graphs_bytes": _range(gpu.graphs),
        "communication_bytes": _range(gpu.communication),
        "context_bytes": _range(gpu.context),
        "driver_bytes": _range(gpu.driver),
        "cache_bytes": _range(gpu.cache),
    }


def _range(size: ByteRange) -> dict[str, int]:
    return {"low": size.low, "expected": size.expected, "high": size.high}


def _layout(row: LayoutRow) -> dict[str, Any]:
    return {
        "layout": str(row.layout),
        "weights_bytes": row.weights_bytes,
        "cache_bytes": row.cache_bytes,
        "link_bytes": row.link_bytes,
        "network_bytes": row.network_bytes,
        "transfer_seconds": row.transfer_seconds,
        "fits": row.fits,
        "max_sequences": row.max_sequences,
    }
