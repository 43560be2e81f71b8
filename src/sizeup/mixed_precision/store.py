"""What was measured before, kept in files: JSON lines under a digest of all that decides the numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sizeup.files import write_errors

# A folder; None for the usual one, False for none.
Cache: TypeAlias = str | os.PathLike[str] | Literal[False] | None


def usual_folder() -> Path:
    """Where a user's caches lie, and ours among them."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sizeup" / "sensitivity"


class Store:
    """Results of one model on one set of data; each is written down as soon as it is there."""

    def __init__(self, cache: Cache, digest: str) -> None:
        folder = None if cache is False else usual_folder() if cache is None else Path(cache)
        self.path = None if folder is None else folder / f"{digest}.jsonl"
        self._known = {} if self.path is None else _read(self.path)

    def find(self, key: str) -> Any:
        """What was kept under a key, or None."""
        return self._known.get(key)

    def keep(self, key: str, content: Mapping[str, Any]) -> None:
        """Write a result down, in one piece at the end of the file."""
        self._known[key] = dict(content)
        if self.path is None:
            return
        line = json.dumps({"key": key, **content}) + "\n"
        with write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                # A line that was cut short must not take this one with it.
                if file.seek(0, os.SEEK_END) and _last_byte(file) != b"\n":
                    line = "\n" + line
                file.write(line.encode())


def _last_byte(file: Any) -> bytes:
    file.seek(-1, os.SEEK_END)
    found: bytes = file.read(1)
    return found


def _read(path: Path) -> dict[str, Any]:
    """All that can be read; a line that cannot is as if it were not there."""
    found: dict[str, Any] = {}
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for content in map(_parsed, lines):
        if isinstance(content, dict) and isinstance(content.get("key"), str):
            found[content.pop("key")] = content
    return found


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
