"""Operators of ONNX: what the format and its runtimes know of each, next to the rule of its op kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class QuantizedValue(NamedTuple):
    """A quantized input (or first output) of a node, with the inputs that are its scale and zero point."""

    position: int
    scale: int | None
    zero_point: int | None
    is_output: bool = False
    axis: int | None = None


def scaled_output(scale: int | None, zero_point: int | None) -> QuantizedValue:
    """The first output, whose scale and zero point are these inputs."""
    return QuantizedValue(0, scale, zero_point, is_output=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The properties of one operator; those of an operator that is not listed are the defaults."""

    dtype: str | int | None = None  # of all outputs: a name, the input that has it, or the attribute `to`
    settings: tuple[int, ...] = ()  # inputs that are no data; scales and zero points are `quantized`
    tables: tuple[int, ...] = ()  # inputs with sines and cosines
    quantized: tuple[QuantizedValue, ...] = ()
    # The standard operator with the same types of outputs, and the inputs that it takes; (): every third from
    # the third on.
    standard: tuple[str, tuple[int, ...]] | None = None
    same_type: bool = False  # its only output has the type of its first input
    channels: int | None = None  # the axis of output channels of its weight
    # All runtimes agree on its values, which take no more work than their number. A condition or a number of
    # rounds must not depend on others: rounding of functions, overflow of sums and NaN differ.
    exact: bool = False
    of_shapes: bool = False  # computes most shapes: evaluated here, as a ReferenceEvaluator is slow to create
    random: bool = False
    keeps_shape: bool = False  # as the trait, which not all operators of its op kind have


def operator_of(name: str) -> Operator:
    """The properties of an operator by its name."""
    return OPERATORS.get(name, _UNLISTED)


_DATA = QuantizedValue(0, 1, 2)
_CONV = (_DATA, QuantizedValue(3, 4, 5, axis=0), QuantizedValue(8, None, None), scaled_output(6, 7))
_PAIR = (_DATA, QuantizedValue(3, 4, 5), scaled_output(6, 7))
_ONE = (_DATA, scaled_output(3, 4))
_UNLISTED = Operator()
_EXACT = Operator(exact=True)
_FIRST = Operator(dtype=0)
_SHAPES = Operator(exact=True, of_shapes=True)
_FIRST_SHAPES = Operator(dtype=0, exact=True, of_shapes=True)
OPERATORS: dict[str, Operator] = {
    "Abs": _EXACT, "Add": _SHAPES, "And": _EXACT, "ArgMax": _EXACT, "ArgMin": _EXACT, "AveragePool": _FIRST,
    "BatchNormalization": _FIRST, "BitwiseAnd": _EXACT, "BitwiseNot": _EXACT, "BitwiseOr": _EXACT,
    "BitwiseXor": _EXACT, "CastLike": _EXACT, "Ceil": _EXACT, "Concat": _FIRST_SHAPES,
    "ConstantOfShape": _EXACT, "Conv": _FIRST, "CumSum": _EXACT, "Div": _SHAPES, "Equal": _EXACT,
    "Floor": _EXACT, "GatherElements": _EXACT, "GatherND": _EXACT, "Gemm": _FIRST,
    "GlobalAveragePool": _FIRST, "GlobalMaxPool": _FIRST, "Greater": _EXACT, "GreaterOrEqual": _EXACT,
    "InstanceNormalization": _FIRST, "LayerNormalization": _FIRST, "Less": _EXACT,
    "LessOrEqual": _EXACT, "LogSoftmax": _FIRST, "MatMul": _FIRST, "Max": _EXACT, "MaxPool": _FIRST,
    "Min": _EXACT, "Mod": _EXACT, "Mul": _SHAPES, "Neg": _EXACT, "NonZero": _EXACT, "Not": _EXACT,
    "Or": _EXACT, "ReduceMax": _EXACT, "ReduceMin": _EXACT, "ReduceProd": _EXACT, "ReduceSum": _EXACT,
    "Reshape": _FIRST_SHAPES, "Round": _EXACT, "ScatterElements": _EXACT, "ScatterND": _EXACT, "Sign": _EXACT,
    "Slice": _FIRST_SHAPES, "Softmax": _FIRST, "Sqrt": _EXACT, "Squeeze": _FIRST_SHAPES, "Sub": _SHAPES,
    "Tile": _EXACT, "Trilu": _EXACT, "Unsqueeze": _FIRST_SHAPES, "Xor": _EXACT,
    "Attention": Operator(settings=(3, 6)),
    "Bernoulli": Operator(random=True, keeps_shape=True),
    "Cast": Operator(dtype="to", exact=True),
    "Clip": Operator(settings=(1, 2)),
    "ConvInteger": Operator(quantized=(QuantizedValue(0, None, 2), QuantizedValue(1, None, 3))),
    "ConvTranspose": Operator(channels=1),
    "DequantizeLinear": Operator(quantized=(_DATA,)),
    "Dropout": Operator(settings=(1, 2)),
    "DynamicQuantizeLinear": Operator(quantized=(scaled_output(None, None),)),
    "Expand": Operator(dtype=0, exact=True),
    "EyeLike": Operator(exact=True, keeps_shape=True),
    "Flatten": Operator(dtype=0, exact=True),
    "GRU": Operator(settings=(4, 5), channels=1),
    "Gather": Operator(dtype=0, channels=0, exact=True, of_shapes=True),
    "Hardmax": Operator(keeps_shape=True),
    "Identity": Operator(dtype=0, exact=True, of_shapes=True, keeps_shape=True),
    "If": Operator(settings=(0,)),
    "LSTM": Operator(settings=(4, 5, 6), channels=1),
    "MatMulInteger": Operator(quantized=(QuantizedValue(0, None, 2), QuantizedValue(1, None, 3))),
    "MelWeightMatrix": Operator(settings=(0, 1, 2, 3, 4)),
    "Multinomial": Operator(random=True),
    "NonMaxSuppression": Operator(settings=(2, 3, 4)),
    "OneHot": Operator(settings=(1, 2)),
    "Pad": Operator(settings=(1, 2, 3)),
    "QLinearConv": Operator(quantized=_CONV),
    "QLinearMatMul": Operator(quantized=_PAIR),
    "QuantizeLinear": Operator(quantized=(scaled_output(1, 2),)),
    "RNN": Operator(settings=(4, 5), channels=1),
    "RandomNormal": Operator(random=True),
    "RandomNormalLike": Operator(random=True, keeps_shape=True),
    "RandomUniform": Operator(random=True),
    "RandomUniformLike": Operator(random=True, keeps_shape=True),
    "Range": Operator(settings=(0, 1, 2), exact=True),
    "Resize": Operator(settings=(1, 2, 3)),
    "ReverseSequence": Operator(keeps_shape=True),
    "RotaryEmbedding": Operator(tables=(1, 2)),
    "Shape": Operator(dtype="INT64", exact=True),
    "Size": Operator(dtype="INT64", exact=True),
    "Split": Operator(dtype=0, exact=True),
    "Transpose": Operator(dtype=0, exact=True),
    "Upsample": Operator(settings=(1,)),
    "Where": Operator(dtype=1, exact=True),
    "com.microsoft::Attention": Operator(settings=(3, 5, 6)),
    "com.microsoft::BiasAdd": Operator(same_type=True),
    "com.microsoft::BiasGelu": Operator(standard=("Add", (0, 1))),
    "com.microsoft::BiasSoftmax": Operator(same_type=True),
    "com.microsoft::DequantizeLinear": Operator(quantized=(_DATA,)),
    "com.microsoft::DynamicQuantizeLSTM": Operator(
        settings=(4, 5, 6), quantized=(QuantizedValue(1, 8, 9), QuantizedValue(2, 10, 11)),
    ),
    "com.microsoft::DynamicQuantizeMatMul": Operator(
        standard=("MatMul", (0, 1)), quantized=(QuantizedValue(1, 2, 3),),
    ),
    "com.microsoft::FastGelu": Operator(same_type=True),
    "com.microsoft::FusedConv": Operator(standard=("Conv", (0, 1, 2))),
    "com.microsoft::FusedGemm": Operator(standard=("Gemm", (0, 1, 2))),
    "com.microsoft::GatherBlockQuantized": Operator(quantized=(QuantizedValue(0, 2, 3),)),
    "com.microsoft::GatherND": Operator(standard=("GatherND", (0, 1))),
    "com.microsoft::Gelu": Operator(same_type=True),
    "com.microsoft::GroupNorm": Operator(same_type=True),
    "com.microsoft::GroupQueryAttention": Operator(settings=(5, 6, 9, 10, 12, 13), tables=(7, 8)),
    "com.microsoft::Inverse": Operator(same_type=True),
    "com.microsoft::MatMulBnb4": Operator(quantized=(QuantizedValue(1, 2, None),)),
    "com.microsoft::MatMulIntegerToFloat": Operator(
        quantized=(QuantizedValue(0, 2, 4), QuantizedValue(1, 3, 5)),
    ),
    "com.microsoft::MatMulNBits": Operator(quantized=(QuantizedValue(1, 2, 3),)),
    "com.microsoft::MoE": Operator(same_type=True),
    "com.microsoft::MultiHeadAttention": Operator(settings=(4, 5, 8, 9)),
    "com.microsoft::Pad": Operator(settings=(1, 2, 3)),
    "com.microsoft::QAttention": Operator(
        settings=(5,), quantized=(QuantizedValue(0, 3, 6), QuantizedValue(1, 4, 7)),
    ),
    "com.microsoft::QGemm": Operator(
        standard=("Gemm", (0, 3)),
        quantized=(_DATA, QuantizedValue(3, 4, 5), QuantizedValue(6, None, None), scaled_output(7, 8)),
    ),
    "com.microsoft::QLinearAdd": Operator(standard=("Add", (0, 3)), quantized=_PAIR),
    "com.microsoft::QLinearAveragePool": Operator(standard=("AveragePool", (0,)), quantized=_ONE),
    "com.microsoft::QLinearConcat": Operator(standard=("Concat", ())),
    "com.microsoft::QLinearConv": Operator(standard=("QLinearConv", (*range(9),)), quantized=_CONV),
    "com.microsoft::QLinearGlobalAveragePool": Operator(standard=("GlobalAveragePool", (0,)), quantized=_ONE),
    "com.microsoft::QLinearLeakyRelu": Operator(same_type=True, quantized=_ONE),
    "com.microsoft::QLinearMul": Operator(standard=("Mul", (0, 3)), quantized=_PAIR),
    "com.microsoft::QLinearReduceMean": Operator(quantized=_ONE),
    "com.microsoft::QLinearSigmoid": Operator(same_type=True, quantized=_ONE),
    "com.microsoft::QLinearSoftmax": Operator(same_type=True, quantized=_ONE),
    "com.microsoft::QLinearWhere": Operator(
        standard=("Where", (0, 1, 4)),
        settings=(0,), quantized=(QuantizedValue(1, 2, 3), QuantizedValue(4, 5, 6), scaled_output(7, 8)),
    ),
    "com.microsoft::QMoE": Operator(same_type=True),
    "com.microsoft::QuantizeLinear": Operator(quantized=(scaled_output(1, 2),)),
    "com.microsoft::QuickGelu": Operator(same_type=True),
    "com.microsoft::RotaryEmbedding": Operator(same_type=True, tables=(2, 3)),
    "com.microsoft::Trilu": Operator(same_type=True),
}  # fmt: skip
