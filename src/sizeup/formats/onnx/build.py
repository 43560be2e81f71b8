"""From blocks, types and roles to the one graph."""

from __future__ import annotations

from collections.abc import Iterable

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel
from sizeup.formats.onnx import attention  # noqa: F401 - its forms register themselves
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import Stored
from sizeup.formats.onnx.normalise import (
    PLAIN,
    Contradiction,
    Form,
    Site,
    kind,
    needs_form,
    normalised,
)
from sizeup.formats.onnx.packed import packed_weights
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

    def _id(self, name: str, reader: str) -> int:
        if not name:
            return ABSENT
        found = self._ids.get(name)
        if found is not None:
            return found
        if self._outer is None:
            raise CorruptModel(f"{reader} reads {name!r}, which nothing makes")
        return self._capture(name, self._outer, reader)

    def _capture(self, name: str, outer: BlockBuilder, reader: str) -> int:
        """Bring in a value from around the block: as the same constant, or as one more input."""
        tensor = outer._graph.tensors[outer._id(name, reader)]
        made = self._graph.tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data, tensor.quant)
        self._ids[name] = made
        if tensor.data is None or tensor.data.role == "derived":
            self._graph.inputs.append(made)
            self.captured.append(name)
        return made

    def _add(self, node: Node) -> None:
        inputs = [self._id(name, node.label) for name in node.inputs]
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
        given = [each for each in inputs if each != ABSENT]
        if not given or node.blocks or node.op in RANDOM:
            return None
        tensors = self._graph.tensors
        return _DERIVED if all(self._shared.is_fixed(tensors[each].data) for each in given) else None

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
