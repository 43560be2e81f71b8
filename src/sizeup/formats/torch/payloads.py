"""Weights of a .pt2 file as fake tensors, with their values read on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sizeup.errors import CorruptModel, LoadError, WeightsMissing
from sizeup.formats.torch.archive import Archive, read_payload
from sizeup.formats.torch.record import Numbers, tensor_values
from sizeup.formats.torch.serialized import ProgramInput, TensorMeta, tensor_meta

_Read = Callable[[], Numbers]
_LARGEST_TENSOR = 1 << 60
_LEGACY_NOTE = (
    "this .pt2 file was written by torch 2.7 or older: shared weights cannot be detected and are counted"
    " separately; load it and save it again with a current torch"
)


class Payloads:
    """The tensors of an archive by name; tensors over the same bytes share one storage."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._tables = [("weights", archive.weights), ("constants", archive.constants)]
        self._bases: dict[str, torch.Tensor] = {}
        self.notes = (_LEGACY_NOTE,) if archive.weights is None else ()

    def tensor(self, program_input: ProgramInput, mode: FakeTensorMode) -> tuple[torch.Tensor, _Read | None]:
        """Return a weight input as a fake tensor, and the function that reads its values."""
        folder, entry = self._entry(program_input.target)
        if entry is None:
            if self._archive.weights is not None:
                raise CorruptModel(f"the weight {program_input.target[:60]!r} is missing")
            assert program_input.meta is not None
            return _strided(program_input.meta, None, mode), None
        meta = tensor_meta(entry.get("tensor_meta"))
        declared = program_input.meta
        if declared is not None and (declared.sizes, declared.dtype) != (meta.sizes, meta.dtype):
            raise CorruptModel(f"the weight {program_input.target[:60]!r} has conflicting shapes or dtypes")
        if entry.get("use_pickle"):
            raise LoadError(
                f"{program_input.target}: pickled weights can execute code and are never loaded; if they are"
                " torchao's, call torchao.utils.unwrap_tensor_subclass(module) before torch.export.export"
            )
        name = f"{self._archive.root}data/{folder}/{entry.get('path_name')}"
        stored_bytes = self._archive.payload_bytes.get(name)
        needed_bytes = _extent(meta) * meta.dtype.itemsize
        if stored_bytes is None or stored_bytes < needed_bytes:
            raise CorruptModel(
                f"the weight {program_input.target[:60]!r} is missing, compressed or truncated"
            )
        key = f"{name} {meta.dtype}"
        base = self._bases.get(key)
        tensor = _strided(meta, base, mode)
        self._bases.setdefault(key, tensor)
        return tensor, partial(_numbers, self._archive.path, name, meta)

    def _entry(self, target: str) -> tuple[str, Mapping[str, Any] | None]:
        for folder, table in self._tables:
            entry = None if table is None else table.get(target)
            if isinstance(entry, dict):
                return folder, entry
        return "", None


def _layout(meta: TensorMeta) -> tuple[list[int], list[int], int]:
    """Return sizes, strides and offset, which must be numbers in a weight."""
    values = [value for value in (*meta.sizes, *meta.strides, meta.offset) if isinstance(value, int)]
    rank = len(meta.sizes)
    if len(values) != 2 * rank + 1:
        raise CorruptModel("a weight has a symbolic size")
    return values[:rank], values[rank:-1], values[-1]


def _extent(meta: TensorMeta) -> int:
    """Return the number of elements from the start of the payload to the end of the tensor."""
    if 0 in meta.sizes:
        return 0
    sizes, strides, offset = _layout(meta)
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _strided(meta: TensorMeta, base: torch.Tensor | None, mode: FakeTensorMode) -> torch.Tensor:
    extent = _extent(meta)
    if extent * meta.dtype.itemsize > _LARGEST_TENSOR:
        raise CorruptModel(f"a weight has {extent:,} elements, more than any model")
    with mode:
        if base is None:
            base = torch.empty(extent, dtype=meta.dtype)
        elif base.untyped_storage().nbytes() < extent * meta.dtype.itemsize:
            base.untyped_storage().resize_(extent * meta.dtype.itemsize)
        return base.as_strided(*_layout(meta))


def _numbers(path: Path, name: str, meta: TensorMeta) -> Numbers:
    try:
        content = bytearray(read_payload(path, name))
    except (LoadError, OSError) as error:
        raise WeightsMissing(f"{path}: the weights can no longer be read: {error}") from error
    extent = _extent(meta)
    if not extent:
        return tensor_values(torch.empty(_layout(meta)[0], dtype=meta.dtype))
    return tensor_values(torch.frombuffer(content, dtype=meta.dtype, count=extent).as_strided(*_layout(meta)))
