"""Builds the graph from blocks, types and roles. Also has the lowering of attention operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import StoredTensor
from sizeup.formats.onnx.lowering import (
    PLAIN,
    InconsistentSizes,
    Lowering,
    LoweringContext,
    lower,
    lowering,
    needs_lowering,
    op_kind,
)
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.onnx.quantization import quants
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.runtime_operators import packed_weights, widths_of
from sizeup.formats.onnx.shape_inference import Inference
from sizeup.formats.onnx.value_types import dtype_of
from sizeup.graph import ABSENT, Body, Constant, Graph, GraphBuilder, Quant, Shape
from sizeup.symbolic import guard_source

_DERIVED = Constant("derived")


class Shared:
    """State shared by all blocks of a model: inferred types, roles, and one handle per constant."""

    def __init__(self, inference: Inference, roles: Roles) -> None:
        self.inference = inference
        self._roles = roles
        self._packed = packed_weights(inference.frames.values())
        self._handles: dict[int, Constant] = {}
        self._defaults: set[int] = set()  # ids of the handles of overridable constants

    def handle(self, stored: StoredTensor) -> Constant:
        """The handle of a constant, the same for all its uses."""
        handle = self._handles.get(id(stored))
        if handle is None:
            size = stored.elements if id(stored) in self._packed else stored.stored_bytes
            handle = self._handles[id(stored)] = Constant(self._roles.of(stored), stored.read, size)
            if stored.overridable:
                self._defaults.add(id(handle))
        return handle

    def is_fixed(self, data: Constant | None) -> bool:
        """Whether a tensor is the same in every inference."""
        return data is not None and id(data) not in self._defaults

    def type(self, stored: StoredTensor) -> tuple[Shape, DType]:
        """The unpacked shape and dtype of a constant."""
        return self._packed.get(id(stored)) or (stored.dims, dtype_of(stored.element))


class BlockBuilder:
    """Builds the graph of one block; captures names from the enclosing block."""

    def __init__(self, block: Block, shared: Shared, outer: BlockBuilder | None = None) -> None:
        self._block = block
        self._shared = shared
        self._outer = outer
        self._frame = shared.inference.frames[id(block)]
        self._quants = quants(self._frame)
        self._graph = GraphBuilder(block.name, "onnx")
        self._ids: dict[str, int] = {}
        self.captured: list[str] = []  # captured names that are not constants

    def build(self, name: str, notes: Iterable[str] = ()) -> Graph:
        """The graph, with its ops in the order of the block."""
        self._graph.name = name
        for note in notes:
            self._graph.note(note)
        for value in self._block.inputs:
            self._graph.inputs.append(self._value(value))
        self._add_constants()
        for node in self._block.nodes:
            self._add(node)
        self._graph.outputs.extend(
            self._id(value, "the graph's list of outputs") for value in self._block.outputs
        )
        return self._graph.freeze()

    def _value(self, name: str, data: Constant | None = None, quant: Quant | None = None) -> int:
        """Add a tensor that is an input or the output of a node."""
        if name in self._ids:
            raise CorruptModel(f"{name!r} is defined twice")
        known = self._frame.type(name)
        quant = self._quants.get(name, quant)
        identity = self._graph.tensor(name, known.shape, dtype_of(known.element), data, quant)
        self._ids[name] = identity
        return identity

    def _add_constants(self) -> None:
        ids: dict[int, int] = {}
        for name, stored in self._block.constants.items():
            if id(stored) not in ids:
                shape, dtype = self._shared.type(stored)
                handle = self._shared.handle(stored)
                ids[id(stored)] = self._graph.tensor(name, shape, dtype, handle, self._quants.get(name))
            if name in self._ids or (stored.written_as_node and self._shadows(name)):
                raise CorruptModel(f"{name!r} is defined twice")
            self._ids[name] = ids[id(stored)]

    def _shadows(self, name: str) -> bool:
        """Whether an enclosing block has defined a name, which no operator of this block may define."""
        outer = self._outer
        return outer is not None and (name in outer._ids or outer._shadows(name))

    def _id(self, name: str, reader: Node | str) -> int:
        if not name:
            return ABSENT
        identity = self._ids.get(name)
        if identity is not None:
            return identity
        if self._outer is None:
            label = reader if isinstance(reader, str) else reader.label
            raise CorruptModel(f"{label} reads {name!r}, which is not defined")
        return self._capture(name, self._outer, reader)

    def _capture(self, name: str, outer: BlockBuilder, reader: Node | str) -> int:
        """Add a tensor of the enclosing block: the same constant, or an additional input."""
        tensor = outer._graph.tensors[outer._id(name, reader)]
        identity = self._graph.tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data, tensor.quant)
        self._ids[name] = identity
        if tensor.data is None or tensor.data.role == "derived":
            self._graph.inputs.append(identity)
            self.captured.append(name)
        return identity

    def _add(self, node: Node) -> None:
        inputs = [self._id(name, node) for name in node.inputs]
        bodies = self._bodies(node, inputs)
        data, quant = self._derived(node, inputs), self._passed_on(inputs)
        outputs = []
        for name in node.outputs:
            if name:
                if self._shadows(name):
                    raise CorruptModel(f"{name!r} is defined twice, in a block and in one that encloses it")
                same_type = quant is not None and self._same_type(name, inputs[0])
                outputs.append(self._value(name, data, quant if same_type else None))
        lowering = PLAIN
        if needs_lowering(node):
            lowering = self._lower(node, inputs, outputs)
            inputs = [
                inputs[index] if index != ABSENT else ABSENT for index in lowering.input_order(len(inputs))
            ]
        self._graph.op(
            lowering.kind or op_kind(node),
            inputs,
            outputs,
            lowering.attrs,
            source=node.op,
            name=node.name or next(iter(node.outputs), ""),
            scope=node.scope,
            bodies=bodies,
        )

    def _bodies(self, node: Node, inputs: list[int]) -> tuple[Body, ...]:
        """The bodies of a node; names that they capture are appended to the node's inputs."""
        if not node.blocks:
            return ()
        bodies = []
        captured: dict[str, None] = {}
        for name, block, runs in self._shared.inference.flows[id(node)].runs:
            builder = BlockBuilder(block, self._shared, self)
            bodies.append(Body(name, builder.build(block.name or name), runs))
            captured.update(dict.fromkeys(builder.captured))
        inputs.extend(self._ids[name] for name in captured)
        return tuple(bodies)

    def _derived(self, node: Node, inputs: list[int]) -> Constant | None:
        """The role of outputs computed from constants only, which runtimes can compute in advance."""
        if node.blocks or operator_of(node.op).random:
            return None
        data = None
        for identity in inputs:
            if identity != ABSENT:
                data = self._graph.tensors[identity].data
                if not self._shared.is_fixed(data):
                    return None
        return None if data is None else _DERIVED

    def _passed_on(self, inputs: list[int]) -> Quant | None:
        first = inputs[0] if inputs else ABSENT
        return None if first == ABSENT else self._graph.tensors[first].quant

    def _same_type(self, name: str, first: int) -> bool:
        """Whether an output has the dtype of the first input, and so the same quantization."""
        return dtype_of(self._frame.type(name).element) == self._graph.tensors[first].dtype

    def _lower(self, node: Node, inputs: list[int], outputs: list[int]) -> Lowering:
        tensors = self._graph.tensors
        shapes = tuple(None if identity == ABSENT else tensors[identity].shape for identity in inputs)
        context = LoweringContext(node, shapes, tuple(tensors[identity].shape for identity in outputs))
        try:
            with guard_source(node.label):
                return lower(context)
        except InconsistentSizes as error:
            return Lowering((), {"invalid": str(error)})
        except (ValueError, LookupError, ArithmeticError, TypeError) as error:
            raise CorruptModel(f"{node.label} has invalid inputs or attributes: {error}") from error


@lowering("Attention")
def _attention(context: LoweringContext) -> Lowering:
    """Inputs are (batch, heads, length, size), or (batch, length, heads x size) with heads as attributes."""
    query = context.shape(0)
    attrs: dict[str, Any] = {}
    if query is not None and len(query) == 3:
        heads = context.node.size("q_num_heads")
        kv_heads = context.node.size("kv_num_heads", heads)
        _check_all_heads(context, heads, kv_heads)
        attrs = {"heads": heads, "kv_heads": kv_heads}
    if context.has_input(4):
        attrs["cached"] = 4
    return Lowering((0, 1, 2, 3, 4), attrs)


# The axis of heads by the rank of an input: (batch, heads, length, size) or (batch, length, heads, n, size).
_HEAD_AXES = {4: 1, 5: 2}


def _check_all_heads(context: LoweringContext, heads: int, kv_heads: int) -> None:
    """Groups of query heads of equal size may share the heads of keys and values."""
    if heads % kv_heads:
        context.node.refuse(f"{heads} query heads are not a multiple of {kv_heads} key heads")
    for index, count in ((0, heads), (1, kv_heads), (2, kv_heads)):
        _check_heads(context, index, count)


def _check_heads(context: LoweringContext, index: int, heads: int) -> None:
    """Check the head axis, or that the last axis of (batch, length, heads x size) is a multiple of heads."""
    shape = context.shape(index)
    columns = None if shape is None or len(shape) != 3 else shape[2]
    if isinstance(columns, int) and columns % heads:
        raise InconsistentSizes(f"the {columns} columns of input {index} are not a multiple of {heads} heads")
    axis = _HEAD_AXES.get(len(shape or ()))
    if shape is not None and axis is not None and shape[axis] != heads:
        raise InconsistentSizes(f"{heads} heads, but input {index} of shape {shape} has {shape[axis]}")


@lowering(".MultiHeadAttention")
def _multi_head(context: LoweringContext) -> Lowering:
    """Reorders inputs to query, key, value, mask (either of two), past key."""
    heads = context.node.size("num_heads")
    _check_all_heads(context, heads, heads)
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": heads}
    sizes = _packed_sizes(context, heads)
    if sizes is not None:
        attrs = {"sizes": sizes}
    if context.has_input(6):
        attrs["cached"] = 4
    return Lowering((0, 1, 2, 5 if context.has_input(5) else 4, 6), attrs)


def _packed_sizes(context: LoweringContext, heads: int) -> tuple[int, int, int, int] | None:
    """Query rows, keys and head sizes if an input packs several operands or has a head axis; else None."""
    query, key, value = (context.shape(index) for index in range(3))
    if query is not None and len(query) == 5:  # (batch, length, heads, 3, size)
        return query[0] * query[1] * query[2], query[1], query[4], query[4]
    if query is None or key is None:
        return None
    rows, size = query[0] * query[1] * heads, query[2] // heads
    if len(key) == 5:  # (batch, length, heads, 2, size)
        return rows, key[1], size, key[4]
    if len(key) == 4 and value is not None and len(value) == 4:  # (batch, heads, length, size)
        return rows, key[2], size, value[3]
    return None


@lowering(".GroupQueryAttention")
def _group_query(context: LoweringContext) -> Lowering:
    heads, kv_heads = context.node.size("num_heads"), context.node.size("kv_num_heads")
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
    query, is_packed = context.shape(0), not context.has_input(1)
    if is_packed:
        _check_heads(context, 0, heads + 2 * kv_heads)
    else:
        _check_all_heads(context, heads, kv_heads)
    if query is not None and is_packed:  # queries, keys and values are concatenated
        size = query[2] // (heads + 2 * kv_heads)
        attrs = {"sizes": (query[0] * query[1] * heads, query[1], size, size)}
    if context.has_input(3):
        attrs["cached"] = 4
    return Lowering((0, 1, 2, 10, 3), attrs)


@lowering(".Attention")
def _fused_attention(context: LoweringContext) -> Lowering:
    return _projecting(context, (0, 1, 2, 3, 4))


@lowering(".QAttention")
def _quantized_attention(context: LoweringContext) -> Lowering:
    return _projecting(context, (0, 1, 2, 5, 8))


def _projecting(context: LoweringContext, order: tuple[int, ...]) -> Lowering:
    attrs: dict[str, Any] = {"heads": context.node.size("num_heads")}
    weights = context.shape(1)
    widths = widths_of(context.node, weights[-1]) if weights else ()
    if widths:
        attrs["key_width"] = widths[1]
    for width in widths or ((weights[-1] // 3,) if weights else ()):
        if width % attrs["heads"]:
            context.node.refuse(f"{width} columns are not a multiple of {attrs['heads']} heads")
    if context.has_input(order[4]):
        attrs["cached"] = 4
    return Lowering(order, attrs)
