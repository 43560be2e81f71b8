"""The weights of a .pt2 file: tensors without content, and their numbers on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sizeup.errors import CorruptModel, LoadError, NumbersMissing
from sizeup.formats.torch.archive import Archive, read_payload
from sizeup.formats.torch.record import Numbers, numbers
from sizeup.formats.torch.serialized import ProgramInput, TensorMeta, tensor_meta

_Read = Callable[[], Numbers]
_LARGEST_TENSOR = 1 << 60
_LEGACY_NOTE = (
    "this .pt2 file is from torch 2.7 or older: weights that share memory cannot be recognized and are"
    " counted once each; load it and save it again with a current torch"
)


class Payloads:
    """The tensors that an archive holds, by their names; those over the same bytes share one storage."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._tables = [("weights", archive.weights), ("constants", archive.constants)]
        self._bases: dict[str, torch.Tensor] = {}
        self.notes = (_LEGACY_NOTE,) if archive.weights is None else ()

    def tensor(self, given: ProgramInput, mode: FakeTensorMode) -> tuple[torch.Tensor, _Read | None]:
        """The weight that an input stands for, without content, and what reads its numbers."""
        folder, entry = self._entry(given.target)
        if entry is None:
            if self._archive.weights is not None:
                raise CorruptModel(f"the weight {given.target[:60]!r} is missing")
            assert given.meta is not None
            return _strided(given.meta, None, mode), None
        meta = tensor_meta(entry.get("tensor_meta"))
        if given.meta is not None and (given.meta.sizes, given.meta.dtype) != (meta.sizes, meta.dtype):
            raise CorruptModel(f"the weight {given.target[:60]!r} has two different shapes")
        if entry.get("use_pickle"):
            raise LoadError(f"{given.target}: pickled weights can run any code and are never loaded")
        name = f"{self._archive.root}data/{folder}/{entry.get('path_name')}"
        held = self._archive.payload_bytes.get(name)
        needed = _extent(meta) * meta.dtype.itemsize
        if held is None or held < needed:
            raise CorruptModel(f"the weight {given.target[:60]!r} is missing, compressed or cut")
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


def _place(meta: TensorMeta) -> tuple[list[int], list[int], int]:
    """Sizes, strides and offset, which are numbers in every weight."""
    values = [each for each in (*meta.sizes, *meta.strides, meta.offset) if isinstance(each, int)]
    rank = len(meta.sizes)
    if len(values) != 2 * rank + 1:
        raise CorruptModel("a weight has a size that is not a number")
    return values[:rank], values[rank:-1], values[-1]


def _extent(meta: TensorMeta) -> int:
    """Elements from the start of the payload to the end of the tensor."""
    if 0 in meta.sizes:
        return 0
    sizes, strides, offset = _place(meta)
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _strided(meta: TensorMeta, base: torch.Tensor | None, mode: FakeTensorMode) -> torch.Tensor:
    extent = _extent(meta)
    if extent * meta.dtype.itemsize > _LARGEST_TENSOR:
        raise CorruptModel(f"a weight of {extent:,} elements")
    with mode:
        if base is None:
            base = torch.empty(extent, dtype=meta.dtype)
        elif base.untyped_storage().nbytes() < extent * meta.dtype.itemsize:
            base.untyped_storage().resize_(extent * meta.dtype.itemsize)
        return base.as_strided(*_place(meta))


def _numbers(path: Path, name: str, meta: TensorMeta) -> Numbers:
    try:
        content = bytearray(read_payload(path, name))
    except (LoadError, OSError) as error:
        raise NumbersMissing(f"{path}: its weights cannot be read any more: {error}") from error
    extent = _extent(meta)
    if not extent:
        return numbers(torch.empty(_place(meta)[0], dtype=meta.dtype))
    return numbers(torch.frombuffer(content, dtype=meta.dtype, count=extent).as_strided(*_place(meta)))
