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

from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.architecture import Architecture, Part
from sizeup.serving.models.images import attention_macs, weight_macs
from sizeup.serving.steps.factors import Factors
from sizeup.serving.steps.kernels import arithmetic_dtype, tower_kernels
from sizeup.serving.steps.rates import IDEAL, Rates
from sizeup.serving.steps.work import PART_CLASSES, Division, Floats, Numbers, PartClass, divide, step_work
from sizeup.targets.clusters import Cluster, Link

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
    factors: Factors | None = None  # between times that the user measured and those of the rates
    tower: Part | None = None  # with the images of a prompt, before its prefill

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
    heads: Floats  # query heads per key-value head
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
        zeros + _heads_per_kv_head(division),
        work.pair_macs / server.arithmetic["bf16"],
        links,
        zeros + division.kernels,
        zeros + division.quantizations,
        zeros + division.collectives,
        work.sequences,
        zeros + (np.asarray(tokens) > 1),
    )


def _heads_per_kv_head(division: Division) -> float:
    """The geometric mean over the bytes of the cache; 1 for latent vectors, whose heads are absorbed."""
    logs = total = 0.0
    for each in division.cached:
        heads = each.attention.query_heads / max(each.attention.kv_heads, 1)
        share = each.layers * each.token_bytes
        logs += share * (0.0 if each.attention.kind == "latent" else float(np.log(max(heads, 1.0))))
        total += share
    return float(np.exp(logs / total)) if total else 1.0


def seconds(demand: Demand, rates: Rates) -> Floats:
    """Seconds of steps."""
    parts = seconds_by_cause(demand, rates)
    return sum(parts.values(), start=np.zeros_like(demand.cache))


def seconds_by_cause(demand: Demand, rates: Rates) -> dict[str, Floats]:
    """Seconds of steps by cause; the numbers of `rates` may be arrays, too."""
    cache = demand.cache * demand.heads**rates.grouping / rates.cache
    attention = demand.attention / rates.attention
    floors = rates.kernel_seconds * demand.kernels + rates.quantization_seconds * demand.quantizations
    overhead = rates.step_seconds + rates.sequence_seconds * demand.sequences
    return {
        "weights": _products(demand, rates),
        "cache": np.where(demand.prompts > 0, cache + attention, np.maximum(cache, attention)),
        "links": demand.links / rates.links + rates.collective_seconds * demand.collectives,
        "kernels": floors,
        "overhead": overhead + rates.prefill_seconds * demand.prompts,
    }


def tower_seconds(server: Server) -> float:
    """Seconds of the vision tower for the images of a prompt, by the form of a step; 0 without images.

    One device computes all of it. A lower bound has to hold for engines that divide it over a tensor group.
    """
    part = server.tower
    if part is None:
        return 0.0
    zero, ways = np.zeros(()), server.division.tensor if server.rates == IDEAL else 1
    products: dict[tuple[PartClass, str], Floats] = {}
    for precision, macs in weight_macs(part).items():
        key: tuple[PartClass, str] = "dense", arithmetic_dtype(precision)
        products[key] = products.get(key, zero) + macs / ways / server.arithmetic[key[1]]
    traffic = dict.fromkeys(PART_CLASSES, zero)
    read = sum(weight.stored_bytes for weight in part.weights if weight.macs)
    traffic["dense"] = zero + read / ways / server.bandwidth
    attention = zero + attention_macs(part) / ways / server.arithmetic["bf16"]
    kernels = zero + tower_kernels(part)
    stage = Demand(traffic, products, zero, zero + 1, attention, zero, kernels, zero, zero, zero, zero)
    causes = seconds_by_cause(stage, server.rates)
    return float(causes["weights"] + causes["cache"] + causes["kernels"])


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
