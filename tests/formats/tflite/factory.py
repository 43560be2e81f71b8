"""Small .tflite files, packed with LiteRT's own object API: cases that the real files do not cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sizeup.formats import tflite
from sizeup.graph import Graph

# Tests that import this module are skipped without them.
flatbuffers = pytest.importorskip("flatbuffers")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")


class Subgraph:
    """One subgraph under construction; tensors and operators are numbered in the order of their calls."""

    def __init__(self, file: File, name: str) -> None:
        self.file = file
        self.table = schema.SubGraphT()
        self.table.name = name
        self.table.tensors, self.table.operators = [], []
        self.table.inputs, self.table.outputs = [], []

    def tensor(
        self,
        name: str | None,
        shape: Sequence[int] | None,
        kind: str = "FLOAT32",
        data: Any = None,
        **fields: Any,
    ) -> int:
        """A tensor; with `data` a constant, with `buffer` one that shares another's content."""
        table = schema.TensorT()
        table.name, table.shape = name, None if shape is None else list(shape)
        table.type = getattr(schema.TensorType, kind)
        table.buffer = fields.pop("buffer", None) or self.file.buffer(data)
        for field, value in fields.items():
            setattr(table, field, value)
        self.table.tensors.append(table)
        return len(self.table.tensors) - 1

    def op(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: Any = None, **fields: Any
    ) -> None:
        """An operator; its options are the table of either union that they are an object of."""
        table = schema.OperatorT()
        table.opcodeIndex = self.file.code(name)
        table.inputs, table.outputs = list(inputs), list(outputs)
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            if hasattr(schema.BuiltinOptions, kind):
                table.builtinOptionsType, table.builtinOptions = getattr(schema.BuiltinOptions, kind), options
            else:
                table.builtinOptions2Type = getattr(schema.BuiltinOptions2, kind)
                table.builtinOptions2 = options
        for field, value in fields.items():
            setattr(table, field, value)
        self.table.operators.append(table)

    def ends(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Set the input and output tensors."""
        self.table.inputs, self.table.outputs = list(inputs), list(outputs)


class File:
    """A file under construction, with its main subgraph in `main`."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.operatorCodes, self.model.subgraphs = [], []
        self.model.buffers = [schema.BufferT()]
        self.main = self.subgraph("main")

    def subgraph(self, name: str = "") -> Subgraph:
        subgraph = Subgraph(self, name)
        self.model.subgraphs.append(subgraph.table)
        return subgraph

    def buffer(self, data: Any) -> int:
        """A buffer with that content; 0, the empty one, without."""
        if data is None:
            return 0
        buffer = schema.BufferT()
        raw = data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
        buffer.data = np.frombuffer(raw, np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def code(self, name: str) -> int:
        """An operator code; a name that is no builtin operator's is a custom one."""
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, name, None)
        if number is None:
            number, code.customCode = schema.BuiltinOperator.CUSTOM, name
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def pack(self) -> bytes:
        """The file's bytes."""
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def load(self) -> Graph:
        """The graph that sizeup loads from it."""
        return tflite.load(self.pack())


def options(table: str, **fields: Any) -> Any:
    """An options table by its name, `Conv2DOptions` for instance, with those fields."""
    options_table = getattr(schema, f"{table}T")()
    for field, value in fields.items():
        assert hasattr(options_table, field), f"{table} has no {field}"
        setattr(options_table, field, value)
    return options_table


def quantized(scale: Sequence[float], zero_point: Sequence[int] = (0,), dimension: int = 0) -> Any:
    """Affine quantization parameters."""
    quantization = schema.QuantizationParametersT()
    quantization.scale, quantization.zeroPoint, quantization.quantizedDimension = (
        list(scale),
        list(zero_point),
        dimension,
    )
    return quantization


def single(
    name: str,
    inputs: Sequence[tuple[int, ...] | None],
    outputs: Sequence[tuple[int, ...]],
    settings: Any = None,
    weights: Sequence[int] = (),
) -> Graph:
    """One operator on float tensors of those shapes; None is an absent input, `weights` are constants."""
    return file_of(name, inputs, outputs, settings, weights).load()


def file_of(
    name: str,
    inputs: Sequence[tuple[int, ...] | None],
    outputs: Sequence[tuple[int, ...]],
    settings: Any = None,
    weights: Sequence[int] = (),
) -> File:
    """The file of that operator."""
    file = File()
    identities = []
    for index, shape in enumerate(inputs):
        if shape is None:
            identities.append(-1)
            continue
        data = np.zeros(shape, np.float32) if index in weights else None
        identities.append(file.main.tensor(f"in{index}", shape, data=data))
    output_ids = [file.main.tensor(f"out{index}", shape) for index, shape in enumerate(outputs)]
    file.main.op(name, identities, output_ids, settings)
    file.main.ends([i for index, i in enumerate(identities) if i >= 0 and index not in weights], output_ids)
    return file
