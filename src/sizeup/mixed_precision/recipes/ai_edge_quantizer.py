"""What ai-edge-quantizer 0.10.0 writes: one row per operator, with the bits of weights that it supports.

16 bits are a cast of weights to float16. 8 bits are `static_wi8_ai8` of its default policy, in which
activations have 8 bits too; an operator without weights has only these.
"""

from __future__ import annotations

from typing import NamedTuple


class Scheme(NamedTuple):
    """A quantization scheme: weight bits, and activation bits if activations are quantized."""

    algorithm: str
    weight_bits: int
    activation_bits: int | None = None

    @property
    def dtype(self) -> str:
        """The dtype of the weights."""
        return "float16" if self.weight_bits == CAST.weight_bits else f"int{self.weight_bits}"


_UNIFORM = "min_max_uniform_quantize"
STATIC = Scheme(_UNIFORM, 8, 8)
CAST = Scheme("float_casting", 16)
_WEIGHTS_8, _WEIGHTS_2 = Scheme(_UNIFORM, 8), Scheme(_UNIFORM, 2)
# The quantizer also writes 2-bit convolutions, but LiteRT 2.3 computes NaN from such files.
OPERATORS: dict[str, tuple[Scheme, ...]] = {
    "CONV_2D": (CAST, STATIC, Scheme(_UNIFORM, 4, 8)),
    "CONV_2D_TRANSPOSE": (CAST, STATIC),
    "DEPTHWISE_CONV_2D": (CAST, STATIC),
    "EMBEDDING_LOOKUP": (CAST, _WEIGHTS_8, Scheme(_UNIFORM, 4), _WEIGHTS_2),
    "FULLY_CONNECTED": (CAST, STATIC, Scheme(_UNIFORM, 4, 8), _WEIGHTS_2),
    "ADD": (STATIC,), "AVERAGE_POOL_2D": (STATIC,), "BATCH_MATMUL": (STATIC,), "BROADCAST_TO": (STATIC,),
    "CONCATENATION": (STATIC,), "DIV": (STATIC,), "DYNAMIC_UPDATE_SLICE": (STATIC,), "GATHER": (STATIC,),
    "GATHER_ND": (STATIC,), "GELU": (STATIC,), "HARD_SWISH": (STATIC,), "LOGISTIC": (STATIC,),
    "MAXIMUM": (STATIC,), "MAX_POOL_2D": (STATIC,), "MEAN": (STATIC,), "MIRROR_PAD": (STATIC,),
    "MUL": (STATIC,), "PACK": (STATIC,), "PAD": (STATIC,), "PADV2": (STATIC,), "REDUCE_MIN": (STATIC,),
    "RELU": (STATIC,), "RESHAPE": (STATIC,), "RESIZE_BILINEAR": (STATIC,),
    "RESIZE_NEAREST_NEIGHBOR": (STATIC,), "RSQRT": (STATIC,), "SELECT": (STATIC,), "SELECT_V2": (STATIC,),
    "SLICE": (STATIC,), "SOFTMAX": (STATIC,), "SPACE_TO_DEPTH": (STATIC,), "SPLIT": (STATIC,),
    "SQRT": (STATIC,), "SQUARED_DIFFERENCE": (STATIC,), "STRIDED_SLICE": (STATIC,), "SUB": (STATIC,),
    "SUM": (STATIC,), "TANH": (STATIC,), "TRANSPOSE": (STATIC,), "UNPACK": (STATIC,),
}  # fmt: skip
