"""Tables of a store, to be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from sizeup.sweeps import Store


def table_of(store: str | Path) -> Any:
    """All rows of a store, sorted by key."""
    there = Store(store)
    return pa.concat_tables(there.read(there.parts())).sort_by("key")


def rows_of(store: str | Path) -> list[dict[str, Any]]:
    """The same as plain rows."""
    rows: list[dict[str, Any]] = table_of(store).to_pylist()
    return rows


def unfinished(store: Path) -> list[str]:
    """Files that are not whole."""
    return [str(path) for path in store.rglob("*.unfinished")]
