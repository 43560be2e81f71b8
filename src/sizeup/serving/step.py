"""The time of engine steps: one form for decode and prefill.

    weights     by class of modules, ((bytes / bandwidth)^4 + (MACs / arithmetic)^4)^(1/4)
    cache       decode: the larger of bytes / bandwidth and MACs / arithmetic; prefill: their sum
    links       bytes that collectives send / bandwidth, and a latency per collective
    kernels     a floor per kernel
    overhead    per step, per sequence, and per prompt

Rates are those of the device's data sheet times the efficiencies of `Rates`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizeup.language_models.architecture import Architecture
from sizeup.language_models.clusters import Cluster, Link
from sizeup.language_models.layouts import Layout
from sizeup.serving.rates import IDEAL, Rates
from sizeup.serving.work import PART_CLASSES, Division, Floats, Numbers, PartClass, divide, step_work

CAUSES = ("weights", "cache", "links", "kernels", "overhead")
_SHARPNESS = 4  # of the maximum of traffic and arithmetic


@dataclass(frozen=True, slots=True)
class Server:
    """A model in a layout on a cluster, with the rates of its device and engine."""

    division: Division
    bandwidth: float
    arithmetic: dict[str, float]  # peak MACs per second, by dtype
    link: float | None  # bytes per second; what an unknown link carries is not counted
    network: float | None
    rates: Rates = IDEAL

    @property
    def has_unknown_links(self) -> bool:
        """Whether a step sends bytes over a link of unknown bandwidth."""
        division = self.division
        is_link = division.link_bytes > 0 and self.link is None
        return is_link or (division.network_bytes > 0 and self.network is None)


def server_of(
    architecture: Architecture, layout: Layout, cluster: Cluster, kv: str, rates: Rates = IDEAL
) -> Server | None:
    """The server of a model; None if the device's bandwidth or arithmetic is unknown."""
    device = cluster.device
    bf16 = device.peak("bf16") or device.peak("fp16")
    if device.bandwidth is None or bf16 is None:
        return None
    fp8 = device.peak("fp8") or bf16
    arithmetic = {"bf16": bf16, "fp8": fp8, "fp8_block": fp8, "fp4": device.peak("fp4") or bf16}
    division = divide(architecture, layout, cluster, kv)
    return Server(division, device.bandwidth, arithmetic, _rate(cluster.link), _rate(cluster.network), rates)


def _rate(link: Link | None) -> float | None:
    return None if link is None else link.bytes_per_second


def step_time(server: Server, batch: Numbers, context: Numbers, tokens: Numbers = 1) -> Floats:
    """Seconds of steps with `tokens` new tokens of each of `batch` sequences of `context` cached tokens.

    Arguments broadcast. `batch` counts the sequences of all servers of the layout.
    """
    return seconds(demand(server, batch, context, tokens), server.rates)


@dataclass(frozen=True, slots=True)
class Demand:
    """Steps as seconds at data-sheet rates and counts of what has overhead; arrays of one shape."""

    traffic: dict[PartClass, Floats]  # of weights
    products: dict[tuple[PartClass, str], Floats]  # by class and dtype
    cache: Floats
    attention: Floats
    links: Floats
    kernels: Floats
    quantizations: Floats
    collectives: Floats
    sequences: Floats
    prompts: Floats  # 1 in prefill, 0 in decode


def demand(server: Server, batch: Numbers, context: Numbers, tokens: Numbers = 1) -> Demand:
    """What steps demand of a device and its links."""
    division = server.division
    work = step_work(division, batch, context, tokens)
    zeros = np.zeros_like(work.tokens)
    traffic = dict.fromkeys(PART_CLASSES, zeros)
    products: dict[tuple[PartClass, str], Floats] = {}
    for part, read, macs in zip(division.parts, work.weight_bytes, work.macs, strict=True):
        key = part.part_class, part.dtype
        traffic[part.part_class] = traffic[part.part_class] + read / server.bandwidth
        products[key] = products.get(key, zeros) + macs / server.arithmetic[part.dtype]
    links = zeros
    for sent, rate in ((work.link_bytes, server.link), (work.network_bytes, server.network)):
        links = links if rate is None else links + sent / rate
    return Demand(
        traffic,
        products,
        work.cache_bytes / server.bandwidth,
        work.pair_macs / server.arithmetic["bf16"],
        links,
        zeros + division.kernels,
        zeros + division.quantizations,
        zeros + division.collectives,
        work.sequences,
        zeros + (np.asarray(tokens) > 1),
    )


def seconds(demand: Demand, rates: Rates) -> Floats:
    """Seconds of steps."""
    parts = seconds_by_cause(demand, rates)
    return sum(parts.values(), start=np.zeros_like(demand.cache))


def seconds_by_cause(demand: Demand, rates: Rates) -> dict[str, Floats]:
    """Seconds of steps by cause; the numbers of `rates` may be arrays, too."""
    cache, attention = demand.cache / rates.cache, demand.attention / rates.attention
    floors = rates.kernel_seconds * demand.kernels + rates.quantization_seconds * demand.quantizations
    overhead = rates.step_seconds + rates.sequence_seconds * demand.sequences
    return {
        "weights": _products(demand, rates),
        "cache": np.where(demand.prompts > 0, cache + attention, np.maximum(cache, attention)),
        "links": demand.links / rates.links + rates.collective_seconds * demand.collectives,
        "kernels": floors,
        "overhead": overhead + rates.prefill_seconds * demand.prompts,
    }


def _products(demand: Demand, rates: Rates) -> Floats:
    """Matrix products: traffic and arithmetic of a class of modules overlap."""
    total = np.zeros_like(demand.cache)
    for name in PART_CLASSES:
        is_routed = name == "experts"
        traffic = demand.traffic[name] / (rates.experts if is_routed else rates.weights)
        arithmetic = np.zeros_like(total)
        for (part_class, dtype), each in demand.products.items():
            if part_class == name:
                arithmetic = arithmetic + each / getattr(rates, dtype)
        arithmetic = arithmetic / (rates.expert_products if is_routed else 1.0)
        total = total + (traffic**_SHARPNESS + arithmetic**_SHARPNESS) ** (1 / _SHARPNESS)
    return total
