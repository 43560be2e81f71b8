"""Model files: gzip size, checks of output paths, and copies of external weight files."""

from __future__ import annotations

import filecmp
import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from sizeup.errors import CorruptModel, LoadError, WriteError
from sizeup.files import atomic_path, exists, is_file, is_folder, read_problem, resolve_inside
from sizeup.formats import no_such_file
from sizeup.formats.external import external_file, model_folders

# Compressing larger files takes minutes.
_MAX_GZIP = 1 << 28


def content_of(path: Path) -> bytes:
    """All bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path}: {read_problem(error)}") from error


def gzip_bytes(content: bytes) -> int | None:
    """The size after gzip at level 6; None for content over 256 MiB."""
    return len(gzip.compress(content, 6, mtime=0)) if len(content) <= _MAX_GZIP else None


def gzip_bytes_of(path: Path) -> int | None:
    """The size of a file after gzip; None for files over 256 MiB."""
    return gzip_bytes(path.read_bytes()) if path.stat().st_size <= _MAX_GZIP else None


def check_output_path(source: Path, out: Path) -> None:
    """Raises if `out` cannot be written: the model itself, another format, or a missing folder."""
    if not is_file(source):
        raise LoadError(no_such_file(source, "a .tflite or .onnx file"))
    if exists(out) and (is_folder(out) or out.samefile(source)):
        problem = "is a folder" if is_folder(out) else "is the input model, which is not overwritten"
        raise WriteError(f"{out}: {problem}; give another output path")
    if exists(out) and not is_file(out):
        raise WriteError(f"{out}: not a regular file; give another output path")
    if out.suffix.lower() != source.suffix.lower():
        raise WriteError(f"{out}: the format cannot change; use the suffix {source.suffix}")
    if not is_folder(out.absolute().parent):
        raise WriteError(f"{out}: no such folder")


class ExternalFile(NamedTuple):
    """An external weight file of a model, and the path of its copy next to the new model file."""

    name: str
    old: Path
    new: Path


def external_copies(names: Iterable[str], source: Path, out: Path) -> list[ExternalFile]:
    """The external files of a model with their paths in the folder of `out`.

    Raises if one cannot be copied. Hidden files are rejected: a model does not store weights in
    `.git/config` or `.bashrc`.
    """
    files = []
    for name in names:
        old = external_file(model_folders(source), name, f"{source}: weights")
        new = out.parent / name
        if any(part.startswith(".") for part in PureWindowsPath(name).parts):
            raise CorruptModel(f"{source}: weights in the hidden file {name!r} are not copied; rename it")
        if resolve_inside(new, [out.parent]) is None:
            raise WriteError(
                f"{new}: leads outside the folder of {out.name}; write the model to an empty folder"
            )
        if (
            exists(new)
            and not new.samefile(old)
            and not (is_file(new) and filecmp.cmp(old, new, shallow=False))
        ):
            raise WriteError(f"{new}: a different file exists; write the model to an empty folder")
        files.append(ExternalFile(name, old, new))
    return files


def copy_external_files(files: Iterable[ExternalFile]) -> list[str]:
    """Copy external weight files that do not exist yet; returns a note per copied file."""
    notes = []
    for name, old, new in files:
        if not exists(new):
            with atomic_path(new, like=old, make_folder=True) as copy:
                shutil.copyfile(old, copy)
            notes.append(f"copied the weight file {name} next to it")
    return notes
