"""The result of `llm`: memory, capacity and layouts of a language model on a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sizeup.errors import SizeupError
from sizeup.results.check import Check
from sizeup.results.result import Result
from sizeup.serving.memory.deployment import Deployment
from sizeup.serving.memory.engines import Engine
from sizeup.serving.memory.gpus import Fits, GpuMemory, gpus_of
from sizeup.serving.memory.layout_costs import LayoutCosts, evaluate
from sizeup.serving.memory.layouts import Layout, enumerate_layouts
from sizeup.serving.models.architecture import Architecture, Images
from sizeup.serving.models.cache import decode_macs, prefill_macs, sequence_cost
from sizeup.serving.models.images import tower_macs
from sizeup.serving.times.cost import Fleet, TokenCost, hourly_cost, token_cost
from sizeup.serving.times.disaggregation import Disaggregation
from sizeup.serving.times.divisions import DivisionRow
from sizeup.serving.times.estimate import (
    CalibratedServer,
    ServingEstimate,
    calibrated_server,
    estimate,
    no_times,
)
from sizeup.serving.times.goals import GoalRow, Goals, most_requests, ranked
from sizeup.serving.times.grid import ServingGrid, serving_grid
from sizeup.serving.times.speculation import Draft, draft_server, layout_problem, with_draft
from sizeup.serving.times.traffic import Traffic
from sizeup.targets.clusters import Cluster

_MOST_CURVE = 1 << 16
_CANDIDATES = 4  # per layout that is listed: buffers of the engine can change their order
_FITS: tuple[Fits, ...] = ("yes", "undetermined", "no")
_VERDICTS: dict[bool | None, Fits] = {True: "yes", False: "no", None: "undetermined"}


def _check_positive(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SizeupError(f"{name}: give an integer of at least 1")


@dataclass(frozen=True, slots=True)
class ConcurrencyPoint:
    """Whether a number of concurrent sequences fits, and the bytes of their cache on the fullest GPU."""

    sequences: int
    cache_bytes: int
    fits: Fits
    max_context: int  # of each of them


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """One layout with its figures per GPU, at the largest concurrency that was asked for."""

    layout: Layout
    weights_bytes: int
    cache_bytes: int
    link_bytes: float  # sent per GPU and decode step within the node
    network_bytes: float  # sent to other nodes
    transfer_seconds: float | None  # at data-sheet bandwidth; None if unknown
    fits: Fits
    max_sequences: int


@dataclass(frozen=True, slots=True)
class Serving(Result):
    """A language model served on a cluster."""

    name: str
    architecture: Architecture
    cluster: Cluster
    engine: Engine
    layout: Layout
    kv: str
    weights: str  # precision asked for; empty: that of the checkpoint
    input: int
    output: int
    concurrency: tuple[int, ...]
    gpus: tuple[GpuMemory, ...]  # one per pipeline stage
    assumptions: tuple[str, ...]
    not_modeled: tuple[str, ...]
    sources: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()  # options with which it fits, or may fit a laptop or phone, if it does not
    traffic: Traffic | None = None  # simulated, if a rate was given and it fits
    goals: Goals | None = None  # for TTFT and TPOT
    fleet: Fleet | None = None  # servers that the rate needs within the goals; None if no number is enough
    draft: Draft | None = None  # of speculative decoding
    disaggregation: Disaggregation | None = None  # the same GPUs, some for prompts and some for answers
    divisions: tuple[DivisionRow, ...] | None = None  # the best ones, if they were searched
    check: Check | None = None  # of the largest concurrency, within limits of TTFT and TPOT

    def __repr__(self) -> str:
        target = f"{self.cluster.name}/{self.engine.name}"
        return f"<{self.name} on {target}, {self.layout}: {self.fits}; sequences of {self.context:,} tokens>"

    @property
    def context(self) -> int:
        """Tokens of a sequence at its end: prompt and output."""
        return self.input + self.output

    @property
    def is_local(self) -> bool:
        """Whether the target is a laptop or phone: one sequence, and buffers that are not known."""
        return self.engine.is_local

    @property
    def no_times(self) -> str:
        """Why the times on a laptop or phone are not known; empty if they are, or on other devices."""
        if not self.is_local:
            return ""
        return no_times(self.architecture, self.cluster.device.name, self.engine.name)

    @property
    def images(self) -> Images | None:
        """The images of a prompt, whose tokens are part of `input`; None without any."""
        return self.architecture.images

    @property
    def tower_macs(self) -> int:
        """MACs of the images of a prompt in the vision tower."""
        return tower_macs(self.architecture)

    @property
    def loaded(self) -> Architecture:
        """The model with its draft, as GPUs hold them."""
        return with_draft(self.architecture, self.draft)

    @property
    def draft_bytes(self) -> int:
        """Bytes of the draft's weights on a GPU."""
        own = gpus_of(self.architecture, self.layout, self.engine, self.gpus[0].total_bytes, self.kv)
        return self.gpus[0].weights_bytes - own[0].weights_bytes

    @property
    def deployment(self) -> Deployment:
        """The model in its layout, which capacities are computed of."""
        return Deployment(
            self.loaded, self.cluster, self.engine, self.layout, self.kv, self.context, self.gpus
        )

    @property
    def servers(self) -> int:
        """Groups that hold different sequences."""
        return self.deployment.servers

    @property
    def memory(self) -> GpuMemory:
        """The memory of the fullest GPU: the one that holds the fewest sequences."""
        return self.deployment.memory

    @property
    def fits(self) -> Fits:
        """Whether the model, its buffers and the least concurrency that was asked for fit."""
        return self.fits_at(min(self.concurrency))

    @property
    def verdict(self) -> Fits:
        """Whether the largest concurrency fits and reaches the goals: the verdict of the check."""
        if self.check is None:
            return self.fits_at(max(self.concurrency))
        return _VERDICTS[self.check.fits]

    def fits_at(self, sequences: int) -> Fits:
        """Whether that number of concurrent sequences fits."""
        return self.deployment.fits_at(sequences)

    def max_sequences(self, context: int | None = None) -> int:
        """Sequences of that context that all servers hold at once."""
        if context is not None:
            _check_positive("context", context)
        return self.deployment.max_sequences(context)

    def sequences_range(self) -> tuple[int, int]:
        """The least and the most sequences, as far as buffers are known."""
        return self.deployment.sequences_range()

    def times(self) -> ServingEstimate | None:
        """TPOT, TTFT and throughput at each concurrency; None if it does not fit, or rates are unknown."""
        return self._times(None)

    def _times(self, calibrated: CalibratedServer | None) -> ServingEstimate | None:
        if self.fits == "no":
            return None
        return estimate(
            self.architecture, self.layout, self.cluster, self.engine.name, self.kv,
            input=self.input, output=self.output, concurrency=self.concurrency, most=self.max_sequences(),
            calibrated=calibrated, draft=self.draft,
        )  # fmt: skip

    def token_cost(
        self,
        gpu_tokens_per_second: float,
        *,
        input: int | None = None,
        output: int | None = None,
        is_bound: bool = False,
    ) -> TokenCost:
        """Money and energy per million tokens at a number of output tokens per second and GPU.

        `input` and `output` replace the tokens of a prompt and its answer. With `is_bound`, that number is an
        upper bound, and the money is a lower bound.
        """
        lengths = input or self.input, output or self.output
        return token_cost(self.cluster, gpu_tokens_per_second, *lengths, is_bound=is_bound)

    def hourly_cost(self, gpus: int | None = None) -> float | None:
        """Money per hour of all devices, or of a number of them; None without a price."""
        return hourly_cost(self.cluster, self.cluster.devices if gpus is None else gpus)

    def grid(self) -> ServingGrid | None:
        """Times of the best layouts around the lengths and concurrencies that were asked for.

        None if no layout fits, rates are unknown, there are a draft or images, or on a laptop or phone.
        """
        if self.draft is not None or self.images is not None or self.is_local:
            return None
        return serving_grid(self.deployment, self.input, self.output, self.concurrency)

    def goal_rows(self, top: int = 5) -> tuple[GoalRow, ...]:
        """The layouts that reach the goals for TTFT and TPOT, by throughput at the most requests that do."""
        if self.goals is None:
            return ()
        layouts = enumerate_layouts(self.architecture, self.cluster)
        rows = (self._goal_row(layouts[row]) for row in range(len(layouts)))
        return ranked(row for row in rows if row is not None)[:top]

    def _goal_row(self, layout: Layout) -> GoalRow | None:
        if self.draft is not None and layout_problem(self.draft, layout):
            return None
        gpus = gpus_of(self.loaded, layout, self.engine, self.gpus[0].total_bytes, self.kv)
        other = replace(self, layout=layout, gpus=gpus)
        most = other.max_sequences()
        if self.goals is None or not most:
            return None
        calibrated = calibrated_server(self.architecture, layout, self.cluster, self.engine.name, self.kv)
        if calibrated is None:
            return None
        draft = draft_server(self.draft, calibrated[0], layout, self.cluster, self.kv)
        requests = most_requests(calibrated[0], self.goals, self.input, self.output, most, draft)
        times = replace(other, concurrency=(requests,))._times(calibrated) if requests else None
        if times is None:
            return None
        return GoalRow(layout, times.points[0], is_corrected=times.factors is not None)

    def max_context(self, sequences: int = 1) -> int:
        """The longest context of that number of concurrent sequences."""
        _check_positive("sequences", sequences)
        return self.deployment.max_context(sequences)

    @property
    def sequence_bytes(self) -> int:
        """Bytes of the cache of one sequence at its end, over all layers, undivided."""
        return self.deployment.sequence_bytes

    def points(self) -> tuple[ConcurrencyPoint, ...]:
        """One point per concurrency that was asked for."""
        fullest = self.memory
        first = sum(gpu.layers for gpu in self.gpus[: fullest.stage])
        layers = self.loaded.layers[first : first + fullest.layers]
        cost = sequence_cost(self.loaded, self.kv, self.layout.tensor, layers)
        each = cost.bytes_of(self.context)
        return tuple(
            ConcurrencyPoint(
                count, -(-count // self.servers) * each, self.fits_at(count), self.max_context(count)
            )
            for count in self.concurrency
        )

    def curve(self) -> tuple[tuple[int, int], ...]:
        """Sequences in powers of two, and the longest context of each; none on a laptop or phone."""
        pairs: list[tuple[int, int]] = []
        sequences = 1
        while not self.is_local and sequences <= _MOST_CURVE and (context := self.max_context(sequences)):
            pairs.append((sequences, context))
            sequences *= 2
        return tuple(pairs)

    @property
    def prefill_macs(self) -> int:
        """MACs of one prompt, without the vision tower."""
        return prefill_macs(self.architecture, self.input)

    @property
    def decode_macs(self) -> int:
        """MACs of one token after the prompt."""
        return decode_macs(self.architecture, self.input)

    def layouts(self, top: int = 5, by: str = "memory") -> tuple[LayoutRow, ...]:
        """The best layouts on all devices: those that fit first, by `memory` or by `communication`.

        There are none with a draft, what its steps send is not counted, nor on a laptop or phone.
        """
        layouts = enumerate_layouts(self.architecture, self.cluster)
        if not len(layouts) or self.draft is not None or self.is_local:
            return ()
        costs = evaluate(
            self.architecture, self.cluster, layouts,
            sequences=(max(self.concurrency),), context=self.context, kv=self.kv,
        )  # fmt: skip
        order = costs.order(by)
        is_small = costs.memory_bytes[order, 0] <= self.gpus[0].usable_bytes
        ranked = np.concatenate([order[is_small], order[~is_small]])[: _CANDIDATES * top]
        rows = [self._row(costs, int(row)) for row in ranked]
        return tuple(sorted(rows, key=lambda row: _FITS.index(row.fits))[:top])

    def _row(self, costs: LayoutCosts, row: int) -> LayoutRow:
        layout = costs.layouts[row]
        gpus = gpus_of(self.architecture, layout, self.engine, self.gpus[0].total_bytes, self.kv)
        other = replace(self, layout=layout, gpus=gpus)
        seconds = float(costs.transfer_seconds[row, 0])
        return LayoutRow(
            layout,
            int(costs.weight_bytes[row]),
            int(costs.cache_bytes[row, 0]),
            float(costs.link_bytes[row, 0]),
            float(costs.network_bytes[row, 0]),
            None if math.isnan(seconds) else seconds,
            other.fits_at(max(self.concurrency)),
            other.max_sequences(),
        )
