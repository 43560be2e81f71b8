"""The data that a network is measured on: arrays, or a file with them."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np

from sizeup.errors import SizeupError
from sizeup.formats.rounding import Array

# An array of samples, one for each input or by the inputs' names, or an .npy or .npz file.
Given: TypeAlias = Any
_ADVICE = "data is an array of samples, several by the inputs' names, or an .npy or .npz file"


@dataclass(frozen=True, slots=True)
class Data:
    """Samples along the first axis of every array; names where inputs were named."""

    arrays: tuple[Array, ...]
    names: tuple[str, ...] = ()
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def batches(self, size: int, padded: bool = False) -> list[tuple[Array, ...]]:
        """So many samples at a time; a padded last batch repeats the last sample."""
        found = []
        for start in range(0, len(self), size):
            batch = tuple(each[start : start + size] for each in self.arrays)
            missing = size - len(batch[0])
            if padded and missing:
                batch = tuple(np.concatenate([each, *[each[-1:]] * missing]) for each in batch)
            found.append(batch)
        return found

    def digest(self) -> str:
        """What tells this data from any other."""
        found = hashlib.sha256(repr(self.names).encode())
        for each in (*self.arrays, *(() if self.labels is None else (self.labels,))):
            found.update(f"{each.shape}{each.dtype.str}".encode())
            found.update(np.ascontiguousarray(each).tobytes())
        return found.hexdigest()


def data_of(given: Given, labels: Any = None) -> Data:
    """Data however it is given; a file's `y` are labels, its `x` or its other arrays are inputs."""
    if isinstance(given, Data):
        return given
    if isinstance(given, str | os.PathLike):
        given = _read(Path(given))
    if isinstance(given, Mapping):
        arrays = {str(name): np.asarray(each) for name, each in given.items()}
        labels = arrays.pop("y", None) if labels is None else labels
        named = () if list(arrays) == ["x"] else tuple(arrays)
        return _checked(tuple(arrays.values()), named, labels)
    if isinstance(given, Sequence) and given and all(hasattr(each, "shape") for each in given):
        return _checked(tuple(map(np.asarray, given)), (), labels)
    return _checked((np.asarray(given),), (), labels)


def _checked(arrays: tuple[Array, ...], names: tuple[str, ...], labels: Any) -> Data:
    marks = None if labels is None else np.asarray(labels)
    counts = {len(each) if each.ndim else 0 for each in (*arrays, *(() if marks is None else (marks,)))}
    if not arrays or counts == {0}:
        raise SizeupError(f"there is no data: {_ADVICE}")
    if len(counts) > 1:
        raise SizeupError(f"inputs and labels have different numbers of samples: {sorted(counts)}")
    if any(each.dtype == object for each in arrays):
        raise SizeupError(f"arrays of objects are no numbers: {_ADVICE}")
    if marks is not None and not _are_classes(marks):
        raise SizeupError(
            f"labels (y) are numbers of classes from 0, not {marks.dtype} such as {marks.flat[0]}"
        )
    return Data(arrays, names, marks)


def _are_classes(marks: Array) -> bool:
    if marks.dtype.kind == "f":
        return bool((np.isfinite(marks) & (marks == np.floor(marks))).all())
    return marks.dtype.kind in "iub"


def _read(path: Path) -> Any:
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return {name: found[name] for name in found.files}
    except (
        OSError,
        ValueError,
        EOFError,
        LookupError,
        NotImplementedError,
        MemoryError,
        BadZipFile,
        zlib.error,
    ) as error:
        raise SizeupError(f"{path}: cannot be read as data ({error}); {_ADVICE}") from error
