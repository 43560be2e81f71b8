"""Sparse constants: how much of them a file holds, and the dense array that they stand for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel
from sizeup.formats.tflite.content import Array, decode
from sizeup.formats.tflite.schema import BROKEN, numbers, schema
from sizeup.graph import Shape

# Dimensions plus dimensions inside blocks; no converter writes more than a handful.
_MOST_LEVELS = 64


def index_bytes(sparsity: Any) -> int:
    """Bytes that the coordinates of the stored numbers take."""
    return sum(
        segments.nbytes + indices.nbytes for _, segments, indices in _levels(sparsity) if segments is not None
    )


def densify(raw: Array, dtype: DType, shape: Shape, sparsity: Any) -> Array:
    """The dense array: every level of the traversal extends the coordinates of the one before."""
    try:
        columns = _coordinates(sparsity, math.prod(shape))
        count = len(columns[0]) if columns else 1
        dense = np.zeros(shape, decode(raw[:0], dtype, (0,)).dtype)
        dense[_positions(sparsity, columns, len(shape))] = decode(raw, dtype, (count,))
    except (*BROKEN, IndexError) as error:
        raise CorruptModel(f"a sparse tensor's coordinates do not fit its shape: {error}") from error
    return dense


def _coordinates(sparsity: Any, elements: int) -> list[Array]:
    """One column of coordinates a level, one row a stored number."""
    columns: list[Array] = []
    count = 1
    repeats: Any
    for size, segments, indices in _levels(sparsity):
        if segments is None:
            if count * size > elements:
                raise CorruptModel("a sparse tensor stores more numbers than its shape holds")
            repeats, column = size, np.tile(np.arange(size), count)
        else:
            repeats, column = np.diff(segments[: count + 1].astype(np.int64)), indices
        columns = [np.repeat(each, repeats) for each in columns] + [column.astype(np.int64)]
        count = len(column)
    return columns


def _positions(sparsity: Any, columns: list[Array], rank: int) -> tuple[Array, ...]:
    """Coordinates in the dense array: those of the outer levels, refined by those inside blocks."""
    order = numbers(sparsity.TraversalOrderAsNumpy())
    targets = numbers(sparsity.BlockMapAsNumpy())
    sizes = [size for size, _, _ in _levels(sparsity)]
    found: list[Any] = [0] * rank
    for axis, column in zip(order[:rank], columns, strict=False):
        found[axis] = column
    for axis, size, column in zip(order[rank:], sizes[rank:], columns[rank:], strict=True):
        target = targets[axis - rank]
        found[target] = found[target] * size + column
    return tuple(found)


def _levels(sparsity: Any) -> list[tuple[int, Array | None, Any]]:
    """Of each level its size and, where it is sparse, its segments and indices."""
    if sparsity.DimMetadataLength() > _MOST_LEVELS:
        raise CorruptModel(f"a sparse tensor of {sparsity.DimMetadataLength()} levels")
    levels: list[tuple[int, Array | None, Any]] = []
    for index in range(sparsity.DimMetadataLength()):
        level = sparsity.DimMetadata(index)
        if level.Format() == schema().DimensionType.DENSE:
            if level.DenseSize() < 0:
                raise CorruptModel(f"a sparse tensor with a level of {level.DenseSize()} entries")
            levels.append((level.DenseSize(), None, None))
        else:
            segments = _vector(level.ArraySegmentsType(), level.ArraySegments())
            levels.append((0, segments, _vector(level.ArrayIndicesType(), level.ArrayIndices())))
    return levels


def _vector(kind: int, union: Any) -> Array:
    tables = schema()
    accessors = {
        tables.SparseIndexVector.Int32Vector: tables.Int32Vector,
        tables.SparseIndexVector.Uint16Vector: tables.Uint16Vector,
        tables.SparseIndexVector.Uint8Vector: tables.Uint8Vector,
    }
    if union is None or kind not in accessors:
        raise CorruptModel("a sparse tensor without the coordinates of a sparse level")
    found = accessors[kind]()
    found.Init(union.Bytes, union.Pos)
    values = found.ValuesAsNumpy()
    return np.zeros(0, np.int32) if isinstance(values, int) else values
