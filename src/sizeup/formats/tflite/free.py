"""The batch of a TFLite file, free: every shape that follows from it, by the operators' definitions.

A file records shapes of one batch. Where an operator has that batch written into a constant, the runtime
refuses another one, and so do we: such a file stands for its own batch alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sizeup.errors import LoadError
from sizeup.graph import ABSENT, Graph, Op, Shape, Tensor
from sizeup.ops import rule_of
from sizeup.symbolic import (
    Assumptions,
    Expression,
    FreeGraph,
    Guard,
    NotClosed,
    Sides,
    Specialization,
    assuming,
    broadcast,
    guard_source,
    quotient,
    size,
    value_at,
)

_BATCH = "batch"
_EXAMPLE = 2


def free_graph_of(graph: Graph, free: Mapping[str, Any] | Sequence[str] | bool) -> FreeGraph:
    """A file's main graph with its batch free."""
    names = [_BATCH] if isinstance(free, bool) else list(free)
    if names != [_BATCH] or isinstance(free, Mapping):
        raise LoadError(f"{graph.name}: of a TFLite file only the batch can be free: free=[{_BATCH!r}]")
    recorded = _recorded(graph)

    def read(example: Mapping[str, int]) -> Specialization:
        assumptions = Assumptions(example)
        try:
            with assuming(assumptions):
                freed = _freed(graph, recorded)
        except NotClosed as error:
            return _as_recorded(graph, recorded, example, str(error))
        return Specialization(freed, example, dict(assumptions.origins))

    try:
        return FreeGraph((_BATCH,), {_BATCH: max(recorded, _EXAMPLE)}, read)
    except LoadError:
        return FreeGraph((_BATCH,), {_BATCH: recorded}, read)


def _recorded(graph: Graph) -> int:
    """The batch of the file: the first dimension of all inputs."""
    found = {shape[0] for each in graph.inputs if (shape := graph.tensors[each].shape)}
    if len(found) != 1:
        told = ", ".join(map(str, sorted(found))) or "none"
        raise LoadError(f"{graph.name}: its inputs have no one batch in front: {told}")
    return found.pop()


def _as_recorded(graph: Graph, recorded: int, example: Mapping[str, int], reason: str) -> Specialization:
    if example[_BATCH] != recorded:
        raise LoadError(
            f"{graph.name}: batch {example[_BATCH]} is not that of the file ({recorded}), and {reason}"
        )
    return Specialization(graph, example, {Guard("==", size(_BATCH) - recorded): reason}, reason)


def _freed(graph: Graph, recorded: int) -> Graph:
    tensors = list(graph.tensors)
    batch: Any = size(_BATCH)
    for identity in graph.inputs:
        shape = tensors[identity].shape
        if shape:
            tensors[identity] = replace(tensors[identity], shape=(batch, *shape[1:]))
    for op in graph.ops:
        if not any(_is_free(tensors[each].shape) for each in op.inputs if each != ABSENT):
            continue
        where = f"{op.source} {op.name or graph.tensors[op.outputs[0]].name}".strip()
        try:
            with guard_source(where):
                made = _Spot(op, tensors, graph.tensors, recorded).made()
        except NotClosed as error:
            raise NotClosed(f"{where}: {error}") from error
        for identity, shape in zip(op.outputs, made, strict=True):
            tensors[identity] = replace(tensors[identity], shape=shape)
    # A plan in the file is one for its own batch.
    return replace(graph, tensors=tuple(tensors), offsets=())


def _is_free(shape: Shape | None) -> bool:
    return any(isinstance(each, Expression) for each in shape or ())


class _Spot:
    """One operator that the batch reaches: shapes with it free, and as the file records them."""

    def __init__(self, op: Op, now: Sequence[Tensor], then: Sequence[Tensor], recorded: int) -> None:
        self.op, self._now, self._then, self._recorded = op, now, then, recorded

    def made(self) -> list[Sides]:
        """The shapes of what the operator makes, held against the file's own at its batch."""
        before = [self._then[each].shape for each in self.op.outputs]
        if self.op.bodies:
            raise NotClosed("the batch reaches control flow")
        if any(shape is None for shape in before):
            raise NotClosed("data decides the shape of what it makes")
        rule = _RULES.get(self.op.source) or self._by_family()
        found = rule(self)
        for free, fixed in zip(found, before, strict=True):
            if tuple(value_at(each, {_BATCH: self._recorded}) for each in free) != fixed:
                raise NotClosed(f"{fixed} in the file does not follow from the batch")
        return found

    def _by_family(self) -> _Rule:
        known = rule_of(self.op.kind)
        if known is None or known.family != "elementwise":
            raise NotClosed("its shape is not known where the batch is free")
        return _spread

    def shape(self, place: int = 0) -> Sides:
        """The shape of an input, with the batch free."""
        found = self._now[self.op.inputs[place]].shape
        if found is None:
            raise NotClosed("data decides the shape of what it reads")
        return found

    def recorded_output(self, place: int = 0) -> Shape:
        """The shape of an output in the file."""
        found = self._then[self.op.outputs[place]].shape
        assert found is not None  # asked for before
        return found

    def recorded_input(self, place: int = 0) -> Shape:
        """The shape of an input in the file."""
        return self._then[self.op.inputs[place]].shape or ()

    def numbers(self, place: int) -> list[int]:
        """The numbers of a constant input: axes, a shape, borders."""
        data = self._then[self.op.inputs[place]].data if place < len(self.op.inputs) else None
        if data is None or data.read is None:
            raise NotClosed("a shape that it is given is computed")
        return [int(each) for each in data.read().ravel().tolist()]


_Rule: TypeAlias = Callable[[_Spot], list[Sides]]


def _spread(spot: _Spot) -> list[Sides]:
    found: Sides = ()
    for place, identity in enumerate(spot.op.inputs):
        if identity != ABSENT:
            found = broadcast(found, spot.shape(place))
    return [found]


def _like_first(spot: _Spot) -> list[Sides]:
    return [spot.shape()]


def _pictures(spot: _Spot) -> list[Sides]:
    """Every picture of the batch by itself."""
    first, *rest = spot.shape()
    if any(isinstance(each, Expression) for each in rest):
        raise NotClosed("the batch is no longer in front")
    return [(first, *spot.recorded_output()[1:])]


def _fully_connected(spot: _Spot) -> list[Sides]:
    made, is_cut = spot.recorded_output(), spot.op.attrs.get("cut", False)
    data, weights = (spot.shape(1), spot.shape(0)) if is_cut else (spot.shape(0), spot.shape(1))
    if not is_cut and any(isinstance(data[axis], Expression) for axis in spot.op.attrs["contracted"]):
        raise NotClosed("it sums over the batch")
    if not is_cut and len(made) == len(data) and made[:-1] == spot.recorded_input()[:-1]:
        return [(*data[:-1], made[-1])]
    return [(_shared_out(math.prod(data), weights[-1]), made[-1])]


def _shared_out(whole: Any, part: Any) -> Any:
    """A quotient without rest."""
    found = quotient(whole, part)
    if found * part != whole:
        raise NotClosed("what it reads does not divide into such rows")
    return found


def _batch_matmul(spot: _Spot) -> list[Sides]:
    left, right = spot.shape(), spot.shape(1)
    first, second = spot.op.attrs["adjoint"]
    if left[-2 if first else -1] != right[-1 if second else -2]:
        raise NotClosed("what it multiplies fits for one batch")
    leading = broadcast(left[:-2], right[:-2])
    return [(*leading, left[-1 if first else -2], right[-2 if second else -1])]


def _reshape(spot: _Spot) -> list[Sides]:
    data, wanted = spot.shape(), list[Any](spot.numbers(1))
    if -1 not in wanted:
        raise NotClosed(f"the batch is written into the shape {tuple(wanted)} that it is given")
    rest = math.prod(each for each in wanted if each != -1)
    wanted[wanted.index(-1)] = _shared_out(math.prod(data), rest)
    return [tuple(wanted)]


def _expand(spot: _Spot) -> list[Sides]:
    data, (axis,) = list(spot.shape()), spot.numbers(1)
    data.insert(axis if axis >= 0 else axis + len(data) + 1, 1)
    return [tuple(data)]


def _squeeze(spot: _Spot) -> list[Sides]:
    data = spot.shape()
    axes = {axis % len(data) for axis in spot.op.attrs["axes"]}
    if not axes:  # all that are 1, as the batch may be
        axes = {axis for axis, side in enumerate(data) if side == 1}
    if any(data[axis] != 1 for axis in axes):
        raise NotClosed("the batch is taken for an axis of one")
    return [tuple(side for axis, side in enumerate(data) if axis not in axes)]


def _transpose(spot: _Spot) -> list[Sides]:
    data = spot.shape()
    return [tuple(data[axis] for axis in spot.numbers(1))]


def _pad(spot: _Spot) -> list[Sides]:
    borders = spot.numbers(1)
    pairs = zip(borders[::2], borders[1::2], strict=True)
    return [tuple(side + a + b for side, (a, b) in zip(spot.shape(), pairs, strict=True))]


def _reduce(spot: _Spot) -> list[Sides]:
    data, kept = spot.shape(), len(spot.recorded_output()) == len(spot.shape())
    gone = {axis % len(data) for axis in spot.numbers(1)}
    return [tuple(1 if axis in gone else side for axis, side in enumerate(data) if kept or axis not in gone)]


def _concat(spot: _Spot) -> list[Sides]:
    before, after = spot.recorded_input(), spot.recorded_output()
    axes = [axis for axis in range(len(after)) if before[axis] != after[axis]]
    if len(axes) != 1:
        raise NotClosed("the axis along which it joins is not known")
    made = list(spot.shape())
    for place in range(1, len(spot.op.inputs)):
        for axis, side in enumerate(spot.shape(place)):
            if axis == axes[0]:
                made[axis] += side
            elif made[axis] != side:
                raise NotClosed("what it joins differs along other axes too")
    return [tuple(made)]


def _split(spot: _Spot) -> list[Sides]:
    """SPLIT has its axis in front of the data; SPLIT_V behind, after the lengths of the parts."""
    place, where = (1, 0) if spot.op.source == "SPLIT" else (0, 2)
    data, (axis,) = spot.shape(place), spot.numbers(where)
    if isinstance(data[axis], Expression) and (place == 0 or len(spot.op.outputs) > 1):
        raise NotClosed("it cuts the batch")
    axis %= len(data)
    lengths = [spot.recorded_output(each)[axis] for each in range(len(spot.op.outputs))]
    if isinstance(data[axis], Expression):
        return [data]
    return [(*data[:axis], length, *data[axis + 1 :]) for length in lengths]


_NAMES: dict[str, _Rule] = {
    "CONV_2D DEPTHWISE_CONV_2D AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D": _pictures,
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR DEPTH_TO_SPACE SPACE_TO_DEPTH": _pictures,
    "SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION QUANTIZE DEQUANTIZE CAST": _like_first,
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand,
    "PAD PADV2 MIRROR_PAD": _pad,
    "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD": _reduce,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concat,
    "SPLIT SPLIT_V": _split,
}
_RULES: dict[str, _Rule] = {name: rule for names, rule in _NAMES.items() for name in names.split()}
