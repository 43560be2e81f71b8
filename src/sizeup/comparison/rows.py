"""The rows of a comparison: what stands for what, what changed in which column, and what that adds up to."""

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
from sizeup.graph import ABSENT, Graph, Op, name_of

Status = Literal["same", "changed", "replaced", "fused", "split", "added", "removed"]
STATUSES: tuple[Status, ...] = ("changed", "replaced", "fused", "split", "added", "removed", "same")

# Why an operator may be there in one model alone, by its class.
_REASONS = {
    "transpose": "another order of axes in memory",
    "conversion": "a change of number type",
    "identity": "does nothing at inference",
    "reshape": "renames bytes, moves none",
}
_PADDING = "padding that the other model has within the operator after it"
_PREPARED = "computed before the first run"
AMOUNTS = ("params", "macs")  # columns that follow from others, and explain nothing by themselves


@dataclass(frozen=True, slots=True)
class Change:
    """One fact that differs between two operators that stand for each other."""

    column: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What the operators of one side of a row cost together; seconds are None without a target."""

    macs: int = 0
    params: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Operators of A and of B that stand for each other, by their places; () where one model has none."""

    status: Status
    a: tuple[int, ...]
    b: tuple[int, ...]
    name: str
    matched_by: str  # name, structure, or empty
    kinds_a: tuple[str, ...]
    kinds_b: tuple[str, ...]
    changes: tuple[Change, ...]
    why: str
    before: Figures
    after: Figures
    known: bool  # whether all of its operators could be counted

    @property
    def macs(self) -> int:
        """MACs that B has more than A."""
        return self.after.macs - self.before.macs

    @property
    def params(self) -> int:
        """Parameters that B has more than A."""
        return self.after.params - self.before.params

    @property
    def traffic_bytes(self) -> int:
        """Bytes that B moves more than A."""
        before, after = self.before, self.after
        return after.read_bytes + after.written_bytes - before.read_bytes - before.written_bytes

    @property
    def seconds(self) -> float | None:
        """Seconds that B takes longer than A."""
        if self.before.seconds is None or self.after.seconds is None:
            return None
        return self.after.seconds - self.before.seconds

    @property
    def is_explained(self) -> bool:
        """Whether a difference of its MACs has a cause: operators that one model lacks, facts that differ."""
        if not self.macs or not self.known:
            return not self.macs
        if self.status in ("added", "removed", "replaced"):
            return True
        return any(change.column not in AMOUNTS for change in self.changes)


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A counted model, its bytes at one precision and its seconds by operator, where there is a target."""

    cost: Cost
    moved: Bytes
    precision: DType | None = None
    seconds: Sequence[float] | None = None

    def figures(self) -> Callable[[Iterable[int]], Figures]:
        """What some operators cost together, as exact Python ints."""
        columns = (self.cost.macs, self.cost.params, self.moved.read, self.moved.written)
        macs, params, read, written = (column.tolist() for column in columns)
        taken = self.seconds

        def together(ops: Iterable[int]) -> Figures:
            places = list(ops)
            return Figures(
                sum(macs[each] for each in places),
                sum(params[each] for each in places),
                sum(read[each] for each in places),
                sum(written[each] for each in places),
                None if taken is None else sum(taken[each] for each in places),
            )

        return together


class RowMaker:
    """Makes rows of groups; both models are known to it."""

    def __init__(self, a: Facts, b: Facts, matched: Matched, price_a: Priced, price_b: Priced) -> None:
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
            group.how,
            _kinds(self.a.graph, group.a),
            _kinds(self.b.graph, group.b),
            changes,
            self._why(group),
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

    def _why(self, group: Group) -> str:
        if group.words:
            return ", ".join(dict.fromkeys(group.words))
        if group.a and group.b:
            return ""
        side, index = (self.a, group.a[0]) if group.a else (self.b, group.b[0])
        graph, op = side.graph, side.graph.ops[index]
        if op.outputs and all(graph.tensors[each].data is not None for each in op.outputs):
            return _PREPARED
        if op.kind == "pad":
            return _PADDING if self._is_padded_within(index, bool(group.a)) else ""
        return _REASONS.get(class_of(op.kind), "")

    def _is_padded_within(self, pad: int, of_a: bool) -> bool:
        """Whether who reads it stands for an operator that reads what is not padded."""
        side, other, partner = (self.a, self.b, self.matched.a) if of_a else (self.b, self.a, self.matched.b)
        readers = side.readers_of(pad)
        if len(readers) != 1 or partner[readers[0]] < 0:
            return False
        if class_of(side.graph.ops[readers[0]].kind) not in ("conv", "pool"):
            return False
        given = [
            dims(each.graph.tensors[op.inputs[0]].shape)
            for each, op in (
                (side, side.graph.ops[pad]),
                (other, other.graph.ops[partner[readers[0]]]),
            )
        ]
        return given[0] == given[1]

    def _changes(self, i: int, j: int) -> Iterator[Change]:
        """The facts that differ, those that are causes: kind, shapes, attributes, number type."""
        a, b = self.a.graph, self.b.graph
        one, other = a.ops[i], b.ops[j]
        if one.kind != other.kind and class_of(one.kind) != class_of(other.kind):
            yield Change("kind", one.kind, other.kind)
        yield from self._shapes("output", a, one.outputs[:1], b, other.outputs[:1])
        # Padding may be an operator of its own, and weights lie otherwise, in another format.
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
            yield Change("type", types[0], types[1])

    def _shapes(
        self,
        column: str,
        a: Graph,
        ours: tuple[int, ...],
        b: Graph,
        theirs: tuple[int, ...],
    ) -> Iterator[Change]:
        shapes = [
            [graph.tensors[each].shape for each in identities if each != ABSENT]
            for graph, identities in ((a, ours), (b, theirs))
        ]
        if self.same_layout:
            equal = shapes[0] == shapes[1] or (
                not self.same_format and _loose(shapes[0]) == _loose(shapes[1])
            )
        else:
            equal = _loose(shapes[0]) == _loose(shapes[1])
        if not equal:
            yield Change(column, *(_written(each) for each in shapes))

    def _attributes(self, one: Op, other: Op) -> Iterator[Change]:
        for key in sorted(one.attrs.keys() & other.attrs.keys()):
            before, after = plain(one.attrs[key]), plain(other.attrs[key])
            if before != after and (self.same_format or key in _COMPARABLE):
                yield Change(key, str(one.attrs[key]), str(other.attrs[key]))


# Attributes that mean the same in all formats; others are written differently.
_COMPARABLE = frozenset(("groups", "kernel", "stride", "dilation", "out_channels"))


def _weights(graph: Graph, op: Op) -> tuple[int, ...]:
    return tuple(each for each in op.inputs[1:2] if each != ABSENT and graph.tensors[each].is_parameter)


def _loose(shapes: list[Any]) -> list[Any]:
    return [dims(each) for each in shapes]


def _written(shapes: list[Any]) -> str:
    return ", ".join(units.shape(each) for each in shapes)


def _type(graph: Graph, op: Op, asked: DType | None) -> str:
    """The number type of what an operator makes, at the precision that is priced."""
    if not op.outputs:
        return ""
    tensor = graph.tensors[op.outputs[0]]
    return precision_name(asked if asked is not None and tensor.follows_precision else tensor.dtype)


def _amounts(before: Figures, after: Figures) -> Iterator[Change]:
    """Counts that differ, with a cause or without."""
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
    """Kinds in the order in which they run, with the activation that one has inside."""
    found = []
    for index in sorted(ops):
        inside = graph.ops[index].attrs.get("activation")
        found.append(f"{graph.ops[index].kind} ({inside})" if inside else graph.ops[index].kind)
    return tuple(found)


def _label(side: Facts, index: int) -> str:
    op = side.graph.ops[index]
    return ".".join(side.paths[index]) or op.scope or name_of(side.graph, op)
