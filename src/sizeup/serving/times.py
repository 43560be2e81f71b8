"""TPOT and TTFT of a server under a constant number of concurrent requests, in closed form.

Each client sends its next request when the last one ends. With B running sequences of a group, input and
output lengths n and m, decode step t and prefill time p:

    TPOT = t(B, n + m / 2) + share x (B - 1) / m x p(n)
    TTFT = first token overhead + launches + factor x p(n) x (1 + queue x (B - 1)^exponent) + steps x TPOT

Every request of the group is prefilled once while a sequence runs, and delays its tokens. Requests that
exceed the capacity of the cache wait until others end: (requests - B) / B x (m x TPOT + prefill).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizeup.serving.rates import Rates
from sizeup.serving.step import Demand, Server, demand, seconds
from sizeup.serving.work import Floats, Numbers


@dataclass(frozen=True, slots=True)
class Times:
    """TPOT, TTFT and what they consist of, in seconds; arrays of one shape."""

    tpot: Floats
    ttft: Floats
    step: Floats  # of decode, without the prefill of other requests
    prefill: Floats  # of one prompt
    running: Floats  # requests that run at once


@dataclass(frozen=True, slots=True)
class Load:
    """Operating points: what the closed form needs, as arrays of one shape."""

    decode: Demand
    prefill: Demand
    requests: Floats
    running: Floats  # of all groups
    group: Floats  # running requests of a group
    output: Floats


def times(server: Server, concurrency: Numbers, input: Numbers, output: Numbers, most: Numbers) -> Times:
    """Times of arrays of operating points; `most` is the number of requests that the cache holds."""
    return times_of(load(server, concurrency, input, output, most), server.rates)


def load(server: Server, concurrency: Numbers, input: Numbers, output: Numbers, most: Numbers) -> Load:
    """Operating points of a server."""
    requests, prompt, answer, limit = np.broadcast_arrays(
        *(np.asarray(each, np.float64) for each in (concurrency, input, output, most))
    )
    running = np.maximum(np.minimum(requests, limit), 1.0)
    return Load(
        demand(server, running, prompt + answer / 2),
        demand(server, 1, 0, np.maximum(prompt, 2.0)),
        requests,
        running,
        np.ceil(running / server.division.servers),
        answer,
    )


def times_of(load: Load, rates: Rates) -> Times:
    """Times of operating points; the numbers of `rates` may be arrays, too."""
    step, prefill = seconds(load.decode, rates), seconds(load.prefill, rates)
    others = load.group - 1
    tpot = step + rates.prefill_share * others / load.output * prefill
    launches = load.prefill.kernels + load.prefill.quantizations + load.prefill.collectives
    own = rates.prefill_factor * prefill * (1 + rates.queue_factor * others**rates.queue_exponent)
    ttft = rates.first_seconds + rates.launch_seconds * launches + own + rates.first_steps * tpot
    waiting = np.maximum(load.requests - load.running, 0.0) / load.running
    return Times(tpot, ttft + waiting * (load.output * tpot + own), step, prefill, load.running)
