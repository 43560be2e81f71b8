"""Inputs that break a process on purpose: what the fuzzer itself is tested with."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.verdicts import WrongYes
from sizeup.errors import CorruptModel

WORDS = (
    b"fine",
    b"refused",
    b"caveat",
    b"abort",
    b"loop",
    b"late",
    b"memory",
    b"raise",
    b"negative",
    b"huge",
)


class Late(WrongYes):
    """An exception whose description takes longer than an input may."""

    def __getattribute__(self, name: str) -> Any:
        while name == "kind":
            pass
        return super().__getattribute__(name)


def seeds(folder: Path) -> list[bytes]:
    """One word per misbehavior."""
    return list(WORDS)


def mutate(content: bytes, random: Random) -> bytes:
    """Any of the words."""
    return random.choice(WORDS)


def run(path: Path) -> Any:
    """Do what the word says."""
    word = path.read_bytes()
    if word == b"refused":
        raise CorruptModel("refused")
    if word == b"abort":
        os.abort()
    while word == b"loop":
        pass
    if word == b"late":
        raise Late("late", word)
    if word == b"memory":
        return len(bytearray(1 << 40))
    if word == b"raise":
        raise KeyError("not typed")
    notes = ["a caveat"] if word == b"caveat" else []
    amounts = {b"negative": -1, b"caveat": 2**70, b"huge": 2**70}
    return {"notes": notes, "peak_bytes": amounts.get(word, 1)}
