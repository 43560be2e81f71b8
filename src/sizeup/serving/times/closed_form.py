"""TPOT and TTFT of a server under a constant number of concurrent requests, in closed form.

Each client sends its next request when the last one ends. With B running sequences of a group, input and
output lengths n and m, decode step t, prefill time p, and w steps before a prompt's first one:

    TPOT = t(B, n + m / 2) + share x (B - 1) / (m + w) x p(n)
    TTFT = first token overhead + launches + p(n) x (1 + (B - 1) / (m + w)) + w x TPOT

A prompt with images passes the vision tower first, which is part of its prefill time p.

Every client of the group sends one prompt in m + w steps, which delays the tokens of the others. It sends
when a step ends its last request, so a prompt shares its step with those of the others that end in the same
step: each does in one of m + w steps. Requests that exceed the capacity of the cache wait until others end:
(requests - B) / B x (m x TPOT + prefill).

Requests are divided evenly. If their number is no multiple of the batches that run independently (replicas,
and micro-batches of pipeline stages), some batches have one request more. Times are then the mean over all
requests that end, of which a batch of b requests has b / (TTFT + (m - 1) TPOT) per second.

A benchmark that starts all clients at once is not in this steady state (`Benchmark`): the first prompts of
all clients queue, and the i-th waits for i - 1 others, (B + 1) / 2 prefills on average. While these are
prefilled, half of them delay a sequence, on average.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sizeup.serving.steps.rates import Rates
from sizeup.serving.steps.step import Demand, Server, demand, seconds, tower_seconds
from sizeup.serving.steps.work import Division, Floats, Numbers

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How a benchmark sends requests, and the options of the scheduler that delay them."""

    wave_share: float = 0.0  # of requests, that arrive together with those of all other clients
    batch_tokens: float = 8192.0  # of a step
    held_steps: float = 0.0  # steps for which the scheduler holds a prompt back


STEADY = Benchmark()
"""Requests that arrive when others end, with the default options of an engine."""


@dataclass(frozen=True, slots=True)
class Times:
    """TPOT, TTFT and what they consist of, in seconds; arrays of one shape."""

    tpot: Floats
    ttft: Floats
    step: Floats  # of decode per token, without the prefill of other requests
    prefill: Floats  # of one prompt
    running: Floats  # requests that run at once
    fuller: Floats  # share of the requests that end in batches with one request more than others
    tower: Floats  # of `prefill`, the vision tower


@dataclass(frozen=True, slots=True)
class Load:
    """Operating points: what the closed form needs, as arrays of one shape."""

    decode: Demand
    prefill: Demand
    wave: Demand  # prefill of the prompts of a full step
    requests: Floats
    running: Floats  # of all groups
    group: Floats  # running requests of the group of a request, on average
    output: Floats
    wave_share: Floats
    wave_prompts: Floats  # of a full step
    wave_steps: Floats  # per prompt: its share of the tokens of a step
    held_steps: Floats
    tower: Floats  # seconds of the vision tower, per prompt


def times(
    server: Server,
    concurrency: Numbers,
    input: Numbers,
    output: Numbers,
    most: Numbers,
    benchmark: Benchmark = STEADY,
) -> Times:
    """Times of arrays of operating points; `most` is the number of requests that the cache holds."""

    def even(requests: Floats) -> Times:
        return times_of(load(server, requests, input, output, requests, benchmark), server.rates)

    result = over_batches(server.division, even, concurrency, output, most)
    return corrected(server, result, concurrency, input, output)


def over_batches(
    division: Division, even: Callable[[Floats], Times], concurrency: Numbers, output: Numbers, most: Numbers
) -> Times:
    """Mean times of requests; `even` returns those of a number that all batches have the same share of."""
    requests, answer, limit = (np.asarray(each, np.float64) for each in (concurrency, output, most))
    running = np.maximum(np.minimum(requests, limit), 1.0)
    least = np.floor(running / division.batches)
    more = running / division.batches - least  # share of the batches with one request more
    first, second = _parts(division, even, running, more)
    rates = [
        share * count / (part.ttft + part.tpot * (answer - 1))
        for share, count, part in ((1 - more, least, first), (more, least + 1, second))
    ]
    fuller = rates[1] / (rates[0] + rates[1])
    tpot, ttft, step, prefill, tower = (
        (1 - fuller) * getattr(first, name) + fuller * getattr(second, name)
        for name in ("tpot", "ttft", "step", "prefill", "tower")
    )
    result = Times(tpot, ttft, step, prefill, running, fuller, tower)
    return replace(result, ttft=ttft + _wait(result, requests, answer))


def mean_causes(
    division: Division, even: Callable[[Floats], Mapping[str, Floats]], result: Times
) -> dict[str, Floats]:
    """Seconds by cause as the mean over requests that `result` is; `even` is that of `over_batches`."""
    first, second = _parts(division, even, result.running, result.fuller)
    return {name: (1 - result.fuller) * first[name] + result.fuller * second[name] for name in first}


def _parts(
    division: Division, even: Callable[[Floats], _Result], running: Floats, more: Floats
) -> tuple[_Result, _Result]:
    """Results of batches with fewer requests, and of those with one more; `more` is 0 if there are none."""
    least = np.floor(running / division.batches)
    first = even(np.maximum(least, 1.0) * division.batches)
    return first, even((least + 1) * division.batches) if np.any(more) else first


def _wait(result: Times, requests: Numbers, output: Numbers) -> Floats:
    """Seconds that a request waits for the cache, on average."""
    waiting = np.maximum(np.asarray(requests) - result.running, 0.0) / result.running
    seconds: Floats = waiting * (np.asarray(output) * result.tpot + result.prefill)
    return seconds


def corrected(server: Server, result: Times, concurrency: Numbers, input: Numbers, output: Numbers) -> Times:
    """Times at loads, corrected by the measurements of the server.

    Factors are those of the requests that run. Others wait for the answers of these, so their wait is
    corrected as TPOT is, and the factor of TTFT applies to what follows the wait.
    """
    if server.factors is None:
        return result
    load = (result.running, input, output)
    tpot = server.factors.tpot.corrected(result.tpot, *load)
    scale, wait = tpot / result.tpot, _wait(result, concurrency, output)
    return replace(
        result,
        tpot=tpot,
        ttft=server.factors.ttft.corrected(result.ttft - wait, *load) + scale * wait,
        step=scale * result.step,
        prefill=scale * result.prefill,
        tower=scale * result.tower,
    )


def tpot_by_cause(server: Server, step: Mapping[str, Floats], result: Times) -> dict[str, Floats]:
    """Seconds of TPOT by cause: those of a step, corrected as their sum is, and the prefill of others."""
    scale = 1.0 if server.factors is None else result.step / np.sum(list(step.values()), axis=0)
    causes = {name: scale * each for name, each in step.items()}
    others = result.tpot - result.step
    if server.tower is None:
        return {**causes, "prefill": others}
    share = result.tower / result.prefill
    return {**causes, "prefill": (1 - share) * others, "vision tower": share * others}


def output_rate(concurrency: Numbers, output: Numbers, result: Times) -> Floats:
    """Output tokens per second of all requests: each is answered in TTFT and one TPOT per further token."""
    tokens = np.asarray(output, np.float64)
    rate: Floats = np.asarray(concurrency) * tokens / (result.ttft + result.tpot * (tokens - 1))
    return rate


def load(
    server: Server,
    concurrency: Numbers,
    input: Numbers,
    output: Numbers,
    most: Numbers,
    benchmark: Benchmark = STEADY,
) -> Load:
    """Operating points of a server whose batches are all as full as the fullest."""
    requests, prompt, answer, limit = np.broadcast_arrays(
        *(np.asarray(each, np.float64) for each in (concurrency, input, output, most))
    )
    servers = server.division.servers
    running = np.maximum(np.minimum(requests, limit), 1.0)
    group, tokens, ones = _group(server.division, running), np.maximum(prompt, 2.0), np.ones_like(prompt)
    prefill = wave = demand(server, servers, 0, tokens)  # data groups have prompts at the same time
    prompts = ones
    if benchmark.wave_share:
        prompts = np.minimum(np.ceil(group), np.maximum(benchmark.batch_tokens // tokens, 1.0))
        wave = demand(server, prompts * servers, 0, tokens)
    return Load(
        demand(server, running, prompt + answer / 2),
        prefill,
        wave,
        requests,
        running,
        group,
        answer,
        benchmark.wave_share * ones,
        prompts,
        np.minimum(tokens / benchmark.batch_tokens, 1.0),
        benchmark.held_steps * ones,
        tower_seconds(server) * ones,
    )


def _group(division: Division, running: Floats) -> Floats:
    """Requests of the data group of a request in the fullest batch, on average over its requests."""
    batch = np.ceil(running / division.batches)
    least, more = np.divmod(batch, division.groups)
    squares = (division.groups - more) * least**2 + more * (least + 1) ** 2
    group: Floats = squares / batch
    return group


def times_of(load: Load, rates: Rates) -> Times:
    """Times of operating points; the numbers of `rates` may be arrays, too."""
    return combined(load, rates, seconds(load.decode, rates), seconds(load.prefill, rates))


def combined(load: Load, rates: Rates, step: Floats, prefill: Floats, tokens: float = 1.0) -> Times:
    """Times of operating points whose steps and prompts take `step` and `prefill`.

    A step emits `tokens` tokens of each sequence. `prefill` is without the vision tower.
    """
    prefill = prefill + load.tower
    waited = (rates.first_steps + load.held_steps) * tokens  # in tokens: steps before the first one
    others, share = (load.group - 1) / (load.output + waited), load.wave_share
    tpot = step / tokens + rates.prefill_share * others * (1 - share / 2) * prefill
    launches = load.prefill.kernels + load.prefill.quantizations + load.prefill.collectives
    own = prefill * (1 + tokens * others) + waited * tpot
    each = seconds(load.wave, rates) / load.wave_prompts + load.tower + load.wave_steps * step
    queued = np.maximum(each * (load.group + 1) / 2, prefill)
    first = rates.first_seconds + rates.launch_seconds * launches + (1 - share) * own + share * queued
    result = Times(tpot, first, step / tokens, prefill, load.running, np.zeros_like(tpot), load.tower)
    return replace(result, ttft=first + _wait(result, load.requests, load.output))
