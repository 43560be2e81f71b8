"""What all kernels of TFLite Micro need of a file: inputs, outputs, options and an output range.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c). A kernel that reads a
missing operand or divides by a missing option ends the process instead of reporting an error.
"""

from __future__ import annotations

import math

from sizeup.memory.tflm.kernel_call import Call
from sizeup.memory.tflm.kernel_rules import INT8, INT16, scale, zero_point

_EXACT: dict[int, tuple[str, ...]] = {
    0: ("CALL_ONCE",),
    1: (
        *("ABS", "CAST", "CEIL", "COS", "DEPTH_TO_SPACE", "DEQUANTIZE", "ELU", "EXP", "HARD_SWISH"),
        *("L2_NORMALIZATION", "L2_POOL_2D", "LEAKY_RELU", "LOG", "LOGICAL_NOT", "LOG_SOFTMAX", "QUANTIZE"),
        *("ROUND", "RSQRT", "SHAPE", "SIN", "SOFTMAX", "SPACE_TO_DEPTH", "SQRT", "SQUARE", "SQUEEZE", "TANH"),
        "ZEROS_LIKE",
    ),
    2: (
        *("ASSIGN_VARIABLE", "BATCH_MATMUL", "BROADCAST_ARGS", "BROADCAST_TO", "CUMSUM", "EMBEDDING_LOOKUP"),
        *("EXPAND_DIMS", "FLOOR_DIV", "FLOOR_MOD", "GATHER", "GATHER_ND", "MUL", "RESIZE_BILINEAR"),
        *("RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SQUARED_DIFFERENCE", "TRANSPOSE"),
    ),
    3: (
        *("BATCH_TO_SPACE_ND", "DYNAMIC_UPDATE_SLICE", "SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "SPLIT_V"),
        "TFLite_Detection_PostProcess",
    ),
    4: ("STRIDED_SLICE",),
}
_LEAST: dict[int, tuple[str, ...]] = {
    1: (
        *("ADD_N", "AVERAGE_POOL_2D", "CONCATENATION", "FLOOR", "IF", "LOGISTIC", "MAX_POOL_2D", "NEG"),
        *("PACK", "READ_VARIABLE", "RELU", "RELU6", "RESHAPE", "UNPACK"),
    ),
    2: (
        *("ADD", "ARG_MAX", "ARG_MIN", "DEPTHWISE_CONV_2D", "DIV", "EQUAL", "FILL", "GREATER"),
        *("GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MEAN", "MINIMUM"),
        *("MIRROR_PAD", "NOT_EQUAL", "PAD", "PADV2", "PRELU", "REDUCE_ALL", "REDUCE_MAX", "REDUCE_MIN"),
        *("SPLIT", "SUB", "SUM", "TFLM_DECODE"),
    ),
}
_EXACT_INPUTS = {name: count for count, names in _EXACT.items() for name in names}
_LEAST_INPUTS = {name: count for count, names in _LEAST.items() for name in names}
_OPTIONAL_INPUTS = {"PADV2": 2, "RESHAPE": 1, "SPLIT_V": 1}
_WITHOUT_OUTPUTS = ("ASSIGN_VARIABLE", "CALL_ONCE", "IF", "SPLIT", "SPLIT_V", "WHILE")


def operand_count(call: Call) -> str | None:
    """The number of inputs, all of them present, and an output; optional inputs are in other rules."""
    name, count = call.op.source, len(call.op.inputs)
    exact, least = _EXACT_INPUTS.get(name), _LEAST_INPUTS.get(name)
    if exact is not None and count != exact:
        return f"takes {_inputs(exact)}, not {count}"
    if least is not None and count < least:
        return f"takes at least {_inputs(least)}, not {count}"
    required = [position for position in range(count) if position != _OPTIONAL_INPUTS.get(name)]
    absent = [position for position in required if not call.has(position)]
    if absent and (exact is not None or least is not None):
        return f"needs input {absent[0]}, which the file marks as absent"
    if not call.op.outputs and name not in _WITHOUT_OUTPUTS:
        return "needs an output"
    return None


def _inputs(count: int) -> str:
    return f"{count} input{'' if count == 1 else 's'}"


_POSITIVE = {
    "DEPTH_TO_SPACE": ("block_size", "block size"),
    "SPACE_TO_DEPTH": ("block_size", "block size"),
    "SVDF": ("rank", "rank"),
}
"""Options that are divisors, by operator: the attribute and its name in messages."""


def options(call: Call) -> str | None:
    """Options without which a kernel divides by 0 or reads a null pointer; 0 if the file has no options."""
    name = call.op.source
    if "custom_options" in call.op.attrs:
        return "takes no options of a custom operator"
    if name == "VAR_HANDLE":
        return None if call.op.attrs.get("variable") else "needs the name of its variable"
    attribute, label = _POSITIVE.get(name, ("", ""))
    value = call.op.attrs.get(attribute, 1)
    return None if value > 0 else f"needs a {label} of at least 1, not {value}"


_BOUNDS = {"relu": (0.0,), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}
_BOUNDED = (
    *(
        "ADD",
        "AVERAGE_POOL_2D",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "DIV",
        "FULLY_CONNECTED",
        "MAX_POOL_2D",
        "MUL",
    ),
    *("SUB", "TRANSPOSE_CONV"),
)
_HIGHEST = (1 << 31) - 1


def activation_range(call: Call) -> str | None:
    """The bounds of a fused activation have to be 32-bit integers in units of the output scale."""
    bounds = _BOUNDS.get(call.op.attrs.get("activation", ""), ())
    output = call.output() if call.op.source in _BOUNDED and bounds else None
    if output is None or output.dtype.name not in (INT8, INT16):
        return None
    unit = scale(output)
    is_valid = unit and all(abs(bound / unit) + abs(zero_point(output)) <= _HIGHEST for bound in bounds)
    if is_valid and math.isfinite(unit):
        return None
    return f"needs another output scale than {unit:g} for its fused {call.op.attrs['activation']}"


OPERANDS = (operand_count, options, activation_range)
"""Rules of every operator."""
