"""The first keys of every JSON output, and JSON text of a result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from sizeup.results.result import Result

SCHEMA_VERSION = 2
"""Of every JSON output. It rises when a key is renamed or removed; keys may be added within a version."""


def head() -> dict[str, Any]:
    """Returns the first keys of a file: the version of its schema, and the tool that wrote it."""
    return {"schema_version": SCHEMA_VERSION, "tool": {"name": "sizeup", "version": version("sizeup")}}


def json_lines(result: Result) -> Iterator[str]:
    """Yields the data of `to_dict` as indented JSON text."""
    yield json.dumps(result.to_dict(), indent=2, allow_nan=False)
    yield "\n"
