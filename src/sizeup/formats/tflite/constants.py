"""The constants of a file: buffers inside the tables, behind them, or in another file."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel
from sizeup.formats.external import Home
from sizeup.formats.tflite import sparse
from sizeup.formats.tflite.content import Array, stored_inside, stored_outside
from sizeup.formats.tflite.limits import Limits
from sizeup.graph import Constant, Role, Shape


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
            stored = len(raw) + sparse.index_bytes(sparsity)
            return Constant(role, lambda: sparse.densify(raw, dtype, shape, sparsity), stored)
        needed = (math.prod(shape) * dtype.bits + 7) // 8
        if len(raw) < needed:
            name = self._limits.label(tensor.Name())
            raise CorruptModel(
                f"{self._limits.name}: tensor {name!r} needs {needed} bytes, its buffer has {len(raw)}"
            )
        return Constant(role, stored_inside(raw, dtype, shape), None if len(raw) == needed else len(raw))

    def _elsewhere(self, identity: int, dtype: DType, shape: Shape, role: Role) -> Constant:
        place = self._outside.get(identity)
        if place is None:
            raise CorruptModel(f"{self._limits.name}: external buffer {identity} is not listed")
        read = stored_outside(self._home, place.file, place.offset, place.length, dtype, shape)
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
