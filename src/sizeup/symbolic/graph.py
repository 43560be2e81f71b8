"""Graphs with symbolic dimensions: specializations, each with the guards under which it is valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import SizeupError
from sizeup.graph import Body, Graph, Op, Tensor
from sizeup.symbolic.expression import Expression
from sizeup.symbolic.grid import Grid, Sizes, Values, points_of
from sizeup.symbolic.guards import Guard, value_at

# The most specializations read for one query: each takes as long as loading the model.
MAX_SPECIALIZATIONS = 4096
SymbolicShape: TypeAlias = tuple[Any, ...]  # a shape whose dimensions may be expressions


class NoClosedForm(Exception):
    """An op's output shape has no closed form; the message is the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Specialization:
    """A graph whose shapes are expressions, and the guards under which it is the model's graph.

    `guard_sources` names for each guard the part of the model that needs it. `reason` is set if there is no
    closed form, so that the specialization covers a single point.
    """

    graph: Graph
    example: Mapping[str, int]
    guard_sources: Mapping[Guard, str]
    reason: str | None = None

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards under which it is valid."""
        return tuple(self.guard_sources)

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is the model's graph at these sizes."""
        grid, _ = grid_of(tuple(sizes), sizes)
        return bool(grid.holds(self.guards)[0])


Reader = Callable[[Mapping[str, int]], Specialization]


class SymbolicGraph:
    """A model with symbolic dimensions.

    If the model branches on a size (pads odd sizes, special-cases batch 1), one closed form is not valid
    everywhere: further specializations are read when a point needs them.
    """

    def __init__(self, names: tuple[str, ...], example: Mapping[str, int], read: Reader) -> None:
        self.names = names
        self.example = dict(example)
        self._read = read
        self.specializations: list[Specialization] = [read(self.example)]
        self.load_count = 1

    @property
    def name(self) -> str:
        """The model's name."""
        return self.specializations[0].graph.name

    @property
    def format(self) -> str:
        """The format that the model was read from."""
        return self.specializations[0].graph.format

    def __repr__(self) -> str:
        return f"<SymbolicGraph {self.name or 'without a name'}: {', '.join(self.names)}>"

    def specialization_at(self, sizes: Mapping[str, int]) -> Specialization:
        """The specialization that covers one point, read if there is none yet."""
        for known in self.specializations:
            if known.covers(sizes):
                return known
        self.load_count += 1
        added = self._read(sizes)
        if not added.covers(sizes):
            point = sizes_text(sizes)
            raise SizeupError(
                f"{self.name}: the guards of the specialization read at {point} do not hold there"
            )
        self.specializations.append(added)
        return added

    def at(self, **sizes: int) -> Graph:
        """The graph at one point: the same as loading the model with these sizes."""
        grid, shape = grid_of(self.names, sizes)
        if shape:
            raise SizeupError("graph.at() takes one size per dimension; use count(graph).at(...) for arrays")
        point = grid.point(0)
        return bind(self.specialization_at(point).graph, point)


def grid_of(names: tuple[str, ...], sizes: Sizes) -> tuple[Grid, tuple[int, ...]]:
    """The points of some sizes as a grid, and the shape of the sizes."""
    columns, shape = points_of(names, sizes)
    return Grid(columns), shape


def cover(grid: Grid, known: list[Any], more: Callable[[Mapping[str, int]], Any]) -> list[tuple[Any, Values]]:
    """Each part with the points that meet its `guards`; `more` makes a part for a point without one."""
    rest: Values = np.arange(grid.points)
    covered: list[tuple[Any, Values]] = []
    parts, added = iter(list(known)), 0
    while len(rest):
        remaining = grid if len(rest) == grid.points else grid.take(rest)
        part = next(parts, None)
        if part is None:
            added += 1
            if added > MAX_SPECIALIZATIONS:
                raise SizeupError(
                    f"these points need more than {MAX_SPECIALIZATIONS:,} specializations; use fewer points"
                )
            part = more(remaining.point(0))
        met = remaining.holds(part.guards)
        if met.any():
            covered.append((part, rest[met]))
            rest = rest[~met]
    return covered


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Sizes as text: batch 8, height 224."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def bind(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A graph with each expression replaced by its value."""
    return replace(
        graph,
        tensors=tuple(_bound_tensor(tensor, sizes) for tensor in graph.tensors),
        ops=tuple(_bound_op(op, sizes) for op in graph.ops),
    )


def _bound_tensor(tensor: Tensor, sizes: Mapping[str, int]) -> Tensor:
    shape = tensor.shape
    if shape is None or not any(isinstance(side, Expression) for side in shape):
        return tensor
    return replace(tensor, shape=tuple(value_at(side, sizes) for side in shape))


def _bound_op(op: Op, sizes: Mapping[str, int]) -> Op:
    attrs = {name: _bound_value(value, sizes) for name, value in op.attrs.items()}
    bodies = tuple(
        Body(body.name, bind(body.graph, sizes), None if body.runs is None else value_at(body.runs, sizes))
        for body in op.bodies
    )
    return replace(op, attrs=attrs, bodies=bodies)


def _bound_value(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its expressions replaced by their values."""
    if isinstance(value, Expression):
        return value_at(value, sizes)
    if isinstance(value, tuple):
        return tuple(_bound_value(item, sizes) for item in value)
    return [_bound_value(item, sizes) for item in value] if isinstance(value, list) else value


def first_difference(left: Graph, right: Graph) -> str | None:
    """The first difference between two graphs of one model, as text; None if they are equal."""
    for one, other in zip(left.ops, right.ops, strict=False):
        location = f"{other.source or other.kind} in {other.scope or 'the model'}"
        facts = [(op.kind, op.source, op.inputs, op.outputs, dict(op.attrs)) for op in (one, other)]
        shapes = [
            [graph.tensors[identity].shape for identity in op.outputs]
            for graph, op in ((left, one), (right, other))
        ]
        bodies = zip(one.bodies, other.bodies, strict=False)
        same_bodies = len(one.bodies) == len(other.bodies) and all(
            a.runs == b.runs and first_difference(a.graph, b.graph) is None for a, b in bodies
        )
        if facts[0] != facts[1] or shapes[0] != shapes[1] or not same_bodies:
            return location
    if len(left.ops) != len(right.ops) or len(left.tensors) != len(right.tensors):
        return "the end of the model"
    return None if left.recorded_run == right.recorded_run else "memory"


def broadcast(left: SymbolicShape, right: SymbolicShape) -> SymbolicShape:
    """The shape that two tensors broadcast to, aligned at their last dimension."""
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(broadcast_size(a, b) for a, b in pairs)


def broadcast_size(left: Any, right: Any) -> Any:
    """The size that two dimensions broadcast to: one of them is 1, or both are equal."""
    if isinstance(left, int) and left == 1:
        return right
    if isinstance(right, int) and right == 1:
        return left
    if isinstance(left - right, int) and left - right == 0:
        return left
    if left == 1:
        return right
    if right == 1 or left == right:
        return left
    raise NoClosedForm(f"{left} and {right} do not broadcast")
