"""What all kernels of TFLite Micro need of a file: inputs, outputs, options and an output range.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c). A kernel that reads a
missing operand or divides by a missing option ends the process instead of reporting an error.
"""

from __future__ import annotations

import math

from sizeup.backends.tflm.kernel_call import Call
from sizeup.backends.tflm.kernel_rules import INT8, INT16, scale, zero_point
from sizeup.backends.tflm.kernels import ETHOS_U_KERNEL, KERNELS, UNSIZED

_OPTIONAL_INPUTS = {"PADV2": 2, "RESHAPE": 1, "SPLIT_V": 1}


def operand_count(call: Call) -> str | None:
    """The number of inputs, all of them present, and an output; optional inputs are in other rules."""
    name, count = call.op.source, len(call.op.inputs)
    kernel = KERNELS.get(name) or UNSIZED.get(name, ETHOS_U_KERNEL)
    if kernel.inputs != "own":
        least = int(kernel.inputs.removesuffix("+"))
        if kernel.inputs.endswith("+") and count < least:
            return f"takes at least {_inputs(least)}, not {count}"
        if kernel.inputs.isdigit() and count != least:
            return f"takes {_inputs(least)}, not {count}"
        required = [position for position in range(count) if position != _OPTIONAL_INPUTS.get(name)]
        if absent := [position for position in required if not call.has(position)]:
            return f"needs input {absent[0]}, which the file marks as absent"
    return None if len(call.op.outputs) >= kernel.outputs else "needs an output"


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
    if "intermediates" in call.op.attrs:
        return "takes no intermediate tensors with a size"
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
