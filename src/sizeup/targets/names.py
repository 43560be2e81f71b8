"""Names as people type them: letters and digits count, case, spaces and dashes do not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_REMARK = re.compile(r"\([^)]*\)")
_SILENT = re.compile(r"[^a-z0-9+]")


def key(name: str) -> str:
    """The same for all spellings of one name: 'NVIDIA RTX 4090' and 'nvidia_rtx-4090'."""
    return _SILENT.sub("", name.casefold())


def keys(name: str) -> tuple[str, str]:
    """What to look a typed name up by: as a whole, then without its remarks in brackets."""
    return key(name), key(_REMARK.sub("", name))


def nearest(name: str, known: Iterable[str], most: int = 5) -> list[str]:
    """Names that were perhaps meant: those that hold what was typed, then those of similar letters."""
    keys = {each: key(each) for each in known}
    typed = key(name)
    holding = [each for each, spelt in keys.items() if typed and (typed in spelt)]
    similar = difflib.get_close_matches(typed, list(keys.values()), most, 0.6)
    by_key = {spelt: each for each, spelt in keys.items()}
    return list(dict.fromkeys([*holding, *(by_key[spelt] for spelt in similar)]))[:most]


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a message: what was perhaps meant, or nothing."""
    near = nearest(name, known)
    return f"; nearest: {', '.join(near)}" if near else ""
