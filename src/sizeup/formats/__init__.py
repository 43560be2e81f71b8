"""Model loaders: every format is converted to the same graph."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from sizeup.errors import LfsPointer, LoadError, UnboundDimension, UnknownFormat
from sizeup.files import exists, is_folder, read_problem
from sizeup.formats.names import SUFFIXES, check_regular, is_code, no_training_mode
from sizeup.graph import Graph

if TYPE_CHECKING:
    from sizeup.symbolic import SymbolicGraph

# Tensors or shapes: positional for code, by name for files.
Inputs: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
# Symbolic dimensions: names with one or more (input, axis), names only, or True for all.
FreeSpec: TypeAlias = Mapping[str, Any] | Sequence[str] | bool

_TFLITE_MAGIC = b"TFL3"
# A pointer file starts with its version and has at most 1,024 bytes (Git LFS specification, docs/spec.md).
LFS_MAX_BYTES = 1024
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/v1"
_LFS_OBJECT = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)
_MAX_SUGGESTIONS = 3
_PICKLES = (".pt", ".pth", ".bin", ".pkl", ".ckpt", ".pickle")
_LANGUAGE_MODELS = (".json", ".gguf")
_KNOWN = (
    "a .tflite, .onnx or .pt2 file, package.module:factory, torchvision:NAME, timm:NAME or hf:CONFIG.json"
)


def load(
    source: Any,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
) -> Graph:
    """Load a model from a file, a name, a PyTorch module, an ONNX model, or a graph."""
    if train:
        _require_module(source)
    if isinstance(source, Graph):
        return source
    if is_symbolic(source):
        missing = [name for name in source.names if name not in (bind or {})]
        if missing:
            raise UnboundDimension(f"{source.name}: symbolic dimensions without a size: {', '.join(missing)}")
        return source.at(**(bind or {}))
    for name, size in (bind or {}).items():
        if size < 1:
            raise LoadError(f"{name}={size}: a dimension must be at least 1")
    if isinstance(source, str | os.PathLike):
        return _load_named(os.fspath(source), inputs, kwargs, bind, train)
    package = type(source).__module__.partition(".")[0]
    if package in ("onnx", "onnx_ir"):
        from sizeup.formats import onnx

        return onnx.load(source, inputs=_by_name(inputs), bind=bind)
    if isinstance(source, bytes | bytearray | memoryview):
        return _load_bytes(bytes(source), inputs, bind)
    from sizeup.formats import torch

    return torch.load(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train)


def is_symbolic(source: Any) -> TypeGuard[SymbolicGraph]:
    """Whether a source is a graph with symbolic dimensions; asking imports nothing."""
    module = sys.modules.get("sizeup.symbolic")
    return module is not None and isinstance(source, module.SymbolicGraph)


def load_symbolic(
    source: Any,
    free: FreeSpec,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
) -> SymbolicGraph:
    """Load a model with these dimensions left symbolic."""
    if train:
        _require_module(source)
    package = type(source).__module__.partition(".")[0]
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    is_bytes = isinstance(source, bytes | bytearray | memoryview)
    if name and not is_code(name):
        check_regular(Path(name))
    if name.lower().endswith(".tflite") or (is_bytes and bytes(source[4:8]) == _TFLITE_MAGIC):
        from sizeup.formats import tflite

        return tflite.load_symbolic(source, free, inputs=_by_name(inputs))
    if package in ("onnx", "onnx_ir") or name.lower().endswith(".onnx") or is_bytes:
        from sizeup.formats import onnx

        return onnx.load_symbolic(source, free, inputs=_by_name(inputs), bind=bind)
    from sizeup.formats import torch

    if name and (name.lower().endswith(".pt2") or (":" in name and not is_code(name))):
        source = Path(name)
    return torch.load_symbolic(source, free, inputs=inputs, kwargs=kwargs, bind=bind, train=train)


def _require_module(source: Any) -> None:
    """Raises LoadError for a source without training mode: a file, its content or a graph."""
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    is_content = isinstance(source, bytes | bytearray | memoryview | Graph) or is_symbolic(source)
    package = type(source).__module__.partition(".")[0]
    if (name and not is_code(name)) or is_content or package in ("onnx", "onnx_ir"):
        raise LoadError(no_training_mode(name or f"a {type(source).__name__}"))


def _load_named(
    source: str,
    inputs: Inputs,
    kwargs: Mapping[str, Any] | None,
    bind: Mapping[str, int] | None,
    train: bool,
) -> Graph:
    path = Path(source)
    _check_name(source)
    if is_code(source):
        from sizeup.formats import torch

        return torch.load_named(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train)
    if not exists(path):
        raise LoadError(no_such_file(path, _KNOWN))
    check_regular(path, source)
    suffix = path.suffix.lower()
    try:
        with path.open("rb") as file:
            head = file.read(LFS_MAX_BYTES)
    except OSError as error:
        raise LoadError(f"{source}: {read_problem(error)}") from error
    if lfs_object(head) is not None:
        raise LfsPointer(f"{source}: a Git LFS pointer, not the model itself; run: git lfs pull")
    if head[4:8] == _TFLITE_MAGIC or suffix == ".tflite":
        from sizeup.formats import tflite

        return _load_file(tflite.load, path, inputs, bind)
    if suffix == ".onnx":
        from sizeup.formats import onnx

        return _load_file(onnx.load, path, inputs, bind)
    if suffix == ".pt2":
        from sizeup.formats import torch

        return torch.load_file(path, inputs=inputs, bind=bind)
    if suffix in _PICKLES:
        raise UnknownFormat(
            f"{source}: pickled PyTorch files can run arbitrary code and are not loaded;"
            " save the model with torch.export.save(...) as .pt2, or give its code as package.module:factory"
        )
    if suffix in _LANGUAGE_MODELS:
        traced = f"; hf:{source} records the module of a config.json" if suffix == ".json" else ""
        raise UnknownFormat(f"{source}: no graph; sizeup llm reads language models{traced}")
    raise UnknownFormat(f"{source}: {_instead(path)}")


def _instead(path: Path) -> str:
    """What to type instead of a file that is not a model."""
    if path.suffix.lower() != ".py":
        return f"unknown model format; give {_KNOWN}"
    is_below = not path.is_absolute() and ".." not in path.parts
    module = ".".join(path.with_suffix("").parts) if is_below else path.stem
    return f"give {module}:NAME, with the name of a model or of a function that returns one"


def lfs_object(head: bytes) -> str | None:
    """The SHA-256 of the object if `head`, the first 1,024 bytes of a file, is a Git LFS pointer."""
    match = _LFS_OBJECT.search(head) if head.startswith(_LFS_MAGIC) else None
    return None if match is None else match[1].decode("ascii")


def _check_name(source: str) -> None:
    """Raises UnknownFormat for an empty name, a URL or a folder."""
    if not source:
        raise UnknownFormat(f"the model name is empty; give {_KNOWN}")
    if "://" in source:
        raise UnknownFormat(f"{source}: URLs are not supported; download the file and pass its path")
    if is_folder(source):
        raise UnknownFormat(f"{source} is a folder; give {_KNOWN}")


def no_such_file(path: Path, known: str) -> str:
    """The error message for a missing file: suggests similar names in its folder, or else `known`."""
    try:
        siblings = [file.name for file in path.absolute().parent.iterdir() if file.suffix.lower() in SUFFIXES]
    except OSError:
        return f"{path}: no such file; give {known}"
    similar = difflib.get_close_matches(path.name, siblings, _MAX_SUGGESTIONS, 0.5)
    similar += [name for name in sorted(siblings) if name not in similar and Path(name).stem == path.name]
    if similar:
        return f"{path}: no such file; similar names: {', '.join(similar)}"
    return f"{path}: no such file; give {known}"


def _load_bytes(content: bytes, inputs: Inputs, bind: Mapping[str, int] | None) -> Graph:
    if content[4:8] == _TFLITE_MAGIC:
        from sizeup.formats import tflite

        return _load_file(tflite.load, content, inputs, bind)
    from sizeup.formats import onnx

    return _load_file(onnx.load, content, inputs, bind)


def _load_file(
    load: Callable[..., Graph], source: Path | bytes, inputs: Inputs, bind: Mapping[str, int] | None
) -> Graph:
    """The graph of a file whose inputs have names; raises LoadError with the names if they are not given."""
    names = ""
    if inputs is not None and not isinstance(inputs, Mapping):
        with suppress(UnboundDimension):  # a graph needs all its dimensions
            graph = load(source, bind=bind)
            names = f"; inputs: {', '.join(repr(graph.tensors[tensor].name) for tensor in graph.inputs)}"
    return load(source, inputs=_by_name(inputs, names), bind=bind)


def _by_name(inputs: Inputs, names: str = "") -> Mapping[str, Any]:
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        return {name: _without_dtype(shape) for name, shape in inputs.items()}
    raise LoadError(
        "give the inputs of a model file by name: --input NAME:1x3x224x224,"
        f" or inputs={{'NAME': (1, 3, 224, 224)}}{names}"
    )


def _without_dtype(shape: Any) -> Any:
    """The shape of a (shape, dtype) pair: a file declares the dtypes of its inputs."""
    is_pair = isinstance(shape, tuple | list) and len(shape) == 2 and isinstance(shape[0], tuple | list)
    return shape[0] if is_pair else shape
