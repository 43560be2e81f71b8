"""Constants of a .tflite file: stored inline, after the tables or in another file, dense or sparse."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel, LoadError
from sizeup.files import read_problem
from sizeup.formats.external import ModelFolders, external_file, external_size
from sizeup.formats.tflite.schema import BROKEN, FileLimits, numbers, schema
from sizeup.graph import Constant, Role, Shape

Array: TypeAlias = np.ndarray[Any, Any]

_WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
_NUMPY = {f"{kind}{bits}": np.dtype(f"{kind}{bits}") for kind, widths in _WIDTHS.items() for bits in widths}
_NUMPY["bool"] = np.dtype(np.bool_)

# Outer dimensions plus block dimensions. Real files have fewer than ten.
_MAX_LEVELS = 64


class ExternalSlice(NamedTuple):
    """A byte range of another file."""

    file: str
    offset: int
    length: int


class Constants:
    """Reads constants. Tensors share a Constant if they share a buffer and have the same element count.

    Tensors of different sizes on one buffer count separately, so that a small one cannot hide a large one.
    """

    def __init__(self, root: Any, content: memoryview, limits: FileLimits, home: ModelFolders) -> None:
        self._root = root
        self._content = content
        self._limits = limits
        self._home = home
        self._buffers = limits.length(root.BuffersLength())
        self._raw: dict[int, Array | None] = {}
        self._cache: dict[tuple[int, str, Role, int, bool], Constant] = {}
        self._external = self._external_buffers()
        if self._buffers and self._bytes(0) is not None:
            raise CorruptModel(
                f"{limits.name}: buffer 0 is reserved for tensors without data and must be empty"
            )

    def has(self, tensor: Any) -> bool:
        """Whether the file stores data for a tensor."""
        index = tensor.Buffer()
        return bool(index) and self._bytes(index) is not None

    @property
    def files(self) -> list[str]:
        """The names of external weight files."""
        return sorted({buffer.file for buffer in self._external.values()})

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The external weight files that cannot be read or are too short, of a model with a folder."""
        needed: dict[str, int] = {}
        for file, offset, length in self._external.values():
            needed[file] = max(needed.get(file, 0), offset + length)
        sizes = {file: external_size(self._home, file) or 0 for file in needed} if self._home else {}
        return tuple(sorted(file for file, size in sizes.items() if size < needed[file]))

    def constant(self, tensor: Any, dtype: DType, shape: Shape, role: Role) -> Constant | None:
        """The content of a tensor, or None if it has none.

        `read` returns the shape of the first tensor that shares the buffer.
        """
        external = tensor.ExternalBuffer() if self._external else 0
        index = -external or tensor.Buffer()
        if not index or (index > 0 and self._bytes(index) is None):
            return None
        key = (index, dtype.name, role, math.prod(shape), tensor.Sparsity() is not None)
        constant = self._cache.get(key)
        if constant is None:
            if index > 0:
                constant = self._from_buffer(tensor, index, dtype, shape, role)
            else:
                constant = self._from_external(external, dtype, shape, role)
            self._cache[key] = constant
        return constant

    def _bytes(self, index: int) -> Array | None:
        """The bytes of a buffer as a view of the file, or None if it is empty."""
        if index not in self._raw:
            self._raw[index] = self._find_bytes(index)
        return self._raw[index]

    def _find_bytes(self, index: int) -> Array | None:
        if index >= self._buffers:
            raise CorruptModel(
                f"{self._limits.name}: a tensor refers to buffer {index} of {self._buffers} buffers"
            )
        buffer = self._root.Buffers(index)
        inside = buffer.DataAsNumpy()
        if not isinstance(inside, int):
            return inside if len(inside) else None
        # Files over 2 GiB store their data after the tables. An offset of 0 or 1 means that it is not used.
        offset, size = buffer.Offset(), buffer.Size()
        if offset <= 1 or not size:
            return None
        if offset + size > len(self._content):
            raise CorruptModel(f"{self._limits.name}: buffer {index} lies outside the file")
        return np.frombuffer(self._content, np.uint8, size, offset)

    def _from_buffer(self, tensor: Any, index: int, dtype: DType, shape: Shape, role: Role) -> Constant:
        raw = self._bytes(index)
        assert raw is not None
        if not dtype.bits:
            return Constant(role, None, len(raw))  # strings and other types without a fixed size
        sparsity = tensor.Sparsity()
        if sparsity is not None:
            stored = len(raw) + _index_bytes(sparsity)
            return Constant(role, partial(_densify, raw, dtype, shape, sparsity), stored)
        needed = (math.prod(shape) * dtype.bits + 7) // 8
        if len(raw) < needed:
            name = self._limits.label(tensor.Name())
            raise CorruptModel(
                f"{self._limits.name}: tensor {name!r} needs {needed} bytes, its buffer has {len(raw)}"
            )
        return Constant(role, partial(_decode, raw, dtype, shape), None if len(raw) == needed else len(raw))

    def _from_external(self, buffer_id: int, dtype: DType, shape: Shape, role: Role) -> Constant:
        source = self._external.get(buffer_id)
        if source is None:
            raise CorruptModel(f"{self._limits.name}: external buffer {buffer_id} is not listed")
        read = _external_reader(self._home, source.file, source.offset, source.length, dtype, shape)
        needed = (math.prod(shape) * dtype.bits + 7) // 8
        if source.length < needed:
            raise CorruptModel(
                f"{self._limits.name}: external buffer {buffer_id} has {source.length} bytes, needs {needed}"
            )
        return Constant(role, read, None if source.length == needed else source.length)

    def _external_buffers(self) -> dict[int, ExternalSlice]:
        """External buffers by id."""
        if not hasattr(self._root, "ExternalBuffersLength"):
            return {}  # not in schema releases before 2.1
        groups = self._limits.length(self._root.ExternalBufferGroupsLength())
        buffers: dict[int, ExternalSlice] = {}
        for index in range(self._limits.length(self._root.ExternalBuffersLength())):
            buffer = self._root.ExternalBuffers(index)
            if buffer.Group() >= groups:
                raise CorruptModel(f"{self._limits.name}: external buffer {index} names no file")
            file = self._limits.label(self._root.ExternalBufferGroups(buffer.Group()).Name())
            buffers[buffer.Id()] = ExternalSlice(file, buffer.Offset(), buffer.Length())
        return buffers


def _decode(raw: Array, dtype: DType, shape: Shape) -> Array:
    """Decode raw bytes. Dtypes that numpy lacks become the next wider numpy dtype."""
    count = math.prod(shape)
    plain = _NUMPY.get(dtype.name)
    if plain is not None:
        values = raw[: count * plain.itemsize].view(plain)
    elif dtype.name == "bfloat16":
        values = (raw[: 2 * count].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype.name == "float8_e5m2":
        values = (raw[:count].astype(np.uint16) << 8).view(np.float16)
    elif dtype.name == "float8_e4m3fn":
        values = _E4M3[raw[:count]]
    elif dtype.family == "int" and dtype.bits < 8:
        values = _unpacked(raw, dtype, count)
    else:
        raise LoadError(f"reading {dtype} data is not supported")
    return values.reshape(shape)


def _unpacked(raw: Array, dtype: DType, count: int) -> Array:
    """Unpack sub-byte integers, lowest bits first."""
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    fields = ((raw[:, None] >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)[:count]
    if dtype.name.startswith("uint"):
        return fields
    sign = 1 << (dtype.bits - 1)
    return (fields.astype(np.int8) ^ np.int8(sign)) - np.int8(sign)


def _e4m3_values() -> Array:
    """All 256 values of float8 e4m3fn: bias 7, no infinities, NaN if all bits except the sign are set."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size = np.where((codes & 127) == 127, np.nan, size)
    return np.where(codes & 128, -size, size).astype(np.float32)


_E4M3 = _e4m3_values()


def _external_reader(
    home: ModelFolders, name: str, offset: int, length: int, dtype: DType, shape: Shape
) -> Callable[[], Array]:
    """A function that reads a constant from another file."""

    def read() -> Array:
        path = external_file(home, name, "a weight")
        try:
            # Check before allocating: the length comes from the model file and is not trusted.
            if path.stat().st_size < offset + length:
                raise CorruptModel(f"{path}: file is too short, the model refers to byte {offset + length}")
            raw = np.fromfile(path, np.uint8, length, offset=offset)
        except OSError as error:
            raise LoadError(f"{path}: {read_problem(error)}") from error
        return _decode(raw, dtype, shape)

    return read


def _index_bytes(sparsity: Any) -> int:
    """Bytes of the sparse index arrays."""
    return sum(
        segments.nbytes + indices.nbytes for _, segments, indices in _levels(sparsity) if segments is not None
    )


def _densify(raw: Array, dtype: DType, shape: Shape, sparsity: Any) -> Array:
    """Convert a sparse constant to a dense array."""
    try:
        columns = _coordinates(sparsity, math.prod(shape))
        count = len(columns[0]) if columns else 1
        dense = np.zeros(shape, _decode(raw[:0], dtype, (0,)).dtype)
        dense[_positions(sparsity, columns, len(shape))] = _decode(raw, dtype, (count,))
    except (*BROKEN, IndexError) as error:
        raise CorruptModel(f"a sparse tensor's coordinates do not fit its shape: {error}") from error
    return dense


def _coordinates(sparsity: Any, elements: int) -> list[Array]:
    """Coordinates of the stored values: one array per level, one entry per stored value."""
    columns: list[Array] = []
    count = 1
    repeats: Any
    for size, segments, indices in _levels(sparsity):
        if segments is None:
            if count * size > elements:
                raise CorruptModel("a sparse tensor stores more values than its shape has elements")
            repeats, column = size, np.tile(np.arange(size), count)
        else:
            repeats, column = np.diff(segments[: count + 1].astype(np.int64)), indices
        columns = [np.repeat(outer, repeats) for outer in columns] + [column.astype(np.int64)]
        count = len(column)
    return columns


def _positions(sparsity: Any, columns: list[Array], rank: int) -> tuple[Array, ...]:
    """Indices into the dense array: outer coordinates combined with block coordinates."""
    order = numbers(sparsity.TraversalOrderAsNumpy())
    targets = numbers(sparsity.BlockMapAsNumpy())
    sizes = [size for size, _, _ in _levels(sparsity)]
    positions: list[Any] = [0] * rank
    for axis, column in zip(order[:rank], columns, strict=False):
        positions[axis] = column
    for axis, size, column in zip(order[rank:], sizes[rank:], columns[rank:], strict=True):
        target = targets[axis - rank]
        positions[target] = positions[target] * size + column
    return tuple(positions)


def _levels(sparsity: Any) -> list[tuple[int, Array | None, Any]]:
    """The size of each level and, if it is sparse, its segments and indices."""
    if sparsity.DimMetadataLength() > _MAX_LEVELS:
        raise CorruptModel(
            f"a sparse tensor has {sparsity.DimMetadataLength()} levels (at most {_MAX_LEVELS})"
        )
    levels: list[tuple[int, Array | None, Any]] = []
    for index in range(sparsity.DimMetadataLength()):
        level = sparsity.DimMetadata(index)
        if level.Format() == schema().DimensionType.DENSE:
            if level.DenseSize() < 0:
                raise CorruptModel(f"a sparse tensor has a level of size {level.DenseSize()}")
            levels.append((level.DenseSize(), None, None))
        else:
            segments = _vector(level.ArraySegmentsType(), level.ArraySegments())
            levels.append((0, segments, _vector(level.ArrayIndicesType(), level.ArrayIndices())))
    return levels


def _vector(vector_type: int, union: Any) -> Array:
    tables = schema()
    accessors = {
        tables.SparseIndexVector.Int32Vector: tables.Int32Vector,
        tables.SparseIndexVector.Uint16Vector: tables.Uint16Vector,
        tables.SparseIndexVector.Uint8Vector: tables.Uint8Vector,
    }
    if union is None or vector_type not in accessors:
        raise CorruptModel("a sparse tensor has no indices for a sparse level")
    vector = accessors[vector_type]()
    vector.Init(union.Bytes, union.Pos)
    values = vector.ValuesAsNumpy()
    return np.zeros(0, np.int32) if isinstance(values, int) else values
