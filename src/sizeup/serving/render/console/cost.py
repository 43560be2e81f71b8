"""Costs of served language models as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.units import plural

if TYPE_CHECKING:
    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.cost import Fleet, TokenCost
    from sizeup.serving.times.estimate import ServingEstimate

COST_TITLES = ("requests", "per 1 M output tokens", "per 1 M tokens", "energy per 1 M output tokens")
"""Columns of the table of costs."""
_DIVIDED = "all of it divided by output tokens, or by input and output tokens"
_KWH = 3.6e6  # joules


def cost_rows(serving: Serving, times: ServingEstimate) -> list[tuple[str, ...]]:
    """Money and energy per million tokens as rows of text; none without a price."""
    if serving.cluster.price is None:
        return []
    least = "" if times.calibration else "at least "
    rows: list[tuple[str, ...]] = []
    for point in times.points:
        cost = serving.token_cost(point.gpu_tokens_per_second, is_bound=times.calibration is None)
        output, total = (f"{least}{money(serving, amount)}" for amount in (cost.output, cost.total))
        rows.append((f"{point.requests:,}", output, total, _energy(cost)))
    return rows


def cost_facts(serving: Serving, times: ServingEstimate) -> Iterator[tuple[str, str]]:
    """Labels and texts of what all devices cost and use."""
    cluster, last = serving.cluster, times.points[-1]
    if cluster.price is not None:
        hourly, each = (money(serving, amount) for amount in (serving.hourly_cost(), cluster.price.amount))
        yield "cost", f"{hourly} per hour: {plural(cluster.devices, 'GPU')} at {each}; {_DIVIDED}"
    cost = serving.token_cost(last.gpu_tokens_per_second, is_bound=times.calibration is None)
    if cost.output_joules is None or cluster.device.power is None:
        if cluster.price is not None:
            yield "energy", _unknown_energy(serving, times)
        return
    power = cluster.device.power
    watts = f"{power.typical_watts:g} W" if power.typical_watts else f"{power.tdp_watts:g} W, their TDP"
    at = (
        ""
        if cluster.price
        else f"{_energy(cost)} per 1 M output tokens at {plural(last.requests, 'request')}: "
    )
    yield "energy", f"{at}GPUs at {watts}, without hosts, network and cooling"


def _unknown_energy(serving: Serving, times: ServingEstimate) -> str:
    """Why the column of energy has no numbers."""
    if times.calibration is None:
        return "unknown: the times are lower bounds"
    return f"unknown: the catalog has no power of {serving.cluster.device.name}"


def fleet_text(serving: Serving, fleet: Fleet | None) -> str:
    """The GPUs that a rate needs within the goals, and what they cost."""
    if fleet is None:
        return "no number of servers reaches the goals for 90 % of the requests"
    traffic = fleet.traffic
    gpus = plural(fleet.gpus, "GPU")
    text = f"{gpus} for {traffic.rate:g} requests/s: {plural(fleet.servers, 'server')} of {fleet.layout}"
    named = (("TTFT", traffic.ttft), ("TPOT", traffic.tpot))
    times = ", ".join(f"{name} p90 {units.duration(each.p90)}" for name, each in named if each is not None)
    hourly = serving.hourly_cost(fleet.gpus)
    paid = "" if hourly is None else f"; {money(serving, hourly)} per hour"
    return f"{text}; {times}{paid}{_per_million(serving, traffic.output_tokens_per_second, fleet.gpus)}"


def traffic_cost(serving: Serving) -> str:
    """What a million output tokens cost at the rate that was simulated; empty if unknown."""
    traffic = serving.traffic
    tokens = None if traffic is None else traffic.output_tokens_per_second
    return _per_million(serving, tokens, serving.cluster.devices).removeprefix(", ")


def _per_million(serving: Serving, tokens_per_second: float | None, gpus: int) -> str:
    if tokens_per_second is None or serving.cluster.price is None:
        return ""
    output = serving.token_cost(tokens_per_second / gpus).output
    return f", {money(serving, output)} per 1 M output tokens"


def money(serving: Serving, amount: float | None) -> str:
    """An amount with three significant digits, or cents, and the currency."""
    if amount is None:
        return "unknown"
    price = serving.cluster.price
    currency = f" {price.currency}" if price is not None and price.currency else ""
    return f"{amount:,.2f}{currency}" if amount >= 0.995 else f"{amount:.3g}{currency}"


def _energy(cost: TokenCost) -> str:
    if cost.output_joules is None:
        return "unknown"
    amount = cost.output_joules / _KWH
    text = f"{amount:,.0f}" if amount >= 999.5 else f"{amount:.3g}"
    return f"{'at most ' if cost.is_upper_bound else ''}{text} kWh"
