"""Building blocks of the tables of what TFLite Micro's kernels accept.

A rule reads the call of a kernel and returns what the kernel requires, as the end of a sentence that starts
with "its GATHER kernel", or None if the call is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sizeup.backends.tflm.kernel import Call, Rule, shape_of
from sizeup.backends.tflm.subgraphs import is_declared
from sizeup.graph import Quant, Tensor

OUTPUT = -1
"""The position of the first output where others are inputs."""

FLOAT, INT8, INT16, INT32, INT64, UINT8, BOOL = "float32", "int8", "int16", "int32", "int64", "uint8", "bool"


def listed(names: Sequence[str]) -> str:
    """Names with commas and "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def at(call: Call, position: int) -> Tensor:
    """The input at a position, or the output."""
    return call.output() if position == OUTPUT else call.input(position)


def dtype(call: Call, position: int = 0) -> str:
    """The dtype of a tensor, by name."""
    return at(call, position).dtype.name


def scale(tensor: Tensor) -> float:
    """The first scale; 0 without quantization, as the interpreter sets it."""
    return 0.0 if tensor.quant is None else float(np.ravel(tensor.quant.scale)[0])


def zero_point(tensor: Tensor) -> int:
    """The first zero point; 0 without quantization."""
    return 0 if tensor.quant is None else int(np.ravel(tensor.quant.zero_point)[0])


def scale_count(quant: Quant) -> int:
    """The number of scales: 1 per tensor, or 1 per channel."""
    return int(np.size(quant.scale))


def is_constant(tensor: Tensor) -> bool:
    """Whether the file has its content."""
    data = tensor.data
    return data is not None and data.role not in ("derived", "scratch") and not is_declared(tensor)


def values(tensor: Tensor) -> list[int] | None:
    """The content of a constant as the 32-bit integers that kernels read, also if its dtype is another."""
    content = _content(tensor)
    if content is None:
        return None
    data = content.tobytes()
    return [int(number) for number in np.frombuffer(data[: len(data) // 4 * 4], np.int32)]


def integers(tensor: Tensor) -> list[int] | None:
    """The content of a constant, for kernels that read several dtypes."""
    content = _content(tensor)
    return None if content is None else [int(number) for number in content]


def _content(tensor: Tensor) -> NDArray[Any] | None:
    if not is_constant(tensor) or tensor.data is None or tensor.data.read is None:
        return None
    return np.ravel(tensor.data.read())


def uses_cmsis_nn(call: Call) -> bool:
    """Whether the build has the kernels of CMSIS-NN."""
    return call.build.kernels == "cmsis-nn"


def only_cmsis_nn(rule: Rule) -> Rule:
    """A rule of the kernels of CMSIS-NN."""
    return lambda call: rule(call) if uses_cmsis_nn(call) else None


def only_for(name: str, *rules: Rule) -> Rule:
    """Rules for one dtype of the first input."""

    def rule(call: Call) -> str | None:
        if dtype(call) != name:
            return None
        return next((reason for each in rules if (reason := each(call))), None)

    return rule


def takes(*names: str, position: int = 0, what: str = "") -> Rule:
    """The dtypes of a tensor; `what` names a parameter."""

    def rule(call: Call) -> str | None:
        name = dtype(call, position)
        return None if name in names else f"takes {listed(names)}{what and ' ' + what}, not {name}"

    return rule


def writes(*names: str) -> Rule:
    """The dtypes of the output."""

    def rule(call: Call) -> str | None:
        name = dtype(call, OUTPUT)
        return None if name in names else f"writes {listed(names)}, not {name}"

    return rule


def same_types(*positions: int) -> Rule:
    """Tensors of one dtype."""

    def rule(call: Call) -> str | None:
        names = list(dict.fromkeys(dtype(call, position) for position in positions))
        return f"takes tensors of one dtype, not {listed(names)}" if len(names) > 1 else None

    return rule


def same_shapes(*positions: int) -> Rule:
    """Tensors of one shape."""

    def rule(call: Call) -> str | None:
        shapes = list(dict.fromkeys(at(call, position).shape for position in positions))
        return f"takes tensors of one shape, not {listed([*map(str, shapes)])}" if len(shapes) > 1 else None

    return rule


def rank(low: int, high: int, *positions: int) -> Rule:
    """Tensors with that many dimensions."""
    allowed = f"{low}" if low == high else f"{low} to {high}" if low else f"at most {high}"

    def rule(call: Call) -> str | None:
        for position in positions or (0,):
            count = len(shape_of(at(call, position)))
            if not low <= count <= high:
                return f"takes {allowed} dimensions, not {count}"
        return None

    return rule


def constant(position: int, what: str) -> Rule:
    """A parameter that the file has to contain."""

    def rule(call: Call) -> str | None:
        return None if is_constant(call.input(position)) else f"needs constant {what}"

    return rule


def without_activation(call: Call) -> str | None:
    """Operators whose fused activation is not implemented."""
    activation = call.op.attrs.get("activation")
    return f"takes no fused activation, not {activation}" if activation else None


def symmetric(*positions: int) -> Rule:
    """Zero points of 0."""

    def rule(call: Call) -> str | None:
        for position in positions:
            zero = zero_point(at(call, position))
            if zero:
                return f"needs a zero point of 0, not {zero}"
        return None

    return rule


def quantized(*positions: int) -> Rule:
    """Tensors with scales and zero points."""

    def rule(call: Call) -> str | None:
        missing = [at(call, each).name for each in positions if at(call, each).quant is None]
        return f"needs scale and zero point of {missing[0]!r}" if missing else None

    return rule


def not_quantized(*positions: int) -> Rule:
    """Integers without scales."""

    def rule(call: Call) -> str | None:
        scaled = [at(call, each).name for each in positions if at(call, each).quant is not None]
        return f"takes int32 without scales, not {scaled[0]!r}" if scaled else None

    return rule


def like_output(*positions: int, tolerance: float = 0.0) -> Rule:
    """Inputs with the scale and zero point of the output."""

    def rule(call: Call) -> str | None:
        output = call.output()
        for tensor in (call.input(position) for position in positions):
            if abs(scale(tensor) - scale(output)) > tolerance:
                return f"needs equal scales of input and output, not {scale(tensor):g} and {scale(output):g}"
            if zero_point(tensor) != zero_point(output):
                pair = f"{zero_point(tensor)} and {zero_point(output)}"
                return f"needs equal zero points of input and output, not {pair}"
        return None

    return rule


def output_quantization(expected: float, zero: int | None, tolerance: float = 0.0) -> Rule:
    """The scale and zero point that an output has to have."""

    def rule(call: Call) -> str | None:
        output = call.output()
        if zero is not None and zero_point(output) != zero:
            return f"needs an output zero point of {zero}, not {zero_point(output)}"
        if expected and abs(scale(output) - expected) > tolerance * expected:
            return f"needs an output scale of {expected:g}, not {scale(output):g}"
        return None

    return rule


def positive(attribute: str, what: str) -> Rule:
    """An option that the kernel divides by; 0 if the file has no options."""

    def rule(call: Call) -> str | None:
        value = call.op.attrs.get(attribute, 1)
        return None if value > 0 else f"needs a {what} of at least 1, not {value}"

    return rule


_BOUNDS = {"relu": (0.0,), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}
_HIGHEST = (1 << 31) - 1


def activation_range(call: Call) -> str | None:
    """The bounds of a fused activation have to be 32-bit integers in units of the output scale."""
    bounds = _BOUNDS.get(call.op.attrs.get("activation", ""), ())
    output = call.output() if bounds else None
    if output is None or output.dtype.name not in (INT8, INT16):
        return None
    unit = scale(output)
    is_valid = unit and all(abs(bound / unit) + abs(zero_point(output)) <= _HIGHEST for bound in bounds)
    if is_valid and math.isfinite(unit):
        return None
    return f"needs another output scale than {unit:g} for its fused {call.op.attrs['activation']}"


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that all are broadcast to; None if they do not match."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None
