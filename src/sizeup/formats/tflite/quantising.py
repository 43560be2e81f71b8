"""TFLite models with numbers as narrower types would hold them: changed copies for LiteRT to run."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sizeup.errors import CorruptModel, RunFailed, WriteError
from sizeup.formats.rounding import Array, Rounding, Roundings
from sizeup.formats.tflite.pack import file_bytes
from sizeup.formats.tflite.schema import BROKEN, schema
from sizeup.formats.tflite.write import holds_data_outside
from sizeup.graph import Graph

_CHANNELS = {
    "CONV_2D": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3, "CONV_3D": 4, "FULLY_CONNECTED": 0,
    "EMBEDDING_LOOKUP": 0, "GATHER": 0, "SVDF": 0,
}  # fmt: skip
_OLD_CODES = 127  # codes above it are only in the newer field
_LARGEST = (1 << 31) - 1


class TfliteModel:
    """A file with its weights, from which changed copies are made."""

    def __init__(self, content: bytes, graph: Graph) -> None:
        if holds_data_outside(content) or len(content) > _LARGEST:
            raise WriteError(
                "a file that keeps weights outside its tables cannot be changed for a measurement"
            )
        self.graph, self._content = graph, content

    def fingerprint(self) -> str:
        """A digest of the file."""
        return hashlib.sha256(self._content).hexdigest()

    def channel_axis(self, op: int, _identity: int) -> int | None:
        """Along which axis of a weight each output channel has its own numbers; None if none does."""
        return _CHANNELS.get(self.graph.ops[op].source)

    def constants(self) -> dict[int, Array]:
        """The numbers of all float constants."""
        return {
            identity: np.asarray(tensor.data.read(), np.float32).reshape(tensor.shape or ())
            for identity, tensor in enumerate(self.graph.tensors)
            if tensor.data is not None and tensor.data.read is not None and tensor.dtype.family == "float"
        }

    def observing(self, wanted: Sequence[int]) -> bytes:
        """A copy whose outputs are these values."""
        changes = _Changes(self._content, self.graph)
        changes.subgraph.outputs = list(wanted)
        return changes.content()

    def rounded(self, roundings: Roundings) -> bytes:
        """A copy that computes with rounded numbers."""
        changes = _Changes(self._content, self.graph)
        for identity, rounding in roundings.made.items():
            changes.round_made(identity, rounding)
        for (op, identity), rounding in roundings.read.items():
            changes.round_read(op, identity, rounding)
        for (op, identity), numbers in roundings.constants.items():
            changes.replace_constant(op, identity, numbers)
        return changes.content()


class _Changes:
    """The tables of a file, to which operators, tensors and buffers are added."""

    def __init__(self, content: bytes, graph: Graph) -> None:
        try:
            self._model = schema().ModelT.InitFromPackedBuf(content, 0)
        except BROKEN as error:
            raise CorruptModel(f"{graph.name}: the file is damaged: {error}") from error
        self._graph = graph
        self.subgraph = self._model.subgraphs[0]
        self._operators: list[Any] = list(self.subgraph.operators)
        for operator in self._operators:
            operator.inputs = [int(each) for each in operator.inputs]
            operator.outputs = [int(each) for each in operator.outputs]
        self._maker = {each: place for place, op in enumerate(self._operators) for each in op.outputs}
        self._first: list[Any] = []
        self._before: dict[int, list[Any]] = {}
        self._after: dict[int, list[Any]] = {}
        self._renamed: dict[int, int] = {}  # graph inputs, and the rounded tensor that is read instead
        self._codes: dict[int, int] = {}

    def round_made(self, identity: int, rounding: Rounding) -> None:
        """Round a value where it is made; what enters the graph, before its first reader."""
        if identity in self.subgraph.inputs:
            made = self._tensor_like(identity)
            for operator in self._operators:
                operator.inputs = [made if each == identity else each for each in operator.inputs]
            self._renamed[identity] = made
            self._first += self._rounding(identity, made, rounding)
            return
        place = self._maker.get(identity)
        if place is None:
            raise RunFailed(f"no operator of the file makes {self._graph.tensors[identity].name!r}")
        wide, operator = self._tensor_like(identity), self._operators[place]
        operator.outputs = [wide if each == identity else each for each in operator.outputs]
        self._after.setdefault(place, []).extend(self._rounding(wide, identity, rounding))

    def round_read(self, op: int, identity: int, rounding: Rounding) -> None:
        """Round a value for one operator alone."""
        source, made, place = (
            self._renamed.get(identity, identity),
            self._tensor_like(identity),
            self._place(op),
        )
        self._replace_input(place, source, made)
        self._before.setdefault(place, []).extend(self._rounding(source, made, rounding))

    def replace_constant(self, op: int, identity: int, numbers: Array) -> None:
        """Give one operator other numbers of a constant."""
        buffer = schema().BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(numbers, np.float32).tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        made = self._tensor_like(identity, buffer=len(self._model.buffers) - 1)
        self._replace_input(self._place(op), identity, made)

    def content(self) -> bytes:
        """The changed file."""
        self.subgraph.operators = list(self._ordered())
        return file_bytes(self._model)

    def _ordered(self) -> Iterator[Any]:
        yield from self._first
        for place, operator in enumerate(self._operators):
            yield from self._before.get(place, ())
            yield operator
            yield from self._after.get(place, ())

    def _place(self, op: int) -> int:
        """Where the operator of the file is that an operator of the graph came from."""
        outputs = self._graph.ops[op].outputs
        place = next((self._maker[each] for each in outputs if each in self._maker), None)
        if place is None:
            raise RunFailed(f"operator {op} of the graph is none of the file's main graph")
        return place

    def _replace_input(self, place: int, old: int, new: int) -> None:
        operator = self._operators[place]
        operator.inputs = [new if each == old else each for each in operator.inputs]

    def _tensor_like(self, identity: int, *, type_name: str = "FLOAT32", buffer: int = 0) -> int:
        made = copy.copy(self.subgraph.tensors[identity])
        made.type = getattr(schema().TensorType, type_name)
        made.buffer, made.quantization, made.sparsity, made.isVariable = buffer, None, None, False
        made.name = f"sizeup/{len(self.subgraph.tensors)}".encode()
        self.subgraph.tensors.append(made)
        return len(self.subgraph.tensors) - 1

    def _rounding(self, source: int, made: int, rounding: Rounding) -> list[Any]:
        """Operators that bring a float32 value onto the grid of a type, and back."""
        dtype = rounding.dtype
        if dtype.family == "float":
            narrow = self._tensor_like(source, type_name=dtype.name.upper())
            return [self._operator("CAST", source, narrow), self._operator("CAST", narrow, made)]
        options = schema().FakeQuantOptionsT()
        scale = float(rounding.scale)
        options.min = scale * (rounding.low - rounding.zero_point)
        options.max = scale * (rounding.high - rounding.zero_point)
        options.numBits, options.narrowRange = dtype.bits, False
        return [self._operator("FAKE_QUANT", source, made, "FakeQuantOptions", options)]

    def _operator(self, name: str, source: int, made: int, kind: str = "NONE", options: Any = None) -> Any:
        operator = schema().OperatorT()
        operator.opcodeIndex = self._code(getattr(schema().BuiltinOperator, name))
        operator.inputs, operator.outputs = [source], [made]
        operator.builtinOptionsType = getattr(schema().BuiltinOptions, kind)
        operator.builtinOptions = options
        return operator

    def _code(self, builtin: int) -> int:
        if builtin not in self._codes:
            code = schema().OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, _OLD_CODES), 1
            self._model.operatorCodes.append(code)
            self._codes[builtin] = len(self._model.operatorCodes) - 1
        return self._codes[builtin]
