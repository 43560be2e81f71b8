"""Words that several renderers share."""

from __future__ import annotations

from collections.abc import Sequence

from sizeup.units import plain

UNKNOWN = "?"
NOTHING = "-"
_MOST_ENTRIES = 4


def named(name: str, format: str) -> str:
    """A model's name, and its format where it has one."""
    return plain(f"{name} ({format})" if format else name)


def uncounted_entries(signatures: Sequence[str]) -> str:
    """That a file has signatures whose graphs are not counted."""
    more = len(signatures) - _MOST_ENTRIES
    shown = ", ".join(map(repr, signatures[:_MOST_ENTRIES])) + f" and {more} more" * (more > 0)
    return f"other entries of the file are not counted: {shown}"
