"""Which names mean files and which mean code, and which files may be opened."""

from __future__ import annotations

import os
from pathlib import Path

from sizeup.errors import LoadError

SUFFIXES = (".tflite", ".onnx", ".pt2")


def means_code(source: str) -> bool:
    """Whether a name has the form of torchvision:NAME or package.module:factory, and not that of a path.

    Names of files come from pull requests: one that looks like a path must never lead to an import.
    """
    before, colon, _ = source.partition(":")
    is_path = Path(source).is_absolute() or "/" in before or os.sep in before
    return bool(colon) and not is_path and not source.lower().endswith(SUFFIXES)


def is_code(source: str) -> bool:
    """Whether a name means code; a file of that name comes first, and so does a link that leads nowhere."""
    return means_code(source) and not os.path.lexists(source)


def check_regular(path: Path, name: str = "") -> None:
    """Refuse pipes and devices, which may never end; what is missing is for others to report."""
    if path.exists() and not path.is_file():
        raise LoadError(f"{name or path}: not a regular file")
