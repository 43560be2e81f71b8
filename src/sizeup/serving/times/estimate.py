"""TPOT, TTFT and throughput of a model on a cluster, with prediction intervals and what they are based on.

An engine that is calibrated for the device has an interval from errors on families of models that were left
out. Layouts and precisions that no measurement has get no interval. Other times are lower bounds from the
data sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sizeup.serving.memory.engines import LOCAL_ENGINES
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.cache import cache_bits
from sizeup.serving.steps.factors import Factors
from sizeup.serving.steps.rates import Calibration, Errors, calibration_of, next_tokens
from sizeup.serving.steps.step import Server, server_of
from sizeup.serving.times.anchors import with_measurements
from sizeup.serving.times.closed_form import mean_causes, output_rate, tpot_by_cause
from sizeup.serving.times.next_token import (
    CAUSES,
    first_columns,
    next_columns,
    seconds,
    unmeasured,
    unmeasured_context,
    unmeasured_prompt,
    unmeasured_size,
)
from sizeup.serving.times.speculation import Draft, draft_server, draft_times
from sizeup.serving.times.speculation import causes as causes_of
from sizeup.targets.clusters import Cluster

CalibratedServer: TypeAlias = tuple[Server, Calibration | None, tuple[str, ...]]
"""A server, the calibration of its rates, and why its times have no interval, or are lower bounds."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, and their 90 % prediction interval; None without one."""

    seconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ServingPoint:
    """Times at one number of concurrent requests."""

    requests: int
    running: int  # requests that the cache holds at once; others wait
    tpot: Duration
    ttft: Duration
    user_tokens_per_second: float
    gpu_tokens_per_second: float  # output tokens of all requests, divided by the GPUs
    causes: dict[str, float]  # seconds of a decode step, and of the prefill of other requests in between
    tower_seconds: float = 0.0  # of TTFT: the vision tower, for the images of one prompt

    @property
    def limiter(self) -> str:
        """The cause of most of the time per token."""
        return max(self.causes, key=lambda name: self.causes[name])


@dataclass(frozen=True, slots=True)
class ServingEstimate:
    """Times of a server; `calibration` is None if they are lower bounds."""

    points: tuple[ServingPoint, ...]
    calibration: Calibration | None
    device: str
    caveats: tuple[str, ...] = ()
    factors: Factors | None = None  # by which measurements of the user corrected the times
    no_interval: str = ""  # why calibrated times have none; one of the caveats
    is_calibration_unused: bool = False  # because the bandwidth of a link is unknown

    @property
    def families(self) -> tuple[str, ...]:
        """Families of models among the measurements: of the engine, or of a laptop or phone."""
        if self.calibration is None:
            return ()
        rates = self.calibration.tokens.get(self.device)
        return self.calibration.families if rates is None else rates.families


def estimate(
    architecture: Architecture,
    layout: Layout,
    cluster: Cluster,
    engine: str,
    kv: str,
    *,
    input: int,
    output: int,
    concurrency: Sequence[int],
    most: int,
    calibrated: CalibratedServer | None = None,
    draft: Draft | None = None,
) -> ServingEstimate | None:
    """Times at each concurrency; None if the device's bandwidth or arithmetic are unknown.

    Those of a laptop or phone are of one sequence; None if nothing similar was measured. `most` is the number
    of requests whose cache fits at once; `calibrated` is the server, if it is known.
    """
    if engine in LOCAL_ENGINES:
        return _local_estimate(architecture, cluster.device.name, engine, kv, input, output)
    calibrated = calibrated or calibrated_server(architecture, layout, cluster, engine, kv)
    if calibrated is None:
        return None
    server, calibration, caveats = calibrated
    speculative = draft_server(draft, server, layout, cluster, kv)
    reasons = () if calibration is None else caveats
    if draft is not None:
        reasons = (*reasons, "speculative decoding is not among the measurements")
    why = no_interval(reasons)
    result = draft_times(server, speculative, list(concurrency), input, output, max(most, 1))
    step = mean_causes(
        server.division, lambda running: causes_of(server, speculative, running, input + output / 2), result
    )
    causes = tpot_by_cause(server, step, result)
    rates = output_rate(concurrency, output, result) / cluster.devices
    points = []
    for row, requests in enumerate(concurrency):
        tpot, ttft = float(result.tpot[row]), float(result.ttft[row])
        points.append(
            ServingPoint(
                requests,
                int(result.running[row]),
                duration(tpot, None if calibration is None or why else calibration.tpot),
                duration(ttft, None if calibration is None or why else calibration.ttft),
                1 / tpot,
                float(rates[row]),
                {name: float(each[row]) for name, each in causes.items()},
                float(result.tower[row]),
            )
        )
    device = cluster.device.name
    links = caveats if calibration is None else ()
    notes = (*links, *filter(None, (why,)), *_notes(calibration))
    is_unused = server.has_unknown_links and calibration_of(engine, device) is not None
    return ServingEstimate(tuple(points), calibration, device, notes, server.factors, why, is_unused)


def no_times(architecture: Architecture, device: str, engine: str) -> str:
    """Why times on a laptop or phone are not known; empty if they are."""
    return unmeasured(architecture, next_tokens().get(engine), device)


def _local_estimate(
    architecture: Architecture, device: str, engine: str, kv: str, input: int, output: int
) -> ServingEstimate | None:
    """Times of one sequence."""
    if no_times(architecture, device, engine):
        return None
    calibration, default = next_tokens()[engine], LOCAL_ENGINES[engine].kv or "fp16"
    rates = calibration.tokens[device]
    is_static = bool(calibration.chunk)  # the cache of the whole context is read
    context = input + output if is_static else input + output // 2
    columns = next_columns(architecture, kv, context)
    causes: dict[str, float] = {}
    for name, value in columns.items():
        causes[CAUSES[name]] = causes.get(CAUSES[name], 0.0) + rates.next.get(name, 0.0) * value
    tpot = seconds(columns, rates.next)
    ttft = seconds(first_columns(architecture, input, calibration.chunk), rates.first)
    families = len(rates.families)
    reasons = [f"measurements are of {families} families of models, not 4"] * (families < 4)
    missing = [*unmeasured_size(architecture, rates), *unmeasured_prompt(rates, input, calibration.chunk)]
    why = no_interval([*reasons, *_not_among(missing)])
    others = [] if why else [*unmeasured_context(rates, context, calibration.chunk)]
    others += [f"caches in {kv}"] * (cache_bits(kv) != cache_bits(default) and not why)
    why_next = why or no_interval(_not_among(others), "next tokens")
    point = ServingPoint(
        1, 1, duration(tpot, None if why_next else rates.tpot), duration(ttft, None if why else rates.ttft),
        1 / tpot, output / (ttft + tpot * (output - 1)), causes,
    )  # fmt: skip
    caveats = tuple(filter(None, (why_next,)))
    return ServingEstimate((point,), calibration, device, caveats, no_interval=why_next)


def no_interval(reasons: Iterable[str], of: str = "") -> str:
    """The caveat of times, or of some of them, without an interval; empty without a reason."""
    text = "; ".join(dict.fromkeys(reasons))
    return f"no interval{' for ' + of if of else ''}: {text}" if text else ""


def _not_among(missing: Sequence[str]) -> Iterator[str]:
    if missing:
        yield f"{' and '.join(missing)} are not among the measurements"


def _notes(calibration: Calibration | None) -> Iterator[str]:
    """What a calibration does not cover, besides intervals."""
    if calibration is not None and calibration.ttft is None:
        yield (
            "newer versions of the engine may be faster; the queue and the overhead in TTFT are those"
            " of other devices"
        )


def calibrated_server(
    architecture: Architecture, layout: Layout, cluster: Cluster, engine: str, kv: str
) -> CalibratedServer | None:
    """A server with the rates of its calibration, else of the data sheet, and why it has no interval.

    None if the device's bandwidth or arithmetic are unknown.
    """
    calibrated = _without_images(architecture, layout, cluster, engine, kv)
    tower = next((part for part in architecture.parts if part.images is not None), None)
    if calibrated is None or tower is None:
        return calibrated
    server, calibration, caveats = calibrated
    reasons = () if calibration is None else ("images in prompts are not among the measurements",)
    return replace(server, tower=tower), calibration, (*caveats, *reasons)


def _without_images(
    architecture: Architecture, layout: Layout, cluster: Cluster, engine: str, kv: str
) -> CalibratedServer | None:
    """The server as measurements have it."""
    device = cluster.device.name
    calibration = calibration_of(engine, device)
    server = server_of(architecture, layout, cluster, kv)
    if server is None:
        return None
    if server.has_unknown_links:
        return server, None, ("the bandwidth of a link is unknown; what it carries is not counted",)
    if calibration is None:
        return server, None, ()
    caveats = tuple(_caveats(architecture, layout, cluster, calibration))
    ideal, server = server.rates, replace(server, rates=calibration.rates[device])
    server = with_measurements(server, architecture, layout, kv, f"{device}/{engine}", ideal)
    return server, calibration, caveats


def duration(seconds: float, errors: Errors | None) -> Duration:
    """Seconds with the interval of a calibration's errors; without one if it has none."""
    if errors is None or errors.low is None or errors.high is None:
        return Duration(seconds)
    return Duration(seconds, seconds * errors.low, seconds * errors.high)


def _caveats(
    architecture: Architecture, layout: Layout, cluster: Cluster, calibration: Calibration
) -> Iterator[str]:
    """Why a calibrated time has no interval."""
    if len(calibration.families) < 4:
        yield f"measurements are of {len(calibration.families)} families of models, not 4"
    elif calibration.ttft is None:
        yield "total times of fixed batches were measured, not servers under load"
    elif calibration.tpot.low is None:
        yield "it did not hold for measurements that were left out"
    if cluster.device.name in calibration.measured_on:
        other = calibration.measured_on[cluster.device.name]
        yield f"efficiencies are those of {other}, which has the same GPU and slower memory"
    missing = ["pipeline stages"] * (layout.pipeline > 1) + ["several nodes"] * (cluster.nodes > 1)
    names = {weight.precision.split(" ")[0] for weight in architecture.weights()}
    unmeasured = sorted(name for name in names if not name.startswith(calibration.precisions))
    missing += [f"weights in {', '.join(unmeasured)}"] * bool(unmeasured)
    yield from _not_among(missing)
