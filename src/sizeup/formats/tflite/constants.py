"""The constants of a file: buffers inside the tables, behind them, or in another file, dense or sparse."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.external import Home, external_file
from sizeup.formats.tflite.schema import BROKEN, Limits, numbers, schema
from sizeup.graph import Constant, Role, Shape

Array: TypeAlias = np.ndarray[Any, Any]

_WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
_NUMPY = {f"{kind}{bits}": np.dtype(f"{kind}{bits}") for kind, widths in _WIDTHS.items() for bits in widths}
_NUMPY["bool"] = np.dtype(np.bool_)

# Dimensions plus dimensions inside blocks; no converter writes more than a handful.
_MOST_LEVELS = 64


class Outside(NamedTuple):
    """A slice of another file."""

    file: str
    offset: int
    length: int


class Constants:
    """Makes every constant once: tensors that share a buffer share it if they have as many elements.

    Otherwise each counts: the smaller of them must not hide the larger.
    """

    def __init__(self, root: Any, content: memoryview, limits: Limits, home: Home) -> None:
        self._root = root
        self._content = content
        self._limits = limits
        self._home = home
        self._buffers = limits.length(root.BuffersLength())
        self._raw: dict[int, Array | None] = {}
        self._made: dict[tuple[int, str, Role, int, bool], Constant] = {}
        self._outside = self._external_buffers()
        if self._buffers and self._bytes(0) is not None:
            raise CorruptModel(
                f"{limits.name}: buffer 0, which tensors without data refer to, is not empty as it must be"
            )

    def has(self, tensor: Any) -> bool:
        """Whether the file itself holds numbers for a tensor."""
        index = tensor.Buffer()
        return bool(index) and self._bytes(index) is not None

    @property
    def files(self) -> list[str]:
        """The names of other files that hold weights."""
        return sorted({each.file for each in self._outside.values()})

    def of(self, tensor: Any, dtype: DType, shape: Shape, role: Role) -> Constant | None:
        """The content of a tensor; None where it has none.

        `read` gives the shape of the first tensor that shares the buffer.
        """
        outside = tensor.ExternalBuffer() if self._outside else 0
        index = -outside or tensor.Buffer()
        if not index or (index > 0 and self._bytes(index) is None):
            return None
        key = (index, dtype.name, role, math.prod(shape), tensor.Sparsity() is not None)
        found = self._made.get(key)
        if found is None:
            if index > 0:
                found = self._inside(tensor, index, dtype, shape, role)
            else:
                found = self._elsewhere(outside, dtype, shape, role)
            self._made[key] = found
        return found

    def _bytes(self, index: int) -> Array | None:
        """The bytes of a buffer as a view of the file; None where it is empty."""
        if index not in self._raw:
            self._raw[index] = self._find_bytes(index)
        return self._raw[index]

    def _find_bytes(self, index: int) -> Array | None:
        if index >= self._buffers:
            raise CorruptModel(f"{self._limits.name}: a tensor refers to buffer {index} of {self._buffers}")
        buffer = self._root.Buffers(index)
        inside = buffer.DataAsNumpy()
        if not isinstance(inside, int):
            return inside if len(inside) else None
        # Files beyond 2 GiB keep their data behind the tables; an offset of 0 or 1 means "not so".
        offset, size = buffer.Offset(), buffer.Size()
        if offset <= 1 or not size:
            return None
        if offset + size > len(self._content):
            raise CorruptModel(f"{self._limits.name}: buffer {index} lies outside the file")
        return np.frombuffer(self._content, np.uint8, size, offset)

    def _inside(self, tensor: Any, index: int, dtype: DType, shape: Shape, role: Role) -> Constant:
        raw = self._bytes(index)
        assert raw is not None
        if not dtype.bits:
            return Constant(role, None, len(raw))  # strings and the like
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

    def _elsewhere(self, identity: int, dtype: DType, shape: Shape, role: Role) -> Constant:
        place = self._outside.get(identity)
        if place is None:
            raise CorruptModel(f"{self._limits.name}: external buffer {identity} is not listed")
        read = _stored_outside(self._home, place.file, place.offset, place.length, dtype, shape)
        needed = (math.prod(shape) * dtype.bits + 7) // 8
        if place.length < needed:
            raise CorruptModel(
                f"{self._limits.name}: external buffer {identity} has {place.length} bytes of {needed}"
            )
        return Constant(role, read, None if place.length == needed else place.length)

    def _external_buffers(self) -> dict[int, Outside]:
        """By the ids that tensors use for them."""
        if not hasattr(self._root, "ExternalBuffersLength"):
            return {}  # releases of the schema before 2.1 do not know them
        groups = self._limits.length(self._root.ExternalBufferGroupsLength())
        found: dict[int, Outside] = {}
        for index in range(self._limits.length(self._root.ExternalBuffersLength())):
            buffer = self._root.ExternalBuffers(index)
            if buffer.Group() >= groups:
                raise CorruptModel(f"{self._limits.name}: external buffer {index} is in no file")
            file = self._limits.label(self._root.ExternalBufferGroups(buffer.Group()).Name())
            found[buffer.Id()] = Outside(file, buffer.Offset(), buffer.Length())
        return found


def _decode(raw: Array, dtype: DType, shape: Shape) -> Array:
    """The numbers behind bytes; types that numpy lacks become the next wider one that it has."""
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
        raise LoadError(f"numbers of type {dtype} cannot be read")
    return values.reshape(shape)


def _unpacked(raw: Array, dtype: DType, count: int) -> Array:
    """Narrow integers, the first of each byte in its lowest bits."""
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    fields = ((raw[:, None] >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)[:count]
    if dtype.name.startswith("uint"):
        return fields
    sign = 1 << (dtype.bits - 1)
    return (fields.astype(np.int8) ^ np.int8(sign)) - np.int8(sign)


def _e4m3_values() -> Array:
    """All 256 values of float8 e4m3fn: bias 7, no infinities, NaN where all bits but the sign are set."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size = np.where((codes & 127) == 127, np.nan, size)
    return np.where(codes & 128, -size, size).astype(np.float32)


_E4M3 = _e4m3_values()


def _stored_outside(
    home: Home, name: str, offset: int, length: int, dtype: DType, shape: Shape
) -> Callable[[], Array]:
    """A reader of bytes in another file, which is opened only when asked."""

    def read() -> Array:
        path = external_file(home, name, "a weight")
        try:
            # Before anything is allocated: the length is only what the model says.
            if path.stat().st_size < offset + length:
                raise CorruptModel(f"{path}: ends before byte {offset + length}")
            raw = np.fromfile(path, np.uint8, length, offset=offset)
        except OSError as error:
            raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
        return _decode(raw, dtype, shape)

    return read


def _index_bytes(sparsity: Any) -> int:
    """Bytes that the coordinates of the stored numbers take."""
    return sum(
        segments.nbytes + indices.nbytes for _, segments, indices in _levels(sparsity) if segments is not None
    )


def _densify(raw: Array, dtype: DType, shape: Shape, sparsity: Any) -> Array:
    """The dense array: every level of the traversal extends the coordinates of the one before."""
    try:
        columns = _coordinates(sparsity, math.prod(shape))
        count = len(columns[0]) if columns else 1
        dense = np.zeros(shape, _decode(raw[:0], dtype, (0,)).dtype)
        dense[_positions(sparsity, columns, len(shape))] = _decode(raw, dtype, (count,))
    except (*BROKEN, IndexError) as error:
        raise CorruptModel(f"a sparse tensor's coordinates do not fit its shape: {error}") from error
    return dense


def _coordinates(sparsity: Any, elements: int) -> list[Array]:
    """One column of coordinates per level, one row per stored number."""
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
