"""Stored bytes of weights from the headers of local safetensors files.

A file starts with the length of its header in 8 bytes, then JSON: name -> dtype, shape and offsets. Nothing
after the header is read. The content is untrusted: the number of files, headers and offsets have limits.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sizeup.errors import CorruptModel, LoadError
from sizeup.files import read_problem
from sizeup.formats.names import check_regular
from sizeup.serving.models.architecture import Architecture, Layer, Weight
from sizeup.units import quoted

_MOST_HEADER = 100 << 20  # the limit of the safetensors library
_MOST_FILES = 2_000
_MOST_HEADERS = 64 << 20  # of all files; those of a model with 1 T parameters have 30 MB
_MOST_BYTES = 1 << 60
_MOST_DIMENSIONS = 16
# Bits per element of the dtypes of the format; the bytes of others are taken from their offsets alone.
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32,
    "BF16": 16, "F16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F4": 4,
}  # fmt: skip
_LAYER = re.compile(r"(?:^|\.)layers\.([0-9]{1,5})\.(.+)")
_END = re.compile(r"(?:(?:model|language_model)\.)*(embed_tokens|norm|lm_head)\.")
# Experts are stored one by one; an architecture has one weight for all of a layer.
_EXPERT = re.compile(r"experts\.[0-9]{1,5}\.(gate_proj|up_proj|down_proj|w1|w2|w3)(?=\.|$)")
_STACKED = dict.fromkeys(("gate_proj", "up_proj", "w1", "w3"), "gate_up_proj")
_RENAMED = {"block_sparse_moe.": "mlp."}


def stored_bytes(folder: Path) -> dict[str, int] | None:
    """Bytes of every tensor in the safetensors files of a folder; None if there are none."""
    sizes: dict[str, int] = {}
    left = _MOST_HEADERS
    for file in _files(folder):
        text = _header_text(file, left)
        left -= len(text)
        for name, size in _header(file, text).items():
            if name in sizes:
                raise CorruptModel(f"{file}: tensor {quoted(name)} is also in another file")
            sizes[name] = size
    return sizes or None


def headers_digest(folder: Path) -> str:
    """The SHA-256 of the names and headers of the safetensors files of a folder; '' if there are none."""
    lines, left = [], _MOST_HEADERS
    for file in _files(folder):
        text = _header_text(file, left)
        left -= len(text)
        lines.append(f"{file.name}\0{hashlib.sha256(text).hexdigest()}")
    return hashlib.sha256("\0".join(lines).encode("utf-8", "surrogateescape")).hexdigest() if lines else ""


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))[: _MOST_FILES + 1]
    if len(files) > _MOST_FILES:
        raise LoadError(f"{folder}: more than {_MOST_FILES:,} safetensors files")
    return files


def _header_text(path: Path, left: int) -> bytes:
    """The header of a file, which has at most `left` bytes."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= _MOST_HEADER:
                raise CorruptModel(f"{path}: a safetensors header has 2 B to 100 MiB, not {length:,} B")
            if length > left:
                raise LoadError(f"{path}: headers of more than {_MOST_HEADERS >> 20} MiB in its folder")
            text = file.read(length)
    except OSError as error:
        raise LoadError(f"{path}: {read_problem(error)}") from error
    if len(text) < length:
        raise CorruptModel(f"{path}: the file ends within its header")
    return text


def _header(path: Path, text: bytes) -> dict[str, int]:
    """Bytes of every tensor."""
    try:
        content = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path}: the header is not JSON") from error
    if not isinstance(content, dict):
        raise CorruptModel(f"{path}: the header is not an object")
    content.pop("__metadata__", None)
    return {name: _size(entry, name, path) for name, entry in content.items()}


def _size(entry: Any, name: str, path: Path) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    is_pair = isinstance(offsets, list) and len(offsets) == 2
    if not is_pair or any(isinstance(at, bool) or not isinstance(at, int) for at in offsets or ()):
        raise CorruptModel(f"{path}: tensor {quoted(name)} has no valid data_offsets")
    first, last = offsets or (0, 0)
    if not 0 <= first <= last <= _MOST_BYTES:
        raise CorruptModel(f"{path}: tensor {quoted(name)} has no valid data_offsets")
    bits = _BITS.get(str(entry.get("dtype")))
    if bits is not None and 8 * (last - first) != bits * _elements(entry.get("shape")):
        raise CorruptModel(f"{path}: tensor {quoted(name)} has data_offsets that do not match its shape")
    return int(last - first)


def _elements(shape: Any) -> int:
    """Elements of a shape; -1 if it is none."""
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        return -1
    if any(
        isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MOST_BYTES for size in shape
    ):
        return -1
    return math.prod(shape)


def with_stored_bytes(architecture: Architecture, sizes: Mapping[str, int]) -> Architecture:
    """The architecture with the bytes of its weights as files store them, if every layer is found in them.

    Otherwise the bytes stay those of the configuration, and a caveat states it.
    """
    by_layer: dict[int, dict[str, int]] = {}
    for name, size in sizes.items():
        match = _LAYER.search(name)
        if match is not None and "visual" not in name and "vision" not in name:
            modules = by_layer.setdefault(int(match[1]), {})
            module = _module(match[2])
            modules[module] = modules.get(module, 0) + size
    layers = [_replaced(layer, by_layer.get(index, {})) for index, layer in enumerate(architecture.layers)]
    if any(layer is None for layer in layers):
        note = "the safetensors files name other modules: bytes of weights follow from the configuration"
        return replace(architecture, caveats=(*architecture.caveats, note))
    shared: dict[Layer, Layer] = {}
    return replace(
        architecture,
        embedding=_ends(architecture.embedding, sizes),
        layers=tuple(shared.setdefault(each, each) for each in layers if each),
        head=_ends(architecture.head, sizes),
    )


def _ends(weights: tuple[Weight, ...], sizes: Mapping[str, int]) -> tuple[Weight, ...]:
    """Weights before and after the layers with stored bytes; one that the files do not have stays."""
    stored: dict[str, int] = {}
    for name, size in sizes.items():
        match = _END.match(name)
        if match is not None:
            stored[match[1]] = stored.get(match[1], 0) + size
    # A tied head is stored with the embedding, whatever the files repeat.
    return tuple(
        replace(weight, stored_bytes=stored[weight.name])
        if weight.name in stored and weight.stored_bytes
        else weight
        for weight in weights
    )


def _module(name: str) -> str:
    """The module of a tensor in a layer, as architectures name it."""
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return _EXPERT.sub(lambda match: f"experts.{_STACKED.get(match[1], 'down_proj')}", name)


def _replaced(layer: Layer, sizes: Mapping[str, int]) -> Layer | None:
    """The layer with stored bytes; None unless its weights and the tensors correspond."""
    names = sorted((weight.name for weight in layer.weights), key=len, reverse=True)
    stored = dict.fromkeys(names, 0)
    for module, size in sizes.items():
        owner = next((name for name in names if module == name or module.startswith(f"{name}.")), None)
        owner = owner or next((name for name in names if module.startswith(f"{name}_")), None)
        if owner is None:
            return None
        stored[owner] += size
    if not sizes or not all(stored.values()):
        return None
    return replace(layer, weights=tuple(_with_bytes(weight, stored[weight.name]) for weight in layer.weights))


def _with_bytes(weight: Weight, size: int) -> Weight:
    return replace(weight, stored_bytes=size)
