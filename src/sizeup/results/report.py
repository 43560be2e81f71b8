"""The report: everything that was found out about a model, and what follows from its latency."""

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
from sizeup.graph import ABSENT, Graph, name_of
from sizeup.ops.conv import is_depthwise
from sizeup.results import rollup
from sizeup.results.result import Result
from sizeup.results.rows import NO_TARGET, Group, OpRow, Port, Totals, Unknown

_MOST_BYTES = 1 << 60

if TYPE_CHECKING:
    from sizeup.checks import Room
    from sizeup.conventions import Counted
    from sizeup.latency import (
        Estimate,
        Hardware,
        Limited,
        Spent,
    )
    from sizeup.latency.roofline import Bound
    from sizeup.latency.work import Floats
    from sizeup.memory import Live, Overview, Shares, Usage
    from sizeup.results.memory_map import MemoryMap
    from sizeup.results.roofline import Roofline
    from sizeup.targets import Target


class OpRows(Sequence[OpRow]):
    """The rows of all operators, each made when it is asked for: columns stay columns."""

    def __init__(
        self, cost: Cost, moved: Bytes, precision: DType | None, usage: Usage, latency: Estimate | None
    ) -> None:
        self._cost = cost
        self._taken = None if latency is None else latency.by_op()
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
            return [self[each] for each in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} operators; no operator {index}")
        return self._row(index % len(self))

    def __iter__(self) -> Iterator[OpRow]:
        return (self._row(index) for index in range(len(self)))

    @cached_property
    def _live(self) -> Live:
        from sizeup.memory import Live

        return Live(self._cost.graph, self._usage.buffers)

    def _row(self, index: int) -> OpRow:
        cost, graph = self._cost, self._cost.graph
        op = graph.ops[index]
        known = bool(cost.known[index])

        def quantity(column: Any) -> int | None:
            # Beside an unknown operator a number is what its part that is known adds to the total.
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
            None if self._taken is None else 1e3 * float(self._taken[0][index]),
            None if self._taken is None else self._taken[1][index],
            cost.reasons.get(index),
            is_depthwise(graph, op),
            self._live.largest(index),
            int(self._live.count[index]),
        )


@dataclass(frozen=True, repr=False, eq=False)
class Report(Result):
    """What a model costs at one precision.

    `save` writes .html, .md, .csv, .json, .trace.json for Perfetto, .onnx for a copy with figures, and
    .overlay.json for Model Explorer, with .macs, .bytes, .live or .ms before it; `plot` draws memory, or what
    x.roofline.png or x.modules.svg name.
    """

    cost: Cost
    precision: DType | None = None
    sha256: str | None = None
    latency: Estimate | None = None
    no_latency: str = NO_TARGET  # why, where there is no estimate
    convention: Counted | None = None  # what another tool says of every operator, where that was asked for
    source: Path | None = None  # the file that was read, where it was one
    target: Target | None = None  # what it was sized up for, with an estimate or without
    moved: Bytes = field(init=False, repr=False)
    memory: Overview = field(init=False, repr=False)
    """What a run holds in memory excluding the weights, and how low that could go."""
    room: Room | None = field(init=False, repr=False)
    """Whether the target has room for the model; None without a target."""
    latency_details: LatencyDetails | None = field(init=False, repr=False)
    """Rates, energy and limits of the estimate; None without one."""

    def __post_init__(self) -> None:
        from sizeup.memory import overview  # who only counts loads no planner
        from sizeup.targets import word_bits_of

        found = {
            "moved": self.cost.bytes_at(self.precision),
            "memory": overview(self.graph, self.precision, word_bits_of(self.target)),
            "room": self._room(),
            "latency_details": None if self.latency is None else details_of(self.latency),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def _room(self) -> Room | None:
        if self.target is None:
            return None
        from sizeup.checks import Needs, room

        is_file = self.source is not None and self.source.is_file()
        size = self.source.stat().st_size if is_file and self.source is not None else None
        return room(Needs(self.graph, self.cost, self.precision, size), self.target)

    @property
    def graph(self) -> Graph:
        """The graph that was counted."""
        return self.cost.graph

    @property
    def name(self) -> str:
        """The model's name."""
        return self.graph.name or "model"

    @property
    def format(self) -> str:
        """Where the model came from: torch, onnx, tflite, or empty for a graph made by hand."""
        return self.graph.format

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions that were made on the way, and doubts about the file."""
        totals = self.totals
        if max(totals.weight_bytes, totals.read_bytes, totals.written_bytes) <= _MOST_BYTES:
            return self.graph.notes
        return (*self.graph.notes, "more bytes than any machine holds: shapes of the model may be wrong")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """What the model is fed with."""
        return _ports(self.graph, self.graph.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """What the model gives."""
        return _ports(self.graph, self.graph.outputs)

    @cached_property
    def totals(self) -> Totals:
        """The sums over all operators that are known."""
        return Totals(
            self.cost.total_macs,
            self.cost.total_elementwise,
            self.cost.total_params,
            self.moved.weights,
            total(self.moved.read),
            total(self.moved.written),
        )

    @property
    def coverage(self) -> float:
        """The share of operators that could be counted, from 0 to 1."""
        count = len(self.graph.ops)
        return self.known_ops / count if count else 1.0

    @property
    def known_ops(self) -> int:
        """How many operators could be counted."""
        return len(self.graph.ops) - len(self.cost.reasons)

    @cached_property
    def unknown(self) -> tuple[Unknown, ...]:
        """The operators that could not be counted, by kind and reason, the most frequent first."""
        ops = self.graph.ops
        found = Counter((ops[index].kind, reason) for index, reason in self.cost.reasons.items())
        return tuple(Unknown(kind, count, reason) for (kind, reason), count in found.most_common())

    @cached_property
    def ops(self) -> OpRows:
        """One row an operator, in the order in which they run."""
        return OpRows(self.cost, self.moved, self.precision, self.memory.usage, self.latency)

    @cached_property
    def tensor_bytes(self) -> tuple[int | None, ...]:
        """The size of every tensor of the graph at the precision; None if data decides it."""
        from sizeup.memory import tensor_bytes

        tensors = self.graph.tensors
        return tuple(None if t.elements is None else tensor_bytes(t, self.precision) for t in tensors)

    @cached_property
    def memory_shares(self) -> Shares:
        """What each operator reads, makes and takes of the live memory, and what waits."""
        from sizeup.memory import shares

        return shares(self.graph, self.memory.usage.buffers)

    @cached_property
    def memory_map(self) -> MemoryMap | None:
        """Where every buffer is in memory, and when; None if sizes depend on data or nothing runs."""
        from sizeup.results.memory_map import memory_map

        return memory_map(self.graph, self.memory)

    @cached_property
    def roofline(self) -> Roofline | None:
        """What operators attain under the roofs of the target; None without an estimate on one."""
        from sizeup.results.roofline import roofline_of

        return None if self.latency is None else roofline_of(self.latency)

    @cached_property
    def what_if(self) -> dict[str, Any] | None:
        """Columns from which other precisions of layers follow; None if no layer has a choice."""
        from sizeup.results.what_if import what_if  # mixtures are for pages alone

        return what_if(self)

    def save(self, path: str | PathLike[str], *, raw_csv: bool = False) -> None:
        """Write the report as the ending of the file says; what only a page shows is computed first."""
        if fspath(path).lower().endswith(".html"):
            self.memory_map, self.roofline, self.what_if  # noqa: B018 - a renderer computes nothing
        super().save(path, raw_csv=raw_csv)

    @cached_property
    def op_seconds(self) -> Floats | None:
        """The estimated time of every operator; one that is merged into another has none of its own."""
        return None if self.latency is None else self.latency.by_op()[0]

    def by_kind(self) -> tuple[Group, ...]:
        """One row a kind of operator, the costliest first; the rows add up to the totals."""
        return rollup.by_kind(self.cost, self.moved, self.op_seconds)

    def by_module(self, depth: int | None = None) -> tuple[Group, ...]:
        """One row a module, cut at `depth` names; the rows add up to the totals."""
        return rollup.by_module(self.cost, self.moved, depth, self.op_seconds)

    def by_module_and_kind(self, depth: int | None = None) -> tuple[Group, ...]:
        """One row a kind of operator within each module; the rows add up to the totals."""
        return rollup.by_module_and_kind(self.cost, self.moved, depth, self.op_seconds)

    def by_precision(self) -> tuple[Group, ...]:
        """One row a number type that operators have, the costliest first; the rows add up to the totals."""
        return rollup.by_precision(self.cost, self.moved, self.precision, self.op_seconds)

    def module_tree(self) -> tuple[Group, ...]:
        """One row a module with all that is inside it, outer modules before inner ones."""
        return rollup.module_tree(self.cost, self.moved, self.op_seconds)

    def plot_roofline(self, path: str | PathLike[str]) -> Path:
        """Draw what every operator attains under the roofs of the target; returns the path."""
        return self._plot(path, "roofline")

    def plot_modules(self, path: str | PathLike[str]) -> Path:
        """Draw the cost of every module as .png or .svg; returns the path."""
        return self._plot(path, "modules")

    def plot_memory(self, path: str | PathLike[str]) -> Path:
        """Draw memory by operator as .png or .svg: inputs, outputs and what waits; returns the path."""
        return self._plot(path, "memory")

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return self._page()


def _ports(graph: Graph, identities: tuple[int, ...]) -> tuple[Port, ...]:
    tensors = [graph.tensors[i] for i in identities]
    return tuple(Port(each.name, each.shape, each.dtype.name) for each in tensors)


def report_of(
    graph: Graph,
    cost: Cost,
    precision: DType | None = None,
    *,
    sha256: str | None = None,
    latency: Estimate | str | None = None,
    convention: Counted | None = None,
    source: Path | None = None,
    target: Target | None = None,
) -> Report:
    """The report on a graph that was counted, its bytes taken at the given precision.

    `latency` is an estimate, or the reason why there is none.
    """
    if cost.graph is not graph:
        raise ValueError("the cost was counted on another graph")
    found, reason = (None, latency) if isinstance(latency, str) else (latency, NO_TARGET)
    return Report(cost, precision, sha256, found, reason, convention, source, target)


@dataclass(frozen=True, slots=True, eq=False)
class LatencyDetails:
    """An estimate and what the device does meanwhile; None if it cannot be told."""

    estimate: Estimate
    hardware: Hardware | None
    energy: Spent | None
    bound_by: Mapping[Bound, Limited] | None
    flops_per_byte: Mapping[str, float]


def details_of(estimate: Estimate) -> LatencyDetails:
    """What follows from an estimate."""
    from sizeup.latency import energy, flops_per_byte, hardware_of, limited

    return LatencyDetails(
        estimate, hardware_of(estimate), energy(estimate), limited(estimate), flops_per_byte(estimate)
    )
