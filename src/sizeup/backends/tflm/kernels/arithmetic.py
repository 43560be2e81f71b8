"""TFLite Micro's element-wise kernels, activations, pools, reductions and conversions of dtypes.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c): the checks of Prepare and
the dtypes of Eval. Checks that only debug builds of the kernels have are not rules.
"""

from __future__ import annotations

import math

from sizeup.backends.tflm.kernel import (
    Call,
    Kernel,
    KernelMemory,
    KernelRequests,
    Prepare,
    Rule,
    elements_of,
    output_shape_copy,
    require_elements,
    shape_of,
)
from sizeup.backends.tflm.kernel_rules import (
    BOOL,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    OUTPUT,
    UINT8,
    activation_range,
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
    values,
    without_activation,
    writes,
    zero_point,
)
from sizeup.backends.tflm.kernels import esp_nn, overlaps
from sizeup.backends.tflm.kernels.product_requests import cmsis_nn_average_pool

_LEFT_SHIFTS = {INT8: 20, INT16: 15}  # of sums, in bits
_FRACTION = 2.0**-15  # scale of sigmoid and tanh outputs of 16 bits
_LOG2_TOLERANCE = 1e-3
_NEAR = 1e-3


def _elementwise_output(call: Call) -> str | None:
    """Two inputs of one shape are computed in one loop, over as many elements of the output."""
    if shape_of(call.input(0)) != shape_of(call.input(1)):
        return None
    read, written = elements_of(call.input(0)), elements_of(call.output())
    return None if read == written else f"writes as many elements as it reads, {read}, not {written}"


def _axes_in_range(call: Call) -> str | None:
    """The axes of the second input, from the end if they are negative."""
    axes, dimensions = values(call.input(1)), len(shape_of(call.input(0)))
    if all(-dimensions <= axis < dimensions for axis in axes or ()):
        return None
    return f"takes axes from {-dimensions} to {dimensions - 1}"


def _reduced_output(call: Call) -> str | None:
    """A reduction writes an element for each that its axes leave."""
    axes, data, result = values(call.input(1)), shape_of(call.input(0)), shape_of(call.output())
    if len(result) > len(data):
        return f"writes at most {len(data)} dimensions, not {len(result)}"
    if axes is None or not data:
        return None
    removed = {axis % len(data) for axis in axes}
    left = math.prod(size for axis, size in enumerate(data) if axis not in removed)
    written = math.prod(result)
    return None if left == written else f"writes {left} elements, not {written}"


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


def _dequantize(call: Call) -> str | None:
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


def _extremes(call: Call) -> str | None:
    is_deep = dtype(call, OUTPUT) == INT8 and len(shape_of(call.output())) > 4
    return "reads only 4 dimensions of int8 data" if is_deep else None


_LOWEST = {INT8: -(1 << 7), INT16: -(1 << 15)}


def _negative_inputs(call: Call) -> str | None:
    is_signed = zero_point(call.input(0)) > _LOWEST.get(dtype(call), 0)
    return "fails during inference for inputs below its zero point" if is_signed else None


def _unset_scales(call: Call) -> str | None:
    return "compares int16 data without setting its scales" if dtype(call) == INT16 else None


def _mixed_inputs(call: Call) -> str | None:
    names = [*dict.fromkeys(dtype(call, position) for position in (0, 1, OUTPUT))]
    return f"reads {listed(names)} tensors as {dtype(call, OUTPUT)}" if len(names) > 1 else None


def _softmax_requests(call: Call) -> KernelRequests:
    """Two tables of 513 entries for int16."""
    return KernelRequests((1026, 1026)) if call.input(0).dtype.name == "int16" else KernelRequests()


def _axes(call: Call) -> tuple[int, int]:
    """One index per axis of the data, and the axes to reduce."""
    return 4 * len(shape_of(call.input(0))), 4 * elements_of(call.input(1))


def _reduce(call: Call) -> KernelRequests:
    return KernelRequests(scratch=_axes(call))


def _mean_or_sum(call: Call) -> KernelRequests:
    """Integers are summed at 32 bits."""
    sums = (4 * elements_of(call.output()),) if call.input(0).dtype.name in ("int8", "int16") else ()
    return KernelRequests(scratch=sums + _axes(call))


def _add_n_requests(call: Call) -> KernelRequests:
    """One pointer per input."""
    persistent = (call.size("10i"),) if call.output().dtype.name == "int8" else ()
    return KernelRequests(persistent, (call.build.pointer_bytes * len(call.op.inputs),))


def _pooled(call: Call) -> KernelRequests:
    """The computed output shape follows from the window."""
    batch, *sides, channels = shape_of(call.input(0))
    attrs = call.op.attrs
    window = (1, 1) if attrs.get("padding") == "same" else attrs.get("kernel", (0, 0))
    counts = [
        -(-max(side - taps + 1, 0) // max(step, 1))
        for side, taps, step in zip(sides, window, attrs.get("stride", (0, 0)), strict=False)
    ]
    require_elements(call, batch * math.prod(counts) * channels)
    return output_shape_copy(call)


def _int8_only(fields: str) -> Prepare:
    def prepare(call: Call) -> KernelRequests:
        return (
            KernelRequests((call.size(fields),)) if call.input(0).dtype.name == "int8" else KernelRequests()
        )

    return prepare


_NO_STRUCTURES = KernelMemory()
_COMPARISON = KernelMemory("", "8i")
_ACCUMULATOR = KernelMemory("b", "11i", _mean_or_sum, again=(0, 1, -1))
_REDUCER = KernelMemory("b", "11i", _reduce, again=(0, 1, -1))
_POOL = KernelMemory("e4ie4i", "8i")

_EQUAL = (takes(BOOL, FLOAT, INT32, INT64, INT8), only_for(INT8, _scales_below(1, 0, 1)))
_ORDER = (takes(FLOAT, INT32, INT64, INT8), only_for(INT8, _scales_below(1, 0, 1)))
_REAL = (takes(FLOAT), same_types(0, OUTPUT))
_REAL_OF_SHAPE = (*_REAL, same_shapes(0, OUTPUT))
_AXES = (takes(INT32, position=1, what="axes"), _axes_in_range)
_REDUCTION = (*_AXES, _reduced_output)
_POOLED = (activation_range, takes(FLOAT, INT8, INT16), rank(4, 4, 0, OUTPUT), _pool)
_REDUCED = (takes(FLOAT, INT8, INT16), *_REDUCTION)

KERNELS = (
    Kernel("ABS", "1", KernelMemory("", "7i"),
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), _abs, only_for(INT16, _symmetric_if_scaled))),
    Kernel("ADD", "2+", KernelMemory("eb", "15i"),
        (activation_range, _mixed_sum, writes(FLOAT, INT32, INT8, INT16),
        only_cmsis_nn(only_for(INT16, symmetric(0, 1, OUTPUT))), _only_outputs(INT32, not_quantized(0, 1)),
        _sum_scales(0, 1), _elementwise_output), esp_nn=esp_nn.no_scratch, caveats=(_mixed_inputs,),
        overlaps=overlaps.elementwise(2), counted_by="pairs"),
    Kernel("ADD_N", "1+", KernelMemory(prepare=_add_n_requests), (_add_n,)),
    *(
        Kernel(name, "2+", KernelMemory("e"), (takes(FLOAT, INT8), *_AXES, writes(INT32)))
        for name in ("ARG_MAX", "ARG_MIN")
    ),
    Kernel("AVERAGE_POOL_2D", "1+", _POOL, _POOLED,
        cmsis_nn=KernelMemory("e4ie4i", "9i", cmsis_nn_average_pool, again=(0, -1)),
        overlaps=overlaps.windows, strips="windows", counted_by="window"),
    Kernel("CAST", "1", KernelMemory("2e"), (takes(*_CAST_READS), writes(*_CAST_WRITES))),
    Kernel("CUMSUM", "2", KernelMemory("2b", "", _int8_only("9i")),
        (takes(FLOAT, INT8), *_AXES,
        lambda call: None if elements_of(call.input(1)) == 1 else "takes one axis", rank(1, 6),
        same_types(0, OUTPUT), same_shapes(0, OUTPUT), _sum_scales(0))),
    Kernel("DEQUANTIZE", "1", KernelMemory("", "4l"),
        (_dequantize,), assumed_rules=(_dequantize,), overlaps=overlaps.elementwise(1)),
    # Divisors of 0 end the inference.
    Kernel("DIV", "2+", KernelMemory("e", "7i"),
        (activation_range, same_types(0, 1, OUTPUT), takes(FLOAT, INT32, INT8),
        only_for(INT32, not_quantized(0, 1)), only_for(INT8, quantized(0, 1, OUTPUT)), _elementwise_output),
        fails_by=1, counted_by="pairs"),
    Kernel("ELU", "1", KernelMemory("", "256b"), (takes(FLOAT, INT8), same_types(0, OUTPUT))),
    *(Kernel(name, "2+", _COMPARISON, _EQUAL) for name in ("EQUAL", "NOT_EQUAL")),
    *(Kernel(name, "1+", _NO_STRUCTURES, (takes(FLOAT),)) for name in ("FLOOR", "NEG")),
    *(
        Kernel(name, "2", _NO_STRUCTURES, (takes(FLOAT), same_types(0, 1, OUTPUT)), fails_by=1)
        for name in ("FLOOR_DIV", "FLOOR_MOD")
    ),
    Kernel("GREATER", "2+", _COMPARISON,
        (takes(FLOAT, INT32, INT64, INT8, INT16), only_for(INT8, _scales_below(1, 0, 1))),
        caveats=(_unset_scales,)),
    *(Kernel(name, "2+", _COMPARISON, _ORDER) for name in ("GREATER_EQUAL", "LESS", "LESS_EQUAL")),
    Kernel("HARD_SWISH", "1", KernelMemory("", "5i"),
        (takes(FLOAT, INT8), only_for(INT8, _hard_swish)), esp_nn=esp_nn.hard_swish),
    Kernel("L2_NORMALIZATION", "1", KernelMemory("e", "i"),
        (writes(FLOAT, INT8), same_types(0, OUTPUT), rank(0, 4), without_activation)),
    Kernel("L2_POOL_2D", "1", KernelMemory("e4ie4i", "", _pooled),
        (takes(FLOAT), same_types(0, OUTPUT), rank(4, 4, 0, OUTPUT))),
    Kernel("LEAKY_RELU", "1", KernelMemory("i", "6i"),
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), only_for(INT8, quantized(OUTPUT)))),
    *(Kernel(name, "2+", _NO_STRUCTURES, ()) for name in ("LOGICAL_AND", "LOGICAL_OR")),
    Kernel("LOGICAL_NOT", "1", _NO_STRUCTURES, (takes(BOOL), same_types(0, OUTPUT))),
    Kernel("LOGISTIC", "1+", KernelMemory("", "4i"),
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), only_for(INT8, output_quantization(0, -128)),
        only_for(INT16, symmetric(0, OUTPUT), _fraction_output)), esp_nn=esp_nn.logistic,
        overlaps=overlaps.elementwise(1)),
    Kernel("LOG_SOFTMAX", "1", KernelMemory("", "", _int8_only("5i2p")),
        (takes(FLOAT, INT8), same_types(0, OUTPUT), same_shapes(0, OUTPUT),
        only_for(INT8, output_quantization(16 / 256, 127), quantized(0), _exponent_scale()))),
    *(
        Kernel(name, "2+", _NO_STRUCTURES,
            (writes(FLOAT, INT8, INT16, INT32, INT64), _elementwise_output), cmsis_nn_caveats=(_extremes,),
            counted_by="pairs")
        for name in ("MAXIMUM", "MINIMUM")
    ),
    Kernel("MAX_POOL_2D", "1+", _POOL, _POOLED, cmsis_nn=KernelMemory("e4ie4i", "9i"),
        overlaps=overlaps.windows, strips="windows", counted_by="window"),
    Kernel("MEAN", "2+", _ACCUMULATOR, _REDUCED, counted_by="means", reduces_axes=True),
    Kernel("MUL", "2", KernelMemory("e", "9i"),
        (activation_range, same_types(0, 1), takes(FLOAT, INT8, INT16, INT32),
        _only_outputs(INT8, quantized(OUTPUT)), _only_outputs(INT16, quantized(OUTPUT)),
        only_for(INT16, symmetric(0, 1, OUTPUT)), _elementwise_output), overlaps=overlaps.elementwise(2),
        counted_by="pairs"),
    Kernel("PRELU", "2+", KernelMemory("", "7i"),
        (takes(FLOAT, INT8, INT16), rank(0, 4, 0, 1, OUTPUT), _prelu, _only_outputs(INT8, quantized(OUTPUT))),
        overlaps=overlaps.elementwise(1), counted_by="pairs"),
    Kernel("QUANTIZE", "1", KernelMemory("", "4l"), (_quantize,), overlaps=overlaps.elementwise(1)),
    *(Kernel(name, "1", _NO_STRUCTURES, _REAL) for name in ("COS", "LOG", "SIN", "SQRT", "SQUARE")),
    *(Kernel(name, "1", _NO_STRUCTURES, _REAL_OF_SHAPE) for name in ("CEIL", "EXP", "ROUND")),
    Kernel("REDUCE_ALL", "2+", _REDUCER,
        (takes(BOOL), *_REDUCTION, same_types(0, OUTPUT)), reduces_axes=True),
    *(
        Kernel(name, "2+", _REDUCER,
            (takes(FLOAT, INT8), *_REDUCTION, same_types(0, OUTPUT), only_for(INT8, like_output(0))),
            reduces_axes=True)
        for name in ("REDUCE_MAX", "REDUCE_MIN")
    ),
    Kernel("RELU", "1+", KernelMemory("", "7i"),
        (takes(FLOAT, INT8, INT16), only_for(INT8, quantized(OUTPUT)),
        only_for(INT16, quantized(OUTPUT), symmetric(0, OUTPUT))), overlaps=overlaps.elementwise(1)),
    Kernel("RELU6", "1+", KernelMemory("", "2i"),
        (takes(FLOAT, INT8, INT16),), overlaps=overlaps.elementwise(1)),
    Kernel("RSQRT", "1", KernelMemory("", "7i"),
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), only_for(INT8, quantized(0, OUTPUT)),
        only_for(INT16, quantized(0, OUTPUT), symmetric(0, OUTPUT))), caveats=(_negative_inputs,),
        fails_by=0),
    Kernel("SOFTMAX", "1", KernelMemory("i", "l7i5p", _softmax_requests),
        (_softmax, rank(1, 6)), cmsis_nn=KernelMemory("i", "l7i5p2i", _softmax_requests),
        esp_nn=esp_nn.softmax),
    Kernel("SQUARED_DIFFERENCE", "2", KernelMemory("", "28i"),
        (same_types(0, 1), writes(FLOAT, INT32, INT8, INT16), only_for(INT16, symmetric(0, 1, OUTPUT)),
        *(only_for(name, quantized(0, 1, OUTPUT), _scales_below(math.inf, 0, 1)) for name in (INT8, INT16))),
        counted_by="pairs"),
    Kernel("SUB", "2+", KernelMemory("eb", "13i"),
        (activation_range, writes(FLOAT, INT32, INT8, INT16),
        _only_outputs(INT32, not_quantized(0, 1, OUTPUT)), _sum_scales(0, 1), _elementwise_output),
        caveats=(_mixed_inputs,), overlaps=overlaps.elementwise(2), counted_by="pairs"),
    Kernel("SUM", "2+", _ACCUMULATOR, (*_REDUCED, same_types(0, OUTPUT)), reduces_axes=True),
    Kernel("TANH", "1", KernelMemory("", "4i", again=(0,)),
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT),
        only_for(INT16, symmetric(0, OUTPUT), _fraction_output))),
    Kernel("ZEROS_LIKE", "1", _NO_STRUCTURES, (takes(INT64, INT32, INT8, FLOAT),)),
)  # fmt: skip
"""Elementwise kernels, activations, pools, reductions and conversions of dtypes."""
