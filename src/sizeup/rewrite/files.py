"""Files as they are on disk: their size, packed and not, and replacing one in a single step."""

from __future__ import annotations

import filecmp
import gzip
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from sizeup.errors import CorruptModel, LoadError, WriteError
from sizeup.formats import no_such_file

# Beyond this, minutes of compressing say little that a user of such a model asks for.
_WORTH_PACKING = 1 << 28


def content_of(path: Path) -> bytes:
    """All bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror or error}") from error


def gzip_bytes(content: bytes) -> int | None:
    """The size after gzip at its usual level; None for very large content."""
    return len(gzip.compress(content, 6, mtime=0)) if len(content) <= _WORTH_PACKING else None


def gzip_bytes_of(path: Path) -> int | None:
    """The size of a file after gzip; None for very large files."""
    return gzip_bytes(path.read_bytes()) if path.stat().st_size <= _WORTH_PACKING else None


def beside(path: Path) -> Path:
    """A name in the same folder for what is not finished yet."""
    return path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")


def put(content: bytes, path: Path) -> None:
    """Write a file in one step: whoever looks sees the old one or the whole new one."""
    temporary = beside(path)
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from error


def check_target(source: Path, out: Path) -> None:
    """Refuse targets that would destroy the model, change its format or have nowhere to go."""
    if not source.is_file():
        raise LoadError(no_such_file(source, "a .tflite or .onnx file"))
    if out.exists() and (out.is_dir() or out.samefile(source)):
        what = "a folder" if out.is_dir() else "the model itself, which is kept"
        raise WriteError(f"{out}: this is {what}; give another name to write to")
    if out.suffix.lower() != source.suffix.lower():
        raise WriteError(f"{out}: a model keeps its format; give it the ending {source.suffix}")
    if not out.absolute().parent.is_dir():
        raise WriteError(f"{out}: there is no such folder")


def copy_along(names: Iterable[str], source: Path, out: Path) -> list[str]:
    """Copy the files in which a model keeps weights beside its new file; returns what that should tell.

    In the model's own folder they serve both. Another file of such a name is never written over.
    """
    told = []
    for name in names:
        if (
            PurePosixPath(name).is_absolute()
            or PureWindowsPath(name).drive
            or ".." in PureWindowsPath(name).parts
        ):
            raise CorruptModel(f"{source}: weights in {name!r}, outside the model's folder, are not copied")
        old, new = source.parent / name, out.parent / name
        if not old.is_file():
            raise LoadError(f"{old}: the file with weights of {source.name} is missing; put it there")
        if not new.exists():
            _copy(old, new)
            told.append(f"{name}, which holds weights, was copied beside it")
        elif not new.samefile(old) and not filecmp.cmp(old, new, shallow=False):
            raise WriteError(f"{new}: another file of that name is there; write the model to an empty folder")
    return told


def _copy(old: Path, new: Path) -> None:
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old, new)
    except OSError as error:
        raise WriteError(f"{new}: cannot be written: {error.strerror or error}") from error
