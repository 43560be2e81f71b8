"""Elementwise ops: a fixed number of operations per output element."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, Formula, OpRule, Traffic, names, register
from sizeup.ops.formulas import between_inputs, per_output, reads_first


def elementwise(
    op_kind: str,
    torch: str = "-",
    onnx: str = "-",
    tflite: str = "-",
    *,
    operations: int = 1,
    formula: Formula | None = None,
    reads: Traffic | None = None,
    summary: str = "",
    overwrites: bool = True,
    traits: str = "",
    latency: str = "",
    alike: str = "",
) -> None:
    """Register an elementwise op kind; name strings are split at whitespace, '-' means none."""
    register(
        OpRule(
            op_kind,
            "elementwise",
            summary or f"{operations} operation{'s' * (operations > 1)} per output element.",
            elementwise=formula or per_output(operations),
            reads=reads,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            overwrites=overwrites,
            traits=names(traits),
            latency=latency or ("activation" if "activation" in names(traits) else ""),
            alike=alike,
        )
    )


elementwise(
    "pointwise", summary="Any other operator that torch tags as pointwise: 1 operation per output element."
)

# arithmetic
elementwise(
    "add",
    "aten.add quantized.add quantized.add_relu quantized.add_scalar quantized.add_scalar_relu",
    "Add com.microsoft::QLinearAdd",
    "ADD STABLEHLO_ADD",
    traits="activates integer",
)
elementwise("sub", "aten.sub aten.rsub", "Sub", "SUB STABLEHLO_SUBTRACT", traits="activates")
elementwise(
    "mul",
    "aten.mul quantized.mul quantized.mul_relu quantized.mul_scalar quantized.mul_scalar_relu",
    "Mul com.microsoft::QLinearMul",
    "MUL STABLEHLO_MULTIPLY SignalWindow",
    traits="activates integer",
)
elementwise(
    "div",
    "aten.div aten.floor_divide aten.true_divide",
    "Div",
    "DIV FLOOR_DIV STABLEHLO_DIVIDE",
    traits="activates",
)
elementwise("remainder", "aten.remainder aten.fmod", "Mod", "FLOOR_MOD STABLEHLO_REMAINDER")
elementwise("addcmul", "aten.addcmul aten.addcdiv", operations=3)
elementwise("lerp", "aten.lerp", operations=3)
_BETWEEN_INPUTS = "1 operation per output element for every input after the first."
elementwise("sum_n", "-", "Sum", "ADD_N", formula=between_inputs, summary=_BETWEEN_INPUTS)
elementwise(
    "mean_n",
    "-",
    "Mean",
    formula=lambda call: between_inputs(call) + call.output.elements,
    summary="1 operation per output element and input: the sums, then a division.",
)
elementwise(
    "outer",
    "aten.outer aten.ger aten.addr",
    formula=between_inputs,
    summary="1 product per output element, and 1 addition with an addend.",
    overwrites=False,
)
elementwise("pow", "aten.pow aten.float_power", "Pow", "POW STABLEHLO_POWER")
elementwise("square", "aten.square", "-", "SQUARE")
elementwise("squared_difference", "-", "-", "SQUARED_DIFFERENCE", operations=2)
elementwise(
    "maximum",
    "aten.maximum aten.fmax aten.max.other",
    "Max",
    "MAXIMUM STABLEHLO_MAXIMUM",
    formula=between_inputs,
    summary=_BETWEEN_INPUTS,
)
elementwise(
    "minimum",
    "aten.minimum aten.fmin aten.min.other",
    "Min",
    "MINIMUM STABLEHLO_MINIMUM",
    formula=between_inputs,
    summary=_BETWEEN_INPUTS,
)
elementwise("neg", "aten.neg", "Neg", "NEG STABLEHLO_NEGATE")
elementwise("abs", "aten.abs", "Abs", "ABS COMPLEX_ABS STABLEHLO_ABS")
elementwise("sign", "aten.sign aten.sgn", "Sign", "SIGN")
elementwise("sqrt", "aten.sqrt", "Sqrt", "SQRT SignalFilterBankSquareRoot")
elementwise("rsqrt", "aten.rsqrt", "-", "RSQRT STABLEHLO_RSQRT")
elementwise("reciprocal", "aten.reciprocal", "Reciprocal")
elementwise("exp", "aten.exp aten.exp2 aten.expm1", "Exp", "EXP STABLEHLO_EXPONENTIAL")
elementwise("log", "aten.log aten.log1p aten.log2 aten.log10", "Log", "LOG STABLEHLO_LOG")
elementwise("erf", "aten.erf aten.erfc aten.erfinv", "Erf", traits="exponential")
elementwise("floor", "aten.floor", "Floor", "FLOOR STABLEHLO_FLOOR")
elementwise("ceil", "aten.ceil", "Ceil", "CEIL")
elementwise("round", "aten.round aten.trunc aten.frac", "Round", "ROUND")
elementwise(
    "clamp",
    "aten.clamp aten.clamp_min aten.clamp_max aten.clip quantized.clamp",
    "Clip",
    "STABLEHLO_CLAMP",
    traits="activation folded keeps_shape",
    latency="elementwise",
)
elementwise("cbrt", "-", "-", "STABLEHLO_CBRT")
elementwise("angle", "aten.angle aten.polar")

# trigonometry
elementwise("sin", "aten.sin aten.sinc", "Sin", "SIN")
elementwise("cos", "aten.cos", "Cos", "COS STABLEHLO_COSINE")
elementwise("tan", "aten.tan", "Tan")
elementwise("asin", "aten.asin", "Asin")
elementwise("acos", "aten.acos", "Acos")
elementwise("atan", "aten.atan aten.atan2", "Atan", "ATAN2")
elementwise(
    "hyperbolic", "aten.sinh aten.cosh aten.asinh aten.acosh aten.atanh", "Sinh Cosh Asinh Acosh Atanh"
)
elementwise("tanh", "aten.tanh", "Tanh", "TANH STABLEHLO_TANH", traits="activation folded exponential")

# activations
elementwise("relu", "aten.relu", "Relu", "RELU RELU_N1_TO_1 RELU_0_TO_1", traits="activation folded")
elementwise(
    "relu6",
    "aten.relu6 aten.hardtanh quantized.relu6",
    "-",
    "RELU6",
    traits="activation folded",
    alike="clamp",
)
elementwise(
    "leaky_relu",
    "aten.leaky_relu aten.rrelu aten.rrelu_with_noise quantized.leaky_relu",
    "LeakyRelu com.microsoft::QLinearLeakyRelu",
    "LEAKY_RELU",
    traits="activation folded",
)
elementwise(
    "prelu", "aten.prelu aten._prelu_kernel quantized.prelu", "PRelu", "PRELU", traits="activation trained"
)
elementwise(
    "elu",
    "aten.elu aten.celu aten.selu quantized.elu quantized.celu",
    "Elu Celu Selu",
    "ELU",
    traits="activation exponential",
)
elementwise(
    "threshold",
    "aten.threshold aten.hardshrink aten.softshrink quantized.threshold",
    "ThresholdedRelu Shrink",
    traits="activation",
)
elementwise(
    "sigmoid",
    "aten.sigmoid aten.log_sigmoid aten.log_sigmoid_forward quantized.sigmoid",
    "Sigmoid com.microsoft::QLinearSigmoid",
    "LOGISTIC STABLEHLO_LOGISTIC",
    traits="activation folded exponential",
)
elementwise("hardsigmoid", "aten.hardsigmoid", "HardSigmoid", traits="activation folded")
elementwise("hardswish", "aten.hardswish quantized.hardswish", "HardSwish", "HARD_SWISH", traits="activation")
elementwise("silu", "aten.silu", "Swish com.microsoft::QuickGelu", traits="activation exponential")


def _gelu(call: Call) -> Dim:
    return (2 if call.has_input(1) else 1) * call.output.elements


elementwise(
    "gelu",
    "aten.gelu",
    "Gelu com.microsoft::Gelu com.microsoft::FastGelu com.microsoft::BiasGelu",
    "GELU",
    formula=_gelu,
    summary="1 operation per output element, 2 if a bias is added first.",
    traits="activation exponential keeps_shape",
)
elementwise("mish", "aten.mish", "Mish", traits="activation exponential")
elementwise("softplus", "aten.softplus", "Softplus", traits="activation exponential")
elementwise("softsign", "-", "Softsign", traits="activation")
# An output element needs two input elements at different offsets, so it cannot run in place.
elementwise(
    "glu", "aten.glu", "SwiGLU", operations=2, overwrites=False, traits="exponential", latency="activation"
)

# comparison, logic, bits
elementwise(
    "compare",
    "aten.eq aten.ne aten.lt aten.le aten.gt aten.ge",
    "Equal Greater GreaterOrEqual Less LessOrEqual",
    "EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL STABLEHLO_COMPARE",
    traits="boolean",
)
elementwise(
    "logical",
    "aten.logical_and aten.logical_or aten.logical_not aten.logical_xor",
    "And Or Not Xor",
    "LOGICAL_AND LOGICAL_OR LOGICAL_NOT STABLEHLO_AND STABLEHLO_OR",
    traits="boolean",
)
elementwise(
    "bitwise",
    "aten.bitwise_and aten.bitwise_or aten.bitwise_not aten.bitwise_xor aten.bitwise_left_shift"
    " aten.bitwise_right_shift aten.__lshift__ aten.__rshift__ aten.__and__ aten.__or__"
    " aten.__xor__ aten.__ilshift__ aten.__irshift__ aten.__iand__ aten.__ior__ aten.__ixor__",
    "BitwiseAnd BitwiseOr BitwiseNot BitwiseXor BitShift",
    "BITWISE_XOR RIGHT_SHIFT STABLEHLO_SHIFT_LEFT",
)
elementwise(
    "where",
    "aten.where aten.masked_fill aten.masked_scatter",
    "Where com.microsoft::QLinearWhere",
    "SELECT SELECT_V2 STABLEHLO_SELECT",
)
elementwise("is_special", "aten.isnan aten.isinf aten.isfinite", "IsNaN IsInf", traits="boolean")
elementwise("triangle", "aten.tril aten.triu", "Trilu com.microsoft::Trilu", traits="keeps_shape")
elementwise(
    "bucketize",
    "aten.bucketize aten.searchsorted",
    "-",
    "BUCKETIZE",
    overwrites=False,
    summary="1 operation per output element; the steps of the search are not counted.",
)

# change of dtype
elementwise(
    "cast",
    "aten._to_copy aten.to aten.type_as prims.convert_element_type",
    "Cast CastLike",
    "CAST STABLEHLO_CONVERT",
    reads=reads_first,
    traits="converts keeps_shape",
    latency="quantize",
    alike="conversion",
)
elementwise(
    "quantize",
    "aten.quantize_per_tensor aten.quantize_per_channel quantized_decomposed.quantize_per_tensor"
    " quantized_decomposed.quantize_per_channel quantized_decomposed.quantize_per_token"
    " torchao.quantize_affine",
    "QuantizeLinear com.microsoft::QuantizeLinear",
    "QUANTIZE",
    operations=2,
    traits="converts keeps_shape",
    latency="quantize",
    alike="conversion",
)
elementwise(
    "dynamic_quantize",
    "-",
    "DynamicQuantizeLinear",
    operations=4,
    overwrites=False,
    summary="4 operations per output element: minimum, maximum, scale and round.",
    traits="converts keeps_shape",
    latency="quantize",
    alike="conversion",
)
elementwise(
    "dequantize",
    "aten.dequantize quantized_decomposed.dequantize_per_tensor quantized_decomposed.dequantize_per_channel"
    " quantized_decomposed.dequantize_per_token quantized_decomposed.dequantize_per_channel_group"
    " torchao.dequantize_affine",
    "DequantizeLinear com.microsoft::DequantizeLinear",
    "DEQUANTIZE",
    operations=2,
    traits="converts keeps_shape",
    latency="quantize",
    alike="conversion",
)
elementwise(
    "fake_quantize",
    "aten.fake_quantize_per_tensor_affine aten.fake_quantize_per_channel_affine"
    " aten.fake_quantize_per_tensor_affine_cachemask aten.fake_quantize_per_channel_affine_cachemask",
    "-",
    "FAKE_QUANT",
    operations=4,
    traits="converts keeps_shape",
    alike="conversion",
)
elementwise("complex_part", "-", "-", "REAL IMAG", traits="converts")
elementwise(
    "dropout",
    "aten.native_dropout aten.feature_dropout aten.alpha_dropout quantized.dropout",
    alike="identity",
)
# Elements are rotated in pairs, so it cannot run in place.
elementwise(
    "rotary",
    "-",
    "RotaryEmbedding com.microsoft::RotaryEmbedding",
    operations=3,
    overwrites=False,
    traits="keeps_shape",
)
