"""The doors through which models come in; each becomes the one graph."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sizeup.errors import LfsPointer, LoadError, UnboundDimension, UnknownFormat
from sizeup.formats.names import SUFFIXES, check_regular, is_code
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph

# Tensors or plain shapes: positional for code, by name for files.
Inputs: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
# Which dimensions are free: names with their places, (input, axis) or several; names alone; or True for all.
Free: TypeAlias = Mapping[str, Any] | Sequence[str] | bool

_TFLITE_MAGIC = b"TFL3"
# A pointer is at most 1,024 bytes and begins with its version (the specification of Git LFS, docs/spec.md).
LFS_MOST = 1024
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/v1"
_LFS_OBJECT = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)
_MOST_NEAR = 3
_PICKLES = (".pt", ".pth", ".bin", ".pkl", ".ckpt", ".pickle")
_KNOWN = (
    "a .tflite, .onnx or .pt2 file, package.module:factory, torchvision:NAME, timm:NAME or hf:CONFIG.json"
)


def load(
    source: Any,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a model from wherever it is: a file, a name, a PyTorch module, an ONNX model, or a graph."""
    if isinstance(source, Graph):
        return source
    if isinstance(source, FreeGraph):
        missing = [name for name in source.names if name not in (bind or {})]
        if missing:
            raise UnboundDimension(f"{source.name}: free dimensions need sizes here: {', '.join(missing)}")
        return source.at(**(bind or {}))
    for name, size in (bind or {}).items():
        if size < 1:
            raise LoadError(f"{name}={size}: a dimension is bound to at least 1")
    if isinstance(source, str | os.PathLike):
        return _load_named(os.fspath(source), inputs, kwargs, bind)
    package = type(source).__module__.partition(".")[0]
    if package in ("onnx", "onnx_ir"):
        from sizeup.formats import onnx

        return onnx.load(source, inputs=_by_name(inputs), bind=bind)
    if isinstance(source, bytes | bytearray | memoryview):
        return _load_bytes(bytes(source), inputs, bind)
    from sizeup.formats import torch

    return torch.load(source, inputs=inputs, kwargs=kwargs, bind=bind)


def load_free(
    source: Any,
    free: Free,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> FreeGraph:
    """Read a model whose dimensions of these names have no sizes yet."""
    package = type(source).__module__.partition(".")[0]
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    is_bytes = isinstance(source, bytes | bytearray | memoryview)
    if name and not is_code(name):
        check_regular(Path(name))
    if name.lower().endswith(".tflite") or (is_bytes and bytes(source[4:8]) == _TFLITE_MAGIC):
        from sizeup.formats import tflite

        return tflite.load_free(source, free, inputs=_by_name(inputs))
    if package in ("onnx", "onnx_ir") or name.lower().endswith(".onnx") or is_bytes:
        from sizeup.formats import onnx

        return onnx.load_free(source, free, inputs=_by_name(inputs), bind=bind)
    from sizeup.formats import torch

    if name and (name.lower().endswith(".pt2") or (":" in name and not is_code(name))):
        source = Path(name)
    return torch.load_free(source, free, inputs=inputs, kwargs=kwargs, bind=bind)


def _load_named(
    source: str, inputs: Inputs, kwargs: Mapping[str, Any] | None, bind: Mapping[str, int] | None
) -> Graph:
    path = Path(source)
    _refuse(source)
    if is_code(source):
        from sizeup.formats import torch

        return torch.load_named(source, inputs=inputs, kwargs=kwargs, bind=bind)
    if not path.exists():
        raise LoadError(no_such_file(path, _KNOWN))
    check_regular(path, source)
    suffix = path.suffix.lower()
    try:
        with path.open("rb") as file:
            head = file.read(LFS_MOST)
    except OSError as error:
        raise LoadError(f"{source}: cannot be read: {error.strerror}") from error
    if lfs_object(head) is not None:
        raise LfsPointer(f"{source}: a Git LFS pointer, not the model itself; run: git lfs pull")
    if head[4:8] == _TFLITE_MAGIC or suffix == ".tflite":
        from sizeup.formats import tflite

        return tflite.load(path, inputs=_by_name(inputs), bind=bind)
    if suffix == ".onnx":
        from sizeup.formats import onnx

        return onnx.load(path, inputs=_by_name(inputs), bind=bind)
    if suffix == ".pt2":
        from sizeup.formats import torch

        return torch.load_file(path, inputs=inputs, bind=bind)
    if suffix in _PICKLES:
        raise UnknownFormat(
            f"{source}: pickled PyTorch files can run any code when opened and are never loaded;"
            " save the model with torch.export.save(...) as .pt2, or name its code as package.module:factory"
        )
    raise UnknownFormat(f"{source}: not a model that sizeup reads; give {_KNOWN}")


def lfs_object(head: bytes) -> str | None:
    """The name of the object that a file points to if its first 1,024 bytes are a Git LFS pointer."""
    match = _LFS_OBJECT.search(head) if head.startswith(_LFS_MAGIC) else None
    return None if match is None else match[1].decode("ascii")


def _refuse(source: str) -> None:
    """Say what to give instead of what can be no model."""
    if not source:
        raise UnknownFormat(f"an empty name is no model; give {_KNOWN}")
    if "://" in source:
        raise UnknownFormat(f"{source}: sizeup asks no network; download the file and name it")
    if Path(source).is_dir():
        raise UnknownFormat(f"{source} is a folder; give {_KNOWN}")


def no_such_file(path: Path, known: str) -> str:
    """What to say where there is no file: models beside it whose names are near, else what may be given."""
    try:
        beside = [each.name for each in path.absolute().parent.iterdir() if each.suffix.lower() in SUFFIXES]
    except OSError:
        return f"{path}: no such file, nor a folder for it; give {known}"
    near = difflib.get_close_matches(path.name, beside, _MOST_NEAR, 0.5)
    near += [each for each in sorted(beside) if each not in near and Path(each).stem == path.name]
    if near:
        return f"{path}: no such file; near it: {', '.join(near)}"
    return f"{path}: no such file; give {known}"


def _load_bytes(content: bytes, inputs: Inputs, bind: Mapping[str, int] | None) -> Graph:
    if content[4:8] == _TFLITE_MAGIC:
        from sizeup.formats import tflite

        return tflite.load(content, inputs=_by_name(inputs), bind=bind)
    from sizeup.formats import onnx

    return onnx.load(content, inputs=_by_name(inputs), bind=bind)


def _by_name(inputs: Inputs) -> Mapping[str, Any]:
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        return {name: _untyped(shape) for name, shape in inputs.items()}
    raise LoadError(
        "inputs of a model file are given by name: --input NAME:1x3x224x224,"
        " or inputs={'NAME': (1, 3, 224, 224)}"
    )


def _untyped(shape: Any) -> Any:
    """The sizes alone: a file knows the number types of its inputs."""
    typed = isinstance(shape, tuple | list) and len(shape) == 2 and isinstance(shape[1], str)
    return shape[0] if typed else shape
