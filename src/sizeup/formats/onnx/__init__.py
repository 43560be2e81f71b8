"""The ONNX door: .onnx files, their bytes, or a model that is in memory already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph

if TYPE_CHECKING:
    import onnx

__all__ = ["load", "load_free"]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a model without its weights; `inputs` (shapes by name) and `bind` size its free dimensions."""
    _require_onnx()
    from sizeup.formats.onnx.model import graph_of

    return graph_of(source, dict(inputs or {}), dict(bind or {}))


def load_free(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    free: Mapping[str, Any] | Sequence[str] | bool,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> FreeGraph:
    """The same, with dimensions that keep no size: those named, or all that have a name."""
    _require_onnx()
    from sizeup.formats.onnx import free as freeing

    return freeing.load_free(source, free, inputs=inputs, bind=bind)


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401 - asked for here so that its absence has one message
    except ImportError as error:
        raise MissingLibrary("reading ONNX", "onnx", "onnx") from error
