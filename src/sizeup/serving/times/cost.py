"""Money and energy per million tokens, and the servers that a rate of requests needs.

    cost per million output tokens = price per GPU and hour / 3600 s x 10^6 / output tokens per second and GPU
    cost per million tokens        = that x output / (input + output)

All of a server's cost is divided by its output tokens, or by all tokens of requests: engines process prompts
and answers in the same steps, so no division between them is measured. Energy is that of the GPUs at their
data-sheet power, without hosts, network and cooling. With the design power (TDP) it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sizeup.serving.memory.layouts import Layout
from sizeup.serving.times.goals import Goals
from sizeup.serving.times.traffic import Traffic
from sizeup.targets.clusters import Cluster

TOKENS = 1_000_000
_HOUR = 3600.0
_MOST_DOUBLINGS = 6  # of the servers that complete a rate, before goals count as not reached


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Money and joules per million tokens; None without a price, or if the power is unknown."""

    output: float | None  # money per million output tokens
    total: float | None  # money per million input and output tokens
    output_joules: float | None  # per million output tokens
    total_joules: float | None
    is_upper_bound: bool = False  # whether joules are those at the design power


def token_cost(
    cluster: Cluster, gpu_tokens_per_second: float, input: int, output: int, *, is_bound: bool = False
) -> TokenCost:
    """Costs at a number of output tokens per second and GPU.

    With `is_bound`, that throughput is an upper bound and costs are lower bounds. The energy at an upper
    bound of power is then unknown.
    """
    seconds = TOKENS / gpu_tokens_per_second  # of one GPU
    share = output / (input + output)
    price, power = cluster.price, cluster.device.power
    money = None if price is None else price.amount / _HOUR * seconds
    watts = None if power is None else power.typical_watts or power.tdp_watts
    joules = None if watts is None or is_bound else watts * seconds
    return TokenCost(
        money,
        None if money is None else money * share,
        joules,
        None if joules is None else joules * share,
        power is not None and power.typical_watts is None,
    )


def hourly_cost(cluster: Cluster, gpus: int) -> float | None:
    """Money per hour of a number of GPUs; None without a price."""
    return None if cluster.price is None else cluster.price.amount * gpus


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal servers of one layout, as few as complete a rate of requests within the goals."""

    layout: Layout  # of one server
    servers: int
    traffic: Traffic  # of all servers

    @property
    def gpus(self) -> int:
        """GPUs of all servers."""
        return self.servers * self.layout.devices


def smallest_fleet(layout: Layout, goals: Goals, simulate: Callable[[int], Traffic]) -> Fleet | None:
    """The fewest servers with which 90 % of the requests reach each goal; None if more of them do not help.

    `simulate` returns the traffic of a number of servers.
    """
    traffic = simulate(1)
    least = max(int(traffic.rate // traffic.max_rate), 0) + 1
    low, high = least - 1, least
    for _ in range(_MOST_DOUBLINGS):
        traffic = simulate(high)
        if _is_reached(traffic, goals):
            break
        low, high = high, 2 * high
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        other = simulate(middle)
        if _is_reached(other, goals):
            high, traffic = middle, other
        else:
            low = middle
    return Fleet(layout, high, traffic)


def _is_reached(traffic: Traffic, goals: Goals) -> bool:
    if traffic.ttft is None:
        return False
    tpot = 0.0 if traffic.tpot is None else traffic.tpot.p90  # None: answers of one token
    times = ((traffic.ttft.p90, goals.ttft), (tpot, goals.tpot))
    return all(goal is None or time <= goal for time, goal in times)
