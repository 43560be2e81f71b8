"""Shape inference: ONNX's inference over the full graph first, then node by node for the rest.

ONNX's inference stops at operators of other domains, at loops, and at shapes computed by more than a few
arithmetic operators. The second pass runs in topological order. It also uses the values of small tensors that
are known before the run (a shape, and values computed from it), the shapes of common operators of other
domains, and trip counts. It recomputes shapes for which ONNX's inference differs from runtimes
(`inference_overrides`), and all shapes that depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto
from onnx.shape_inference import infer_shapes

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.control_flow import ROUNDS, Flow, Frame, infer_flow
from sizeup.formats.onnx.inference_overrides import (
    has_override,
    needs_override,
    own_shapes,
    rejection,
    rule_shapes,
)
from sizeup.formats.onnx.node_inference import NodeInference, NotInferred, shape_value
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.onnx.runtime_operators import equivalent_of
from sizeup.formats.onnx.unsafe import hidden, refuse_unsafe
from sizeup.formats.onnx.value_types import Dims, ValueType, read, refined, tensor_type, unknown_type
from sizeup.ops import cost_rule_of, op_kind_of, table_version

# Operators of older opsets often have no inference; they are inferred as operators of this opset.
_FIRST_WITH_SHAPES = 7
# Nested loops multiply their iterations. Above this number of passes per block, states are unknown at once.
_MAX_PASSES = 16
_MIN_PASSES = 500
# Limit on the type copies that ONNX's inference makes for subgraphs.
_MAX_COPIES = 1_000_000
_MAX_NOTES = 10
_MAX_NAMES = 3
_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})


class Inference:
    """The inferred types of one model: the frame of every block, and the control flow of every node."""

    def __init__(self, model: ModelProto, user_dims: Mapping[str, Dims]) -> None:
        """`user_dims`: sizes that the user gives to data-dependent dimensions of the main graph."""
        self.frames: dict[int, Frame] = {}  # by the id of the block
        self.flows: dict[int, Flow] = {}  # by the id of the node
        self.notes: list[str] = []
        self._passes = 0  # number of inferred blocks
        self._model = model
        self._user_dims = user_dims
        self._untyped = refuse_unsafe(model.graph)
        self.node_inference = NodeInference(model.ir_version, model.opset_import)
        self._opset7_inference = NodeInference(
            model.ir_version, [OperatorSetIdProto(domain="", version=_FIRST_WITH_SHAPES)]
        )

    def infer(self, block: Block) -> None:
        """Infer the main graph, whose inputs are bound."""
        frame = self.frames[id(block)] = Frame(block)
        with hidden(self._model, self._untyped):
            frame.types.update(_infer_with_onnx(self._model, block))
        frame.types.update((name, block.declared[name]) for name in block.inputs)
        self.notes.extend(_note_on_defaults(block))
        if any(node.blocks or not _known(node, frame) or _is_wrong(node, frame) for node in block.nodes):
            self._complete(frame)

    def _block(
        self, block: Block, inputs: list[ValueType], outer: Frame, values: Mapping[str, Array]
    ) -> Frame:
        frame = self.frames[id(block)] = Frame(block, outer)
        self._passes += 1
        for index, name in enumerate(block.inputs):
            passed = inputs[index] if index < len(inputs) else unknown_type()
            # Runtimes do not enforce the declared shape, so the shape that a loop passes takes precedence.
            declared = block.declared[name]
            frame.types[name] = refined(passed, _shapeless(declared) if index < len(inputs) else declared)
        frame.values.update(values)
        self._complete(frame)
        return frame

    def _complete(self, frame: Frame) -> None:
        """Infer types that are still unknown or wrong, in topological order."""
        stale: set[str] = set()  # values that depend on wrong shapes
        for node in frame.block.nodes:
            known = _known(node, frame)
            if (stale and not stale.isdisjoint(node.reads)) or (
                has_override(node) and (known or _has_dimensions(node, frame)) and _is_wrong(node, frame)
            ):
                known = False
                stale.update(node.outputs)
                stale.discard("")
                for name in node.outputs:
                    frame.types.pop(name, None)
            if node.blocks:
                flow = infer_flow(node, frame, self.node_inference.opset, self._block, self._rounds())
                self.flows[id(node)] = flow
                before = _shapes(node, frame)
                # ONNX's inference copies shapes that the file declares inside the blocks.
                frame.types.update((name, _shapeless(frame.types[name])) for name in before)
                self._record(node, flow.types, frame)
                after = _shapes(node, frame)
                stale.update(name for name, dims in before.items() if after[name] != dims)
            else:
                if not known:
                    self._record(node, self._types(node, frame), frame)
                self._evaluate(node, frame)

    def _rounds(self) -> int:
        return ROUNDS if self._passes < _MIN_PASSES + _MAX_PASSES * len(self.frames) else 0

    def _record(self, node: Node, types: list[ValueType], frame: Frame) -> None:
        """Record inferred types. Declared shapes are used for unknown operators only, as runtimes do not
        enforce them."""
        if len(types) < len(node.outputs):
            types = types + [unknown_type()] * (len(node.outputs) - len(types))
        for name, known in zip(node.outputs, types, strict=False):
            if known.shape is None or not known.element:
                for other in (frame.types.get(name), self._declared(node, name, frame)):
                    known = known if other is None else refined(known, other)
            if name:
                frame.types[name] = known

    def _declared(self, node: Node, name: str, frame: Frame) -> ValueType | None:
        declared = frame.block.declared.get(name)
        if (
            declared is None
            or declared.dims is None
            or cost_rule_of(op_kind_of("onnx", node.op) or "") is None
        ):
            return declared
        if frame.outer is None and name in self._user_dims:
            return tensor_type(declared.element, self._user_dims[name])
        if declared.shape is not None:
            self._note(f"{node.label}: the shape of {name!r} is declared but cannot be inferred: unknown")
        return _shapeless(declared)

    def _types(self, node: Node, frame: Frame) -> list[ValueType]:
        """The output types of one node by its own shape rule, or by ONNX's inference."""
        if self.node_inference.opset >= OLDEST and (own := own_types(node, frame)) is not None:
            return own
        types: list[ValueType] = []
        reason = ""
        try:
            types = self._inferred(node, frame)
        except NotInferred as error:
            reason = str(error)
        doubtful = needs_override(node, frame)
        if not doubtful and types and all(type_.shape is not None for type_ in types):
            return types
        shapes = rule_shapes(node, frame)
        if shapes is not None and node.inputs:
            elements = [type_.element for type_ in types] or [frame.type(node.inputs[0]).element]
            return [tensor_type(element, shape) for element, shape in zip(elements, shapes, strict=False)]
        reason = reason or (rejection(node, frame) if doubtful else "")
        # If an input is unknown, the cause is an earlier node.
        if reason and all(frame.type(name).element for name in node.inputs if name):
            self._note(f"the shape of {node.label} is unknown: {reason}")
        return [tensor_type(type_.element, None) for type_ in types] if doubtful else types

    def _note(self, text: str) -> None:
        if len(self.notes) < _MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def _inferred(self, node: Node, frame: Frame) -> list[ValueType]:
        types = [frame.type(name) if name else unknown_type() for name in node.inputs]
        equivalent = equivalent_of(node, types)
        if isinstance(equivalent, list):
            return equivalent
        proto: NodeProto = node.proto if equivalent is None else equivalent
        named = {name: known for name, known in zip(node.inputs, types, strict=True) if name in proto.input}
        values = {name: value for name in named if (value := frame.value(name)) is not None}
        types = self.node_inference.types(proto, named, values)
        if self.node_inference.opset < _FIRST_WITH_SHAPES and any(type_.shape is None for type_ in types):
            return self._opset7_inference.types(proto, named, values)
        return types

    def _evaluate(self, node: Node, frame: Frame) -> None:
        if node.op in ("Shape", "Size") and node.inputs and node.outputs:
            frame.values[node.outputs[0]] = shape_value(node, frame.type(node.inputs[0]))
            return
        inputs = []
        for name in node.inputs:
            value = frame.value(name) if name else None
            if value is None:
                return
            inputs.append(value)
        results = self.node_inference.values(node, inputs, [frame.type(name) for name in node.outputs])
        frame.values.update(zip(node.outputs, results or (), strict=False))
        if any(map(frame.is_assumed, node.inputs)):
            frame.assumed.update(node.outputs)


def _known(node: Node, frame: Frame) -> bool:
    types = frame.types
    for name in node.outputs:
        if name:
            known = types.get(name)
            if known is None or known.dims is None or None in known.dims:
                return False
    return True


def _shapes(node: Node, frame: Frame) -> dict[str, Dims]:
    """The known dimensions of a node's outputs by name."""
    return {name: frame.types[name].dims for name in node.outputs if name in frame.types}


def _shapeless(known: ValueType) -> ValueType:
    return known if known.dims is None else tensor_type(known.element, None)


def _note_on_defaults(block: Block) -> Iterator[str]:
    """A note if sizes depend on the default values of inputs."""
    names = {
        name: None
        for node in block.nodes
        for name in node.inputs
        if not node.blocks
        and (default := block.constants.get(name)) is not None
        and default.overridable
        and len(default.dims) < 2
        and (default.element in _INTEGERS or node.op in ("Resize", "Upsample"))
    }
    if names:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        listed = ", ".join(map(repr, list(names)[:_MAX_NAMES]))
        yield f"sizes depend on the default values of overridable inputs: {listed}{more}"


def _has_dimensions(node: Node, frame: Frame) -> bool:
    """Whether the rank of an output is known."""
    types = map(frame.types.get, node.outputs)
    return any(type_ is not None and type_.dims is not None for type_ in types)


def _is_wrong(node: Node, frame: Frame) -> bool:
    """Whether the inferred shapes may be wrong and are not confirmed by the node's shape rule."""
    if not needs_override(node, frame):
        return False
    shapes = rule_shapes(node, frame)
    return shapes is None or any(
        frame.type(name).shape != shape for name, shape in zip(node.outputs, shapes, strict=False) if name
    )


def _infer_with_onnx(model: ModelProto, block: Block) -> dict[str, ValueType]:
    """ONNX's inference over the full graph.

    Declared shapes are removed first: if they contradict the inputs (such as a changed batch), ONNX would
    keep the stale ones. Unknown types are taken from the declarations later.

    Value propagation is off: ONNX would keep a message of 100 bytes per element of every list. The second
    pass has the values anyway.

    For each subgraph ONNX copies the types of all values of the outer graph, which is quadratic. If that is
    too much, nodes with subgraphs are left to the second pass.
    """
    graph = model.graph
    del graph.value_info[:]
    for value in graph.output:
        value.ClearField("type")
    subgraphs = sum(len(node.blocks) for node in block.nodes)
    too_many = subgraphs * len(block.nodes) > _MAX_COPIES
    if not block.in_order or too_many:
        constants = [node for node in graph.node if node.op_type == "Constant"]
        ordered = [*constants, *(node.proto for node in block.nodes if not (too_many and node.blocks))]
        del graph.node[:]
        graph.node.extend(ordered)
    try:
        inferred = infer_shapes(model)
    except Exception as error:  # the library has no common base class for its errors
        text = " ".join(str(error).split())[:300]
        raise CorruptModel(
            f"the shapes of the model are inconsistent ({text}); check it with"
            " onnx.checker.check_model(path, full_check=True)"
        ) from error
    values = (*inferred.graph.value_info, *inferred.graph.output)
    return {value.name: read(value.type) for value in values}


_SEVERAL_OUTPUTS = frozenset({"Split"})
# Older opsets have attributes in place of some inputs, and other broadcasting rules.
OLDEST = 7


def own_types(node: Node, frame: Frame) -> list[ValueType] | None:
    """The output types of a node by its shape rule; None if it is not listed, or if an input is unknown."""
    if not node.inputs or (len(node.outputs) > 1 and node.op not in _SEVERAL_OUTPUTS):
        return None
    source = _dtype_source(node.op, table_version())
    if source == 0 and len(node.inputs) == 1 and _is_elementwise(node.op, table_version()):
        same = frame.type(node.inputs[0])
        return [same] if same.shape is not None and same.element else None
    element = _element(node, frame, source)
    shapes = own_shapes(node, frame) if element else None
    if shapes is None or len(shapes) != len(node.outputs):
        return None
    return [tensor_type(element, shape) for shape in shapes]


def _element(node: Node, frame: Frame, source: str | int | None) -> int:
    """The dtype of the outputs; 0 if it is not known."""
    if isinstance(source, int):
        return frame.type(node.inputs[source]).element if source < len(node.inputs) else 0
    return (
        0 if source is None else node.integer("to") if source == "to" else TensorProto.DataType.Value(source)
    )


@cache
def _dtype_source(name: str, _version: int) -> str | int | None:
    """What states the dtype of the outputs of an operator, in its row or by its op kind."""
    source = operator_of(name).dtype
    rule = cost_rule_of(op_kind_of("onnx", name) or "")
    if source is not None or rule is None or rule.family != "elementwise" or "converts" in rule.traits:
        return source
    return "BOOL" if "boolean" in rule.traits else 0


@cache
def _is_elementwise(name: str, _version: int) -> bool:
    rule = cost_rule_of(op_kind_of("onnx", name) or "")
    return rule is not None and rule.family == "elementwise"
