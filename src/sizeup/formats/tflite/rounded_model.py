"""Copies of TFLite models with values rounded to narrower dtypes, to run in LiteRT."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sizeup.errors import CorruptModel, RunFailed, WriteError
from sizeup.formats.simulated_rounding import Array, Rounding, Roundings
from sizeup.formats.tflite.codebooks import file_bytes
from sizeup.formats.tflite.operators import operator_of
from sizeup.formats.tflite.schema import BROKEN, damage, schema
from sizeup.formats.tflite.write import has_external_data
from sizeup.graph import Graph

_OLD_CODES = 127  # larger codes are only in the newer field
_MAX_FILE_BYTES = (1 << 31) - 1


class TfliteModel:
    """A .tflite file to make modified copies of."""

    def __init__(self, content: bytes, graph: Graph) -> None:
        if has_external_data(content) or len(content) > _MAX_FILE_BYTES:
            raise WriteError(
                "a file with weights outside its FlatBuffer tables cannot be modified for a measurement"
            )
        self.graph, self._content = graph, content

    def fingerprint(self) -> str:
        """A digest of the file."""
        return hashlib.sha256(self._content).hexdigest()

    def channel_axis(self, op: int, _identity: int) -> int | None:
        """The output channel axis of a weight, or None."""
        return operator_of(self.graph.ops[op].source).channels

    def constants(self) -> dict[int, Array]:
        """The values of all float constants, by tensor id."""
        return {
            identity: np.asarray(tensor.data.read(), np.float32).reshape(tensor.shape or ())
            for identity, tensor in enumerate(self.graph.tensors)
            if tensor.data is not None and tensor.data.read is not None and tensor.dtype.family == "float"
        }

    def with_outputs(self, tensor_ids: Sequence[int]) -> bytes:
        """A copy whose outputs are the given tensors."""
        changes = _Changes(self._content, self.graph)
        changes.subgraph.outputs = list(tensor_ids)
        return changes.content()

    def with_rounding(self, roundings: Roundings) -> bytes:
        """A copy that computes with rounded values."""
        changes = _Changes(self._content, self.graph)
        for identity, rounding in roundings.outputs.items():
            changes.round_output(identity, rounding)
        for (op, identity), rounding in roundings.inputs.items():
            changes.round_input(op, identity, rounding)
        for (op, identity), numbers in roundings.constants.items():
            changes.replace_constant(op, identity, numbers)
        return changes.content()


class _Changes:
    """A model object to which operators, tensors and buffers are added."""

    def __init__(self, content: bytes, graph: Graph) -> None:
        try:
            self._model = schema().ModelT.InitFromPackedBuf(content, 0)
        except BROKEN as error:
            raise CorruptModel(f"{graph.name}: {damage(error)}") from error
        self._graph = graph
        self.subgraph = self._model.subgraphs[0]
        self._operators: list[Any] = list(self.subgraph.operators)
        for operator in self._operators:
            operator.inputs = [int(identity) for identity in operator.inputs]
            operator.outputs = [int(identity) for identity in operator.outputs]
        self._producers = {
            identity: index for index, op in enumerate(self._operators) for identity in op.outputs
        }
        self._first: list[Any] = []
        self._before: dict[int, list[Any]] = {}
        self._after: dict[int, list[Any]] = {}
        self._rounded_inputs: dict[int, int] = {}  # graph inputs, and the rounded tensors that replace them
        self._codes: dict[int, int] = {}

    def round_output(self, identity: int, rounding: Rounding) -> None:
        """Round a tensor for all its consumers: after its producer, or after the graph input."""
        if identity in self.subgraph.inputs:
            rounded = self._tensor_like(identity)
            for operator in self._operators:
                operator.inputs = [rounded if other == identity else other for other in operator.inputs]
            self._rounded_inputs[identity] = rounded
            self._first += self._rounding(identity, rounded, rounding)
            return
        index = self._producers.get(identity)
        if index is None:
            raise RunFailed(f"no operator of the file produces {self._graph.tensors[identity].name!r}")
        unrounded, operator = self._tensor_like(identity), self._operators[index]
        operator.outputs = [unrounded if other == identity else other for other in operator.outputs]
        self._after.setdefault(index, []).extend(self._rounding(unrounded, identity, rounding))

    def round_input(self, op: int, identity: int, rounding: Rounding) -> None:
        """Round a tensor for one operator only."""
        source, rounded, index = (
            self._rounded_inputs.get(identity, identity),
            self._tensor_like(identity),
            self._index(op),
        )
        self._replace_input(index, source, rounded)
        self._before.setdefault(index, []).extend(self._rounding(source, rounded, rounding))

    def replace_constant(self, op: int, identity: int, numbers: Array) -> None:
        """Replace the values of a constant for one operator."""
        buffer = schema().BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(numbers, np.float32).tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        replacement = self._tensor_like(identity, buffer=len(self._model.buffers) - 1)
        self._replace_input(self._index(op), identity, replacement)

    def content(self) -> bytes:
        """The modified file."""
        self.subgraph.operators = list(self._all_operators())
        return file_bytes(self._model)

    def _all_operators(self) -> Iterator[Any]:
        yield from self._first
        for index, operator in enumerate(self._operators):
            yield from self._before.get(index, ())
            yield operator
            yield from self._after.get(index, ())

    def _index(self, op: int) -> int:
        """The index in the file of an op of the graph."""
        outputs = self._graph.ops[op].outputs
        index = next((self._producers[identity] for identity in outputs if identity in self._producers), None)
        if index is None:
            raise RunFailed(f"op {op} of the graph has no operator in the main graph of the file")
        return index

    def _replace_input(self, index: int, old: int, new: int) -> None:
        operator = self._operators[index]
        operator.inputs = [new if identity == old else identity for identity in operator.inputs]

    def _tensor_like(self, identity: int, *, type_name: str = "FLOAT32", buffer: int = 0) -> int:
        tensor = copy.copy(self.subgraph.tensors[identity])
        tensor.type = getattr(schema().TensorType, type_name)
        tensor.buffer, tensor.quantization, tensor.sparsity, tensor.isVariable = buffer, None, None, False
        tensor.name = f"sizeup/{len(self.subgraph.tensors)}".encode()
        self.subgraph.tensors.append(tensor)
        return len(self.subgraph.tensors) - 1

    def _rounding(self, source: int, rounded: int, rounding: Rounding) -> list[Any]:
        """Operators that round a float32 tensor to a dtype and convert it back."""
        dtype = rounding.dtype
        if dtype.family == "float":
            narrow = self._tensor_like(source, type_name=dtype.name.upper())
            return [self._operator("CAST", source, narrow), self._operator("CAST", narrow, rounded)]
        options = schema().FakeQuantOptionsT()
        scale = float(rounding.scale)
        options.min = scale * (rounding.low - rounding.zero_point)
        options.max = scale * (rounding.high - rounding.zero_point)
        options.numBits, options.narrowRange = dtype.bits, False
        return [self._operator("FAKE_QUANT", source, rounded, "FakeQuantOptions", options)]

    def _operator(
        self, name: str, source: int, output: int, options_type: str = "NONE", options: Any = None
    ) -> Any:
        operator = schema().OperatorT()
        operator.opcodeIndex = self._code(getattr(schema().BuiltinOperator, name))
        operator.inputs, operator.outputs = [source], [output]
        operator.builtinOptionsType = getattr(schema().BuiltinOptions, options_type)
        operator.builtinOptions = options
        return operator

    def _code(self, builtin: int) -> int:
        if builtin not in self._codes:
            code = schema().OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, _OLD_CODES), 1
            self._model.operatorCodes.append(code)
            self._codes[builtin] = len(self._model.operatorCodes) - 1
        return self._codes[builtin]
