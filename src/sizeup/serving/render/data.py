"""Serving and diffusion estimates as plain data, in bytes, tokens, MACs and seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data import check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sizeup.serving.memory.engines import Range as ByteRange
    from sizeup.serving.memory.gpus import GpuMemory
    from sizeup.serving.results.llm import LayoutRow, Serving
    from sizeup.serving.times.cost import TokenCost
    from sizeup.serving.times.disaggregation import DisaggregatedPoint
    from sizeup.serving.times.estimate import Duration, ServingEstimate, ServingPoint
    from sizeup.serving.times.goals import GoalRow
    from sizeup.serving.times.grid import FrontierPoint, GridLayout, ServingGrid
    from sizeup.serving.times.traffic import Traffic

    Floats = npt.NDArray[np.float64]
    from sizeup.serving.results.diffusion import Diffusion

LAYOUTS = 20
"""Layouts in a file."""


def to_dict(serving: Serving, goal_rows: Sequence[GoalRow] | None = None) -> dict[str, Any]:
    """Returns a serving estimate as plain data; `goal_rows` are layouts that reach the goals, if known."""
    model, price = serving.architecture, serving.cluster.price
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
        "draft": _draft(serving),
        "images": _images(serving),
        "input_tokens": serving.input,
        "output_tokens": serving.output,
        "fits": serving.fits,
        "remedies": list(serving.remedies),
        "check": _check(serving),
        "max_sequences": {"low": low, "expected": serving.max_sequences(), "high": high},
        "max_context": serving.max_context(),
        "prefill_macs": serving.prefill_macs,
        "decode_macs": serving.decode_macs,
        **_memory(serving),
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
        "price_per_device_hour": None if price is None else asdict(price),
        "times": _with_costs(serving, times_of(serving.times())),
        "disaggregation": _disaggregation(serving),
        "divisions": _divisions(serving),
        "goals": _goals(serving, goal_rows),
        "traffic": _traffic(serving.traffic),
        "fleet": _fleet(serving),
        "curve": [{"sequences": count, "max_context": context} for count, context in serving.curve()],
        "layouts": [_layout(row) for row in serving.layouts(LAYOUTS)],
        "assumptions": list(serving.assumptions),
        "not_modeled": list(serving.not_modeled),
        "sources": list(serving.sources),
        "grid": grid_of(serving.grid(), serving),
    }


def _check(serving: Serving) -> dict[str, Any] | None:
    """What is of the check alone: model, target and version are those of the estimate."""
    if serving.check is None:
        return None
    content = check.to_dict(serving.check)
    return {name: content[name] for name in ("fits", "verdict", "caveats", "limits", "remedies")}


def _memory(serving: Serving) -> dict[str, Any]:
    """The memory of each GPU, or of a laptop or phone, where what the runtime reserves is not known."""
    if not serving.is_local:
        return {"gpus": [gpu_of(gpu) for gpu in serving.gpus]}
    memory = serving.memory
    local = {
        "ram_bytes": memory.total_bytes,
        "weights_bytes": memory.weights_bytes,
        "tower_bytes": memory.tower_bytes,
        "cache_bytes": serving.sequence_bytes,
        "reserved_bytes": None,
    }
    return {"gpus": [], "local_memory": local}


def _draft(serving: Serving) -> dict[str, Any] | None:
    draft = serving.draft
    if draft is None:
        return None
    return {
        "name": draft.step.name,
        "is_mtp": draft.step is not draft.stored,
        "weights_bytes": serving.draft_bytes,
        "tokens": draft.tokens,
        "acceptance": draft.acceptance,
        "tokens_per_step": draft.tokens_per_step,
    }


def _images(serving: Serving) -> dict[str, Any] | None:
    images = serving.images
    return None if images is None else {**asdict(images), "tower_macs": serving.tower_macs}


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
            "families": list(times.families),
            "tpot_mape": calibration.mape[times.device][0],
            "ttft_mape": calibration.mape[times.device][1],
            "date": calibration.date,
            "source": calibration.source,
        },
        "measurements": None
        if times.factors is None
        else {"count": times.factors.measurements, "files": list(times.factors.files)},
        "caveats": list(times.caveats),
        "points": [_point(point) for point in times.points],
    }


def _point(point: ServingPoint) -> dict[str, Any]:
    return {
        "requests": point.requests,
        "running": point.running,
        "tpot_seconds": _duration(point.tpot),
        "ttft_seconds": _duration(point.ttft),
        "user_tokens_per_second": six_digits(point.user_tokens_per_second),
        "gpu_tokens_per_second": six_digits(point.gpu_tokens_per_second),
        "limiter": point.limiter,
        "causes_seconds": {name: six_digits(value) for name, value in point.causes.items()},
        "vision_tower_seconds": six_digits(point.tower_seconds),
    }


def _with_costs(serving: Serving, times: dict[str, Any] | None) -> dict[str, Any] | None:
    if times is not None:
        for point in times["points"]:
            # Of a laptop or phone, the power of the chip is not that of what runs.
            is_bound = times["calibration"] is None or serving.is_local
            point["cost"] = cost_of(serving.token_cost(point["gpu_tokens_per_second"], is_bound=is_bound))
    return times


def cost_of(cost: TokenCost) -> dict[str, Any]:
    """Returns costs as plain data."""
    return {
        "per_million_output_tokens": _rounded(cost.output),
        "per_million_tokens": _rounded(cost.total),
        "joules_per_million_output_tokens": _rounded(cost.output_joules),
        "joules_per_million_tokens": _rounded(cost.total_joules),
        "is_upper_bound_of_energy": cost.is_upper_bound,
    }


def _fleet(serving: Serving) -> dict[str, Any] | None:
    fleet = serving.fleet
    if fleet is None:
        return None
    tokens = fleet.traffic.output_tokens_per_second
    return {
        "layout": str(fleet.layout),
        "servers": fleet.servers,
        "gpus": fleet.gpus,
        "per_hour": serving.hourly_cost(fleet.gpus),
        "cost": None if tokens is None else cost_of(serving.token_cost(tokens / fleet.gpus)),
        "traffic": _traffic(fleet.traffic),
    }


def _disaggregation(serving: Serving) -> dict[str, Any] | None:
    division = serving.disaggregation
    if division is None:
        return None
    sides = {"prefill": division.prefill, "decode": division.decode}
    return {
        **{name: {"layout": str(side.layout), "gpus": side.cluster.devices} for name, side in sides.items()},
        "max_prefill_requests_per_second": six_digits(division.prefill_rate),
        "decode_gpus_per_prefill_gpu": six_digits(division.balance),
        "transfer_bytes": division.transfer_bytes,
        "sent_bytes": division.sent_bytes,
        "transfer_seconds": _rounded(division.transfer_seconds),
        "points": [_disaggregated_point(serving, point) for point in division.points],
        "caveats": list(division.caveats),
    }


def _divisions(serving: Serving) -> list[dict[str, Any]] | None:
    if serving.divisions is None:
        return None
    return [
        {
            "disaggregate": row.text,
            "prefill_gpus": row.prefill.cluster.devices,
            "decode_gpus": row.decode.cluster.devices,
            "is_tied": row.is_tied,
            **_disaggregated_point(serving, row.point),
        }
        for row in serving.divisions
    ]


def _disaggregated_point(serving: Serving, point: DisaggregatedPoint) -> dict[str, Any]:
    return {
        "requests": point.requests,
        "decoding": six_digits(point.decoding),
        "tpot_seconds": six_digits(point.tpot),
        "ttft_seconds": six_digits(point.ttft),
        "requests_per_second": six_digits(point.requests_per_second),
        "prefill_load": six_digits(point.prefill_load),
        "max_decode_requests_per_second": six_digits(point.decode_rate),
        "limiter": point.limiter,
        "user_tokens_per_second": six_digits(point.user_tokens_per_second),
        "gpu_tokens_per_second": six_digits(point.gpu_tokens_per_second),
        "cost": cost_of(serving.token_cost(point.gpu_tokens_per_second)),
    }


def _goals(serving: Serving, goal_rows: Sequence[GoalRow] | None) -> dict[str, Any] | None:
    if serving.goals is None:
        return None
    rows = [
        {
            "layout": str(row.layout),
            "is_tied": row.is_tied,
            "is_corrected": row.is_corrected,
            **_point(row.point),
            "cost": cost_of(serving.token_cost(row.point.gpu_tokens_per_second)),
        }
        for row in (serving.goal_rows(LAYOUTS) if goal_rows is None else goal_rows)
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
    return {name: _rounded(value) for name, value in bounds.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else six_digits(value)


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


RANKS = (None, "dominated", "tied", "frontier")
"""Names of the ranks of points."""


def grid_of(grid: ServingGrid | None, serving: Serving | None = None) -> dict[str, Any] | None:
    """Returns a grid as plain data; lists are by input, output and requests, the last fastest.

    It has costs if it is that of an estimate with a price.
    """
    if grid is None:
        return None
    return {
        "basis": "calibrated" if grid.is_calibrated else "lower bound",
        "input_tokens": list(grid.inputs),
        "output_tokens": list(grid.outputs),
        "requests": list(grid.requests),
        "compared_layouts": grid.compared,
        "is_complete": grid.is_complete,
        "layouts": [{**_grid_layout(row), "cost": _costs(serving, grid, row)} for row in grid.layouts],
        "frontiers": [[_grid_point(point) for point in points] for points in grid.frontiers],
    }


def _grid_layout(row: GridLayout) -> dict[str, Any]:
    return {
        "layout": str(row.layout),
        "equal_layouts": [str(layout) for layout in row.equal],
        "running": [None if count is None else int(count) for count in _numbers(row.running)],
        "tpot_seconds": _durations(row.tpot, row.tpot_factors),
        "ttft_seconds": _durations(row.ttft, row.ttft_factors),
        "user_tokens_per_second": _numbers(row.user_tokens_per_second),
        "gpu_tokens_per_second": _numbers(row.gpu_tokens_per_second),
        "limiter": row.limiters,
        "causes_seconds": {name: _numbers(values) for name, values in row.causes.items()},
        "rank": [RANKS[rank] for rank in row.ranks.ravel().tolist()],
    }


def _costs(
    serving: Serving | None, grid: ServingGrid, row: GridLayout
) -> dict[str, list[float | None]] | None:
    """Money per million tokens; None without a price."""
    if serving is None or serving.cluster.price is None:
        return None
    lengths = [(input, output) for input in grid.inputs for output in grid.outputs for _ in grid.requests]
    costs = [
        serving.token_cost(rate, input=input, output=output)
        for rate, (input, output) in zip(row.gpu_tokens_per_second.ravel().tolist(), lengths, strict=True)
    ]
    return {
        "per_million_output_tokens": [_number(cost.output) for cost in costs],
        "per_million_tokens": [_number(cost.total) for cost in costs],
    }


def _grid_point(point: FrontierPoint) -> dict[str, Any]:
    return {
        "layout": str(point.layout),
        "requests": point.requests,
        "tpot_seconds": six_digits(point.tpot),
        "ttft_seconds": six_digits(point.ttft),
        "user_tokens_per_second": six_digits(point.user_tokens_per_second),
        "gpu_tokens_per_second": six_digits(point.gpu_tokens_per_second),
    }


def _durations(seconds: Floats, factors: Duration) -> dict[str, list[float | None] | None]:
    bounds = {"expected": factors.seconds, "low": factors.low, "high": factors.high}
    return {name: None if factor is None else _numbers(seconds * factor) for name, factor in bounds.items()}


def _numbers(values: Floats) -> list[float | None]:
    return [_number(value) for value in values.ravel().tolist()]


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else six_digits(value)


def six_digits(value: float) -> float:
    """Returns six significant digits: the last ones of a power differ between platforms."""
    return float(f"{value:.6g}")


def diffusion_to_dict(estimate: Diffusion) -> dict[str, Any]:
    """Returns a diffusion estimate as plain data."""
    return {
        **envelope.head(),
        "model": {
            "name": estimate.model.name,
            "class_name": estimate.model.class_name,
            "parameters": estimate.model.parameters,
            "weights_bytes": estimate.model.stored_bytes,
        },
        "target": {"device": estimate.cluster.device.name, "memory_bytes": estimate.memory_bytes},
        "precision": {"weights": estimate.weights or None},
        "image": {"width": estimate.width, "height": estimate.height, "tokens": estimate.image_tokens},
        "text_tokens": estimate.text_tokens,
        "steps": estimate.steps,
        "inferences_per_step": estimate.inferences,
        "fits": estimate.fits,
        "step_macs": estimate.step_macs,
        "image_macs": estimate.image_macs,
        "least_step_seconds": estimate.least_step_seconds,
        "least_image_seconds": estimate.least_image_seconds,
        "assumptions": list(estimate.assumptions),
        "not_modeled": list(estimate.not_modeled),
    }
