"""What converters to .tflite write for op kinds: one row per op kind that they do not write as its operator.

The operator of an op kind without a row is one of the names of its cost rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Fate: TypeAlias = Literal["dropped", "folded", "fused", "merged", "written"]
"""What is left of an op, of which converters choose that or more.

- dropped: nothing, always
- folded: nothing; its effect is in weights or in the shape of a tensor
- fused: nothing; the layer before it computes it
- merged: its result may be the same tensor as its input
- written: an operator
"""
Layout: TypeAlias = Literal["", "kept", "images"]


@dataclass(frozen=True, slots=True)
class Lowering:
    """What converters write for an op kind; the defaults are those of an op kind that is its operator."""

    op_kind: str
    composed_of: tuple[str, ...] = ()  # operators with kernels, if it has none
    fate: Fate = "written"
    # The layout that it reads and writes: that of images, or that of its inputs, as elementwise op kinds do.
    layout: Layout = ""
    most_dimensions: int | None = None  # of its windows
    alternatives: tuple[str, ...] = ()  # operators of which one is written; empty: those of its cost rule
    sequence: tuple[str, ...] = ()  # operators that are written after one another
    step: tuple[str, ...] = ()  # operators per step of a cell that is unrolled
    unlike: tuple[str, ...] = ()  # parts of the names of operators that have no kernel, unlike its others


_ATTENTION = ("FULLY_CONNECTED", "BATCH_MATMUL", "MUL", "ADD", "SOFTMAX")
_NORM = ("MEAN", "SQUARED_DIFFERENCE", "ADD", "RSQRT", "MUL")
_RECURRENT = ("FULLY_CONNECTED", "ADD", "MUL", "SUB", "LOGISTIC", "TANH")
# A step of a cell without a kernel for all steps, as litert-torch 0.10 writes an LSTM.
_STEP = (
    *("SLICE", "FULLY_CONNECTED", "ADD", "SLICE", "SLICE", "SLICE", "SLICE", "LOGISTIC", "LOGISTIC"),
    *("LOGISTIC", "TANH", "MUL", "MUL", "ADD", "TANH", "MUL", "RESHAPE"),
)

_ROWS = (
    *(Lowering(name, fate="dropped") for name in ("identity", "copy", "call", "dropout", "fake_quantize")),
    Lowering("weight_norm", fate="dropped"),
    Lowering("view", fate="folded", alternatives=("RESHAPE",)),
    Lowering("batch_norm", fate="folded", layout="kept", sequence=("MUL", "ADD")),
    *(Lowering(name, fate="fused") for name in ("relu", "relu6")),
    Lowering("clamp", ("RELU6",), fate="fused", sequence=("MAXIMUM", "MINIMUM")),
    Lowering("reshape", fate="merged", alternatives=("RESHAPE",)),
    *(Lowering(name, fate="merged") for name in ("transpose", "cast", "quantize", "dequantize")),
    *(Lowering(name, layout="kept") for name in ("concat", "split", "slice", "pad", "rearrange", "softmax")),
    *(Lowering(name, layout="kept") for name in ("mean", "sum", "max", "min", "l2_norm")),
    # Windows of TFLite Micro's kernels, which also run 1-D ones, extend over at most two dimensions.
    *(Lowering(name, layout="images", most_dimensions=2) for name in ("conv", "conv_transpose", "pool")),
    Lowering("resize", layout="images", most_dimensions=2, unlike=("_aa",)),
    Lowering(
        *("global_pool", ("MEAN",)), layout="images", alternatives=("MEAN", "AVERAGE_POOL_2D", "REDUCE_MAX")
    ),
    Lowering("create", unlike=("rand", "normal", "uniform", "exponential")),
    Lowering("cumulate", unlike=("prod", "max", "min", "logcum")),
    Lowering("lstm", step=_STEP),
    *(Lowering(name, _RECURRENT, step=_STEP) for name in ("gru", "rnn")),
    Lowering("addcmul", ("MUL", "DIV", "ADD")),
    Lowering("attention", _ATTENTION[1:]),
    Lowering("attention_layer", (*_ATTENTION, *_NORM)),
    Lowering("bilinear", ("FULLY_CONNECTED", "BATCH_MATMUL", "ADD")),
    Lowering("cosine_similarity", ("MUL", "SUM", "SQRT", "DIV")),
    Lowering("dynamic_quantize", ("REDUCE_MAX", "REDUCE_MIN", "SUB", "DIV", "ROUND", "ADD")),
    Lowering("einsum", ("TRANSPOSE", "BATCH_MATMUL")),
    Lowering("embed_layer_norm", ("GATHER", *_NORM)),
    Lowering("embedding", ("GATHER",)),
    # An approximation by an exponential function or by tanh.
    Lowering("erf", ("ABS", "MUL", "ADD", "DIV", "EXP", "SUB", "SELECT_V2")),
    Lowering("fused_attention", _ATTENTION),
    Lowering("gather_dequantize", ("GATHER", "DEQUANTIZE")),
    Lowering("gelu", ("MUL", "ADD", "TANH")),
    Lowering("glu", ("SPLIT", "LOGISTIC", "MUL")),
    Lowering("hardsigmoid", ("ADD", "RELU6", "MUL")),
    *(Lowering(name, _NORM) for name in ("layer_norm", "rms_norm")),
    *(Lowering(name, ("ADD", *_NORM)) for name in ("skip_layer_norm", "skip_rms_norm")),
    Lowering("lerp", ("SUB", "MUL", "ADD")),
    Lowering("logsumexp", ("REDUCE_MAX", "SUB", "EXP", "SUM", "LOG", "ADD")),
    Lowering("mean_n", ("ADD_N", "MUL")),
    Lowering("min_max", ("REDUCE_MIN", "REDUCE_MAX")),
    Lowering("mish", ("EXP", "ADD", "LOG", "TANH", "MUL")),
    Lowering("norm_reduction", ("SQUARE", "SUM", "SQRT")),
    *(Lowering(name, ("MUL",)) for name in ("outer", "triangle")),
    Lowering("pow", ("SQUARE", "MUL", "SQRT", "EXP", "LOG")),  # with one constant operand
    Lowering("reciprocal", ("DIV",)),
    Lowering("rotary", ("SLICE", "MUL", "SUB", "ADD", "CONCATENATION")),
    Lowering("silu", ("LOGISTIC", "MUL")),
    Lowering("softplus", ("EXP", "ADD", "LOG")),
    Lowering("softsign", ("ABS", "ADD", "DIV")),
    Lowering("threshold", ("GREATER", "SELECT_V2")),
    Lowering("variance", ("MEAN", "SQUARED_DIFFERENCE", "SQRT")),
)

LOWERINGS: Mapping[str, Lowering] = {row.op_kind: row for row in _ROWS}
"""The rows by op kind."""
assert len(LOWERINGS) == len(_ROWS), "two rows have one op kind"


def lowering_of(op_kind: str) -> Lowering:
    """The row of an op kind, or the defaults."""
    return LOWERINGS.get(op_kind) or Lowering(op_kind)


COMPOSED: Mapping[str, tuple[str, ...]] = {
    kind: row.composed_of for kind, row in LOWERINGS.items() if row.composed_of
}
"""Op kinds without a kernel, and operators with a kernel that converters compose them of."""
FOLDED = frozenset(kind for kind, row in LOWERINGS.items() if row.fate in ("dropped", "folded"))
"""Op kinds without an operator after a conversion."""
