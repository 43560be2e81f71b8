"""Compresses weights with a code-book and narrow indices, which TFLite Micro decodes at run time.

The package `tflite-micro` does the compression. This module selects the weights it supports, and removes the
scales from the stored index tensors, since the decoded tensors have them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sizeup.errors import MissingLibrary, WriteError
from sizeup.formats.tflite.flatbuffer import IDENTIFIER
from sizeup.formats.tflite.schema import schema
from sizeup.formats.tflite.write import has_external_data
from sizeup.graph import Graph

_MAX_BITS = 7  # bits of an index
_ALIGNMENT = 16
_HEADER = 16  # header bytes per code-book tensor
# File bytes that decoding one weight adds: two tensors, two buffers and an operator, with their names.
_OVERHEAD = 200
_DECODER = b"TFLM_DECODE"


class Book(NamedTuple):
    """How to store one weight: bits per index, and the channel axis (one code-book per channel) or None."""

    tensor: int
    bits: int
    axis: int | None


def books(graph: Graph, weights: Iterable[int]) -> list[Book]:
    """The code-books for the weights that get smaller with one."""
    books = []
    for identity in weights:
        book = _book(graph, identity)
        if book is not None:
            books.append(book)
    return books


def _book(graph: Graph, identity: int) -> Book | None:
    tensor = graph.tensors[identity]
    if tensor.data is None or tensor.data.read is None or tensor.data.stored_bytes is not None:
        return None  # sparse or not stored
    numbers = tensor.data.read()
    # Per-channel scales require per-channel code-books: with a single one, the results are wrong.
    axis = None if tensor.quant is None else tensor.quant.axis
    if axis is not None and axis not in (0, numbers.ndim - 1):
        return None
    slices = [numbers] if axis is None else list(np.moveaxis(numbers, axis, 0))
    entries = max((len(np.unique(values)) for values in slices), default=0)
    bits = max(1, math.ceil(math.log2(max(entries, 2))))
    packed_bytes = math.ceil(numbers.size * bits / 8) + _HEADER + len(slices) * entries * numbers.itemsize
    is_smaller = numbers.nbytes - packed_bytes >= _OVERHEAD
    return Book(identity, bits, axis) if bits <= _MAX_BITS and is_smaller else None


def packed(content: bytes, books: Sequence[Book]) -> bytes:
    """The file with those weights compressed; only TFLite Micro can run it."""
    try:
        from tflite_micro import compression
    except ImportError as error:
        raise MissingLibrary("storing weights as code-books", "tflite-micro", "measure") from error
    if has_external_data(content):
        raise WriteError("weights stored outside the FlatBuffer tables cannot be compressed with code-books")
    with warnings.catch_warnings():
        # It warns about single weights that grow. The caller checks the file size.
        warnings.simplefilter("ignore")
        compressed = compression.compress(
            _with_new_operator_codes(content), compression.parse_yaml(_instructions(books))
        )
    return _without_code_scales(bytes(compressed))


def _instructions(books: Sequence[Book]) -> str:
    lines = ["tensors:"]
    for book in books:
        lines += [f"- subgraph: 0\n  tensor: {book.tensor}\n  compression:\n  - lut:"]
        lines += [f"      index_bitwidth: {book.bits}"]
        lines += ["      per_tensor:"] if book.axis is None else [f"      per_channel: {{axis: {book.axis}}}"]
    return "\n".join(lines)


def _with_new_operator_codes(content: bytes) -> bytes:
    """The file with the newer operator code field filled in, which the compressor requires."""
    model = schema().ModelT.InitFromPackedBuf(content, 0)
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    return file_bytes(model)


def _without_code_scales(content: bytes) -> bytes:
    model = schema().ModelT.InitFromPackedBuf(content, 0)
    for graph in model.subgraphs:
        for operator in graph.operators:
            if model.operatorCodes[operator.opcodeIndex].customCode == _DECODER:
                for identity in operator.inputs:
                    graph.tensors[identity].quantization = None
    return file_bytes(model)


def file_bytes(model: Any) -> bytes:
    """Serialize a model object, with buffers aligned as the schema requires."""
    import flatbuffers

    for buffer in model.buffers:
        buffer.Pack = _Aligned(buffer).pack
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


class _Aligned:
    """Packs a buffer like the schema's generated code, but aligned."""

    def __init__(self, buffer: Any) -> None:
        self._data = None if buffer.data is None else np.asarray(buffer.data, np.uint8).tobytes()

    def pack(self, builder: Any) -> Any:
        tables = schema()
        vector = None
        if self._data:
            builder.StartVector(1, len(self._data), _ALIGNMENT)
            builder.head -= len(self._data)
            builder.Bytes[builder.head : builder.head + len(self._data)] = self._data
            vector = builder.EndVector()
        tables.BufferStart(builder)
        if vector is not None:
            tables.BufferAddData(builder, vector)
        return tables.BufferEnd(builder)
