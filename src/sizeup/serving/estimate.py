"""TPOT, TTFT and throughput of a model on a cluster, with prediction intervals and what they are based on.

An engine that is calibrated for the device has an interval from errors on families of models that were left
out. Layouts and precisions that no measurement has get no interval. Other times are lower bounds from the
data sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sizeup.language_models.architecture import Architecture
from sizeup.language_models.clusters import Cluster
from sizeup.language_models.layouts import Layout
from sizeup.serving.rates import Calibration, Errors, calibrations
from sizeup.serving.step import CAUSES, Server, demand, seconds_by_cause, server_of
from sizeup.serving.times import times

# Beginnings of the names of weight precisions among the measurements.
_MEASURED = ("bf16", "fp16", "fp32", "fp8", "nvfp4", "mxfp4")


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
) -> ServingEstimate | None:
    """Times at each concurrency; None if the device's bandwidth or arithmetic are unknown.

    `most` is the number of requests whose cache fits at once.
    """
    calibrated = calibrated_server(architecture, layout, cluster, engine, kv)
    if calibrated is None:
        return None
    server, calibration, caveats = calibrated
    result = times(server, list(concurrency), input, output, max(most, 1))
    parts = seconds_by_cause(demand(server, result.running, input + output / 2), server.rates)
    points = []
    for row, requests in enumerate(concurrency):
        tpot, ttft = float(result.tpot[row]), float(result.ttft[row])
        causes = {name: float(parts[name][row]) for name in CAUSES}
        causes["prefill"] = tpot - float(result.step[row])
        points.append(
            ServingPoint(
                requests,
                int(result.running[row]),
                _duration(tpot, None if calibration is None or caveats else calibration.tpot),
                _duration(ttft, None if calibration is None or caveats else calibration.ttft),
                1 / tpot,
                requests * output / (ttft + tpot * (output - 1)) / cluster.devices,
                causes,
            )
        )
    return ServingEstimate(tuple(points), calibration, cluster.device.name, caveats)


def calibrated_server(
    architecture: Architecture, layout: Layout, cluster: Cluster, engine: str, kv: str
) -> tuple[Server, Calibration | None, tuple[str, ...]] | None:
    """A server with the rates of its calibration, else of the data sheet, and why it has no interval.

    None if the device's bandwidth or arithmetic are unknown.
    """
    device = cluster.device.name
    calibration = calibrations().get(engine)
    server = server_of(architecture, layout, cluster, kv)
    if server is None:
        return None
    if server.has_unknown_links:
        return server, None, ("the bandwidth of a link is unknown; what it carries is not counted",)
    if calibration is None or device not in calibration.rates:
        return server, None, ()
    caveats = tuple(_caveats(architecture, layout, cluster, calibration))
    return replace(server, rates=calibration.rates[device]), calibration, caveats


def _duration(seconds: float, errors: Errors | None) -> Duration:
    if errors is None or errors.low is None or errors.high is None:
        return Duration(seconds)
    return Duration(seconds, seconds * errors.low, seconds * errors.high)


def _caveats(
    architecture: Architecture, layout: Layout, cluster: Cluster, calibration: Calibration
) -> Iterator[str]:
    """Why a calibrated time has no interval."""
    if len(calibration.families) < 4:
        yield f"no interval: measurements are of {len(calibration.families)} families of models, not 4"
    elif calibration.tpot.low is None:
        yield "no interval: it did not hold for measurements that were left out"
    if layout.pipeline > 1:
        yield "no interval: pipeline stages are not among the measurements"
    if cluster.nodes > 1:
        yield "no interval: several nodes are not among the measurements"
    names = {weight.precision.split(" ")[0] for weight in architecture.weights()}
    unmeasured = sorted(name for name in names if not name.startswith(_MEASURED))
    if unmeasured:
        yield f"no interval: weights in {', '.join(unmeasured)} are not among the measurements"
