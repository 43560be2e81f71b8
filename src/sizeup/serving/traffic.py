"""Requests that arrive over time at the servers of a layout: percentiles of TTFT and TPOT from a simulation.

Requests go to the servers of a layout in turn, and each server is simulated by itself. A step with decoding
sequences and prompts takes the time of its decode part and, as in the closed form, the calibrated share of the
time of its prompts. Times of steps are interpolated between points of a grid, which is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizeup.serving.scheduler import Floats, Requests, SchedulerLimits, StepSeconds, Timeline, simulate
from sizeup.serving.step import Server, step_time

PERCENTILES = (50, 90, 99)
_CONTEXT_POINTS = 65
_TOKEN_POINTS_PER_DOUBLING = 4


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Mean and percentiles of a time, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What users of a simulated server see."""

    requests: int
    requests_per_s: float  # that arrive
    most_requests_per_s: float  # that the servers complete if requests never lack
    ttft: Percentiles
    tpot: Percentiles | None  # None if every answer has one token
    output_tokens_per_s: float
    preemptions: int

    @property
    def is_overloaded(self) -> bool:
        """Whether requests arrive faster than they are completed, so that the queue grows without end."""
        return self.requests_per_s > self.most_requests_per_s


def poisson_requests(rate: float, count: int, input: int, output: int, seed: int = 0) -> Requests:
    """Requests of equal lengths that arrive at random, `rate` per second on average."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, count)
    return Requests(np.cumsum(gaps), np.full(count, input, np.int64), np.full(count, output, np.int64))


def simulate_traffic(server: Server, requests: Requests, limits: SchedulerLimits) -> Traffic:
    """Simulate all servers of a layout; `limits` are those of one of them."""
    longest = int((requests.input + requests.output).max())
    seconds = step_seconds(server, limits, longest)
    groups = [_every(requests, server.division.servers, first) for first in range(server.division.servers)]
    groups = [group for group in groups if len(group)]
    timelines = [simulate(group, limits, seconds) for group in groups]
    busy = [simulate(group, limits, seconds, concurrency=len(group)) for group in groups]
    rates, division = server.rates, server.division
    launches = division.kernels + division.quantizations + division.collectives
    first = rates.first_seconds + rates.launch_seconds * launches
    tpot = _all(timelines, "tpot_s")
    span = float(np.ptp(requests.arrival_s))
    return Traffic(
        len(requests),
        (len(requests) - 1) / span if span else float("inf"),
        sum(len(each.requests) / float(each.end_s.max()) for each in busy),
        _percentiles(_all(timelines, "ttft_s") + first),
        _percentiles(tpot[~np.isnan(tpot)]) if not np.isnan(tpot).all() else None,
        float(requests.output.sum()) / (max(float(each.end_s.max()) for each in timelines) - float(requests.arrival_s[0])),
        sum(each.preemptions for each in timelines),
    )


def _every(requests: Requests, step: int, first: int) -> Requests:
    columns = (requests.arrival_s, requests.input, requests.output)
    return Requests(*(column[first::step] for column in columns))


def _all(timelines: Sequence[Timeline], name: str) -> Floats:
    return np.concatenate([getattr(each, name) for each in timelines])


def _percentiles(values: Floats) -> Percentiles:
    return Percentiles(float(values.mean()), *map(float, np.percentile(values, PERCENTILES)))


def step_seconds(server: Server, limits: SchedulerLimits, longest: int) -> StepSeconds:
    """Seconds of steps of one server, by interpolation in contexts up to `longest` and in prompt tokens."""
    contexts = np.linspace(0.0, float(longest), _CONTEXT_POINTS)
    sequences = np.arange(1, limits.sequences + 1, dtype=np.float64)
    decode = step_time(server, sequences[:, None] * server.division.servers, contexts)
    doublings = int(np.ceil(np.log2(max(limits.batch_tokens, 2)))) * _TOKEN_POINTS_PER_DOUBLING
    tokens = np.unique(np.rint(2 ** (np.arange(doublings + 1) / _TOKEN_POINTS_PER_DOUBLING)))
    prefill = step_time(server, 1, contexts, np.maximum(tokens, 2.0)[:, None])
    rates = server.rates

    def seconds(decoding: Floats, context: Floats, prompt: Floats, cached: Floats) -> Floats:
        # All steps of a call have the same sequences and prompts.
        count, new = int(decoding[0]), float(prompt[0])
        total = np.interp(context, contexts, decode[count - 1]) if count else np.zeros(len(decoding))
        if new:
            row = int(np.searchsorted(tokens, new))
            upper = np.interp(cached[0], contexts, prefill[row])
            if tokens[row] > new:
                lower = np.interp(cached[0], contexts, prefill[row - 1])
                share = (new - tokens[row - 1]) / (tokens[row] - tokens[row - 1])
                upper = lower + share * (upper - lower)
            total = total + (rates.prefill_share if count else rates.prefill_factor) * upper
        return total

    return seconds
