"""Sizes of the interpreter's C structures, computed from their fields, per build."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

ALIGNMENT = 16
"""Alignment of tensors and of kernel requests, in bytes."""
EVAL_TENSOR = "2pe"
"""The fields of TfLiteEvalTensor, which describes a tensor while the model runs."""

_FIXED = {"l": 8, "i": 4, "h": 2, "b": 1}
_FIELD = re.compile(r"(\d*)([pelihb])")

KernelLibrary: TypeAlias = Literal["reference", "cmsis-nn", "esp-nn"]
Vectors: TypeAlias = Literal["", "dsp", "mve"]
Chip: TypeAlias = Literal["", "esp32-s3", "esp32-p4"]


@dataclass(frozen=True, slots=True)
class Build:
    """The build options of the interpreter that its structures depend on."""

    pointer_bytes: int
    enum_bytes: int  # of an enumeration with few values: 4, or 1 in Arm's embedded ABI
    recorder: bool = False  # RecordingMicroAllocator, whose counters are in the arena
    compression: bool = False  # USE_TFLM_COMPRESSION: kernels keep pointers to decompressed weights
    kernels: KernelLibrary = "reference"
    vectors: Vectors = ""  # vector instructions of an Arm core, which choose the functions of CMSIS-NN
    chip: Chip = ""  # whose vector instructions choose the functions of ESP-NN; empty for other chips
    has_ethos_u: bool = False  # with the kernel that runs networks compiled by Vela on an Ethos-U


# The `tflite-micro` package on PyPI.
PYTHON_PACKAGE = Build(8, 4, recorder=True, compression=True)
# Typical firmware of a 32-bit processor: RISC-V and Xtensa, and Arm Cortex-M, whose ABI has short enums
# (Application Binary Interface for the Arm Architecture, AAPCS32, "enumerated types").
FIRMWARE = Build(4, 4)
ARM_FIRMWARE = Build(4, 1)


_ARM = "Armv"
# Vector instructions by the start of an Arm core's architecture, first match first.
_VECTORS: tuple[tuple[str, Vectors], ...] = (
    ("Armv8.1-M", "mve"),
    ("Armv8-M Mainline", "dsp"),
    ("Armv7E-M", "dsp"),
    (_ARM, ""),
)


# Chips by the core whose vector instructions ESP-NN uses.
_CHIPS: dict[str, Chip] = {"xtensa-lx7-s3": "esp32-s3", "esp-rv32-p4": "esp32-p4"}


def chip_of(core: str) -> Chip:
    """The chip with that core; empty if ESP-NN has no vector instructions for it."""
    return _CHIPS.get(core, "")


def firmwares(architectures: Iterable[str], kernels: str) -> tuple[Build, ...]:
    """The possible builds for a processor with cores of these architectures; empty text if not known.

    Kernels other than CMSIS-NN count as the reference kernels. For an unknown core, enumerations take 4
    bytes, which needs the larger arena, and CMSIS-NN may use any vector instructions.
    """
    library: KernelLibrary = "cmsis-nn" if kernels == "cmsis-nn" else "reference"
    builds: dict[Build, None] = {}
    for architecture in architectures:
        enum_bytes = 1 if architecture.startswith(_ARM) else 4
        known: tuple[Vectors, ...] = next(
            ((vectors,) for start, vectors in _VECTORS if architecture.startswith(start)), ("", "dsp", "mve")
        )
        for vectors in known if library == "cmsis-nn" else ("",):
            builds[Build(4, enum_bytes, kernels=library, vectors=vectors)] = None
    return tuple(builds) or (FIRMWARE,)


class Extent(NamedTuple):
    """Size and alignment of a structure."""

    size: int
    alignment: int


@cache
def extent(fields: str, build: Build) -> Extent:
    """Size and alignment of a C structure.

    `fields` has one letter per field, with an optional repeat count before it: p pointer or size_t, e
    enumeration, l 8 bytes, i 4, h 2, b 1. Fields after `|` exist only in builds with compression.
    """
    plain, _, compressed = fields.partition("|")
    widths = {**_FIXED, "p": build.pointer_bytes, "e": build.enum_bytes}
    end, alignment = 0, 1
    for count, letter in _FIELD.findall(plain + compressed if build.compression else plain):
        width = widths[letter]
        end = round_up(end, width) + width * int(count or 1)
        alignment = max(alignment, width)
    return Extent(round_up(end, alignment), alignment)


def round_up(number: int, multiple: int) -> int:
    """Round a number up to a multiple."""
    return -(-number // multiple) * multiple
