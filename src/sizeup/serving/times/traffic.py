"""Requests that arrive at random or as recorded: percentiles of times from a simulation of the scheduler.

Requests go to the servers of a layout in turn, so one of them is simulated. A step with decoding sequences
and prompts takes the time of its decode part and, as in the closed form, the calibrated share of the time of
its prompts. Times of steps are interpolated between points of a grid, which is computed once.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizeup.errors import SizeupError
from sizeup.formats.csv_tables import read_table
from sizeup.serving.steps.step import Server, step_time
from sizeup.serving.times.scheduler import Floats, Requests, SchedulerLimits, StepSeconds, Timeline, simulate
from sizeup.units import quoted

REQUESTS = 2000
"""Requests that one simulation has, with answers of up to as many tokens."""
_LEAST_REQUESTS = 200  # with longer answers
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
    """What users see of simulated requests. Times are None if random arrivals overload the servers."""

    rate: float  # requests per second that arrive
    max_rate: float  # that the servers complete at most
    requests: int  # simulated
    seed: int | None  # None for recorded requests
    ttft: Percentiles | None
    tpot: Percentiles | None
    output_tokens_per_second: float | None
    preemptions: int | None

    @property
    def is_overloaded(self) -> bool:
        """Whether requests arrive faster than they are completed: the queue grows without end."""
        return self.rate >= self.max_rate


def simulate_rate(server: Server, rate: float, input: int, output: int, limits: SchedulerLimits) -> Traffic:
    """Simulate requests of equal lengths; `limits` are those of one server, `rate` that of all.

    One server is simulated: every n-th arrival of a Poisson process comes after a sum of n exponential times.
    """
    return rate_simulation(server, input, output, limits)(rate, server.division.servers)


def rate_simulation(
    server: Server, input: int, output: int, limits: SchedulerLimits
) -> Callable[[float, int], Traffic]:
    """Simulations of a rate and a number of servers, which share what depends on neither."""
    count = max(min(REQUESTS, REQUESTS * REQUESTS // output), _LEAST_REQUESTS)
    lengths = [np.full(count, length, np.int64) for length in (input, output)]
    seconds = step_seconds(server, limits, input + output)
    max_rate = _max_rate(Requests(np.zeros(count), *lengths), limits, seconds)

    def simulated(rate: float, servers: int) -> Traffic:
        gaps = np.random.default_rng(_SEED).gamma(servers, 1 / rate, count)
        timeline = simulate(Requests(np.cumsum(gaps), *lengths), limits, seconds)
        traffic = _traffic(server, [timeline], rate, servers * max_rate)
        if traffic.is_overloaded:
            return replace(traffic, ttft=None, tpot=None, output_tokens_per_second=None, preemptions=None)
        return replace(traffic, output_tokens_per_second=rate * output)  # without the end of the simulation

    return simulated


def simulate_trace(server: Server, requests: Requests, limits: SchedulerLimits) -> Traffic:
    """Simulate recorded requests, which go to the servers of the layout in turn."""
    servers = min(server.division.servers, len(requests))
    parts = [slice(first, None, servers) for first in range(servers)]
    groups = [
        Requests(requests.arrival_s[part], requests.input[part], requests.output[part]) for part in parts
    ]
    span = float(np.ptp(requests.arrival_s))
    rate = (len(requests) - 1) / span if span else math.inf
    seconds = step_seconds(server, limits, int((requests.input + requests.output).max()))
    max_rate = sum(_max_rate(group, limits, seconds) for group in groups)
    timelines = [simulate(group, limits, seconds) for group in groups]
    return replace(_traffic(server, timelines, rate, max_rate), seed=None)


def _max_rate(requests: Requests, limits: SchedulerLimits, seconds: StepSeconds) -> float:
    """Requests per second that one server completes if all of them are there from the start."""
    busy = simulate(requests, limits, seconds, concurrency=len(requests))
    return len(busy.requests) / float(busy.end_s.max())


def _traffic(server: Server, timelines: Sequence[Timeline], rate: float, max_rate: float) -> Traffic:
    """What users see of simulated servers."""
    rates, division = server.rates, server.division
    launches = division.kernels + division.quantizations + division.collectives
    first = rates.first_seconds + rates.launch_seconds * launches
    tpot = np.concatenate([each.tpot_s for each in timelines])
    tpot = tpot[~np.isnan(tpot)]
    return Traffic(
        rate,
        max_rate,
        sum(len(each.requests) for each in timelines),
        _SEED,
        _percentiles(np.concatenate([each.ttft_s for each in timelines]) + first),
        _percentiles(tpot) if len(tpot) else None,
        sum(each.output_tokens_per_s for each in timelines),
        sum(each.preemptions for each in timelines),
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
    prefill = step_time(server, server.division.servers, contexts, np.maximum(tokens, 2.0)[:, None])
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
            total = total + (rates.prefill_share if count else 1.0) * upper
        return total

    return seconds


_COLUMNS = ("arrival_s", "input", "output")
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_TOKENS = re.compile(r"[1-9]\d{0,8}")


def read_requests(file: str | os.PathLike[str], max_context: int | None = None) -> Requests:
    """The requests of a file in order of arrival.

    Raises SizeupError, with the line, if the file is not such a table, or a request exceeds the context.
    """
    name = os.fspath(file)
    rows = []
    for place, (arrival, *counts) in read_table(name, _COLUMNS, "requests"):
        if not _SECONDS.fullmatch(arrival):
            raise SizeupError(f"{place}: arrival_s {quoted(arrival)} is not a number of seconds such as 12.5")
        for column, count in zip(_COLUMNS[1:], counts, strict=True):
            if not _TOKENS.fullmatch(count):
                raise SizeupError(f"{place}: {column} {quoted(count)} is not a number of tokens such as 1024")
        tokens, answer = map(int, counts)
        if tokens + answer > (max_context or math.inf):
            raise SizeupError(f"{place}: {tokens + answer:,} tokens exceed the context of {max_context:,}")
        rows.append((float(arrival), tokens, answer))
    if not rows:
        raise SizeupError(f"{name}: no request")
    arrivals, inputs, outputs = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    return Requests(np.array(arrivals), np.array(inputs, np.int64), np.array(outputs, np.int64))
