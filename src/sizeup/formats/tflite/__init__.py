"""Loader for .tflite files (LiteRT, TensorFlow Lite, TFLite Micro)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup.formats.tflite.read import load

if TYPE_CHECKING:
    from sizeup.symbolic import SymbolicGraph

__all__ = ["load", "load_symbolic"]


def load_symbolic(
    source: str | os.PathLike[str] | bytes,
    free: Mapping[str, Any] | Sequence[str] | bool,
    *,
    inputs: Mapping[str, Any] | None = None,
) -> SymbolicGraph:
    """Load a .tflite file with a symbolic batch dimension."""
    from sizeup.formats.tflite.symbolic_batch import free_graph_of

    return free_graph_of(load(source, inputs=inputs), free)
