"""What op kinds have in common across their families: one word per property, on the row of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

Trait: TypeAlias = Literal[
    "activates",
    "activation",
    "blas",
    "boolean",
    "converts",
    "exponential",
    "folded",
    "integer",
    "keeps_shape",
    "moves",
    "pointwise",
    "reduces",
    "reduces_axes",
    "trained",
    "weight_rows",
]
TRAITS: Mapping[str, str] = {
    "activates": "its kernels can compute an activation on their result",
    "activation": "an elementwise function of one tensor, as after a layer",
    "blas": "PyTorch computes it by products of a BLAS library",
    "boolean": "its outputs are booleans",
    "converts": "changes the dtype or the representation of numbers, and computes nothing else",
    "exponential": "computes an exponential function per element",
    "folded": "runtimes compute it in the kernel of the product before it",
    "integer": "has a kernel on integers in runtimes for quantized models",
    "keeps_shape": "its first output has the shape of its first input, whatever the others have",
    "moves": "passes on the values of its inputs, elsewhere in memory",
    "pointwise": "computes an element from few others, although its family does not",
    "reduces": "computes an element from a row of others, in one loop nest",
    "reduces_axes": "removes the axes that it is given, or leaves them with size 1",
    "trained": "has trained weights, although its family has none",
    "weight_rows": "has the outputs along axis 0 of its weight in PyTorch",
}
assert TRAITS.keys() == set(get_args(Trait))
