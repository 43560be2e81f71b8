"""From blocks, types and roles to the one graph; the forms of attention operators are here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import Stored
from sizeup.formats.onnx.foreign import packed_weights, widths_of
from sizeup.formats.onnx.normalise import (
    PLAIN,
    Contradiction,
    Form,
    Site,
    kind,
    needs_form,
    normalised,
    normaliser,
)
from sizeup.formats.onnx.quantisation import quants
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.shapes import Inference
from sizeup.formats.onnx.single import RANDOM
from sizeup.formats.onnx.value_types import dtype_of
from sizeup.graph import ABSENT, Body, Constant, Graph, GraphBuilder, Quant, Shape
from sizeup.symbolic import guard_source

_DERIVED = Constant("derived")


class Shared:
    """What all blocks of a model have in common: what was inferred, roles, and one handle a constant."""

    def __init__(self, inference: Inference, roles: Roles) -> None:
        self.inference = inference
        self._roles = roles
        self._packed = packed_weights(inference.frames.values())
        self._handles: dict[int, Constant] = {}
        self._defaults: set[int] = set()  # handles of overridable constants, by identity

    def handle(self, stored: Stored) -> Constant:
        """The handle of a constant: the same one wherever it is used."""
        found = self._handles.get(id(stored))
        if found is None:
            held = stored.elements if id(stored) in self._packed else stored.stored_bytes
            found = self._handles[id(stored)] = Constant(self._roles.of(stored), stored.read, held)
            if stored.overridable:
                self._defaults.add(id(found))
        return found

    def is_fixed(self, data: Constant | None) -> bool:
        """Whether a tensor's content is the same in every run."""
        return data is not None and id(data) not in self._defaults

    def type(self, stored: Stored) -> tuple[Shape, DType]:
        """The shape and number type of a constant, as what it holds when unpacked."""
        return self._packed.get(id(stored)) or (stored.dims, dtype_of(stored.element))


class BlockBuilder:
    """Builds the graph of one block; names that it lacks are taken from the block around it."""

    def __init__(self, block: Block, shared: Shared, outer: BlockBuilder | None = None) -> None:
        self._block = block
        self._shared = shared
        self._outer = outer
        self._frame = shared.inference.frames[id(block)]
        self._quants = quants(self._frame)
        self._graph = GraphBuilder(block.name, "onnx")
        self._ids: dict[str, int] = {}
        self.captured: list[str] = []  # names from around the block whose values differ from run to run

    def build(self, name: str, notes: Iterable[str] = ()) -> Graph:
        """The graph, its operators in the order of the block."""
        self._graph.name = name
        for note in notes:
            self._graph.note(note)
        for each in self._block.inputs:
            self._graph.inputs.append(self._value(each))
        self._add_constants()
        for node in self._block.nodes:
            self._add(node)
        self._graph.outputs.extend(
            self._id(each, "the graph's list of outputs") for each in self._block.outputs
        )
        return self._graph.freeze()

    def _value(self, name: str, data: Constant | None = None, quant: Quant | None = None) -> int:
        """A tensor that the run makes, or is given."""
        if name in self._ids:
            raise CorruptModel(f"{name!r} is made twice")
        known = self._frame.type(name)
        quant = self._quants.get(name, quant)
        made = self._graph.tensor(name, known.shape, dtype_of(known.element), data, quant)
        self._ids[name] = made
        return made

    def _add_constants(self) -> None:
        made: dict[int, int] = {}
        for name, stored in self._block.constants.items():
            if id(stored) not in made:
                shape, dtype = self._shared.type(stored)
                handle = self._shared.handle(stored)
                made[id(stored)] = self._graph.tensor(name, shape, dtype, handle, self._quants.get(name))
            if name in self._ids:
                raise CorruptModel(f"{name!r} is made twice")
            self._ids[name] = made[id(stored)]

    def _id(self, name: str, reader: Node | str) -> int:
        if not name:
            return ABSENT
        found = self._ids.get(name)
        if found is not None:
            return found
        if self._outer is None:
            label = reader if isinstance(reader, str) else reader.label
            raise CorruptModel(f"{label} reads {name!r}, which nothing makes")
        return self._capture(name, self._outer, reader)

    def _capture(self, name: str, outer: BlockBuilder, reader: Node | str) -> int:
        """Bring in a value from around the block: as the same constant, or as one more input."""
        tensor = outer._graph.tensors[outer._id(name, reader)]
        made = self._graph.tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data, tensor.quant)
        self._ids[name] = made
        if tensor.data is None or tensor.data.role == "derived":
            self._graph.inputs.append(made)
            self.captured.append(name)
        return made

    def _add(self, node: Node) -> None:
        inputs = [self._id(name, node) for name in node.inputs]
        bodies = self._bodies(node, inputs)
        data, quant = self._derived(node, inputs), self._passed_on(inputs)
        outputs = []
        for name in node.outputs:
            if name:
                same_type = quant is not None and self._same_type(name, inputs[0])
                outputs.append(self._value(name, data, quant if same_type else None))
        form = PLAIN
        if needs_form(node):
            form = self._form(node, inputs, outputs)
            inputs = [inputs[place] if place != ABSENT else ABSENT for place in form.places(len(inputs))]
        self._graph.op(
            form.kind or kind(node),
            inputs,
            outputs,
            form.attrs,
            source=node.op,
            name=node.name or next(iter(node.outputs), ""),
            scope=node.scope,
            bodies=bodies,
        )

    def _bodies(self, node: Node, inputs: list[int]) -> tuple[Body, ...]:
        """The graphs that an operator runs; what they take from around them becomes inputs of it."""
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
        """A mark on what is made of constants alone, so that a runtime can have it before the first run."""
        if node.blocks or node.op in RANDOM:
            return None
        data = None
        for each in inputs:
            if each != ABSENT:
                data = self._graph.tensors[each].data
                if not self._shared.is_fixed(data):
                    return None
        return None if data is None else _DERIVED

    def _passed_on(self, inputs: list[int]) -> Quant | None:
        first = inputs[0] if inputs else ABSENT
        return None if first == ABSENT else self._graph.tensors[first].quant

    def _same_type(self, name: str, first: int) -> bool:
        """Integers that an operator moves or compares stand for the same real numbers as before."""
        return dtype_of(self._frame.type(name).element) == self._graph.tensors[first].dtype

    def _form(self, node: Node, inputs: list[int], outputs: list[int]) -> Form:
        tensors = self._graph.tensors
        shapes = tuple(None if each == ABSENT else tensors[each].shape for each in inputs)
        site = Site(node, shapes, tuple(tensors[each].shape for each in outputs))
        try:
            with guard_source(node.label):
                return normalised(site)
        except Contradiction as error:
            return Form((), {"invalid": str(error)})
        except (ValueError, LookupError, ArithmeticError, TypeError) as error:
            raise CorruptModel(f"{node.label} does not fit its inputs or attributes: {error}") from error


@normaliser("Attention")
def _attention(site: Site) -> Form:
    """(batch, heads, length, size), or (batch, length, heads x size) with the heads in attributes."""
    query = site.shape(0)
    attrs: dict[str, Any] = {}
    if query is not None and len(query) == 3:
        heads = site.node.size("q_num_heads")
        kv_heads = site.node.size("kv_num_heads", heads)
        _check_all_heads(site, heads, kv_heads)
        attrs = {"heads": heads, "kv_heads": kv_heads}
    if site.given(4):
        attrs["cached"] = 4
    return Form((0, 1, 2, 3, 4), attrs)


# The axis of heads by the rank of an input: (batch, heads, length, size) or (batch, length, heads, n, size).
_HEAD_AXES = {4: 1, 5: 2}


def _check_all_heads(site: Site, heads: int, kv_heads: int) -> None:
    """Queries may share keys and values in groups of the same size."""
    if heads % kv_heads:
        site.node.refuse(f"{heads} heads do not divide into groups for {kv_heads} heads of keys")
    for index, shared in ((0, heads), (1, kv_heads), (2, kv_heads)):
        _check_heads(site, index, shared)


def _check_heads(site: Site, index: int, heads: int) -> None:
    """Heads share the last axis of (batch, length, heads x size) evenly, or have an axis to themselves."""
    shape = site.shape(index)
    columns = None if shape is None or len(shape) != 3 else shape[2]
    if isinstance(columns, int) and columns % heads:
        raise Contradiction(f"{heads} heads do not divide the {columns} columns of input {index}")
    axis = _HEAD_AXES.get(len(shape or ()))
    if shape is not None and axis is not None and shape[axis] != heads:
        raise Contradiction(f"{heads} heads, but {shape[axis]} in input {index} of the shape {shape}")


@normaliser(".MultiHeadAttention")
def _multi_head(site: Site) -> Form:
    """Order here: query, key, value, mask, past key; either mask counts as the one that is added."""
    heads = site.node.size("num_heads")
    _check_all_heads(site, heads, heads)
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": heads}
    sizes = _packed_sizes(site, heads)
    if sizes is not None:
        attrs = {"sizes": sizes}
    if site.given(6):
        attrs["cached"] = 4
    return Form((0, 1, 2, 5 if site.given(5) else 4, 6), attrs)


def _packed_sizes(site: Site, heads: int) -> tuple[int, int, int, int] | None:
    """Rows of queries, keys, and head sizes, where an input holds several operands or all heads apart."""
    query, key, value = (site.shape(index) for index in range(3))
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


@normaliser(".GroupQueryAttention")
def _group_query(site: Site) -> Form:
    heads, kv_heads = site.node.size("num_heads"), site.node.size("kv_num_heads")
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
    query, is_packed = site.shape(0), not site.given(1)
    if is_packed:
        _check_heads(site, 0, heads + 2 * kv_heads)
    else:
        _check_all_heads(site, heads, kv_heads)
    if query is not None and is_packed:  # queries, keys and values lie side by side
        size = query[2] // (heads + 2 * kv_heads)
        attrs = {"sizes": (query[0] * query[1] * heads, query[1], size, size)}
    if site.given(3):
        attrs["cached"] = 4
    return Form((0, 1, 2, 10, 3), attrs)


@normaliser(".Attention")
def _fused_attention(site: Site) -> Form:
    return _projecting(site, (0, 1, 2, 3, 4))


@normaliser(".QAttention")
def _quantised_attention(site: Site) -> Form:
    return _projecting(site, (0, 1, 2, 5, 8))


def _projecting(site: Site, order: tuple[int, ...]) -> Form:
    attrs: dict[str, Any] = {"heads": site.node.size("num_heads")}
    weights = site.shape(1)
    widths = widths_of(site.node, weights[-1]) if weights else ()
    if widths:
        attrs["key_width"] = widths[1]
    for width in widths or ((weights[-1] // 3,) if weights else ()):
        if width % attrs["heads"]:
            site.node.refuse(f"{attrs['heads']} heads do not divide {width} columns")
    if site.given(order[4]):
        attrs["cached"] = 4
    return Form(order, attrs)
