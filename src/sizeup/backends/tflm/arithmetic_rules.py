"""What TFLite Micro's element-wise kernels, activations, reductions and conversions of dtypes accept.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c): the checks of Prepare and
the dtypes of Eval. Checks that only debug builds of the kernels have are not rules.
"""

from __future__ import annotations

import math

from sizeup.backends.tflm.kernel_call import Call, elements_of
from sizeup.backends.tflm.kernel_rules import (
    BOOL,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    OUTPUT,
    UINT8,
    Rule,
    Rules,
    at,
    dtype,
    like_output,
    listed,
    not_quantized,
    only_cmsis_nn,
    only_for,
    output_quantization,
    quantized,
    rank,
    same_shapes,
    same_types,
    scale,
    scale_count,
    symmetric,
    takes,
    uses_cmsis_nn,
    without_activation,
    writes,
)
from sizeup.backends.tflm.shape_rules import axes_in_range, elementwise_output, reduced_output

_LEFT_SHIFTS = {INT8: 20, INT16: 15}  # of sums, in bits
_FRACTION = 2.0**-15  # scale of sigmoid and tanh outputs of 16 bits
_LOG2_TOLERANCE = 1e-3
_NEAR = 1e-3


def _sum_scales(*positions: int) -> Rule:
    """The rescaling of a sum has to be a multiplier between 0 and 1."""

    def rule(call: Call) -> str | None:
        output = call.output()
        shift = _LEFT_SHIFTS.get(output.dtype.name)
        if shift is None:
            return None
        scales = [scale(at(call, position)) for position in positions]
        if output.quant is None or min(scales) <= 0 or scale(output) <= 0:
            return f"needs scales of {output.dtype.name} inputs and output"
        if 2 * max(scales) / ((1 << shift) * scale(output)) >= 1:
            return f"needs an output scale above {2 * max(scales) / (1 << shift):g}, not {scale(output):g}"
        return None

    return rule


def _scales_below(limit: float, *positions: int) -> Rule:
    def rule(call: Call) -> str | None:
        for position in positions:
            value = scale(call.input(position))
            if not 0 < value < limit:
                above = "above 0" if math.isinf(limit) else f"between 0 and {limit:g}"
                return f"needs scales {above}, not {value:g}"
        return None

    return rule


def _only_outputs(name: str, *rules: Rule) -> Rule:
    """Rules for one dtype of the output."""

    def rule(call: Call) -> str | None:
        if dtype(call, OUTPUT) != name:
            return None
        return next((reason for each in rules if (reason := each(call))), None)

    return rule


def _add_n(call: Call) -> str | None:
    positions = range(len(call.op.inputs))
    if len(positions) < 2:
        return "takes at least 2 inputs"
    for rule in (same_types(*positions, OUTPUT), same_shapes(*positions), takes(FLOAT, INT8)):
        reason = rule(call)
        if reason:
            return reason
    if dtype(call) == INT8:
        first = call.input(0).quant
        pairs = {
            (float(quant.scale[0]), int(quant.zero_point[0])) if quant else (0.0, 0)
            for quant in (first, *(call.input(position).quant for position in positions))
        }
        if len(pairs) > 1:
            return "needs equal scales and zero points of its inputs"
    return _sum_scales(*positions)(call)


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else math.inf


def _fraction_output(call: Call) -> str | None:
    """A scale of 2**-15, with the tolerance of a rounded logarithm."""
    value = scale(call.output())
    if abs(_log2(value) + 15) >= _LOG2_TOLERANCE:
        return f"needs an output scale of {_FRACTION:g}, not {value:g}"
    return None


def _hard_swish(call: Call) -> str | None:
    if scale(call.output()) <= 0:
        return "needs an output scale"
    limit = abs(scale(call.input(0))) / 128
    if limit / scale(call.output()) >= 1:
        return f"needs an output scale above {limit:g}, not {scale(call.output()):g}"
    return None


def _exponent_scale(beta: float = 1.0) -> Rule:
    """Exponents have 26 bits after the point: one step of the input must not be 0 in them."""

    def rule(call: Call) -> str | None:
        product = beta * scale(call.input(0))
        if product * (1 << 26) > 1:
            return None
        return f"needs an input scale times beta above {2.0**-26:g}, not {product:g}"

    return rule


def _softmax(call: Call) -> str | None:
    read, written = dtype(call), dtype(call, OUTPUT)
    if (read, written) not in ((FLOAT, FLOAT), (INT8, INT8), (INT8, INT16), (INT16, INT16)):
        return f"does not convert {read} to {written}"
    if read == FLOAT:
        return None
    if read == INT16:
        return symmetric(0)(call) or output_quantization(2.0**-15, 0, _NEAR)(call)
    reason = _exponent_scale(call.op.attrs.get("beta", 1.0))(call)
    if reason:
        return reason
    if written == INT16:
        return output_quantization(2.0**-16, -32768, _NEAR)(call)
    return output_quantization(2.0**-8, -128)(call)


def _abs(call: Call) -> str | None:
    """Integers of 16 bits may have no scales."""
    if dtype(call) == INT8 or (dtype(call) == INT16 and call.input(0).quant is not None):
        return quantized(0, OUTPUT)(call)
    return None


def _symmetric_if_scaled(call: Call) -> str | None:
    return symmetric(0, OUTPUT)(call) if call.input(0).quant is not None else None


def _prelu(call: Call) -> str | None:
    if dtype(call, OUTPUT) == INT16 and dtype(call, 1) != INT8:
        return f"takes int8 slopes with int16 data, not {dtype(call, 1)}"
    return None


_QUANTIZED: dict[str, tuple[str, ...]] = {
    FLOAT: (INT8, INT16),
    INT32: (INT8, INT16),
    INT16: (INT8, INT16, INT32),
    INT8: (INT8, UINT8, INT16, INT32),
    UINT8: (INT8,),
}


def _quantize(call: Call) -> str | None:
    read, written = dtype(call), dtype(call, OUTPUT)
    if written not in _QUANTIZED.get(read, ()):
        return f"does not convert {read} to {written}"
    quant = call.output().quant
    if quant is None:
        return "needs scale and zero point of its output"
    count = scale_count(quant)
    return f"takes one output scale, not {count}" if count != 1 else None


def dequantize(call: Call) -> str | None:
    """Integers of 8 or 16 bits to 32-bit floats."""
    read, written = dtype(call), dtype(call, OUTPUT)
    if read in (INT8, INT16, UINT8) and written == FLOAT:
        return None
    return f"does not convert {read} to {written}"


_CAST_READS = (INT8, INT16, INT32, "uint32", FLOAT, BOOL)
_CAST_WRITES = (INT8, INT16, INT32, "uint32", FLOAT)


def _pool(call: Call) -> str | None:
    """Both pools copy scales, with a tolerance."""
    return like_output(0, tolerance=1e-6)(call) if dtype(call) != FLOAT else None


def _mixed_sum(call: Call) -> str | None:
    """CMSIS-NN checks the dtypes of both inputs; the reference kernel only that of the output."""
    if not uses_cmsis_nn(call):
        return None
    names = (dtype(call), dtype(call, 1), dtype(call, OUTPUT))
    return f"takes tensors of one dtype, not {listed([*dict.fromkeys(names)])}" if len({*names}) > 1 else None


_EQUAL = (takes(BOOL, FLOAT, INT32, INT64, INT8), only_for(INT8, _scales_below(1, 0, 1)))
_ORDER = (takes(FLOAT, INT32, INT64, INT8), only_for(INT8, _scales_below(1, 0, 1)))
_REAL = (takes(FLOAT), same_types(0, OUTPUT))
_REAL_OF_SHAPE = (*_REAL, same_shapes(0, OUTPUT))
_AXES = (takes(INT32, position=1, what="axes"), axes_in_range)
_REDUCTION = (*_AXES, reduced_output)
_EXTREME = (writes(FLOAT, INT8, INT16, INT32, INT64), elementwise_output)
_POOL = (takes(FLOAT, INT8, INT16), rank(4, 4, 0, OUTPUT), _pool)
_REDUCED = (takes(FLOAT, INT8, INT16), *_REDUCTION)
_SELECTED = (takes(FLOAT, INT8), *_REDUCTION, same_types(0, OUTPUT), only_for(INT8, like_output(0)))
_POSITION = (takes(FLOAT, INT8), *_AXES, writes(INT32))
_RATIO = (takes(FLOAT), same_types(0, 1, OUTPUT))

ARITHMETIC: dict[str, Rules] = {
    "ABS": (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), _abs, only_for(INT16, _symmetric_if_scaled)),
    "ADD": (
        _mixed_sum,
        writes(FLOAT, INT32, INT8, INT16),
        only_cmsis_nn(only_for(INT16, symmetric(0, 1, OUTPUT))),
        _only_outputs(INT32, not_quantized(0, 1)),
        _sum_scales(0, 1),
        elementwise_output,
    ),
    "ADD_N": (_add_n,),
    "ARG_MAX": _POSITION,
    "ARG_MIN": _POSITION,
    "AVERAGE_POOL_2D": _POOL,
    "CAST": (takes(*_CAST_READS), writes(*_CAST_WRITES)),
    "CEIL": _REAL_OF_SHAPE,
    "COS": _REAL,
    "CUMSUM": (
        takes(FLOAT, INT8),
        *_AXES,
        lambda call: None if elements_of(call.input(1)) == 1 else "takes one axis",
        rank(1, 6),
        same_types(0, OUTPUT),
        same_shapes(0, OUTPUT),
        _sum_scales(0),
    ),
    "DEQUANTIZE": (dequantize,),
    "DIV": (
        same_types(0, 1, OUTPUT),
        takes(FLOAT, INT32, INT8),
        only_for(INT32, not_quantized(0, 1)),
        only_for(INT8, quantized(0, 1, OUTPUT)),
        elementwise_output,
    ),
    "ELU": (takes(FLOAT, INT8), same_types(0, OUTPUT)),
    "EQUAL": _EQUAL,
    "EXP": _REAL_OF_SHAPE,
    "FLOOR": (takes(FLOAT),),
    "FLOOR_DIV": _RATIO,
    "FLOOR_MOD": _RATIO,
    "GREATER": (takes(FLOAT, INT32, INT64, INT8, INT16), only_for(INT8, _scales_below(1, 0, 1))),
    "GREATER_EQUAL": _ORDER,
    "HARD_SWISH": (takes(FLOAT, INT8), only_for(INT8, _hard_swish)),
    "L2_NORMALIZATION": (writes(FLOAT, INT8), same_types(0, OUTPUT), rank(0, 4), without_activation),
    "L2_POOL_2D": (takes(FLOAT), same_types(0, OUTPUT), rank(4, 4, 0, OUTPUT)),
    "LEAKY_RELU": (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), only_for(INT8, quantized(OUTPUT))),
    "LESS": _ORDER,
    "LESS_EQUAL": _ORDER,
    "LOG": _REAL,
    "LOGICAL_NOT": (takes(BOOL), same_types(0, OUTPUT)),
    "LOGISTIC": (
        takes(FLOAT, INT8, INT16),
        same_types(0, OUTPUT),
        only_for(INT8, output_quantization(0, -128)),
        only_for(INT16, symmetric(0, OUTPUT), _fraction_output),
    ),
    "LOG_SOFTMAX": (
        takes(FLOAT, INT8),
        same_types(0, OUTPUT),
        same_shapes(0, OUTPUT),
        only_for(INT8, output_quantization(16 / 256, 127), quantized(0), _exponent_scale()),
    ),
    "MAXIMUM": _EXTREME,
    "MAX_POOL_2D": _POOL,
    "MEAN": _REDUCED,
    "MINIMUM": _EXTREME,
    "MUL": (
        same_types(0, 1),
        takes(FLOAT, INT8, INT16, INT32),
        _only_outputs(INT8, quantized(OUTPUT)),
        _only_outputs(INT16, quantized(OUTPUT)),
        only_for(INT16, symmetric(0, 1, OUTPUT)),
        elementwise_output,
    ),
    "NEG": (takes(FLOAT),),
    "NOT_EQUAL": _EQUAL,
    "PRELU": (
        takes(FLOAT, INT8, INT16),
        rank(0, 4, 0, 1, OUTPUT),
        _prelu,
        _only_outputs(INT8, quantized(OUTPUT)),
    ),
    "QUANTIZE": (_quantize,),
    "REDUCE_ALL": (takes(BOOL), *_REDUCTION, same_types(0, OUTPUT)),
    "REDUCE_MAX": _SELECTED,
    "REDUCE_MIN": _SELECTED,
    "RELU": (
        takes(FLOAT, INT8, INT16),
        only_for(INT8, quantized(OUTPUT)),
        only_for(INT16, quantized(OUTPUT), symmetric(0, OUTPUT)),
    ),
    "RELU6": (takes(FLOAT, INT8, INT16),),
    "ROUND": _REAL_OF_SHAPE,
    "RSQRT": (
        takes(FLOAT, INT8, INT16),
        same_types(0, OUTPUT),
        only_for(INT8, quantized(0, OUTPUT)),
        only_for(INT16, quantized(0, OUTPUT), symmetric(0, OUTPUT)),
    ),
    "SIN": _REAL,
    "SOFTMAX": (_softmax, rank(1, 6)),
    "SQRT": _REAL,
    "SQUARE": _REAL,
    "SQUARED_DIFFERENCE": (
        same_types(0, 1),
        writes(FLOAT, INT32, INT8, INT16),
        only_for(INT16, symmetric(0, 1, OUTPUT)),
        *(only_for(name, quantized(0, 1, OUTPUT), _scales_below(math.inf, 0, 1)) for name in (INT8, INT16)),
    ),
    "SUB": (
        writes(FLOAT, INT32, INT8, INT16),
        _only_outputs(INT32, not_quantized(0, 1, OUTPUT)),
        _sum_scales(0, 1),
        elementwise_output,
    ),
    "SUM": (*_REDUCED, same_types(0, OUTPUT)),
    "TANH": (
        takes(FLOAT, INT8, INT16),
        same_types(0, OUTPUT),
        only_for(INT16, symmetric(0, OUTPUT), _fraction_output),
    ),
    "ZEROS_LIKE": (takes(INT64, INT32, INT8, FLOAT),),
}
"""Rules by operator."""
