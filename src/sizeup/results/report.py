"""The report: the full analysis of a model, and what follows from its latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sizeup.cost import Bytes, Cost, total
from sizeup.dtypes import DType
from sizeup.files import is_file
from sizeup.graph import ABSENT, Graph, name_of
from sizeup.ops.conv import is_depthwise
from sizeup.results import rollup
from sizeup.results.result import Result
from sizeup.results.rows import NO_TARGET, Group, OpRow, Port, Totals, Unknown

_MAX_BYTES = 1 << 60

if TYPE_CHECKING:
    from sizeup.backends.compiled import NpuFit
    from sizeup.backends.overview import Overview
    from sizeup.checks import MemoryFit
    from sizeup.conventions import ConventionCounts
    from sizeup.latency import (
        EnergyEstimate,
        Estimate,
        LimiterShare,
        Throughput,
    )
    from sizeup.latency.roofline import Bound
    from sizeup.latency.work import Floats
    from sizeup.memory import LiveBreakdown, LiveTensors, Usage
    from sizeup.results.memory_layout import MemoryLayout
    from sizeup.results.roofline import Roofline
    from sizeup.targets import Target


class OpRows(Sequence[OpRow]):
    """The rows of all ops; each is built on access from columns."""

    def __init__(
        self, cost: Cost, moved: Bytes, precision: DType | None, usage: Usage, latency: Estimate | None
    ) -> None:
        self._cost = cost
        self._seconds_and_bounds = None if latency is None else latency.by_op()
        self._usage = usage
        self._moved = moved
        self._precision = precision

    def __len__(self) -> int:
        return len(self._cost.graph.ops)

    @overload
    def __getitem__(self, index: int) -> OpRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[OpRow]: ...
    def __getitem__(self, index: int | slice) -> OpRow | list[OpRow]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"operator {index} is out of range (0 to {len(self) - 1})")
        return self._row(index % len(self))

    def __iter__(self) -> Iterator[OpRow]:
        return (self._row(index) for index in range(len(self)))

    @cached_property
    def _live(self) -> LiveTensors:
        from sizeup.memory import LiveTensors

        return LiveTensors(self._cost.graph, self._usage.buffers)

    def _row(self, index: int) -> OpRow:
        cost, graph = self._cost, self._cost.graph
        op = graph.ops[index]
        known = bool(cost.known[index])

        def quantity(column: Any) -> int | None:
            # For an unknown op, a number is the known part of it.
            return int(column[index]) if known or column[index] else None

        return OpRow(
            index,
            name_of(graph, op),
            op.kind,
            op.source,
            op.scope,
            tuple(graph.tensors[i].shape for i in op.inputs if i != ABSENT),
            tuple(graph.tensors[i].shape for i in op.outputs),
            rollup.precision_of(graph, op, self._precision),
            quantity(cost.macs),
            quantity(cost.elementwise),
            int(cost.params[index]),
            quantity(self._moved.read),
            quantity(self._moved.written),
            int(self._usage.live_bytes[index]) if self._live.is_known[index] else None,
            None if self._seconds_and_bounds is None else 1e3 * float(self._seconds_and_bounds[0][index]),
            None if self._seconds_and_bounds is None else self._seconds_and_bounds[1][index],
            cost.reasons.get(index),
            is_depthwise(graph, op),
            self._live.largest(index),
            int(self._live.count[index]),
        )


@dataclass(frozen=True, repr=False, eq=False)
class Report(Result):
    """The cost of a model at one precision.

    `save` writes .html, .md, .csv, .json, .trace.json for Perfetto, .onnx (a copy with figures as metadata),
    and .overlay.json for Model Explorer, with .macs, .bytes, .live or .ms before it. `plot` draws memory, or
    the plot that x.roofline.png or x.modules.svg names.
    """

    cost: Cost
    precision: DType | None = None
    sha256: str | None = None
    latency: Estimate | None = None
    no_latency_reason: str = NO_TARGET  # the reason if there is no estimate
    convention: ConventionCounts | None = None  # another tool's counts, if requested
    source: Path | None = None  # the model file, if there is one
    target: Target | None = None  # with or without a latency estimate
    original_cost: Cost | None = None  # of the model as loaded, if a precision map was applied
    npu: NpuFit | None = None  # for an Ethos-U: what Vela reports, or why it reports nothing
    traffic: Bytes = field(init=False, repr=False)
    memory: Overview = field(init=False, repr=False)
    """Activation memory of an inference, excluding weights, and its lower bound."""
    memory_fit: MemoryFit | None = field(init=False, repr=False)
    """The fit verdict on the target; None without a target."""
    latency_details: LatencyDetails | None = field(init=False, repr=False)
    """Throughput, energy and bounds of the estimate; None without one."""

    def __post_init__(self) -> None:
        memory_fit, latency = self._fit_verdict(), self.latency
        if memory_fit is not None and latency is not None:
            from sizeup.checks.applicability import with_applicability

            latency = with_applicability(latency, memory_fit)
        derived = {
            "traffic": self.cost.bytes_at(self.precision),
            "memory": self._memory(),
            "memory_fit": memory_fit,
            "latency": latency,
            "latency_details": None if latency is None else details_of(latency),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _memory(self) -> Overview:
        from sizeup.backends.overview import overview  # counting alone does not load the planner

        return overview(self.graph, self.precision, self.target)

    def _fit_verdict(self) -> MemoryFit | None:
        if self.target is None:
            return None
        from sizeup.checks import Needs, fit_memory

        is_saved = self.source is not None and is_file(self.source)
        size = self.source.stat().st_size if is_saved and self.source is not None else None
        needs = Needs(self.graph, self.cost, self.precision, size, self.original_cost)
        return fit_memory(needs, self.target, npu=self.npu)

    @property
    def graph(self) -> Graph:
        """The analyzed graph."""
        return self.cost.graph

    @property
    def name(self) -> str:
        """The model's name."""
        return self.graph.name or "model"

    @property
    def format(self) -> str:
        """The format of the model: torch, onnx, tflite; empty for a graph built in code."""
        return self.graph.format

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions of the analysis, and problems of the file."""
        totals = self.totals
        if max(totals.weight_bytes, totals.read_bytes, totals.written_bytes) <= _MAX_BYTES:
            return self.graph.notes
        return (*self.graph.notes, "more than 1 EiB of data: shapes in the model may be wrong")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the model."""
        return _ports(self.graph, self.graph.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the model."""
        return _ports(self.graph, self.graph.outputs)

    @cached_property
    def totals(self) -> Totals:
        """The sums over all known ops."""
        return Totals(
            self.cost.total_macs,
            self.cost.total_elementwise,
            self.cost.total_params,
            self.traffic.weights,
            total(self.traffic.read),
            total(self.traffic.written),
        )

    @property
    def coverage(self) -> float:
        """The share of ops that could be counted, from 0 to 1."""
        count = len(self.graph.ops)
        return self.known_ops / count if count else 1.0

    @property
    def known_ops(self) -> int:
        """The number of ops that could be counted."""
        return len(self.graph.ops) - len(self.cost.reasons)

    @cached_property
    def unknown_ops(self) -> tuple[Unknown, ...]:
        """The ops that could not be counted, by op kind and reason, the most frequent first."""
        ops = self.graph.ops
        counts = Counter((ops[index].kind, reason) for index, reason in self.cost.reasons.items())
        return tuple(Unknown(op_kind, count, reason) for (op_kind, reason), count in counts.most_common())

    @cached_property
    def ops(self) -> OpRows:
        """One row per op, in execution order."""
        return OpRows(self.cost, self.traffic, self.precision, self.memory.usage, self.latency)

    @cached_property
    def tensor_bytes(self) -> tuple[int | None, ...]:
        """The size of every tensor at the precision; None if it depends on data."""
        from sizeup.memory import tensor_bytes

        tensors = self.graph.tensors
        return tuple(None if t.elements is None else tensor_bytes(t, self.precision) for t in tensors)

    @cached_property
    def memory_shares(self) -> LiveBreakdown:
        """Inputs, outputs, workspace and waiting tensors of the live memory, per op."""
        from sizeup.memory import live_breakdown

        return live_breakdown(self.graph, self.memory.usage.buffers)

    @cached_property
    def memory_layout(self) -> MemoryLayout | None:
        """The memory plan of all buffers; None if sizes depend on data or there are no ops."""
        from sizeup.results.memory_layout import memory_layout

        return memory_layout(self.graph, self.memory)

    @cached_property
    def roofline(self) -> Roofline | None:
        """Throughput of ops under the roofs of the target; None without an estimate, or on an Ethos-U."""
        from sizeup.results.roofline import roofline_of

        return None if self.latency is None or self.npu is not None else roofline_of(self.latency)

    @cached_property
    def what_if(self) -> dict[str, Any] | None:
        """Data for changing layer precisions in the HTML page; None if no layer has a choice."""
        from sizeup.results.what_if import what_if  # only HTML pages need it

        return what_if(self)

    def save(self, path: str | PathLike[str], *, raw_csv: bool = False) -> None:
        """Writes the report in the format of the file's ending."""
        if fspath(path).lower().endswith(".html"):
            self.memory_layout, self.roofline, self.what_if  # noqa: B018 - cached: renderers compute nothing
        super().save(path, raw_csv=raw_csv)

    @cached_property
    def op_seconds(self) -> Floats | None:
        """The estimated latency of every op; 0 if it is fused into another."""
        return None if self.latency is None else self.latency.by_op()[0]

    def by_op_kind(self) -> tuple[Group, ...]:
        """Returns one row per op kind, the costliest first; the rows add up to the totals."""
        return rollup.by_op_kind(self.cost, self.traffic, self.op_seconds)

    def by_module(self, depth: int | None = None) -> tuple[Group, ...]:
        """Returns one row per module, cut at `depth` names; the rows add up to the totals."""
        return rollup.by_module(self.cost, self.traffic, depth, self.op_seconds)

    def by_module_and_op_kind(self, depth: int | None = None) -> tuple[Group, ...]:
        """Returns one row per op kind within each module; the rows add up to the totals."""
        return rollup.by_module_and_op_kind(self.cost, self.traffic, depth, self.op_seconds)

    def by_precision(self) -> tuple[Group, ...]:
        """Returns one row per precision of ops, the costliest first; the rows add up to the totals."""
        return rollup.by_precision(self.cost, self.traffic, self.precision, self.op_seconds)

    def module_tree(self) -> tuple[Group, ...]:
        """Returns one row per module with everything inside it, outer modules before inner ones."""
        return rollup.module_tree(self.cost, self.traffic, self.op_seconds)

    def plot_roofline(self, path: str | PathLike[str]) -> Path:
        """Draws the throughput of every op under the roofs of the target; returns the path."""
        return self._plot(path, "roofline")

    def plot_modules(self, path: str | PathLike[str]) -> Path:
        """Draws the cost of every module as .png or .svg; returns the path."""
        return self._plot(path, "modules")

    def plot_memory(self, path: str | PathLike[str]) -> Path:
        """Draws memory by op as .png or .svg: inputs, outputs and waiting tensors; returns the path."""
        return self._plot(path, "memory")

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return self._page()


def _ports(graph: Graph, identities: tuple[int, ...]) -> tuple[Port, ...]:
    tensors = [graph.tensors[i] for i in identities]
    return tuple(Port(tensor.name, tensor.shape, tensor.dtype.name) for tensor in tensors)


def report_of(
    graph: Graph,
    cost: Cost,
    precision: DType | None = None,
    *,
    sha256: str | None = None,
    latency: Estimate | str | None = None,
    convention: ConventionCounts | None = None,
    source: Path | None = None,
    target: Target | None = None,
    original_cost: Cost | None = None,
    npu: NpuFit | None = None,
) -> Report:
    """Returns the report on a counted graph, with bytes at the given precision.

    `latency` is an estimate, or the reason why there is none. `original_cost` is the cost before a precision
    map was applied.
    """
    if cost.graph is not graph:
        raise ValueError("the cost was counted on another graph")
    estimate, reason = (None, latency) if isinstance(latency, str) else (latency, NO_TARGET)
    return Report(cost, precision, sha256, estimate, reason, convention, source, target, original_cost, npu)


@dataclass(frozen=True, slots=True, eq=False)
class LatencyDetails:
    """An estimate and the utilization of the device; None if undetermined."""

    estimate: Estimate
    throughput: Throughput | None
    energy: EnergyEstimate | None
    bound_by: Mapping[Bound, LimiterShare] | None
    flops_per_byte: Mapping[str, float]


def details_of(estimate: Estimate) -> LatencyDetails:
    """Returns the details of an estimate."""
    from sizeup.latency import energy, flops_per_byte, throughput_of, time_by_limiter

    return LatencyDetails(
        estimate,
        throughput_of(estimate),
        energy(estimate),
        time_by_limiter(estimate),
        flops_per_byte(estimate),
    )
