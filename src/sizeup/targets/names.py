"""Lookup of names, ignoring case, spaces and dashes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_PARENTHESES = re.compile(r"\([^)]*\)")
_IGNORED = re.compile(r"[^a-z0-9+]")


def lookup_key(name: str) -> str:
    """The lookup key of a name, equal for 'NVIDIA RTX 4090' and 'nvidia_rtx-4090'."""
    return _IGNORED.sub("", name.casefold())


def lookup_keys(name: str) -> tuple[str, str]:
    """The lookup keys of a name: in full, then without text in parentheses."""
    return lookup_key(name), lookup_key(_PARENTHESES.sub("", name))


def nearest(name: str, known: Iterable[str], most: int = 5) -> list[str]:
    """Known names that contain the given one, then names of similar spelling."""
    keys = {candidate: lookup_key(candidate) for candidate in known}
    typed = lookup_key(name)
    containing = [candidate for candidate, spelled in keys.items() if typed and (typed in spelled)]
    similar = difflib.get_close_matches(typed, list(keys.values()), most, 0.6)
    by_key = {spelled: candidate for candidate, spelled in keys.items()}
    return list(dict.fromkeys([*containing, *(by_key[spelled] for spelled in similar)]))[:most]


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message with the nearest names, or ''."""
    near = nearest(name, known)
    return f"; nearest: {', '.join(near)}" if near else ""
