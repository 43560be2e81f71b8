"""The best divisions of GPUs into some for prompts and some for answers.

Every number of prefill GPUs is tried, with both sides in all their layouts. With goals, a division is taken
at the most requests that reach them, else at one number of requests, and the one with most throughput is kept
for each number of prefill GPUs. Layouts of a side that are in no respect better than another one are left out
before sides are combined: of prefill by rate, seconds of a prompt and GPUs that send a cache; of decode by
steps per second, capacity and what a GPU receives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np

from sizeup.errors import SizeupError
from sizeup.serving.memory.deployment import Deployment
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import enumerate_layouts
from sizeup.serving.steps.work import Floats
from sizeup.serving.times.disaggregation import (
    DisaggregatedPoint,
    PrefillSide,
    Side,
    decode_steps,
    decoding_sequences,
    disaggregate,
    part_of,
    prefill_side,
    transfer,
)
from sizeup.serving.times.estimate import calibrated_server
from sizeup.serving.times.goals import TIED_RATIO, Goals, request_counts
from sizeup.targets.clusters import Cluster

AUTO = "auto"
"""The option that searches for divisions."""
_MOST_LAYOUTS = 500  # of all numbers of GPUs together: pairs of 300 take 10 CPU seconds
_MOST_PER_BATCH = 4_096  # sequences that are tried
_SEQUENCES = np.geomspace(1, 1 << 20, 81)  # at which layouts are compared


@dataclass(frozen=True, slots=True)
class DivisionRow:
    """A division of the GPUs at one number of requests."""

    prefill: Side
    decode: Side
    point: DisaggregatedPoint
    is_tied: bool = False  # with the first row

    @property
    def text(self) -> str:
        """The option that gives this division."""
        return _text(self.prefill, self.decode)


@dataclass(frozen=True, slots=True)
class _Prefill:
    """A layout of the prefill GPUs."""

    side: Side
    times: PrefillSide

    @property
    def merits(self) -> list[float]:
        """Figures of which larger ones are better."""
        layout, times = self.side.layout, self.times
        return [times.rate, -times.seconds, -times.first_seconds, layout.tensor * layout.pipeline]


@dataclass(frozen=True, slots=True)
class _Decode:
    """A layout of the decode GPUs: steps per second by sequences, which are linear between these numbers."""

    side: Side
    most: int  # sequences that the cache holds
    sequences: Floats
    steps: Floats
    received: int  # bytes of a prompt's cache per GPU

    @property
    def merits(self) -> list[float]:
        """Figures of which larger ones are better."""
        layout = self.side.layout
        steps = np.interp(_SEQUENCES, self.sequences, self.steps)
        received = self.received * layout.tensor * layout.pipeline
        return [*map(float, steps), float(self.most), -float(self.received), -float(received)]


_Candidate = TypeVar("_Candidate", _Prefill, _Decode)
_Pair: TypeAlias = tuple[float, int, _Prefill, _Decode]  # with requests per second and the number of requests


def best_divisions(
    deployment: Deployment, requests: int, input: int, output: int, goals: Goals | None = None
) -> tuple[DivisionRow, ...]:
    """The best division of each number of prefill GPUs, the one with most throughput first.

    It is empty if none fits, or none reaches the goals. Raises SizeupError if there are too many layouts.
    """
    if output < 2:
        raise SizeupError(f"--disaggregate {AUTO}: give answers of at least 2 tokens")
    devices, parts = deployment.cluster.devices, _parts(deployment.cluster)
    _check_layouts(deployment, parts)
    first = {size: _undominated(list(_prefill(deployment, part, input))) for size, part in parts.items()}
    second = {
        size: _undominated(list(_decode(deployment, part, requests, input, output, goals)))
        for size, part in parts.items()
    }
    rows = []
    for size in parts:
        pairs = (
            _pair(deployment, prefill, decode, requests, input, output, goals)
            for prefill in first[size]
            for decode in second[devices - size]
        )
        best = max((pair for pair in pairs if pair[1]), key=lambda pair: pair[0], default=None)
        if best is not None:
            sides = best[2].side, best[3].side
            division = disaggregate(_text(*sides), deployment, [best[1]], input, output)
            rows.append(DivisionRow(*sides, division.points[0]))
    rows.sort(key=lambda row: -row.point.gpu_tokens_per_second)
    return tuple(replace(row, is_tied=_is_tied(rows[0], row)) for row in rows)


def _text(prefill: Side, decode: Side) -> str:
    return f"{prefill.layout}:{decode.layout}".replace(" ", "")


def _is_tied(first: DivisionRow, other: DivisionRow) -> bool:
    least = first.point.gpu_tokens_per_second / TIED_RATIO
    return other is not first and other.point.gpu_tokens_per_second >= least


def _parts(cluster: Cluster) -> dict[int, Cluster]:
    """Parts of a cluster by GPUs, of which the other GPUs are a part, too."""
    parts = {size: part_of(cluster, size) for size in range(1, cluster.devices)}
    return {
        size: part
        for size, part in parts.items()
        if part is not None and parts[cluster.devices - size] is not None
    }


def _check_layouts(deployment: Deployment, parts: dict[int, Cluster]) -> None:
    name = deployment.cluster.name
    if deployment.cluster.devices == 1:
        raise SizeupError(f"--disaggregate {AUTO}: one GPU cannot be divided; give more, such as 2x{name}")
    count = sum(len(enumerate_layouts(deployment.architecture, part)) for part in parts.values())
    if count > _MOST_LAYOUTS:
        raise SizeupError(
            f"--disaggregate {AUTO}: {deployment.cluster.devices:,} devices have {count:,} layouts of a side,"
            f" and at most {_MOST_LAYOUTS:,} are searched; give fewer devices, or a division such as 4:4"
        )


def _sides(deployment: Deployment, part: Cluster, context: int) -> Iterator[tuple[Side, int]]:
    """All layouts of a part whose GPUs hold a sequence, and how many they hold."""
    architecture, memory = deployment.architecture, deployment.gpus[0].total_bytes
    layouts = enumerate_layouts(architecture, part)
    for number in range(len(layouts)):
        layout = layouts[number]
        gpus = gpus_of(architecture, layout, deployment.engine, memory, deployment.kv)
        most = replace(deployment, cluster=part, layout=layout, gpus=gpus).max_sequences(context)
        if most:
            yield Side(layout, part), most


def _prefill(deployment: Deployment, part: Cluster, input: int) -> Iterator[_Prefill]:
    for side, _ in _sides(deployment, part, input):
        server = calibrated_server(
            deployment.architecture, side.layout, part, deployment.engine.name, deployment.kv
        )
        if server is not None:
            yield _Prefill(side, prefill_side(server[0], input))


def _decode(
    deployment: Deployment, part: Cluster, requests: int, input: int, output: int, goals: Goals | None
) -> Iterator[_Decode]:
    for side, most in _sides(deployment, part, input + output):
        server = calibrated_server(
            deployment.architecture, side.layout, part, deployment.engine.name, deployment.kv
        )
        if server is not None:
            batches = server[0].division.batches
            tried = min(most, _MOST_PER_BATCH * batches, most if goals else requests)
            sequences = batches * np.arange(-(-tried // batches) + 1, dtype=np.float64)
            steps = decode_steps(server[0], input + output / 2)(sequences)
            received, *_ = transfer(deployment.architecture, deployment.kv, input, side, side, part)
            yield _Decode(side, min(most, int(sequences[-1])), sequences, steps, received)


def _undominated(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Candidates that no other one equals or exceeds in all respects; of equal ones, the first."""
    merits = np.array([each.merits for each in candidates])
    kept = []
    for number, own in enumerate(merits):
        is_as_good = (merits >= own).all(axis=1)
        is_better = is_as_good & (merits > own).any(axis=1)
        if not is_better.any() and not is_as_good[:number].any():
            kept.append(candidates[number])
    return kept


def _pair(
    deployment: Deployment,
    prefill: _Prefill,
    decode: _Decode,
    requests: int,
    input: int,
    output: int,
    goals: Goals | None,
) -> _Pair:
    """Both sides at the most requests that reach the goals, 0 if one request does not."""
    counts = np.array([requests]) if goals is None else request_counts(decode.most)
    clients = counts.astype(np.float64)

    def steps(sequences: Floats) -> Floats:
        return np.interp(sequences, decode.sequences, decode.steps)

    kv, cluster = deployment.kv, deployment.cluster
    *_, sent = transfer(deployment.architecture, kv, input, prefill.side, decode.side, cluster)
    sequences = decoding_sequences(clients, prefill.times, steps, output, float(decode.most), sent or 0.0)
    tpot = sequences / steps(sequences)
    rates = np.minimum(sequences / tpot / (output - 1), prefill.times.rate)
    ttft = clients / rates - (output - 1) * tpot
    is_reached = np.ones(len(counts), bool) if goals is None else goals.are_reached(ttft, tpot)
    if not is_reached.any():
        return 0.0, 0, prefill, decode
    place = int(np.flatnonzero(is_reached)[-1])
    return float(rates[place]), int(counts[place]), prefill, decode
