"""Times of the best layouts at a grid of input and output lengths and concurrent requests.

All layouts are evaluated, each at all points in one call. At a pair of lengths, a point is on the frontier if
no other point has as many tokens per second per user and per GPU. The grid keeps the layout that was asked
for and those with most points on the frontier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sizeup.serving.memory.deployment import MOST_TOKENS, Deployment
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Integers, Layout, Layouts, enumerate_layouts
from sizeup.serving.steps.work import Floats
from sizeup.serving.times.closed_form import mean_causes, output_rate, tpot_by_cause
from sizeup.serving.times.closed_form import times as times_at
from sizeup.serving.times.estimate import CalibratedServer, Duration, calibrated_server, duration
from sizeup.serving.times.goals import MOST_LAYOUTS, throughput_interval
from sizeup.serving.times.speculation import causes as causes_of

LAYOUTS, INPUTS, OUTPUTS, REQUESTS = 6, 5, 4, 16
"""Layouts and values of each axis, at most."""
FRONTIER_POINTS = 32
"""Points of the frontier at a pair of lengths, at most."""
WAITING, DOMINATED, TIED, FRONTIER = range(4)
"""Ranks of points: those with waiting requests are not compared."""
_Value = TypeVar("_Value")
_REQUESTED_COUNTS = 8  # at most, of those that were asked for
_REQUESTS_PER_DEVICE = 1024
_SCALES = (1 / 16, 1 / 4, 1, 4, 16)  # of the lengths that were asked for


@dataclass(frozen=True, slots=True)
class GridLayout:
    """One layout: arrays over input, output and requests, which are NaN at lengths that do not fit."""

    layout: Layout
    equal: tuple[Layout, ...]  # others with the same times at all points
    running: Floats
    tpot: Floats
    ttft: Floats
    tpot_factors: Duration  # of one second, with its prediction interval
    ttft_factors: Duration
    gpu_tokens_per_second: Floats
    causes: dict[str, Floats]  # seconds of TPOT
    ranks: npt.NDArray[np.int8]

    @property
    def user_tokens_per_second(self) -> Floats:
        """Tokens per second of one request, after its first token."""
        return 1 / self.tpot

    @property
    def limiters(self) -> list[str | None]:
        """The cause of most of the time per token, at each point; None if it does not fit."""
        names, seconds = list(self.causes), np.stack(list(self.causes.values()))
        largest = np.nan_to_num(seconds).argmax(axis=0).ravel()
        return [
            None if is_unknown else names[cause]
            for cause, is_unknown in zip(largest, np.isnan(self.tpot).ravel(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A point on the frontier of all layouts at a pair of lengths."""

    layout: Layout
    requests: int
    tpot: float
    ttft: float
    user_tokens_per_second: float
    gpu_tokens_per_second: float


@dataclass(frozen=True, slots=True)
class ServingGrid:
    """Times of layouts at all points of three axes."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    requests: tuple[int, ...]
    layouts: tuple[GridLayout, ...]  # the one that was asked for first, if it fits
    compared: int  # layouts that fit, of which these are the best
    is_complete: bool  # whether all layouts were evaluated
    frontiers: tuple[tuple[FrontierPoint, ...], ...]  # by input and output, the fastest for a user first
    is_calibrated: bool  # else times are lower bounds


def serving_grid(
    deployment: Deployment, input: int, output: int, concurrency: Sequence[int]
) -> ServingGrid | None:
    """The grid around operating points; None if no layout fits, or rates of the device are unknown.

    Lower bounds are not compared with calibrated times: all layouts have the basis of the one that was asked
    for. It is the only one if there are more than `MOST_LAYOUTS`.
    """
    calibrated = _calibrated(deployment)
    if calibrated is None:
        return None
    is_calibrated = calibrated[1] is not None
    limit = deployment.architecture.max_context or MOST_TOKENS
    inputs, outputs = _lengths(input, limit - output, INPUTS), _lengths(output, limit - input, OUTPUTS)
    layouts = enumerate_layouts(deployment.architecture, deployment.cluster)
    is_complete = len(layouts) <= MOST_LAYOUTS
    deployments = [deployment, *(_others(deployment, layouts) if is_complete else ())]
    held = max(each.max_sequences(input + output) for each in deployments)
    requests = _requests(concurrency, min(held, _REQUESTS_PER_DEVICE * deployment.cluster.devices))
    rows = [_evaluate(each, inputs, outputs, requests, is_calibrated) for each in deployments]
    fitting = [row for row in rows if row is not None]
    if not fitting:
        return None
    ranked = _ranked(_distinct(fitting), requests)
    best = _ordered(ranked, inputs.index(input), outputs.index(output))
    best.sort(key=lambda row: row.layout != deployment.layout)  # among equal ones, it is the first
    return ServingGrid(
        inputs, outputs, requests, tuple(best[:LAYOUTS]), len(fitting), is_complete,
        tuple(_frontier(ranked, requests, *place) for place in np.ndindex(len(inputs), len(outputs))),
        is_calibrated,
    )  # fmt: skip


def _calibrated(deployment: Deployment) -> CalibratedServer | None:
    return calibrated_server(
        deployment.architecture, deployment.layout, deployment.cluster, deployment.engine.name, deployment.kv
    )


def _lengths(length: int, most: int, count: int) -> tuple[int, ...]:
    """Lengths around one, at most `most`."""
    lengths = {int(length * scale) for scale in _SCALES if 1 <= length * scale <= most} | {length}
    return tuple(sorted(lengths)[-count:])


def _requests(concurrency: Sequence[int], most: int) -> tuple[int, ...]:
    """Powers of two up to `most`, and the numbers that were asked for."""
    kept = _thinned(concurrency, _REQUESTED_COUNTS)
    powers = [1 << power for power in range(max(most, 1).bit_length())]
    return tuple(sorted({*kept, *_thinned(powers, REQUESTS - len(kept))}))


def _thinned(values: Sequence[_Value], count: int) -> list[_Value]:
    """At most `count` of these values, the first and the last among them."""
    indices = np.linspace(0, len(values) - 1, min(count, len(values))).astype(int)
    return [values[index] for index in indices]


def _others(deployment: Deployment, layouts: Layouts) -> Iterator[Deployment]:
    """The model in all layouts but its own."""
    memory = deployment.gpus[0].total_bytes
    for number in range(len(layouts)):
        layout = layouts[number]
        if layout != deployment.layout:
            gpus = gpus_of(deployment.architecture, layout, deployment.engine, memory, deployment.kv)
            yield replace(deployment, layout=layout, gpus=gpus)


def _evaluate(
    deployment: Deployment, inputs: Sequence[int], outputs: Sequence[int], requests: Sequence[int],
    is_calibrated: bool,
) -> GridLayout | None:  # fmt: skip
    """One layout at all points; None if it has another basis, or fits at no lengths."""
    held = _held(deployment, inputs, outputs)
    calibrated = None if np.isnan(held).all() else _calibrated(deployment)
    if calibrated is None or (calibrated[1] is not None) != is_calibrated:
        return None
    server, calibration, caveats = calibrated
    counts, prompt, answer = np.array(requests), np.array(inputs)[:, None, None], np.array(outputs)[:, None]
    times = times_at(server, counts, prompt, answer, held)  # NaN where `held` is
    step = mean_causes(
        server.division, lambda running: causes_of(server, None, running, prompt + answer / 2), times
    )
    causes = tpot_by_cause(server, step, times)
    known = None if caveats else calibration
    return GridLayout(
        deployment.layout,
        (),
        times.running,
        times.tpot,
        times.ttft,
        duration(1.0, None if known is None else known.tpot),
        duration(1.0, None if known is None else known.ttft),
        output_rate(counts, answer, times) / deployment.cluster.devices,
        {name: np.where(np.isnan(times.tpot), np.nan, each) for name, each in causes.items()},
        np.full(times.tpot.shape, WAITING, np.int8),
    )


def _held(deployment: Deployment, inputs: Sequence[int], outputs: Sequence[int]) -> Floats:
    """Requests that the cache holds at once, by input and output; NaN if not even one."""
    limit = deployment.architecture.max_context or math.inf
    held = np.full((len(inputs), len(outputs), 1), np.nan)
    for place in np.ndindex(len(inputs), len(outputs)):
        sized = replace(deployment, context=inputs[place[0]] + outputs[place[1]])
        if sized.context <= limit and sized.fits_at(1) != "no":
            held[place] = max(sized.max_sequences(), 1)
    return held


def _distinct(rows: Sequence[GridLayout]) -> list[GridLayout]:
    """Rows with different times: layouts with the times of an earlier row are noted there."""
    groups: dict[bytes, list[GridLayout]] = {}
    for row in rows:
        groups.setdefault(row.tpot.tobytes() + row.ttft.tobytes(), []).append(row)
    return [replace(first, equal=tuple(each.layout for each in others)) for first, *others in groups.values()]


def _ranked(rows: Sequence[GridLayout], requests: Sequence[int]) -> list[GridLayout]:
    """Rows with their ranks at each pair of lengths.

    A point is compared with the best one that is at least as fast for a user, as layouts that reach a goal
    for TPOT are. Points of one layout have the same errors, so they are not tied with each other.
    """
    shape = (len(rows), *rows[0].tpot.shape)
    user = np.stack([row.user_tokens_per_second for row in rows])
    rate = np.stack([row.gpu_tokens_per_second for row in rows])
    least, most = np.empty(shape), np.empty(shape)
    for number, row in enumerate(rows):
        least[number], most[number] = throughput_interval(row.gpu_tokens_per_second, row.tpot_factors)
    is_running = np.stack([row.running for row in rows]) == np.array(requests)
    is_slower = user[..., None] <= user[..., None, :]  # than another point of the layout, or as fast
    is_worse = (is_slower & (rate[..., None] < rate[..., None, :]) & is_running[..., None, :]).any(axis=-1)
    ranks = np.full(shape, WAITING, np.int8)
    for lengths in np.ndindex(*shape[1:3]):
        at = (slice(None), *lengths)
        layout, place = np.nonzero(is_running[at])
        order = np.lexsort((-rate[at][layout, place], -user[at][layout, place]))
        where = layout[order], *lengths, place[order]
        before = np.maximum.accumulate(np.concatenate([[0.0], rate[where]]))[:-1]
        is_new = rate[where] > before
        best = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
        is_tied = (most[where] >= least[where][best]) & ~is_worse[where] if len(order) else is_new
        ranks[where] = np.where(is_new, FRONTIER, np.where(is_tied, TIED, DOMINATED))
    return [replace(row, ranks=ranks[number]) for number, row in enumerate(rows)]


def _frontier(
    rows: Sequence[GridLayout], requests: Sequence[int], input: int, output: int
) -> tuple[FrontierPoint, ...]:
    """The frontier at one pair of lengths; every n-th point if there are too many."""
    points = [
        FrontierPoint(
            row.layout,
            requests[place],
            float(row.tpot[input, output, place]),
            float(row.ttft[input, output, place]),
            float(row.user_tokens_per_second[input, output, place]),
            float(row.gpu_tokens_per_second[input, output, place]),
        )
        for row in rows
        for place in np.flatnonzero(row.ranks[input, output] == FRONTIER).tolist()
    ]
    return tuple(_thinned(sorted(points, key=lambda point: point.tpot), FRONTIER_POINTS))


def _frontier_points(row: GridLayout) -> Integers:
    """Points on the frontier, by input and output."""
    counts: Integers = (row.ranks == FRONTIER).sum(axis=2)
    return counts


def _ordered(rows: Sequence[GridLayout], input: int, output: int) -> list[GridLayout]:
    """Rows by points on the frontier, at one pair of lengths, then at all; then by throughput."""

    def key(row: GridLayout) -> tuple[float, ...]:
        points, rates = _frontier_points(row), row.gpu_tokens_per_second[input, output]
        return -points[input, output], -points.sum(), -np.nan_to_num(rates).max()

    return sorted(rows, key=key)
