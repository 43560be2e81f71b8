"""Files of a model: their size, packed and not, where a new one may go, and what is copied along with it."""

from __future__ import annotations

import filecmp
import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from sizeup.errors import CorruptModel, LoadError, WriteError
from sizeup.files import replacing
from sizeup.formats import no_such_file
from sizeup.formats.external import external_file, home_of

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


def check_target(source: Path, out: Path) -> None:
    """Refuse targets that would destroy the model, change its format or have nowhere to go."""
    if not source.is_file():
        raise LoadError(no_such_file(source, "a .tflite or .onnx file"))
    if out.exists() and (out.is_dir() or out.samefile(source)):
        what = "a folder" if out.is_dir() else "the model itself, which is kept"
        raise WriteError(f"{out}: this is {what}; give another name to write to")
    if out.exists() and not out.is_file():
        raise WriteError(f"{out}: a model is written to a regular file, which this is not; give another name")
    if out.suffix.lower() != source.suffix.lower():
        raise WriteError(f"{out}: a model keeps its format; give it the ending {source.suffix}")
    if not out.absolute().parent.is_dir():
        raise WriteError(f"{out}: there is no such folder")


class Companion(NamedTuple):
    """A file in which a model keeps weights, and where it belongs beside the new file."""

    name: str
    old: Path
    new: Path


def companions(names: Iterable[str], source: Path, out: Path) -> list[Companion]:
    """The files that a model names, each a regular file in its folder, with a place in the folder of `out`.

    Raises before anything is run or copied. Hidden files are refused: nothing keeps weights in `.git/config`
    or `.bashrc`.
    """
    found = []
    for name in names:
        old = external_file(home_of(source), name, f"{source}: weights")
        new = out.parent / name
        if any(part.startswith(".") for part in PureWindowsPath(name).parts):
            raise CorruptModel(f"{source}: weights in the hidden file {name!r} are not copied; rename it")
        if not new.resolve().is_relative_to(out.parent.resolve()):
            raise WriteError(
                f"{new}: leads outside the folder of {out.name}; write the model to an empty folder"
            )
        if (
            new.exists()
            and not new.samefile(old)
            and not (new.is_file() and filecmp.cmp(old, new, shallow=False))
        ):
            raise WriteError(f"{new}: another file of that name is there; write the model to an empty folder")
        found.append(Companion(name, old, new))
    return found


def copy_along(found: Iterable[Companion]) -> list[str]:
    """Copy weights that are not there yet beside the new file of a model; returns a note for each."""
    notes = []
    for name, old, new in found:
        if not new.exists():
            with replacing(new, like=old, make_folder=True) as copy:
                shutil.copyfile(old, copy)
            notes.append(f"{name}, which holds weights, was copied beside it")
    return notes
