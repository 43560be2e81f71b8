"""What tells one model file from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, without the files that it refers to."""
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
    other = path.absolute().parent / name
    homes = (path.absolute().parent, path.resolve().parent)
    try:
        if not other.is_file():
            return "missing"
        if not any(other.resolve().is_relative_to(home.resolve()) for home in homes):
            return "elsewhere"
        return sha256_of(other)
    except (OSError, ValueError) as error:  # a name with a zero byte is none
        return f"unreadable {getattr(error, 'errno', '')}"
