"""The ONNX loader: .onnx files, their bytes, or a model in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary
from sizeup.graph import Graph
from sizeup.symbolic import SymbolicGraph

if TYPE_CHECKING:
    import onnx

__all__ = ["load", "load_symbolic"]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Load a model without its weights; `inputs` (shapes by name) and `bind` set its symbolic dimensions."""
    _require_onnx()
    from sizeup.formats.onnx.model import graph_of

    return graph_of(source, dict(inputs or {}), dict(bind or {}))


def load_symbolic(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    free: Mapping[str, Any] | Sequence[str] | bool,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> SymbolicGraph:
    """Load a model with symbolic dimensions: those named in `free`, or all named ones if True."""
    _require_onnx()
    from sizeup.formats.onnx import symbolic

    return symbolic.load_symbolic(source, free, inputs=inputs, bind=bind)


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401 - imported here so that one message covers its absence
    except ImportError as error:
        raise MissingLibrary("reading ONNX", "onnx", "onnx") from error
