"""How integers stand for real numbers: a tensor's scales and zero points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sizeup.formats.tflite.schema import schema
from sizeup.graph import Quant, Shape

_ZERO = np.zeros(1, np.int64)


class Details(NamedTuple):
    """The tensors that hold a tensor's scales and zero points, for blocks or for several axes."""

    scales: int
    zero_points: int


def affine(quantisation: Any, shape: Shape) -> Quant | None:
    """Scales and zero points written beside the tensor, one for all of it or one for each slice."""
    scale = quantisation.ScaleAsNumpy()
    if isinstance(scale, int) or not len(scale):
        return None
    zero_point = quantisation.ZeroPointAsNumpy()
    if isinstance(zero_point, int) or not len(zero_point):
        zero_point = _ZERO
    axis = None if len(scale) == 1 else _axis(quantisation.QuantizedDimension(), len(scale), shape)
    return Quant(scale, zero_point, axis)


def _axis(recorded: int, scales: int, shape: Shape) -> int | None:
    """The axis along which scales change. Old converters give biases the axis of the filter."""
    if 0 <= recorded < len(shape) and shape[recorded] == scales:
        return recorded
    return shape.index(scales) if shape.count(scales) == 1 else None


def details(quantisation: Any) -> Details | None:
    """Where scales for blocks, or along several axes, are kept; None for the plain scheme."""
    kind = quantisation.DetailsType()
    kinds = schema().QuantizationDetails
    for name in ("BlockwiseQuantization", "MultiAxisQuantization"):
        # Releases of the schema before 2.1 lack the second.
        if kind and kind == getattr(kinds, name, None):
            union = quantisation.Details()
            if union is None:
                return None
            found = getattr(schema(), name)()
            found.Init(union.Bytes, union.Pos)
            return Details(found.Scales(), found.ZeroPoints())
    return None
