"""Model names: whether a name is a file or code, and which files may be opened."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from sizeup.errors import LoadError
from sizeup.files import exists, is_file

SUFFIXES = (".tflite", ".onnx", ".pt2")


def looks_like_code(source: str) -> bool:
    """Whether a name has the form torchvision:NAME or package.module:factory, and is not a path.

    File names may come from pull requests: a name that looks like a path must never cause an import.
    """
    before, colon, _ = source.partition(":")
    is_path = Path(source).is_absolute() or "/" in before or os.sep in before
    return bool(colon) and not is_path and not source.lower().endswith(SUFFIXES)


def is_code(source: str) -> bool:
    """Whether a name refers to code; a file of that name, even a broken link, takes precedence."""
    return looks_like_code(source) and not os.path.lexists(source)


def is_language_model(source: str) -> bool:
    """Whether a name is a .gguf or .json file, which no other model is without the prefix `hf:`."""
    return Path(source).suffix.lower() in (".json", ".gguf") and not source.startswith("hf:")


def check_regular(path: Path, name: str = "") -> None:
    """Raises LoadError for folders, pipes and devices; missing files pass."""
    if exists(path) and not is_file(path):
        raise LoadError(f"{name or path}: not a regular file")


def is_unreadable(format: str, readable: Collection[str] | None) -> bool:
    """Whether a runtime that reads these formats cannot read a model file; code can be exported to any."""
    return format in ("tflite", "onnx") and readable is not None and format not in readable


def file_words(format: str) -> str:
    """The models of a format of graphs as text, such as `.onnx files`."""
    return {"torch": "PyTorch modules", "torch.export": ".pt2 files"}.get(format, f".{format} files")


def no_training_mode(source: str) -> str:
    """The error message for a source that cannot be recorded in training mode."""
    return (
        f"{source} has no training mode: --train (train=True) needs a PyTorch module or its name,"
        " such as torchvision:resnet18"
    )
