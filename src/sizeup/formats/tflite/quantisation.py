"""How integers stand for real numbers: a tensor's scales and zero points."""

from __future__ import annotations

from typing import Any, NamedTuple

from sizeup.formats.tflite.schema import schema
from sizeup.graph import Quant, Shape


class Details(NamedTuple):
    """The tensors that hold a tensor's scales and zero points, for blocks or for several axes."""

    scales: int
    zero_points: int


def affine(quantisation: Any, shape: Shape) -> Quant | None:
    """Scales and zero points written beside the tensor, one for all of it or one for each slice.

    None if either is missing: LiteRT refuses such a file, and TFLite Micro takes the tensor as not quantized.
    """
    scale, zero_point = quantisation.ScaleAsNumpy(), quantisation.ZeroPointAsNumpy()
    if any(isinstance(each, int) or not len(each) for each in (scale, zero_point)):
        return None
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
