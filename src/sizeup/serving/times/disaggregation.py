"""Disaggregated serving: prompts on some GPUs, answers on others, and the key-value cache sent between them.

C clients send one request after another. With prefill time S of a prompt on each of x prefill servers, decode
step t(B) of B sequences, output length m and throughput X:

    TPOT = t(B), without prompts of other requests in between
    TTFT = wait and prefill + transfer + overhead of a first token
    X    = B / ((m - 1) t(B)) at most x / S, and C = X TTFT + B (Little's law)

The wait is that of a closed queue (approximate mean value analysis by Schweitzer, with x servers as by
Seidmann): (S / x) / (1 - X S / x (C - 1) / C) + S (x - 1) / x. The cache of a prompt is sent when its prefill
has ended, at the data-sheet bandwidth of each GPU's link. Requests that exceed the cache of the decode GPUs
wait for it, which is part of TTFT.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from sizeup.errors import SizeupError
from sizeup.serving.memory.deployment import Deployment
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout, default_layout, parse_layout
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.cache import sequence_cost
from sizeup.serving.steps.step import Server, demand, seconds, step_time
from sizeup.serving.steps.work import Floats
from sizeup.serving.times.estimate import calibrated_server, no_interval
from sizeup.targets.clusters import Cluster

_SIDE = re.compile(r"([0-9]{1,5})|(?:([0-9]{1,5}) ?[xX] ?)?((?:tp|pp|dp|ep)[0-9a-z, ]{1,60})")
_FACTOR = re.compile(r"(?:tp|pp|dp)([0-9]{1,5})")
_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Side:
    """The GPUs for prompts, or for answers."""

    layout: Layout
    cluster: Cluster  # these GPUs alone


@dataclass(frozen=True, slots=True)
class DisaggregatedPoint:
    """Times at one number of concurrent requests, in seconds."""

    requests: int
    decoding: float  # sequences, on average
    tpot: float
    ttft: float
    requests_per_second: float
    prefill_load: float  # share of the time that prefill servers are busy
    decode_rate: float  # requests per second that the decode GPUs complete at most, with all these requests
    limiter: str  # the side that completes fewer requests per second
    user_tokens_per_second: float
    gpu_tokens_per_second: float  # of the GPUs of both sides


@dataclass(frozen=True, slots=True)
class Disaggregation:
    """A model whose prompts and answers are on different GPUs."""

    prefill: Side
    decode: Side
    prefill_rate: float  # requests per second that the prefill GPUs complete at most
    transfer_bytes: int  # key-value cache of a prompt, received by a decode GPU
    sent_bytes: int  # and sent by a prefill GPU
    transfer_seconds: float | None  # None if the bandwidth is unknown; then it is not counted
    points: tuple[DisaggregatedPoint, ...]
    caveats: tuple[str, ...]
    max_sequences: int  # whose cache the decode GPUs hold at once

    @property
    def balance(self) -> float:
        """Decode GPUs per prefill GPU with which both sides complete as many requests, at the last point."""
        prefill = self.prefill_rate / self.prefill.cluster.devices
        return prefill / (self.points[-1].decode_rate / self.decode.cluster.devices)

    @property
    def gpus(self) -> int:
        """GPUs of both sides."""
        return self.prefill.cluster.devices + self.decode.cluster.devices


def disaggregate(
    text: str, deployment: Deployment, concurrency: Sequence[int], input: int, output: int
) -> Disaggregation:
    """The model of a deployment with its GPUs divided as in `4:4` or `2xtp4:tp8`.

    Raises SizeupError if the text is no division of these GPUs, the model does not fit one of its sides, or
    the device's bandwidth or arithmetic are unknown.
    """
    if output < 2:
        raise SizeupError(f"{_option(text)}: give answers of at least 2 tokens")
    architecture, cluster, kv = deployment.architecture, deployment.cluster, deployment.kv
    prefill, decode = parse_sides(text, architecture, cluster)
    memory = deployment.gpus[0].total_bytes
    sequences = []
    for name, side, context in (("prefill", prefill, input), ("decode", decode, input + output)):
        gpus = gpus_of(architecture, side.layout, deployment.engine, memory, kv)
        own = replace(deployment, cluster=side.cluster, layout=side.layout, context=context, gpus=gpus)
        sequences.append(own.max_sequences())
        if not sequences[-1]:
            raise SizeupError(
                f"{_option(text)}: {architecture.name} does not fit the {name} GPUs in layout {side.layout}"
            )
    name = deployment.engine.name
    first = calibrated_server(architecture, prefill.layout, prefill.cluster, name, kv)
    second = calibrated_server(architecture, decode.layout, decode.cluster, name, kv)
    if first is None or second is None:
        raise SizeupError(f"{_option(text)}: the rates of {cluster.device.name} are unknown")
    received, sent, delay = transfer(architecture, kv, input, prefill, decode, cluster)
    rate, points = disaggregated_points(
        first[0], second[0], concurrency, input, output,
        most=sequences[1], transfer_seconds=delay or 0.0, gpus=cluster.devices,
    )  # fmt: skip
    sides = (first, second)
    reasons = (text for _, calibration, texts in sides if calibration is not None for text in texts)
    caveats = [no_interval(("disaggregated serving is not calibrated", *reasons))]
    caveats += [text for _, calibration, texts in sides if calibration is None for text in texts]
    if delay is None:
        caveats.append("the bandwidth between both sides is unknown: the transfer is not counted")
    return Disaggregation(
        prefill, decode, rate, received, sent, delay, points, tuple(dict.fromkeys(caveats)), sequences[1]
    )


def parse_sides(text: str, architecture: Architecture, cluster: Cluster) -> tuple[Side, Side]:
    """The sides of a text such as `4:4` (GPUs) or `2xtp4:tp8` (layouts); raises SizeupError if it is none."""
    parts = text.casefold().split(":")
    if len(parts) != 2:
        raise SizeupError(f"{_option(text)}: write prefill:decode, such as 4:4 GPUs or 2xtp4:tp8")
    sides = [_parse_side(part.strip(), text) for part in parts]
    used = sum(devices for devices, _ in sides)
    if used != cluster.devices:
        raise SizeupError(
            f"{_option(text)}: it uses {used:,} GPUs, and {cluster.name} has {cluster.devices:,}"
        )
    prefill, decode = (
        _side(layout, architecture, _part(cluster, devices, text)) for devices, layout in sides
    )
    return prefill, decode


def _option(text: str) -> str:
    return f"--disaggregate {text[:80]}"


def _parse_side(part: str, text: str) -> tuple[int, str]:
    """GPUs and layout of a side; an empty layout is the default."""
    match = _SIDE.fullmatch(part)
    if match is None:
        raise SizeupError(f"{_option(text)}: write prefill:decode, such as 4:4 GPUs or 2xtp4:tp8")
    if match[1] is not None:
        return int(match[1]), ""
    return math.prod((int(match[2] or 1), *map(int, _FACTOR.findall(match[3])))), match[3]


def _side(layout: str, architecture: Architecture, own: Cluster) -> Side:
    return Side(parse_layout(layout, architecture, own) if layout else default_layout(architecture, own), own)


def _part(cluster: Cluster, devices: int, text: str) -> Cluster:
    part = part_of(cluster, devices)
    if part is None:
        raise SizeupError(
            f"{_option(text)}: {devices:,} GPUs are no part of {cluster.name}; give GPUs of a node,"
            " or whole nodes"
        )
    return part


def part_of(cluster: Cluster, devices: int) -> Cluster | None:
    """A part of a cluster: within a node, or whole nodes; None if it is neither."""
    per_node = cluster.devices_per_node
    if not 1 <= devices < cluster.devices or (devices > per_node and devices % per_node):
        return None
    nodes, own = (1, devices) if devices <= per_node else (devices // per_node, per_node)
    return replace(cluster, name=f"{devices}x{cluster.device.name}", nodes=nodes, devices_per_node=own)


def transfer(
    architecture: Architecture, kv: str, input: int, prefill: Side, decode: Side, cluster: Cluster
) -> tuple[int, int, float | None]:
    """Bytes of a prompt's cache that a decode GPU receives and a prefill GPU sends, and seconds of both.

    A decode GPU receives its share of heads; prefill GPUs send all shares, so fewer of them take longer.
    """
    layout = decode.layout
    received = -(-sequence_cost(architecture, kv, layout.tensor).bytes_of(input) // layout.pipeline)
    receivers = layout.tensor * layout.pipeline
    sent = -(-received * receivers // (prefill.layout.tensor * prefill.layout.pipeline))
    link = cluster.link if cluster.nodes == 1 else cluster.network
    if link is None or link.bytes_per_second is None:
        return received, sent, None
    return received, sent, max(received, sent) / link.bytes_per_second


@dataclass(frozen=True, slots=True)
class PrefillSide:
    """Prefill servers: their number, seconds of a prompt on one of them, and overhead of a first token."""

    servers: int
    seconds: float
    first_seconds: float

    @property
    def rate(self) -> float:
        """Requests per second that all servers complete at most."""
        return self.servers / self.seconds


Steps: TypeAlias = Callable[[Floats], Floats]
"""Decode steps per second of all sequences, by the number of sequences."""


def prefill_side(server: Server, input: float) -> PrefillSide:
    """Prefill servers with prompts of `input` tokens."""
    rates, division = server.rates, server.division
    prompt = demand(server, division.servers, 0, max(input, 2.0))
    launches = division.kernels + division.quantizations + division.collectives
    first = rates.first_seconds + rates.launch_seconds * launches
    return PrefillSide(division.servers, float(seconds(prompt, rates)), first)


def decode_steps(server: Server, context: float) -> Steps:
    """Steps of sequences of a context; some batches have one sequence more than others."""
    batches = server.division.batches

    def steps(sequences: Floats) -> Floats:
        least = np.floor(sequences / batches)
        more = sequences / batches - least
        first, second = (
            step_time(server, np.maximum(count, 1.0) * batches, context) for count in (least, least + 1)
        )
        total: Floats = batches * ((1 - more) * least / first + more * (least + 1) / second)
        return total

    return steps


def decoding_sequences(
    clients: Floats, prefill: PrefillSide, steps: Steps, output: float, most: float, transfer_seconds: float
) -> Floats:
    """Sequences that decode, on average: those of the closed queue, and at most `most`."""
    service, servers = prefill.seconds, prefill.servers
    other = prefill.first_seconds + transfer_seconds

    def population(sequences: Floats) -> Floats:
        rate = steps(sequences) / (output - 1)
        free = 1 - rate * service / servers * (clients - 1) / clients
        with np.errstate(divide="ignore"):
            wait = np.where(free > 0, service / servers / np.maximum(free, 0.0), np.inf)
        population: Floats = sequences + rate * (wait + service * (servers - 1) / servers + other)
        return population

    low, high = np.zeros_like(clients), np.minimum(clients, most)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_below = population(middle) <= clients
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return high


def disaggregated_points(
    prefill: Server,
    decode: Server,
    concurrency: Sequence[int],
    input: float,
    output: float,
    *,
    most: int,
    transfer_seconds: float,
    gpus: int,
) -> tuple[float, tuple[DisaggregatedPoint, ...]]:
    """Requests per second that the prefill servers complete at most, and the point of each concurrency.

    `most` is the number of sequences whose cache the decode GPUs hold at once.
    """
    side, steps = prefill_side(prefill, input), decode_steps(decode, input + output / 2)
    clients, later = np.asarray(concurrency, np.float64), output - 1
    sequences = decoding_sequences(clients, side, steps, output, float(most), transfer_seconds)
    tpot = sequences / steps(sequences)
    rate = np.minimum(sequences / tpot / later, side.rate)
    largest = steps(np.minimum(clients, float(most))) / later
    points = tuple(
        DisaggregatedPoint(
            requests,
            float(sequences[row]),
            float(tpot[row]),
            requests / float(rate[row]) - later * float(tpot[row]),
            float(rate[row]),
            float(rate[row]) / side.rate,
            float(largest[row]),
            "prefill" if side.rate < largest[row] else "decode",
            1 / float(tpot[row]),
            float(rate[row]) * output / gpus,
        )
        for row, requests in enumerate(concurrency)
    )
    return side.rate, points
