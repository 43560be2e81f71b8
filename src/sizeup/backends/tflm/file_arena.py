"""The arena of a .tflite file as TFLite Micro runs it, with the plan that the file has."""

from __future__ import annotations

from contextlib import suppress

from sizeup.backends.tflm.arena import MicroArena, arena
from sizeup.backends.tflm.layout import FIRMWARE, Build
from sizeup.errors import Incomplete, InvalidPlan, LimitReached
from sizeup.graph import Graph


def tflm_arena(graph: Graph, firmware: Build = FIRMWARE, *, is_file: bool = True) -> MicroArena | None:
    """TFLite Micro's arena for a TFLite file; None for other formats or if it cannot run.

    `is_file` is False for a graph whose dtypes are those of an assumed precision.
    """
    if graph.format != "tflite":
        return None
    # The interpreter rejects sizes that depend on data, and plans for another number of tensors.
    with suppress(Incomplete, InvalidPlan):
        return arena(graph, offsets=graph.offsets or None, overlap=True, firmware=firmware, is_file=is_file)
    return None


def unsupported_reason(
    graph: Graph, shipped: MicroArena | None, firmware: Build = FIRMWARE, *, is_file: bool = True
) -> str | None:
    """Why TFLite Micro's interpreter does not run a TFLite file; None if no reason is known."""
    if graph.format != "tflite":
        return None
    if shipped is not None:
        return shipped.unsupported_reason
    try:
        offsets = graph.offsets or None
        memory = arena(graph, offsets=offsets, overlap=True, firmware=firmware, is_file=is_file)
        return memory.unsupported_reason
    except LimitReached:
        return None
    except (Incomplete, InvalidPlan) as error:
        return str(error)
