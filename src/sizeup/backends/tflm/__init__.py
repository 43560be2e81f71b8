"""TFLite Micro's arena: the planned head and the persistent tail."""

from typing import TYPE_CHECKING

from sizeup.backends.tflm.arena import MicroArena, Scratch, arena
from sizeup.lazy import lazy_names

if TYPE_CHECKING:
    from sizeup.backends.tflm.before_conversion import Conversions, ConvertedArena
    from sizeup.backends.tflm.conversion import Conversion, conversion_of, unlisted_operators
    from sizeup.backends.tflm.head import HeadBuffers, Owner, head_buffers
    from sizeup.backends.tflm.layout import FIRMWARE, Build, chip_of, firmwares
    from sizeup.backends.tflm.subgraphs import leftover_bytes
    from sizeup.backends.tflm.tail import largest_scratch_bytes

__all__ = [
    "FIRMWARE",
    "Build",
    "Conversion",
    "Conversions",
    "ConvertedArena",
    "HeadBuffers",
    "MicroArena",
    "Owner",
    "Scratch",
    "arena",
    "chip_of",
    "conversion_of",
    "firmwares",
    "head_buffers",
    "largest_scratch_bytes",
    "leftover_bytes",
    "unlisted_operators",
]

# `arena` is imported at once: it has the name of its module.
__getattr__ = lazy_names(
    __name__,
    {
        "backend": ("BACKEND",),
        "before_conversion": (
            "Conversions",
            "ConvertedArena",
        ),
        "conversion": (
            "Conversion",
            "conversion_of",
            "unlisted_operators",
        ),
        "head": (
            "HeadBuffers",
            "Owner",
            "head_buffers",
        ),
        "layout": (
            "FIRMWARE",
            "Build",
            "chip_of",
            "firmwares",
        ),
        "subgraphs": ("leftover_bytes",),
        "tail": ("largest_scratch_bytes",),
    },
)
