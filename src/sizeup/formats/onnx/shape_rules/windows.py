"""Shape rules of convolutions, pooling and resizing.

They follow ONNX Runtime if it differs from ONNX's inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.shape_rules.context import RULES, InferenceContext
from sizeup.ops import names_of
from sizeup.symbolic import Expression, NoClosedForm, SymbolicShape, quotient, smallest

_MAX_DENOMINATOR = 2**10  # of an exact scale; larger ones are rounded decimals


def _per_axis(node: Node, name: str, count: int) -> tuple[int, ...]:
    return node.integers(name) or (1,) * count


def _padding(node: Node, axis: int, count: int) -> tuple[int, int]:
    """The explicit padding before and after one axis."""
    pads = node.integers("pads")
    if not pads or node.text("auto_pad", "NOTSET") == "VALID":
        return 0, 0
    return pads[axis], pads[axis + count]


def _is_same(node: Node) -> bool:
    return node.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")


@RULES("Conv", "ConvInteger", "QLinearConv")
def _conv(context: InferenceContext) -> list[SymbolicShape]:
    node, data = context.node, context.shape()
    weight = context.shape(3 if node.op == "QLinearConv" else 1)
    kernel = node.integers("kernel_shape") or weight[2:]
    if len(weight) != len(data):
        raise NoClosedForm("its weights have another rank than its input")
    if data[1] != weight[1] * node.integer("group", 1):
        raise NoClosedForm("its weights have another number of input channels than its input")
    strides = _per_axis(node, "strides", len(kernel))
    if _is_same(node):
        rounded = (-quotient(-size, strides[axis]) for axis, size in enumerate(data[2:]))
        return [(data[0], weight[0], *rounded)]
    dilations = _per_axis(node, "dilations", len(kernel))
    sizes = []
    for axis, size in enumerate(data[2:]):
        before, after = _padding(node, axis, len(kernel))
        rest = size + before + after - dilations[axis] * (kernel[axis] - 1) - 1
        if rest < 0:
            raise NoClosedForm("its window is larger than its padded input")
        sizes.append(quotient(rest, strides[axis]) + 1)
    return [(data[0], weight[0], *sizes)]


@RULES(*names_of("onnx", "pool"), "com.microsoft::NhwcMaxPool")
def _pool(context: InferenceContext) -> list[SymbolicShape]:
    node, data = context.node, context.shape()
    kernel = node.integers("kernel_shape")
    if node.integer("channels_last") or node.op.endswith("NhwcMaxPool"):
        output: SymbolicShape = (data[0], *_pooled(node, data[1:-1], kernel), data[-1])
    else:
        output = (*data[:2], *_pooled(node, data[2:], kernel))
    return [output] * len(node.outputs)


def _pooled(node: Node, sizes: SymbolicShape, kernel: Sequence[int]) -> list[Any]:
    strides, dilations = (_per_axis(node, name, len(kernel)) for name in ("strides", "dilations"))
    counts = []
    for axis, (size, taps, stride, dilation) in enumerate(
        zip(sizes, kernel, strides, dilations, strict=True)
    ):
        before, after = _padding(node, axis, len(kernel))
        if _is_same(node):
            before, after = _same_padding(node, size, taps, stride)
        extent = dilation * (taps - 1) + 1
        counts.append(_window_count(size, before, after, extent, stride, node.integer("ceil_mode")))
    return counts


def _same_padding(node: Node, size: Any, taps: int, stride: int) -> tuple[Any, Any]:
    """The padding of auto_pad SAME_UPPER or SAME_LOWER, which ignores dilations.

    If the stride is larger than the window, the total is negative, and the runtime crops the end.
    """
    total = (-quotient(-size, stride) - 1) * stride + taps - size
    before = quotient(total, 2)
    before = before if node.text("auto_pad") == "SAME_UPPER" else total - before
    before = 0 if total < 0 else before
    return before, total - before


def _window_count(size: Any, before: Any, after: Any, extent: int, stride: int, round_up: int) -> Any:
    """The number of windows along an axis."""
    rest = size + before + after - extent
    # If the window is too large, the runtime divides the negative rest and truncates toward zero.
    if rest >= 0 and not round_up:
        return quotient(rest, stride) + 1
    count = 1 - quotient(-rest, stride)
    if count < 0:
        raise NoClosedForm("its window is larger than its padded input")
    # With ceil_mode, a last window that starts in the end padding is dropped.
    return count - 1 if round_up and (count - 1) * stride >= size + before else count


@RULES("MaxUnpool")
def _unpool(context: InferenceContext) -> list[SymbolicShape]:
    if context.has_input(2):
        return [tuple(context.numbers(2))]
    node, data = context.node, context.shape()
    kernel = node.integers("kernel_shape")
    strides = _per_axis(node, "strides", len(kernel))
    sizes = [
        (data[2 + axis] - 1) * strides[axis] + kernel[axis] - sum(_padding(node, axis, len(kernel)))
        for axis in range(len(kernel))
    ]
    return [(*data[:2], *sizes)]


@RULES(*names_of("onnx", "global_pool"))
def _global_pool(context: InferenceContext) -> list[SymbolicShape]:
    data = context.shape()
    pooled = (1,) * (len(data) - 2)
    if context.node.integer("channels_last"):
        return [(data[0], *pooled, data[-1])]
    return [(*data[:2], *pooled)]


@RULES("ConvTranspose")
def _conv_transpose(context: InferenceContext) -> list[SymbolicShape]:
    node, data, weight = context.node, context.shape(), context.shape(1)
    kernel = node.integers("kernel_shape") or weight[2:]
    count = len(kernel)
    strides, dilations = (_per_axis(node, name, count) for name in ("strides", "dilations"))
    extra, explicit = node.integers("output_padding") or (0,) * count, node.integers("output_shape")
    sizes: list[Any] = list(explicit[-count:])
    for axis, size in enumerate(() if explicit else data[2:]):
        full = strides[axis] * (size - 1) + extra[axis] + dilations[axis] * (kernel[axis] - 1) + 1
        if _is_same(node):
            # Cropped to input size x stride, but never padded to it.
            sizes.append(smallest([full, size * strides[axis]]))
        else:
            sizes.append(full - sum(_padding(node, axis, count)))
    return [(data[0], weight[1] * node.integer("group", 1), *sizes)]


@RULES("Resize", "Upsample")
def _resize(context: InferenceContext) -> list[SymbolicShape]:
    node, output = context.node, list(context.shape())
    axes = list(node.integers("axes")) or list(range(len(output)))
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NoClosedForm("it keeps the aspect ratio")
    if context.has_input(3):
        for axis, size in zip(axes, context.numbers(3), strict=True):
            output[axis] = size
        return [tuple(output)]
    for axis, scale in zip(axes, _scales(context), strict=True):
        output[axis] = _scaled(output[axis], scale)
    return [tuple(output)]


def _scales(context: InferenceContext) -> Sequence[float]:
    """The third input, the second one (Upsample, Resize of opset 10), or an attribute (old Upsample)."""
    attribute = context.node.attributes.get("scales")
    if isinstance(attribute, tuple):
        return attribute
    index = 1 if len(context.node.inputs) == 2 else 2
    array = context.values[index] if context.has_input(index) else None
    if array is None or array.dtype == object or not array.size:
        raise NoClosedForm("its scales are unknown before the run")
    scales: list[float] = array.tolist()
    return scales


def _scaled(size: Any, scale: float) -> Any:
    if not isinstance(size, Expression):
        # In float32 as the runtime does: 10 x 0.9 is 9, not slightly less.
        with np.errstate(over="ignore", invalid="ignore"):
            return int(np.float32(size) * np.float32(scale))
    ratio = Fraction(scale)
    if ratio.denominator > _MAX_DENOMINATOR:
        raise NoClosedForm(f"its scale {scale} is not exact")
    return quotient(size * ratio.numerator, ratio.denominator)
