"""The ONNX door: .onnx files, their bytes, or a model that is in memory already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary
from sizeup.graph import Graph

if TYPE_CHECKING:
    import onnx

__all__ = ["load"]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a model without its weights; `inputs` (shapes by name) and `bind` size its free dimensions."""
    try:
        import onnx  # noqa: F401 - asked for here so that its absence has one message
    except ImportError as error:
        raise MissingLibrary("reading ONNX", "onnx", "onnx") from error
    from sizeup.formats.onnx.model import graph_of

    return graph_of(source, dict(inputs or {}), dict(bind or {}))
