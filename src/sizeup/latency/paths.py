"""Execution paths: which of several kernels for the same op a runtime selects.

A path is part of the class of a kernel (`conv@plain`). A calibration that does not distinguish paths has one
rate for all of them (`Rates.of`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from sizeup.graph import Graph, Op
from sizeup.latency.work import is_depthwise, product_of
from sizeup.ops import has_trait

PLAIN = "@plain"
"""Channels first: a convolution as a matrix product of copied windows, or a pooling without vector code."""
DEQUANTIZED = "@dequantized"
"""A convolution on floats whose quantized weights are converted in each inference."""
EXPONENTIAL = "@exponential"
"""An activation that computes exponentials: several times the cycles of a comparison or a product."""
_ALIGNMENT = 4  # of the input channels of a convolution in blocks of channels
_BLOCK = 16  # channels in a block with AVX-512


def without_path(name: str) -> str:
    """The class without its path: `conv.int8` for `conv@plain.int8`."""
    head, dot, dtype = name.partition(".")
    return "".join((head.partition("@")[0], dot, dtype))


def path_of_activation(kinds: Iterable[str]) -> str:
    """The path of an activation kernel of ops of these kinds."""
    return EXPONENTIAL if any(has_trait(kind, "exponential") for kind in kinds) else ""


def is_blocked(graph: Graph, op: Op) -> bool:
    """Whether ONNX Runtime computes a float convolution in blocks of channels on x86."""
    taps = math.prod(op.attrs.get("kernel", ()) or (1,))
    groups: int = op.attrs.get("groups", 1)
    length, columns, _ = product_of(graph, op)
    channels = length // taps  # per group, as are the columns
    if groups == 1:
        return bool(channels < _BLOCK or channels % _ALIGNMENT == 0)
    if is_depthwise(graph, op):
        return groups % _ALIGNMENT == 0
    return bool(channels % _BLOCK == 0 and columns % _BLOCK == 0)
