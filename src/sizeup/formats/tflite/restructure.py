"""Replaces operators of a .tflite file's main graph and adds tensors.

This changes the structure of the file, so it goes through objects, with explicit alignment. Files with data
outside their tables are rejected. Buffers keep their indices, and tensors that are not replaced their ids.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizeup.errors import CorruptModel, WriteError
from sizeup.formats.tflite.codebooks import file_bytes
from sizeup.formats.tflite.schema import BROKEN, PLAN, damage, schema
from sizeup.formats.tflite.write import has_archive, has_external_data
from sizeup.graph import Shape

_VALID = 1  # padding of convolutions and pools in the schema
_LAST_OLD_CODE = 127  # larger operator codes are stored in the newer field only


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor that is added to the main graph or replaces one that is no longer used.

    It has the dtype and the quantization of the tensor `like`, or is an int32 constant with `values`.
    """

    identity: int
    name: str
    shape: Shape
    like: int = -1
    values: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NewOp:
    """An operator: a copy of operator `origin` with other tensors, or a new one without `origin`.

    With `valid`, a copied convolution or pool has no padding. `axis` is that of a new CONCATENATION.
    """

    source: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: int | None = None
    valid: bool = False
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Restructuring:
    """New tensors, and all operators of the main graph: indices of unchanged ones, or new ones."""

    tensors: tuple[NewTensor, ...]
    ops: tuple[NewOp | int, ...]


def restructured(content: bytes, restructuring: Restructuring) -> bytes:
    """The file with those tensors and operators in its main graph; a stored memory plan is removed."""
    if has_external_data(content) or has_archive(content):
        raise WriteError("a file with data outside its FlatBuffer tables cannot be restructured")
    try:
        model = schema().ModelT.InitFromPackedBuf(content, 0)
    except BROKEN as error:
        raise CorruptModel(damage(error)) from error
    graph = model.subgraphs[0]
    _add_tensors(model, graph.tensors, restructuring.tensors)
    for tensor in graph.tensors:
        tensor.shapeSignature = None  # new constants contain sizes, so none of them is free anymore
    graph.operators = [
        graph.operators[op] if isinstance(op, int) else _operator(model, graph.operators, op)
        for op in restructuring.ops
    ]
    model.metadata = [entry for entry in model.metadata or () if entry.name != PLAN.encode()] or None
    return file_bytes(model)


def _add_tensors(model: Any, tensors: list[Any], added: Sequence[NewTensor]) -> None:
    old = list(tensors)
    buffers: dict[tuple[int, ...], int] = {}
    for new in sorted(added, key=lambda tensor: tensor.identity):
        table = schema().TensorT() if new.like < 0 else copy.copy(old[new.like])
        table.name, table.shape = new.name.encode("utf-8", "replace"), list(new.shape)
        table.buffer = 0
        if new.values is not None:
            table.type = schema().TensorType.INT32
            table.hasRank = True
            if new.values not in buffers:
                buffers[new.values] = len(model.buffers)
                buffer = schema().BufferT()
                buffer.data = np.frombuffer(np.array(new.values, "<i4").tobytes(), np.uint8)
                model.buffers.append(buffer)
            table.buffer = buffers[new.values]
        if new.identity < len(tensors):
            tensors[new.identity] = table
        else:
            assert new.identity == len(tensors)
            tensors.append(table)


def _operator(model: Any, operators: Sequence[Any], new: NewOp) -> Any:
    if new.origin is None:
        table = schema().OperatorT()
        table.opcodeIndex = _code(model, new.source)
        _set_options(table, new)
    else:
        table = copy.copy(operators[new.origin])
        table.intermediates = None
        if new.valid:
            table.builtinOptions = copy.copy(table.builtinOptions)
            table.builtinOptions.padding = _VALID
    table.inputs, table.outputs = list(new.inputs), list(new.outputs)
    return table


def _set_options(table: Any, new: NewOp) -> None:
    tables = schema()
    name = {"SLICE": "SliceOptions", "PAD": "PadOptions", "PADV2": "PadV2Options"}.get(
        new.source, "ConcatenationOptions"
    )
    table.builtinOptionsType = getattr(tables.BuiltinOptions, name)
    table.builtinOptions = getattr(tables, f"{name}T")()
    if new.source == "CONCATENATION":
        table.builtinOptions.axis = new.axis


def _code(model: Any, name: str) -> int:
    """The index of an operator code, which is added if the file does not have it."""
    number = getattr(schema().BuiltinOperator, name)
    for index, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == number:
            return index
    code = schema().OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode = number, min(number, _LAST_OLD_CODE)
    code.version = 1
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1
