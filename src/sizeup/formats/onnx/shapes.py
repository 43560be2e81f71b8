"""Shapes of all values: ONNX's own inference first, then operator by operator what it left open.

ONNX's inference over a whole graph stops at operators of other domains, at loops, and where a shape is
computed by more than a few arithmetic operators. The second pass follows the order of the operators and
knows four things more: the values of small tensors that are certain before the run (a shape, and what is
computed from it), the shapes of common operators of other domains, how often blocks run, and which shapes
runtimes make otherwise than ONNX's inference tells (`doubts`): those, and all that follows from them, are
found anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto
from onnx.shape_inference import infer_shapes

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.doubts import has_doubts, is_doubtful, own_shapes, refused, ruled
from sizeup.formats.onnx.flow import ROUNDS, Flow, Frame, follow
from sizeup.formats.onnx.foreign import stand_in_for
from sizeup.formats.onnx.single import NotInferred, Solo, shape_value
from sizeup.formats.onnx.unsafe import hidden, refuse_unsafe
from sizeup.formats.onnx.value_types import Dims, ValueType, make, read, refined, unknown
from sizeup.ops import kind_of, rule_of
from sizeup.ops.rule import names

# Operators older than this set often have no inference; their shapes are those of the set's own.
_FIRST_WITH_SHAPES = 7
# Loops within loops multiply their rounds. Beyond so many of each block, states are taken as unknown at once.
_MOST_PASSES = 16
_ALWAYS = 500
# Copies of types that ONNX's inference may make for the graphs that operators carry.
_MOST_COPIES = 1_000_000
# A reader needs the first reasons, not all of them.
_MOST_NOTES = 10
_MOST_NAMES = 3
_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})


class Inference:
    """What was found out about one model: the frame of every block, and how blocks run."""

    def __init__(self, model: ModelProto, stated: Mapping[str, Dims]) -> None:
        """`stated`: sizes that the user gives to data-dependent dimensions of the main graph."""
        self.frames: dict[int, Frame] = {}  # by the identity of the block
        self.flows: dict[int, Flow] = {}  # by the identity of the operator
        self.notes: list[str] = []
        self._passes = 0  # how often a block was inferred
        self._model = model
        self._stated = stated
        self._untyped = refuse_unsafe(model.graph)
        self.solo = Solo(model.ir_version, model.opset_import)
        self._elder = Solo(model.ir_version, [OperatorSetIdProto(domain="", version=_FIRST_WITH_SHAPES)])

    def whole(self, block: Block) -> None:
        """Infer the whole model, whose inputs are bound."""
        frame = self.frames[id(block)] = Frame(block)
        with hidden(self._model, self._untyped):
            frame.types.update(_at_once(self._model, block))
        frame.types.update((name, block.declared[name]) for name in block.inputs)
        self.notes.extend(_note_on_defaults(block))
        if any(node.blocks or not _known(node, frame) or _is_refuted(node, frame) for node in block.nodes):
            self._complete(frame)

    def _block(
        self, block: Block, inputs: list[ValueType], outer: Frame, values: Mapping[str, Array]
    ) -> Frame:
        frame = self.frames[id(block)] = Frame(block, outer)
        self._passes += 1
        for index, name in enumerate(block.inputs):
            given = inputs[index] if index < len(inputs) else unknown()
            # What a loop passes decides; the declared shape need not hold, and runtimes do not enforce it.
            declared = block.declared[name]
            frame.types[name] = refined(given, _shapeless(declared) if index < len(inputs) else declared)
        frame.values.update(values)
        self._complete(frame)
        return frame

    def _complete(self, frame: Frame) -> None:
        """Find what is still open or wrong, in the order in which the operators run."""
        stale: set[str] = set()  # what follows from shapes that were wrong
        for node in frame.block.nodes:
            known = _known(node, frame)
            if (stale and not stale.isdisjoint(node.reads)) or (
                has_doubts(node) and (known or _has_dimensions(node, frame)) and _is_refuted(node, frame)
            ):
                known = False
                stale.update(node.outputs)
                stale.discard("")
                for name in node.outputs:
                    frame.types.pop(name, None)
            if node.blocks:
                flow = follow(node, frame, self.solo.opset, self._block, self._rounds())
                self.flows[id(node)] = flow
                before = _shapes(node, frame)
                # ONNX's inference takes over what the file declares inside the blocks.
                frame.types.update((name, _shapeless(frame.types[name])) for name in before)
                self._learn(node, flow.types, frame)
                after = _shapes(node, frame)
                stale.update(name for name, dims in before.items() if after[name] != dims)
            else:
                if not known:
                    self._learn(node, self._types(node, frame), frame)
                self._evaluate(node, frame)

    def _rounds(self) -> int:
        return ROUNDS if self._passes < _ALWAYS + _MOST_PASSES * len(self.frames) else 0

    def _learn(self, node: Node, found: list[ValueType], frame: Frame) -> None:
        """Keep what was inferred. A shape that only the file declares is kept for unknown operators alone:
        runtimes do not enforce it, so that the cost of a known operator cannot rest on it."""
        if len(found) < len(node.outputs):
            found = found + [unknown()] * (len(node.outputs) - len(found))
        for name, known in zip(node.outputs, found, strict=False):
            if known.shape is None or not known.element:
                for other in (frame.types.get(name), self._declared(node, name, frame)):
                    known = known if other is None else refined(known, other)
            if name:
                frame.types[name] = known

    def _declared(self, node: Node, name: str, frame: Frame) -> ValueType | None:
        declared = frame.block.declared.get(name)
        if declared is None or declared.dims is None or rule_of(kind_of("onnx", node.op) or "") is None:
            return declared
        if frame.outer is None and name in self._stated:
            return make(declared.element, self._stated[name])
        if declared.shape is not None:
            self._note(f"{node.label}: the shape of {name!r} is only declared by the file, so it is unknown")
        return _shapeless(declared)

    def _types(self, node: Node, frame: Frame) -> list[ValueType]:
        """What ONNX's inference tells of one operator, unless our own rule knows better, or more."""
        if self.solo.opset >= OLDEST and (own := own_types(node, frame)) is not None:
            return own
        found: list[ValueType] = []
        refusal = ""
        try:
            found = self._inferred(node, frame)
        except NotInferred as error:
            refusal = str(error)
        doubtful = is_doubtful(node, frame)
        if not doubtful and found and all(each.shape is not None for each in found):
            return found
        shapes = ruled(node, frame)
        if shapes is not None and node.inputs:
            elements = [each.element for each in found] or [frame.type(node.inputs[0]).element]
            return [make(element, shape) for element, shape in zip(elements, shapes, strict=False)]
        refusal = refusal or (refused(node, frame) if doubtful else "")
        # Behind an operator that nobody knows, that one is to blame.
        if refusal and all(frame.type(name).element for name in node.inputs if name):
            self._note(f"the shape of {node.label} is not known: {refusal}")
        return [make(each.element, None) for each in found] if doubtful else found

    def _note(self, text: str) -> None:
        if len(self.notes) < _MOST_NOTES and text not in self.notes:
            self.notes.append(text)

    def _inferred(self, node: Node, frame: Frame) -> list[ValueType]:
        types = [frame.type(name) if name else unknown() for name in node.inputs]
        found = stand_in_for(node, types)
        if isinstance(found, list):
            return found
        proto: NodeProto = node.proto if found is None else found
        named = {name: known for name, known in zip(node.inputs, types, strict=True) if name in proto.input}
        values = {name: value for name in named if (value := frame.value(name)) is not None}
        types = self.solo.types(proto, named, values)
        if self.solo.opset < _FIRST_WITH_SHAPES and any(each.shape is None for each in types):
            return self._elder.types(proto, named, values)
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
        results = self.solo.values(node, inputs, [frame.type(name) for name in node.outputs])
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
    """What is known of the dimensions of a node's outputs, by name."""
    return {name: frame.types[name].dims for name in node.outputs if name in frame.types}


def _shapeless(known: ValueType) -> ValueType:
    return known if known.dims is None else make(known.element, None)


def _note_on_defaults(block: Block) -> Iterator[str]:
    """A note on inputs whose default values decide sizes."""
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
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        listed = ", ".join(map(repr, list(names)[:_MOST_NAMES]))
        yield f"sizes follow from the default values of overridable inputs: {listed}{more}"


def _has_dimensions(node: Node, frame: Frame) -> bool:
    """Whether a dimension of an output is known, or at least how many there are."""
    types = map(frame.types.get, node.outputs)
    return any(each is not None and each.dims is not None for each in types)


def _is_refuted(node: Node, frame: Frame) -> bool:
    """Whether what was inferred is not what the operator makes by our own rule, or that rule cannot tell."""
    if not is_doubtful(node, frame):
        return False
    found = ruled(node, frame)
    return found is None or any(
        frame.type(name).shape != shape for name, shape in zip(node.outputs, found, strict=False) if name
    )


def _at_once(model: ModelProto, block: Block) -> dict[str, ValueType]:
    """ONNX's inference over the whole graph.

    Shapes that the file declares are left out: where they contradict the inputs (a changed batch, say)
    ONNX would keep the stale ones. What it leaves open is taken from them afterwards.

    Nor does it propagate values: for each number of every list it would keep a message of 100 bytes, also of
    lists that are no shapes. The second pass has values anyway.

    For each graph that an operator carries it copies the types of all values around it, which is quadratic:
    where that is too much, such operators are left to the second pass.
    """
    graph = model.graph
    del graph.value_info[:]
    for value in graph.output:
        value.ClearField("type")
    running = sum(len(node.blocks) for node in block.nodes)
    too_many = running * len(block.nodes) > _MOST_COPIES
    if not block.in_order or too_many:
        constants = [node for node in graph.node if node.op_type == "Constant"]
        ordered = [*constants, *(node.proto for node in block.nodes if not (too_many and node.blocks))]
        del graph.node[:]
        graph.node.extend(ordered)
    try:
        inferred = infer_shapes(model)
    except Exception as error:  # the library has no one class for what it refuses
        text = " ".join(str(error).split())[:300]
        raise CorruptModel(
            f"the shapes of the model contradict each other ({text}); check it with"
            " onnx.checker.check_model(path, full_check=True)"
        ) from error
    values = (*inferred.graph.value_info, *inferred.graph.output)
    return {value.name: read(value.type) for value in values}


# Their output is of the type of their one input.
_SAME = frozenset(
    names(
        "Relu LeakyRelu Sigmoid Tanh Neg Abs Exp Log Sqrt Erf Floor Ceil Reciprocal Elu Selu HardSigmoid"
        " HardSwish Softplus Softsign Sin Cos Gelu Identity Softmax LogSoftmax"
    )
)
# Their outputs have the number type of their first input.
_LIKE_THE_FIRST = frozenset(
    names(
        "Clip Add Sub Mul Div Pow BatchNormalization LayerNormalization InstanceNormalization Conv MatMul"
        " Gemm MaxPool AveragePool GlobalAveragePool GlobalMaxPool Reshape Flatten Transpose Concat Split"
        " Slice Gather Unsqueeze Squeeze Expand"
    )
)
_FIXED = {
    **dict.fromkeys(("Shape", "Size"), TensorProto.INT64),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), TensorProto.BOOL),
}
_SEVERAL_OUTPUTS = frozenset({"Split"})
# Older operators take what is an input today from attributes, or broadcast otherwise.
OLDEST = 7


def own_types(node: Node, frame: Frame) -> list[ValueType] | None:
    """The types of an operator's outputs; None if it is not listed, or not all that it needs is known."""
    if not node.inputs or (len(node.outputs) > 1 and node.op not in _SEVERAL_OUTPUTS):
        return None
    if node.op in _SAME:
        same = frame.type(node.inputs[0])
        return [same] if same.shape is not None and same.element else None
    element: int = _FIXED.get(node.op, 0)
    if node.op in _LIKE_THE_FIRST:
        element = frame.type(node.inputs[0]).element
    elif node.op == "Cast":
        element = node.integer("to")
    if not element:
        return None
    shapes = own_shapes(node, frame)
    if shapes is None or len(shapes) != len(node.outputs):
        return None
    return [make(element, shape) for shape in shapes]
