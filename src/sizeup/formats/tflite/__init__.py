"""The TFLite door: .tflite files of LiteRT, TensorFlow Lite and TFLite Micro."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sizeup.formats.tflite.read import load
from sizeup.symbolic import FreeGraph

__all__ = ["load", "load_free"]


def load_free(
    source: str | os.PathLike[str] | bytes,
    free: Mapping[str, Any] | Sequence[str] | bool,
    *,
    inputs: Mapping[str, Any] | None = None,
) -> FreeGraph:
    """Read a .tflite file whose batch keeps no size."""
    from sizeup.formats.tflite.free import free_graph_of

    return free_graph_of(load(source, inputs=inputs), free)
