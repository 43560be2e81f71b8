"""Content digests of model files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.external import external_file, model_folders
from sizeup.formats.names import check_regular

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, without its external files."""
    check_regular(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def content_digest(path: Path) -> str:
    """The SHA-256 of a model file and its external files.

    A missing external file is part of the digest, which changes when the file appears.
    """
    own, names = sha256_of(path), _external_files(path)
    if not names:
        return own
    parts = (own, *(f"{name}\0{_external_digest(path, name)}" for name in sorted(names)))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _external_files(path: Path) -> list[str]:
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        from sizeup.formats.onnx.external_data import external_files

        return [name for name in external_files(path) if name != path.name]
    if suffix != ".json":
        return []
    from sizeup.formats.quantization_config import quantization_file

    quantization = quantization_file(path)
    return [] if quantization is None else [quantization.name]


def _external_digest(path: Path, name: str) -> str:
    """The digest of an external file, or a fixed word if loaders reject it or it cannot be read."""
    try:
        return sha256_of(external_file(model_folders(path), name, "external data"))
    except CorruptModel:
        return "elsewhere"
    except LoadError:
        return "missing"
    except OSError as error:
        return f"unreadable {error.errno}"
