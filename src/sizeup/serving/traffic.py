"""Requests that arrive at random: percentiles of TTFT and TPOT from a simulation of the scheduler.

Requests go to the servers of a layout in turn, so one of them is simulated. A step with decoding sequences
and prompts takes the time of its decode part and, as in the closed form, the calibrated share of the time of
its prompts. Times of steps are interpolated between points of a grid, which is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizeup.serving.scheduler import Floats, Requests, SchedulerLimits, StepSeconds, simulate
from sizeup.serving.step import Server, step_time

REQUESTS = 2000
"""Requests that one simulation has."""
_SEED = 0
_PERCENTILES = (50, 90, 99)
_CONTEXT_POINTS = 65
_POINTS_PER_DOUBLING = 4  # of prompt tokens


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Mean and percentiles of a time, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What users see if requests arrive at random. Times are None if the servers are overloaded."""

    rate: float  # requests per second that arrive
    max_rate: float  # that the servers complete at most
    requests: int  # simulated
    seed: int
    ttft: Percentiles | None
    tpot: Percentiles | None
    output_tokens_per_second: float | None
    preemptions: int | None

    @property
    def is_overloaded(self) -> bool:
        """Whether requests arrive faster than they are completed: the queue grows without end."""
        return self.rate >= self.max_rate


def simulate_rate(server: Server, rate: float, input: int, output: int, limits: SchedulerLimits) -> Traffic:
    """Simulate requests of equal lengths; `limits` are those of one server, `rate` that of all."""
    servers = server.division.servers
    seconds = step_seconds(server, limits, input + output)
    # Every n-th arrival of a Poisson process comes after a sum of n exponential times.
    gaps = np.random.default_rng(_SEED).gamma(servers, 1 / rate, REQUESTS)
    lengths = (np.full(REQUESTS, length, np.int64) for length in (input, output))
    requests = Requests(np.cumsum(gaps), *lengths)
    busy = simulate(requests, limits, seconds, concurrency=REQUESTS)
    max_rate = servers * REQUESTS / float(busy.end_s.max())
    if rate >= max_rate:
        return Traffic(rate, max_rate, REQUESTS, _SEED, None, None, None, None)
    timeline = simulate(requests, limits, seconds)
    rates, division = server.rates, server.division
    launches = division.kernels + division.quantizations + division.collectives
    first = rates.first_seconds + rates.launch_seconds * launches
    return Traffic(
        rate,
        max_rate,
        REQUESTS,
        _SEED,
        _percentiles(timeline.ttft_s + first),
        _percentiles(timeline.tpot_s) if output > 1 else None,
        servers * timeline.output_tokens_per_s,
        timeline.preemptions,
    )


def _percentiles(values: Floats) -> Percentiles:
    return Percentiles(float(values.mean()), *map(float, np.percentile(values, _PERCENTILES)))


def step_seconds(server: Server, limits: SchedulerLimits, longest: int) -> StepSeconds:
    """Seconds of steps of one server, by interpolation in contexts up to `longest` and in prompt tokens."""
    contexts = np.linspace(0.0, float(longest), _CONTEXT_POINTS)
    sequences = np.arange(1, limits.sequences + 1, dtype=np.float64)
    decode = step_time(server, sequences[:, None] * server.division.servers, contexts)
    doublings = int(np.ceil(np.log2(max(limits.batch_tokens, 2)))) * _POINTS_PER_DOUBLING
    tokens = np.unique(np.rint(2 ** (np.arange(doublings + 1) / _POINTS_PER_DOUBLING)))
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
