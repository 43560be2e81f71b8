"""Sizes of the interpreter's structures, from their fields, for the processor that it was built for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

ALIGNMENT = 16
"""Of tensors, and of whatever kernels ask for."""

_FIXED = {"l": 8, "i": 4, "h": 2, "b": 1}
_FIELD = re.compile(r"(\d*)([plihb])")


@dataclass(frozen=True, slots=True)
class Build:
    """How the interpreter was compiled, as far as its structures depend on it."""

    pointer_bytes: int
    recorder: bool  # the allocator that reports what was allocated; its counters are in the arena, too
    compression: bool  # USE_TFLM_COMPRESSION: kernels keep places of decompressed weights


# What the `tflite-micro` package on PyPI is, and what firmware for a 32-bit processor usually is.
PYTHON_PACKAGE = Build(8, recorder=True, compression=True)
FIRMWARE = Build(4, recorder=False, compression=False)


class Extent(NamedTuple):
    """What a structure needs of memory."""

    size: int
    alignment: int


@cache
def extent(fields: str, build: Build) -> Extent:
    """The extent of a C structure with those fields in that order.

    One letter a field, a number in front repeats it: p pointer or size_t, l 8 bytes, i 4, h 2, b 1. Fields
    behind `|` exist only in builds with compression.
    """
    plain, _, compressed = fields.partition("|")
    widths = {**_FIXED, "p": build.pointer_bytes}
    end, alignment = 0, 1
    for count, letter in _FIELD.findall(plain + compressed if build.compression else plain):
        width = widths[letter]
        end = round_up(end, width) + width * int(count or 1)
        alignment = max(alignment, width)
    return Extent(round_up(end, alignment), alignment)


def round_up(number: int, multiple: int) -> int:
    """The next multiple that is not smaller."""
    return -(-number // multiple) * multiple
