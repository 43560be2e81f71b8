"""ONNX models with symbolic dimensions: shapes as closed forms, or per point if an operator has none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto

from sizeup.errors import LoadError
from sizeup.formats.onnx.bind import bind, listed, names_in
from sizeup.formats.onnx.blocks import FIRST_WITH_DEFAULTS, Block, Node
from sizeup.formats.onnx.build import BlockBuilder, Shared
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.control_flow import Frame
from sizeup.formats.onnx.model import graph_of, inlined
from sizeup.formats.onnx.node_inference import NodeInference
from sizeup.formats.onnx.read import read
from sizeup.formats.onnx.requirements import requirements_of
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.shape_inference import Inference
from sizeup.formats.onnx.shape_rules import InferenceContext, shapes_of
from sizeup.formats.onnx.shape_rules.values import evaluated, is_symbolic, of_shape
from sizeup.formats.onnx.value_types import ValueType
from sizeup.graph import Shape
from sizeup.symbolic import (
    Assumptions,
    Expression,
    Guard,
    NoClosedForm,
    Specialization,
    SymbolicGraph,
    assuming,
    guard_source,
    size,
    value_at,
)

# Example sizes that most networks accept. Common sizes such as 224 are avoided, as they may be special cases.
_EXAMPLES = {"batch": 2, "height": 352, "width": 416}
_EXAMPLE = 96


def symbolic_graph_of(
    source: Any,
    free: Mapping[str, Any] | Sequence[str] | bool,
    inputs: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> SymbolicGraph:
    """A model with these dimensions symbolic and the others bound."""
    loader = _SymbolicLoader(source, inputs, sizes)
    names = loader.names(free)
    example = {name: next((n for word, n in _EXAMPLES.items() if word in name), _EXAMPLE) for name in names}
    return SymbolicGraph(tuple(names), example, loader.read)


class _SymbolicLoader:
    def __init__(self, source: Any, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self._source, self._inputs, self._sizes = source, dict(inputs), dict(sizes)
        self._failed = self._succeeded = False

    def names(self, free: Mapping[str, Any] | Sequence[str] | bool) -> list[str]:
        """The requested symbolic dimensions: those named, or all that are unbound."""
        graph = inlined(read(self._source).proto).graph
        constants = {tensor.name for tensor in graph.initializer}
        known: dict[str, None] = {}
        for value in graph.input:
            for dim in value.type.tensor_type.shape.dim:
                if value.name not in constants and dim.dim_param and not dim.HasField("dim_value"):
                    known[dim.dim_param] = None
        if isinstance(free, Mapping):
            raise LoadError("give the symbolic dimensions of an ONNX model by name, or True for all")
        names = [name for name in known if name not in self._sizes] if isinstance(free, bool) else list(free)
        for name in names:
            if name not in known:
                others = listed(list(known)) or "none"
                raise LoadError(f"the model has no symbolic dimension {name!r}; it has: {others}")
        if not names:
            raise LoadError("the model has no named symbolic dimension")
        return names

    def read(self, example: Mapping[str, int]) -> Specialization:
        reason = ""
        if not self._failed:
            try:
                specialization = self._closed_forms(example)
            except NoClosedForm as error:
                # If other points had closed forms, the next point may have one too.
                self._failed, reason = not self._succeeded, str(error)
            else:
                self._succeeded = True
                return specialization
        graph = graph_of(self._source, self._inputs, {**self._sizes, **example})
        point = [Guard("==", size(name) - value) for name, value in example.items()]
        return Specialization(graph, example, dict.fromkeys(point, reason), reason)

    def _closed_forms(self, example: Mapping[str, int]) -> Specialization:
        light = read(self._source)
        model = inlined(light.proto)
        before = ModelProto()
        before.CopyFrom(model)
        constants = {tensor.name for tensor in model.graph.initializer}
        user_dims = bind(model.graph, self._inputs, {**self._sizes, **example}, constants)
        block = Block(model.graph, light.removed, has_defaults=model.ir_version >= FIRST_WITH_DEFAULTS)
        inference = Inference(model, user_dims)
        inference.infer(block)
        requirements = requirements_of(block, inference, model, light.removed)
        assumptions = Assumptions(example)
        propagation = _Propagation(inference, block, example)
        with assuming(assumptions):
            propagation.start(before, set(example))
            propagation.run()
            shared = Shared(inference, Roles(block))
            graph = BlockBuilder(block, shared).build(light.name, inference.notes)
        graph = replace(graph, requirements=requirements, missing_files=light.removed.missing_files)
        return Specialization(graph, example, dict(assumptions.guard_sources))


class _Propagation:
    """Replaces the shapes at the example by closed forms, node by node."""

    def __init__(self, inference: Inference, block: Block, example: Mapping[str, int]) -> None:
        self._block, self._example = block, example
        self._frame: Frame = inference.frames[id(block)]
        self._node_inference: NodeInference = inference.node_inference
        self._values: dict[str, Array | None] = {}
        # Values that depend on symbolic dimensions but are not expressions, with the node responsible.
        self._not_symbolic: dict[str, str] = {}

    def start(self, model: ModelProto, names: set[str]) -> None:
        """Set the symbolic dimensions of the inputs."""
        for value in model.graph.input:
            if value.name not in self._block.inputs:
                continue
            known = self._frame.type(value.name)
            dims: list[Any] = list(known.shape or ())
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param in names:
                    dims[axis] = size(dim.dim_param)
                elif not names.isdisjoint(names_in(dim.dim_param)):
                    raise NoClosedForm(
                        f"{dim.dim_param} of {value.name} is computed from a symbolic dimension"
                    )
            self._set(value.name, tuple(dims))

    def run(self) -> None:
        """Process every node that depends on a symbolic dimension."""
        for node in self._block.nodes:
            shapes = [self._frame.type(name).shape if name else None for name in node.reads]
            values = [self._value(name) if name else None for name in node.reads]
            if self._is_reached(shapes, values) or self._culprit(node.reads):
                try:
                    with guard_source(node.label):
                        self._propagate(node, shapes, values)
                except NoClosedForm as error:
                    culprit = self._culprit(node.reads)
                    cause = f"; it depends on {culprit}" if culprit else ""
                    raise NoClosedForm(f"{node.label}: {error}{cause}") from error
            elif node.inputs and not node.blocks:
                self._evaluate(node, values)

    def _culprit(self, names: Iterable[str]) -> str | None:
        """The node because of which one of these values is not an expression; None if all are."""
        return next((self._not_symbolic[name] for name in names if name in self._not_symbolic), None)

    def _is_reached(self, shapes: Sequence[Shape | None], values: Sequence[Array | None]) -> bool:
        return any(map(is_symbolic, values)) or any(
            isinstance(size_, Expression) for shape in shapes for size_ in shape or ()
        )

    def _propagate(self, node: Node, shapes: Sequence[Shape | None], values: Sequence[Array | None]) -> None:
        if node.blocks:
            raise NoClosedForm("control flow depends on a symbolic dimension")
        known = [self._frame.type(name) if name else None for name in node.outputs]
        if all(type_ is None or type_.shape is None for type_ in known):
            self._check_unknown(InferenceContext(node, shapes, values))
            return
        closed = shapes_of(InferenceContext(node, shapes, values))
        for name, shape, at_example in zip(node.outputs, closed, known, strict=False):
            if at_example is None:
                continue
            if tuple(value_at(size_, self._example) for size_ in shape) != at_example.shape:
                raise NoClosedForm(f"the closed form {shape} is not {at_example.shape} at the example")
            self._set(name, shape)
        for name in node.outputs[len(closed) :]:
            if name:
                raise NoClosedForm(f"the shape of its output {name!r} has no closed form")
        self._evaluate_symbolic(node, values)

    def _check_unknown(self, context: InferenceContext) -> None:
        """Handle a node whose output shapes are unknown at the example.

        Either they depend on data, or the sizes are invalid. Running the shape rule records the guards of the
        latter. Later nodes may have known shapes again.
        """
        try:
            shapes_of(context)
        except NoClosedForm:
            self._not_symbolic.update((name, context.node.label) for name in context.node.outputs if name)
            return
        raise NoClosedForm("its shape is unknown at the example")

    def _set(self, name: str, shape: Shape) -> None:
        known = self._frame.type(name)
        self._frame.types[name] = ValueType(known.proto, known.element, shape)

    def _value(self, name: str) -> Array | None:
        """The value of a small tensor; None if unknown, or if known at the example only."""
        if name in self._values:
            return self._values[name]
        return self._frame.value(name) if self._frame.constant(name) is not None else None

    def _evaluate(self, node: Node, values: Sequence[Array | None]) -> None:
        if node.op == "Shape":
            self._values[node.outputs[0]] = self._shape_value(node)
            return
        present = [value for value, name in zip(values, node.inputs, strict=True) if name]
        known = [value for value in present if value is not None]
        if len(known) != len(node.inputs):
            return
        results = self._node_inference.values(node, known, [self._frame.type(name) for name in node.outputs])
        self._values.update(zip(node.outputs, results or (), strict=False))

    def _evaluate_symbolic(self, node: Node, values: Sequence[Array | None]) -> None:
        if node.op in ("Shape", "Size"):
            result: Array | None = self._shape_value(node)
        else:
            result = evaluated(node, values, self._frame.type(node.outputs[0]).element)
        if result is not None and len(node.outputs) == 1:
            self._values[node.outputs[0]] = result
        elif any(map(is_symbolic, values)) or self._culprit(node.inputs):
            culprit = self._culprit(node.inputs) or node.label
            self._not_symbolic.update((name, culprit) for name in node.outputs if name)

    def _shape_value(self, node: Node) -> Array | None:
        shape = self._frame.type(node.inputs[0]).shape
        if shape is None:
            return None
        if node.op == "Size":
            array = np.empty((), object)
            array[()] = np.prod(of_shape(shape))
            return array
        end = node.attributes.get("end")
        part = shape[node.integer("start") : end if isinstance(end, int) else None]
        has_expressions = any(isinstance(size_, Expression) for size_ in part)
        return of_shape(part) if has_expressions else np.array(part, np.int64)


def load_symbolic(
    source: Any,
    free: Mapping[str, Any] | Sequence[str] | bool,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> SymbolicGraph:
    """Load a model with symbolic dimensions; errors start with the name of the model."""
    label = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model"
    try:
        return symbolic_graph_of(source, free, dict(inputs or {}), dict(bind or {}))
    except LoadError as error:
        if str(error).startswith(label):
            raise
        raise error.within(label) from error
