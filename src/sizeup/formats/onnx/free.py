"""ONNX models with free dimensions: shapes as closed forms, or point by point where an operator has none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from sizeup.errors import LoadError
from sizeup.formats.onnx.bind import bind, names_in
from sizeup.formats.onnx.blocks import FIRST_WITH_DEFAULTS, Block, Node
from sizeup.formats.onnx.build import BlockBuilder, Shared
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.flow import Frame
from sizeup.formats.onnx.model import graph_of, inlined
from sizeup.formats.onnx.read import read
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.rules import Spot, shapes_of
from sizeup.formats.onnx.rules.values import evaluated, is_free, of_shape
from sizeup.formats.onnx.shapes import Inference
from sizeup.formats.onnx.single import Solo
from sizeup.formats.onnx.value_types import ValueType
from sizeup.graph import Shape
from sizeup.symbolic import (
    Assumptions,
    Expression,
    FreeGraph,
    Guard,
    NotClosed,
    Specialization,
    assuming,
    guard_source,
    size,
    value_at,
)

# Sizes that most networks take and that few were made for: what is special at 224 is no good example.
_EXAMPLES = {"batch": 2, "height": 352, "width": 416}
_EXAMPLE = 96


def free_graph_of(
    source: Any,
    free: Mapping[str, Any] | Sequence[str] | bool,
    inputs: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> FreeGraph:
    """A model whose dimensions of these names are free; the others are bound."""
    reader = _Reader(source, inputs, sizes)
    names = reader.names(free)
    example = {name: next((n for word, n in _EXAMPLES.items() if word in name), _EXAMPLE) for name in names}
    return FreeGraph(tuple(names), example, reader.read)


class _Reader:
    def __init__(self, source: Any, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self._source, self._inputs, self._sizes = source, dict(inputs), dict(sizes)
        self._failed = self._succeeded = False

    def names(self, free: Mapping[str, Any] | Sequence[str] | bool) -> list[str]:
        """The free dimensions that are meant: those named, or all that have no size yet."""
        graph = inlined(read(self._source).proto).graph
        constants = {each.name for each in graph.initializer}
        found: dict[str, None] = {}
        for value in graph.input:
            for dim in value.type.tensor_type.shape.dim:
                if value.name not in constants and dim.dim_param and not dim.HasField("dim_value"):
                    found[dim.dim_param] = None
        if isinstance(free, Mapping):
            raise LoadError("free dimensions of an ONNX model have names: give those, or True for all")
        names = [each for each in found if each not in self._sizes] if isinstance(free, bool) else list(free)
        for name in names:
            if name not in found:
                known = ", ".join(found) or "none"
                raise LoadError(f"the model has no free dimension {name!r}; it has: {known}")
        if not names:
            raise LoadError("the model has no free dimension with a name")
        return names

    def read(self, example: Mapping[str, int]) -> Specialization:
        reason = ""
        if not self._failed:
            try:
                piece = self._closed(example)
            except NotClosed as error:
                # Where there are closed forms elsewhere, another point may have one again.
                self._failed, reason = not self._succeeded, str(error)
            else:
                self._succeeded = True
                return piece
        graph = graph_of(self._source, self._inputs, {**self._sizes, **example})
        point = [Guard("==", size(name) - value) for name, value in example.items()]
        return Specialization(graph, example, dict.fromkeys(point, reason), reason)

    def _closed(self, example: Mapping[str, int]) -> Specialization:
        light = read(self._source)
        model = inlined(light.proto)
        before = ModelProto()
        before.CopyFrom(model)
        constants = {each.name for each in model.graph.initializer}
        stated = bind(model.graph, self._inputs, {**self._sizes, **example}, constants)
        block = Block(model.graph, light.origins, has_defaults=model.ir_version >= FIRST_WITH_DEFAULTS)
        inference = Inference(model, stated)
        inference.whole(block)
        assumptions = Assumptions(example)
        follower = _Follower(inference, block, example)
        with assuming(assumptions):
            follower.start(before, set(example))
            follower.follow()
            shared = Shared(inference, Roles(block))
            graph = BlockBuilder(block, shared).build(light.name, inference.notes)
        return Specialization(graph, example, dict(assumptions.origins))


class _Follower:
    """Walks through a model in its order and replaces shapes at the example by closed forms."""

    def __init__(self, inference: Inference, block: Block, example: Mapping[str, int]) -> None:
        self._block, self._example = block, example
        self._frame: Frame = inference.frames[id(block)]
        self._solo: Solo = inference.solo
        self._values: dict[str, Array | None] = {}
        self._lost: dict[str, str] = {}  # made of sizes in ways that no expression tells, and by whom

    def start(self, model: ModelProto, names: set[str]) -> None:
        """Give inputs their free dimensions by name."""
        for value in model.graph.input:
            if value.name not in self._block.inputs:
                continue
            known = self._frame.type(value.name)
            dims: list[Any] = list(known.shape or ())
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param in names:
                    dims[axis] = size(dim.dim_param)
                elif not names.isdisjoint(names_in(dim.dim_param)):
                    raise NotClosed(f"{dim.dim_param} of {value.name} is computed from a free dimension")
            self._set(value.name, tuple(dims))

    def follow(self) -> None:
        """Every operator that a free dimension reaches."""
        for node in self._block.nodes:
            shapes = [self._frame.type(name).shape if name else None for name in node.reads]
            values = [self._value(name) if name else None for name in node.reads]
            if self._is_reached(shapes, values) or self._loser(node.reads):
                try:
                    with guard_source(node.label):
                        self._take(node, shapes, values)
                except NotClosed as error:
                    who = self._loser(node.reads)
                    blamed = f", for it depends on {who}" if who else ""
                    raise NotClosed(f"{node.label}: {error}{blamed}") from error
            elif node.inputs and not node.blocks:
                self._evaluate(node, values)

    def _loser(self, names: Iterable[str]) -> str | None:
        """The operator after which one of these no longer is an expression of sizes; None without any."""
        return next((self._lost[name] for name in names if name in self._lost), None)

    def _is_reached(self, shapes: Sequence[Shape | None], values: Sequence[Array | None]) -> bool:
        return any(map(is_free, values)) or any(
            isinstance(side, Expression) for shape in shapes for side in shape or ()
        )

    def _take(self, node: Node, shapes: Sequence[Shape | None], values: Sequence[Array | None]) -> None:
        if node.blocks:
            raise NotClosed("a free dimension reaches control flow")
        known = [self._frame.type(name) if name else None for name in node.outputs]
        if all(each is None or each.shape is None for each in known):
            self._leave_open(Spot(node, shapes, values))
            return
        found = shapes_of(Spot(node, shapes, values))
        for name, shape, at_example in zip(node.outputs, found, known, strict=False):
            if at_example is None:
                continue
            if tuple(value_at(each, self._example) for each in shape) != at_example.shape:
                raise NotClosed(f"{shape} is not {at_example.shape} at the example")
            self._set(name, shape)
        for name in node.outputs[len(found) :]:
            if name:
                raise NotClosed(f"the shape of its output {name!r}")
        self._evaluate_free(node, values)

    def _leave_open(self, spot: Spot) -> None:
        """Data decides, or sizes that do not fit, which is a condition as soon as the rule has asked.

        What is made of it may have a shape again, from sides that are those of the example alone.
        """
        try:
            shapes_of(spot)
        except NotClosed:
            self._lost.update((name, spot.node.label) for name in spot.node.outputs if name)
            return
        raise NotClosed("its shape is not known at the example")

    def _set(self, name: str, shape: Shape) -> None:
        known = self._frame.type(name)
        self._frame.types[name] = ValueType(known.proto, known.element, shape)

    def _value(self, name: str) -> Array | None:
        """A small tensor that is certain, and whose numbers are not merely those of the example."""
        if name in self._values:
            return self._values[name]
        return self._frame.value(name) if self._frame.constant(name) is not None else None

    def _evaluate(self, node: Node, values: Sequence[Array | None]) -> None:
        if node.op == "Shape":
            self._values[node.outputs[0]] = self._shape_value(node)
            return
        given = [each for each, name in zip(values, node.inputs, strict=True) if name]
        if any(each is None for each in given) or len(given) != len(node.inputs):
            return
        known = [each for each in given if each is not None]
        made = self._solo.values(node, known, [self._frame.type(name) for name in node.outputs])
        self._values.update(zip(node.outputs, made or (), strict=False))

    def _evaluate_free(self, node: Node, values: Sequence[Array | None]) -> None:
        if node.op in ("Shape", "Size"):
            made: Array | None = self._shape_value(node)
        else:
            made = evaluated(node, values, self._frame.type(node.outputs[0]).element)
        if made is not None and len(node.outputs) == 1:
            self._values[node.outputs[0]] = made
        elif any(map(is_free, values)) or self._loser(node.inputs):
            blamed = self._loser(node.inputs) or node.label
            self._lost.update((name, blamed) for name in node.outputs if name)

    def _shape_value(self, node: Node) -> Array | None:
        shape = self._frame.type(node.inputs[0]).shape
        if shape is None:
            return None
        if node.op == "Size":
            found = np.empty((), object)
            found[()] = np.prod(of_shape(shape))
            return found
        last = node.attributes.get("end")
        part = shape[node.integer("start") : last if isinstance(last, int) else None]
        free = any(isinstance(each, Expression) for each in part)
        return of_shape(part) if free else np.array(part, np.int64)


def load_free(
    source: Any,
    free: Mapping[str, Any] | Sequence[str] | bool,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> FreeGraph:
    """Read a model whose free dimensions keep no size; every error says which model."""
    where = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model"
    try:
        return free_graph_of(source, free, dict(inputs or {}), dict(bind or {}))
    except LoadError as error:
        if str(error).startswith(where):
            raise
        raise error.within(where) from error
