"""Weights stored as a code-book and narrow indices into it, which TFLite Micro decodes while it runs.

The package `tflite-micro` brings the code that writes them. It is given what it handles well, and what it
leaves behind is tidied up: a stored tensor of indices needs no scales, and its decoded twin has them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sizeup.errors import MissingLibrary, WriteError
from sizeup.formats.tflite.flat import IDENTIFIER
from sizeup.formats.tflite.schema import schema
from sizeup.formats.tflite.write import holds_data_outside
from sizeup.graph import Graph

_WIDEST = 7  # bits of an index
_ALIGNMENT = 16
_HEAD = 16  # bytes in front of a code-book
# Two tensors, two buffers and an operator, with their names: what decoding one weight adds to the file.
_OVERHEAD = 200
_DECODER = b"TFLM_DECODE"


class Book(NamedTuple):
    """How one weight is to be stored: bits of an index, and the axis along which code-books change."""

    tensor: int
    bits: int
    axis: int | None


def books(graph: Graph, weights: Iterable[int]) -> list[Book]:
    """The weights that take less room with a code-book than without."""
    found = []
    for identity in weights:
        book = _book(graph, identity)
        if book is not None:
            found.append(book)
    return found


def _book(graph: Graph, identity: int) -> Book | None:
    tensor = graph.tensors[identity]
    if tensor.data is None or tensor.data.read is None or tensor.data.stored_bytes is not None:
        return None  # sparse, or not stored at all
    numbers = tensor.data.read()
    # One book for a weight with scales by channel runs and gives wrong numbers: it needs one a channel.
    axis = None if tensor.quant is None else tensor.quant.axis
    if axis is not None and axis not in (0, numbers.ndim - 1):
        return None
    slices = [numbers] if axis is None else list(np.moveaxis(numbers, axis, 0))
    longest = max((len(np.unique(each)) for each in slices), default=0)
    bits = max(1, math.ceil(math.log2(max(longest, 2))))
    room = math.ceil(numbers.size * bits / 8) + _HEAD + len(slices) * longest * numbers.itemsize
    worth = numbers.nbytes - room >= _OVERHEAD
    return Book(identity, bits, axis) if bits <= _WIDEST and worth else None


def packed(content: bytes, chosen: Sequence[Book]) -> bytes:
    """The file with those weights stored as code-books; only TFLite Micro runs it."""
    try:
        from tflite_micro import compression
    except ImportError as error:
        raise MissingLibrary("storing weights as code-books", "tflite-micro", "measure") from error
    if holds_data_outside(content):
        raise WriteError("weights kept outside the tables of the file cannot be stored as code-books")
    with warnings.catch_warnings():
        # It warns of single weights that grow; whether the file shrinks is for the caller to see.
        warnings.simplefilter("ignore")
        made = compression.compress(_with_codes(content), compression.parse_yaml(_instructions(chosen)))
    return _tidied(bytes(made))


def _instructions(chosen: Sequence[Book]) -> str:
    lines = ["tensors:"]
    for book in chosen:
        lines += [f"- subgraph: 0\n  tensor: {book.tensor}\n  compression:\n  - lut:"]
        lines += [f"      index_bitwidth: {book.bits}"]
        lines += ["      per_tensor:"] if book.axis is None else [f"      per_channel: {{axis: {book.axis}}}"]
    return "\n".join(lines)


def _with_codes(content: bytes) -> bytes:
    """The file with its operators named in the newer field too: without it all become one operator."""
    model = schema().ModelT.InitFromPackedBuf(content, 0)
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    return file_bytes(model)


def _tidied(content: bytes) -> bytes:
    model = schema().ModelT.InitFromPackedBuf(content, 0)
    for graph in model.subgraphs:
        for operator in graph.operators:
            if model.operatorCodes[operator.opcodeIndex].customCode == _DECODER:
                for identity in operator.inputs:
                    graph.tensors[identity].quantization = None
    return file_bytes(model)


def file_bytes(model: Any) -> bytes:
    """The file of an object, the data of its buffers aligned as the schema demands."""
    import flatbuffers

    for buffer in model.buffers:
        buffer.Pack = _Aligned(buffer).pack
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


class _Aligned:
    """Packs a buffer as the schema's own code does, but for the alignment, which that ignores."""

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
