"""Which number type each layer should have: what fits, what a choice does, and what it costs in accuracy."""

from sizeup.precision.assign import assign
from sizeup.precision.layers import Layer, layers, matched
from sizeup.precision.mixing import Wish, as_wished, is_mapping
from sizeup.precision.sizes import Measure, Sizes, sizes

__all__ = [
    "Layer",
    "Measure",
    "Sizes",
    "Wish",
    "as_wished",
    "assign",
    "is_mapping",
    "layers",
    "matched",
    "sizes",
]
