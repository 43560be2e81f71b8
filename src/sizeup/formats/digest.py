"""What tells one model file from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.external import external_file, home_of
from sizeup.formats.names import check_regular

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, without the files that it refers to."""
    check_regular(path)
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def content_digest(path: Path) -> str:
    """The SHA-256 of a model's file; where it keeps numbers in files beside it, of those as well.

    A file that is missing counts as such: the digest changes when it is put there.
    """
    own, others = sha256_of(path), _files_beside(path)
    if not others:
        return own
    parts = (own, *(f"{name}\0{_digest_beside(path, name)}" for name in sorted(others)))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _files_beside(path: Path) -> list[str]:
    from sizeup.formats.onnx.outside import files_beside

    is_onnx = path.suffix.lower() == ".onnx"
    return [name for name in files_beside(path) if name != path.name] if is_onnx else []


def _digest_beside(path: Path, name: str) -> str:
    """The digest of a file beside a model; a word where readers of models refuse it or do not find it."""
    try:
        return sha256_of(external_file(home_of(path), name, "external data"))
    except CorruptModel:
        return "elsewhere"
    except LoadError:
        return "missing"
    except OSError as error:
        return f"unreadable {error.errno}"
