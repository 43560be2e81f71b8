"""Graphs with free dimensions: closed forms, each with the conditions under which it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sizeup.errors import SizeupError
from sizeup.graph.conditions import Condition, value_at
from sizeup.graph.expressions import Expression
from sizeup.graph.grids import Grid, Sizes, Values, points_of
from sizeup.graph.ir import Body, Graph, Op, Shape, Tensor

# More separate readings of a model than this are refused: each costs as much as loading it anew.
MOST_READINGS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A graph whose shapes are expressions, and where it is the graph of the model.

    `origins` says for each condition which part of the model asked for it. `reason` is set where a closed
    form could not be had, so that the piece stands for a single point.
    """

    graph: Graph
    example: Mapping[str, int]
    origins: Mapping[Condition, str]
    reason: str | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What must hold where the piece does."""
        return tuple(self.origins)

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether the piece is the model's graph at these sizes."""
        grid, _ = grid_of(tuple(sizes), sizes)
        return bool(grid.holds(self.conditions)[0])


Reader = Callable[[Mapping[str, int]], Piece]


class FreeGraph:
    """A model whose free dimensions have no sizes yet.

    Where the model itself decides by a size (pads what does not divide, treats a single image apart), one
    closed form does not hold everywhere: further pieces are read when a point asks for them.
    """

    def __init__(self, names: tuple[str, ...], example: Mapping[str, int], read: Reader) -> None:
        self.names = names
        self.example = dict(example)
        self._read = read
        self.pieces: list[Piece] = [read(self.example)]
        self.readings = 1

    @property
    def name(self) -> str:
        """The model's name."""
        return self.pieces[0].graph.name

    @property
    def format(self) -> str:
        """The format that the model was read from."""
        return self.pieces[0].graph.format

    def __repr__(self) -> str:
        return f"<FreeGraph {self.name or 'without a name'}: {', '.join(self.names)}>"

    def piece_at(self, sizes: Mapping[str, int]) -> Piece:
        """The piece that covers one point, read if there is none yet."""
        for piece in self.pieces:
            if piece.covers(sizes):
                return piece
        self.readings += 1
        piece = self._read(sizes)
        if not piece.covers(sizes):
            raise SizeupError(f"{self.name}: the conditions of a reading at {told(sizes)} do not hold there")
        self.pieces.append(piece)
        return piece

    def at(self, **sizes: int) -> Graph:
        """The graph at one point: the same as loading the model with these sizes."""
        grid, shape = grid_of(self.names, sizes)
        if shape:
            raise SizeupError("a graph is bound at one point; count(graph).at(...) takes arrays")
        point = grid.point(0)
        return bound(self.piece_at(point).graph, point)

    def split(self, grid: Grid) -> list[tuple[Piece, Values]]:
        """Every piece that covers some of the points, and which ones; each point is in one of them."""
        return cover(grid, self.pieces, lambda piece: piece.conditions, self.piece_at)


def grid_of(names: tuple[str, ...], sizes: Sizes) -> tuple[Grid, tuple[int, ...]]:
    """The points of some sizes as a grid, and the shape that they were given in."""
    columns, shape = points_of(names, sizes)
    return Grid(columns), shape


def cover(
    grid: Grid,
    known: list[Any],
    conditions: Callable[[Any], tuple[Condition, ...]],
    more: Callable[[Mapping[str, int]], Any],
) -> list[tuple[Any, Values]]:
    """Share the points out among parts that have conditions; ask for more parts where none covers a point."""
    import numpy as np

    rest: Values = np.arange(grid.points)
    found: list[tuple[Any, Values]] = []
    parts, asked = iter(list(known)), 0
    while len(rest):
        here = grid if len(rest) == grid.points else grid.take(rest)
        part = next(parts, None)
        if part is None:
            asked += 1
            if asked > MOST_READINGS:
                raise SizeupError(f"these points need more than {MOST_READINGS:,} readings of the model")
            part = more(here.point(0))
        met = here.holds(conditions(part))
        if met.any():
            found.append((part, rest[met]))
            rest = rest[~met]
    return found


def told(sizes: Mapping[str, int]) -> str:
    """Sizes in words."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def bound(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A graph with every expression replaced by its value."""
    return replace(
        graph,
        tensors=tuple(_bound_tensor(each, sizes) for each in graph.tensors),
        ops=tuple(_bound_op(each, sizes) for each in graph.ops),
    )


def _bound_tensor(tensor: Tensor, sizes: Mapping[str, int]) -> Tensor:
    shape = tensor.shape
    if shape is None or not any(isinstance(each, Expression) for each in shape):
        return tensor
    return replace(tensor, shape=bound_shape(shape, sizes))


def bound_shape(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """The sizes of one shape."""
    return tuple(value_at(each, sizes) for each in shape)


def _bound_op(op: Op, sizes: Mapping[str, int]) -> Op:
    attrs = {name: bound_value(value, sizes) for name, value in op.attrs.items()}
    bodies = tuple(
        Body(body.name, bound(body.graph, sizes), None if body.runs is None else value_at(body.runs, sizes))
        for body in op.bodies
    )
    return replace(op, attrs=attrs, bodies=bodies)


def bound_value(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its expressions replaced by their values."""
    if isinstance(value, Expression):
        return value_at(value, sizes)
    if isinstance(value, tuple):
        return tuple(bound_value(each, sizes) for each in value)
    return [bound_value(each, sizes) for each in value] if isinstance(value, list) else value


def difference(left: Graph, right: Graph) -> str | None:
    """The first operator, or the run, in which two graphs of one model differ; None where they do not."""
    for one, other in zip(left.ops, right.ops, strict=False):
        where = f"{other.source or other.kind} in {other.scope or 'the model'}"
        facts = [(op.kind, op.source, op.inputs, op.outputs, dict(op.attrs)) for op in (one, other)]
        shapes = [
            [graph.tensors[identity].shape for identity in op.outputs]
            for graph, op in ((left, one), (right, other))
        ]
        bodies = zip(one.bodies, other.bodies, strict=False)
        same_bodies = len(one.bodies) == len(other.bodies) and all(
            a.runs == b.runs and difference(a.graph, b.graph) is None for a, b in bodies
        )
        if facts[0] != facts[1] or shapes[0] != shapes[1] or not same_bodies:
            return where
    if len(left.ops) != len(right.ops) or len(left.tensors) != len(right.tensors):
        return "the end of the model"
    return None if left.run == right.run else "memory"
