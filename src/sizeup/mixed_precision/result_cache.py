"""A cache of measured results: JSON lines in one file per digest of everything that decides the numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sizeup.files import cache_folder, write_errors

# A folder; None: the default folder, False: no cache.
Cache: TypeAlias = str | os.PathLike[str] | Literal[False] | None


def default_folder() -> Path:
    """Returns the default cache folder."""
    return cache_folder("sensitivity")


class ResultCache:
    """Results of one model on one data set; each result is written immediately."""

    def __init__(self, cache: Cache, digest: str) -> None:
        folder = None if cache is False else default_folder() if cache is None else Path(cache)
        self.path = None if folder is None else folder / f"{digest}.jsonl"
        self._known = {} if self.path is None else _read(self.path)

    def find(self, key: str) -> Any:
        """Returns the result under a key, or None."""
        return self._known.get(key)

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        """Appends a result to the file."""
        self._known[key] = dict(content)
        if self.path is None:
            return
        line = json.dumps({"key": key, **content}) + "\n"
        with write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                # An incomplete last line must not corrupt this one.
                if file.seek(0, os.SEEK_END) and _last_byte(file) != b"\n":
                    line = "\n" + line
                file.write(line.encode())


def _last_byte(file: Any) -> bytes:
    file.seek(-1, os.SEEK_END)
    last: bytes = file.read(1)
    return last


def _read(path: Path) -> dict[str, Any]:
    """Returns all results that can be parsed; other lines are ignored."""
    results: dict[str, Any] = {}
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return results
    for content in map(_parsed, lines):
        if isinstance(content, dict) and isinstance(content.get("key"), str):
            results[content.pop("key")] = content
    return results


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
