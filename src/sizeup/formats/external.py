"""External weight files of a model: only regular files in the model's folder are opened."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeAlias

from sizeup.errors import CorruptModel, LoadError
from sizeup.files import resolve_inside

ModelFolders: TypeAlias = tuple[Path, ...]
"""The folders that may contain a model's files; names are relative to the first. Empty without a path."""


def model_folders(model: Path) -> ModelFolders:
    """The folder of a model, and the folder of the file that its symbolic link points to (as in caches)."""
    return model.absolute().parent, model.resolve().parent


def check_inside(name: str, label: str) -> None:
    """Raises CorruptModel if the text of a path leaves its folder on any operating system."""
    windows = PureWindowsPath(name)
    if (
        not name
        or "\0" in name
        or PurePosixPath(name).is_absolute()
        or windows.anchor
        or ".." in windows.parts
    ):
        raise CorruptModel(
            f"{label} points outside the model's folder ({name!r});"
            " external data must be in the model's folder"
        )


def external_file(home: ModelFolders, name: str, label: str) -> Path:
    """The path of an external file; `label` starts the error message if it may not or cannot be opened.

    Symbolic links are resolved in every part of the path. Pipes and devices are rejected unopened,
    because reading them may never end.
    """
    if not home:
        raise LoadError(f"{label} is in the file {name!r}; load the model by its path")
    check_inside(name, label)
    path = home[0] / name
    try:
        target = resolve_inside(path, home)
        exists, is_regular = path.exists(), path.is_file()
    except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long
        raise CorruptModel(f"{label}: {path} cannot be resolved: {error}") from error
    if target is None:
        raise CorruptModel(f"{label}: {path} leads outside the model's folder")
    if not exists:
        raise LoadError(f"{path}: the file with {label} is missing")
    if not is_regular:
        raise CorruptModel(f"{label}: {path} is not a regular file")
    return path


def external_size(home: ModelFolders, name: str) -> int | None:
    """The size of an external file; None if it is missing or may not be read, or there is no folder."""
    try:
        return external_file(home, name, "a constant").stat().st_size
    except (LoadError, OSError):  # reported when a value is read
        return None
