"""The head of every JSON file that is written, and its text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from sizeup.results.result import Result


def head(schema_version: int = 1) -> dict[str, Any]:
    """The first keys of a file: by what it was written, and in which version of its format."""
    return {"schema_version": schema_version, "tool": {"name": "sizeup", "version": version("sizeup")}}


def json_lines(result: Result) -> Iterator[str]:
    """What `to_dict` returns, as indented JSON text."""
    yield json.dumps(result.to_dict(), indent=2, allow_nan=False)
    yield "\n"
