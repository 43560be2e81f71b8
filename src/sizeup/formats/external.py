"""Files in which a model keeps weights: only regular files in the model's own folder are opened."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeAlias

from sizeup.errors import CorruptModel, LoadError

Home: TypeAlias = tuple[Path, ...]
"""The folders that a model's files may be in; names start from the first. Empty without a path."""


def home_of(model: Path) -> Home:
    """The folder of a model and that of the file behind it: in a cache of links, data is in the latter."""
    return model.absolute().parent, model.resolve().parent


def check_inside(name: str, what: str) -> None:
    """Refuse a name that leads outside the folder that it starts from, on any system, as it is written."""
    windows = PureWindowsPath(name)
    if (
        not name
        or "\0" in name
        or PurePosixPath(name).is_absolute()
        or windows.anchor
        or ".." in windows.parts
    ):
        raise CorruptModel(
            f"{what} points outside the model's folder ({name!r}), which is refused;"
            " external data must be in the model's folder"
        )


def external_file(home: Home, name: str, what: str) -> Path:
    """The file that a model names; `what` begins the message of the error if it must not or cannot be opened.

    A link is judged by where it leads, whichever part of the path it is. Pipes and devices, which may never
    end, are refused without being opened.
    """
    if not home:
        raise LoadError(f"{what} is in the file {name!r}; load the model by its path")
    check_inside(name, what)
    path = home[0] / name
    try:
        target = path.resolve()
        exists, is_regular = target.exists(), target.is_file()
    except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long
        raise CorruptModel(f"{what}: {path} cannot be followed: {error}") from error
    if not any(target.is_relative_to(folder.resolve()) for folder in home):
        raise CorruptModel(f"{what}: {path} leads outside the model's folder, which is refused")
    if not exists:
        raise LoadError(f"{path}: the file with {what} is missing; put it there")
    if not is_regular:
        raise CorruptModel(f"{what}: {path} is not a regular file, which is refused")
    return path
