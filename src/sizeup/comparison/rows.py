"""The rows of a comparison: matched ops, the properties that changed, and their costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sizeup import units
from sizeup.comparison.facts import Facts, class_of, dims, is_product, plain
from sizeup.comparison.matching import Matched
from sizeup.comparison.regions import Group
from sizeup.cost import Bytes, Cost
from sizeup.dtypes import DType, precision_name
from sizeup.graph import ABSENT, Graph, Op, Tensor, is_precomputed, name_of

Status = Literal["same", "changed", "replaced", "fused", "split", "added", "removed"]
STATUSES: tuple[Status, ...] = ("changed", "replaced", "fused", "split", "added", "removed", "same")

# Why an op may be in one model only, by its class.
_ONE_SIDED_REASONS = {
    "transpose": "different memory layout",
    "conversion": "dtype conversion",
    "identity": "no effect at inference",
    "reshape": "alias, moves no bytes",
}
_PADDING = "padding that the other model fuses into the next op"
_PRECOMPUTED = "computed before the first inference"
AMOUNTS = ("params", "macs")  # columns that follow from others and are not causes


@dataclass(frozen=True, slots=True)
class Change:
    """One property that differs between two matched ops."""

    column: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The total cost of the ops on one side of a row; seconds are None without a target."""

    macs: int = 0
    params: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Matched ops of A and B, by index; () if one model has none."""

    status: Status
    a: tuple[int, ...]
    b: tuple[int, ...]
    name: str
    matched_by: str  # name, structure, or empty
    a_op_kinds: tuple[str, ...]
    b_op_kinds: tuple[str, ...]
    changes: tuple[Change, ...]
    reason: str
    before: Figures
    after: Figures
    known: bool  # whether the cost of all its ops is known

    @property
    def macs(self) -> int:
        """MACs of B minus those of A."""
        return self.after.macs - self.before.macs

    @property
    def params(self) -> int:
        """Parameters of B minus those of A."""
        return self.after.params - self.before.params

    @property
    def traffic_bytes(self) -> int:
        """Bytes moved by B minus those moved by A."""
        before, after = self.before, self.after
        return after.read_bytes + after.written_bytes - before.read_bytes - before.written_bytes

    @property
    def seconds(self) -> float | None:
        """Seconds of B minus those of A; None if one is unknown."""
        if self.before.seconds is None or self.after.seconds is None:
            return None
        return self.after.seconds - self.before.seconds

    @property
    def is_explained(self) -> bool:
        """Whether a difference in MACs has a cause: missing ops, or properties that differ."""
        if not self.macs or not self.known:
            return not self.macs
        if self.status in ("added", "removed", "replaced"):
            return True
        return any(change.column not in AMOUNTS for change in self.changes)


@dataclass(frozen=True, slots=True, eq=False)
class ModelCosts:
    """The costs of a model, its bytes at one precision, and its seconds per op if there is a target."""

    cost: Cost
    moved: Bytes
    precision: DType | None = None
    seconds: Sequence[float] | None = None

    def figures(self) -> Callable[[Iterable[int]], Figures]:
        """A function that sums the costs of some ops, as exact Python integers."""
        columns = (self.cost.macs, self.cost.params, self.moved.read, self.moved.written)
        macs, params, read, written = (column.tolist() for column in columns)
        op_seconds = self.seconds

        def together(ops: Iterable[int]) -> Figures:
            indices = list(ops)
            return Figures(
                sum(macs[index] for index in indices),
                sum(params[index] for index in indices),
                sum(read[index] for index in indices),
                sum(written[index] for index in indices),
                None if op_seconds is None else sum(op_seconds[index] for index in indices),
            )

        return together


class RowBuilder:
    """Builds the rows of two models from groups."""

    def __init__(
        self, a: Facts, b: Facts, matched: Matched, price_a: ModelCosts, price_b: ModelCosts
    ) -> None:
        self.a, self.b, self.matched = a, b, matched
        self.price_a, self.price_b = price_a, price_b
        self.figures = (price_a.figures(), price_b.figures())
        self.same_layout = ("tflite" in (a.graph.format, b.graph.format)) == (
            a.graph.format == b.graph.format == "tflite"
        )
        self.same_format = a.graph.format == b.graph.format

    def row(self, group: Group) -> Row:
        """The row of a group."""
        changes = () if group.core is None else tuple(self._changes(*group.core))
        before, after = self.figures[0](group.a), self.figures[1](group.b)
        costs = (self.price_a.cost, self.price_b.cost)
        known = all(
            int(index) not in cost.reasons
            for cost, ops in zip(costs, (group.a, group.b), strict=True)
            for index in ops
        )
        if group.core is not None and len(group.a) == len(group.b) == 1:
            changes += tuple(_amounts(before, after))
        return Row(
            _status(group, changes, before.macs == after.macs),
            tuple(sorted(group.a)),
            tuple(sorted(group.b)),
            self._name(group),
            group.matched_by,
            _kinds(self.a.graph, group.a),
            _kinds(self.b.graph, group.b),
            changes,
            self._reason(group),
            before,
            after,
            known,
        )

    def _name(self, group: Group) -> str:
        if group.core is not None:
            named = (_label(self.a, group.core[0]), _label(self.b, group.core[1]))
            return named[0] or named[1]
        side, ops = (self.a, group.a) if group.a else (self.b, group.b)
        return _label(side, ops[0])

    def _reason(self, group: Group) -> str:
        if group.notes:
            return ", ".join(dict.fromkeys(group.notes))
        if group.a and group.b:
            return ""
        side, index = (self.a, group.a[0]) if group.a else (self.b, group.b[0])
        graph, op = side.graph, side.graph.ops[index]
        if is_precomputed(graph, op):
            return _PRECOMPUTED
        if op.kind == "pad":
            return _PADDING if self._is_padded_within(index, bool(group.a)) else ""
        return _ONE_SIDED_REASONS.get(class_of(op.kind), "")

    def _is_padded_within(self, pad: int, of_a: bool) -> bool:
        """Whether the partner of its reader reads the unpadded tensor."""
        side, other, partner = (self.a, self.b, self.matched.a) if of_a else (self.b, self.a, self.matched.b)
        readers = side.readers_of(pad)
        if len(readers) != 1 or partner[readers[0]] < 0:
            return False
        if class_of(side.graph.ops[readers[0]].kind) not in ("conv", "pool"):
            return False
        input_sizes = [
            dims(facts.graph.tensors[op.inputs[0]].shape)
            for facts, op in (
                (side, side.graph.ops[pad]),
                (other, other.graph.ops[partner[readers[0]]]),
            )
        ]
        return input_sizes[0] == input_sizes[1]

    def _changes(self, i: int, j: int) -> Iterator[Change]:
        """The causes that differ: op kind, shapes, attributes, dtype."""
        a, b = self.a.graph, self.b.graph
        one, other = a.ops[i], b.ops[j]
        if one.kind != other.kind and class_of(one.kind) != class_of(other.kind):
            yield Change("kind", one.kind, other.kind)
        yield from self._shapes("output", a, one.outputs[:1], b, other.outputs[:1])
        # In another format, padding may be a separate op, and weights have another layout.
        if self.same_format:
            yield from self._shapes("input", a, one.inputs, b, other.inputs)
        elif is_product(one.kind):
            yield from self._shapes("weights", a, _weights(a, one), b, _weights(b, other))
        yield from self._attributes(one, other)
        types = [
            _type(graph, op, price.precision)
            for graph, op, price in ((a, one, self.price_a), (b, other, self.price_b))
        ]
        if types[0] != types[1]:
            yield Change("precision", types[0], types[1])
        else:
            yield from self._weight_types(one, other)

    def _weight_types(self, one: Op, other: Op) -> Iterator[Change]:
        """The dtypes of weights if they differ although the outputs have one dtype."""
        types = [
            [_type_at(graph.tensors[identity], price.precision) for identity in _weights(graph, op)]
            for graph, op, price in ((self.a.graph, one, self.price_a), (self.b.graph, other, self.price_b))
        ]
        if all(types) and types[0] != types[1]:
            yield Change("weight dtype", types[0][0], types[1][0])

    def _shapes(
        self,
        column: str,
        a: Graph,
        ours: tuple[int, ...],
        b: Graph,
        theirs: tuple[int, ...],
    ) -> Iterator[Change]:
        shapes = [
            [graph.tensors[identity].shape for identity in identities if identity != ABSENT]
            for graph, identities in ((a, ours), (b, theirs))
        ]
        if self.same_layout:
            equal = shapes[0] == shapes[1] or (
                not self.same_format and _sorted_sizes(shapes[0]) == _sorted_sizes(shapes[1])
            )
        else:
            equal = _sorted_sizes(shapes[0]) == _sorted_sizes(shapes[1])
        if not equal:
            yield Change(column, *(_shapes_text(identity) for identity in shapes))

    def _attributes(self, one: Op, other: Op) -> Iterator[Change]:
        for key in sorted(one.attrs.keys() & other.attrs.keys()):
            before, after = plain(one.attrs[key]), plain(other.attrs[key])
            if before != after and (self.same_format or key in _COMPARABLE):
                yield Change(key, str(one.attrs[key]), str(other.attrs[key]))


# Attributes with the same meaning in all formats.
_COMPARABLE = frozenset(("groups", "kernel", "stride", "dilation", "out_channels"))


def _weights(graph: Graph, op: Op) -> tuple[int, ...]:
    return tuple(
        identity for identity in op.inputs[1:2] if identity != ABSENT and graph.tensors[identity].is_parameter
    )


def _sorted_sizes(shapes: list[Any]) -> list[Any]:
    return [dims(shape) for shape in shapes]


def _shapes_text(shapes: list[Any]) -> str:
    return ", ".join(units.shape(shape) for shape in shapes)


def _type(graph: Graph, op: Op, precision: DType | None) -> str:
    """The dtype of an op's first output at the given precision."""
    if not op.outputs:
        return ""
    return _type_at(graph.tensors[op.outputs[0]], precision)


def _type_at(tensor: Tensor, precision: DType | None) -> str:
    return precision_name(precision if precision is not None and tensor.follows_precision else tensor.dtype)


def _amounts(before: Figures, after: Figures) -> Iterator[Change]:
    """Counts that differ, with or without a cause."""
    if before.params != after.params:
        yield Change("params", f"{before.params:,}", f"{after.params:,}")
    if before.macs != after.macs:
        yield Change("macs", f"{before.macs:,}", f"{after.macs:,}")


def _status(group: Group, changes: tuple[Change, ...], equal_macs: bool) -> Status:
    if not group.b:
        return "removed"
    if not group.a:
        return "added"
    if len(group.a) == len(group.b) == 1:
        return "changed" if changes or group.core is None or not equal_macs else "same"
    if len(group.a) == len(group.b) or not equal_macs:
        return "replaced"
    return "fused" if len(group.a) > len(group.b) else "split"


def _kinds(graph: Graph, ops: Iterable[int]) -> tuple[str, ...]:
    """Op kinds in execution order, with their fused activations."""
    op_kinds = []
    for index in sorted(ops):
        activation = graph.ops[index].attrs.get("activation")
        op_kinds.append(f"{graph.ops[index].kind} ({activation})" if activation else graph.ops[index].kind)
    return tuple(op_kinds)


def _label(side: Facts, index: int) -> str:
    op = side.graph.ops[index]
    return ".".join(side.paths[index]) or op.scope or name_of(side.graph, op)
