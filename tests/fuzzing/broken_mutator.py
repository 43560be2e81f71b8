"""A mutator that fails on some inputs, and one that ends its worker: tests of the fuzzer use both."""

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzzing.misbehaving import WORDS


def seeds(folder: Path) -> list[bytes]:
    """Words that a run of `misbehaving` survives."""
    return list(WORDS[:3])


def mutate(content: bytes, random: Random) -> bytes:
    """The content of three inputs out of four."""
    if random.random() < 0.25:
        raise IndexError("no field to change")
    return content


class Ending:
    """Ends the worker, as a mistake in the fuzzer does."""

    seeds = staticmethod(seeds)

    @staticmethod
    def mutate(content: bytes, random: Random) -> bytes:
        """The content of nineteen inputs out of twenty."""
        if random.random() < 0.05:
            raise SystemExit(1)
        return content


ENDING = Ending()
