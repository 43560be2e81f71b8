"""Shapes of what moves a window over a picture, or samples it: convolutions, pools, resizing.

Where ONNX's own inference and ONNX Runtime differ, the runtime is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.rules.spots import Spot, shapes
from sizeup.symbolic import Expression, NotClosed, Sides, quotient, smallest

_FINEST = 2**10  # longer denominators of a scale are rounded decimals


def _each_axis(node: Node, name: str, count: int) -> tuple[int, ...]:
    return node.integers(name) or (1,) * count


def _borders(node: Node, axis: int, count: int) -> tuple[int, int]:
    """The padding before and after one axis, as far as it is written down."""
    pads = node.integers("pads")
    if not pads or node.text("auto_pad", "NOTSET") == "VALID":
        return 0, 0
    return pads[axis], pads[axis + count]


def _is_same(node: Node) -> bool:
    return node.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")


@shapes("Conv ConvInteger QLinearConv")
def _conv(spot: Spot) -> list[Sides]:
    node, weight = spot.node, spot.shape(3 if spot.node.op == "QLinearConv" else 1)
    kernel = node.integers("kernel_shape") or weight[2:]
    if len(weight) != len(spot.shape()):
        raise NotClosed("its weights are for another number of axes")
    if spot.shape()[1] != weight[1] * node.integer("group", 1):
        raise NotClosed("its weights are for other channels")
    strides, dilations = (_each_axis(node, each, len(kernel)) for each in ("strides", "dilations"))
    found = []
    for axis, side in enumerate(spot.shape()[2:]):
        if _is_same(node):
            found.append(-quotient(-side, strides[axis]))
            continue
        rest = side + sum(_borders(node, axis, len(kernel))) - dilations[axis] * (kernel[axis] - 1) - 1
        if rest < 0:
            raise NotClosed("its window is larger than what it looks at")
        found.append(quotient(rest, strides[axis]) + 1)
    return [(spot.shape()[0], weight[0], *found)]


@shapes("MaxPool AveragePool LpPool com.microsoft::QLinearAveragePool com.microsoft::NhwcMaxPool")
def _pool(spot: Spot) -> list[Sides]:
    node, data = spot.node, spot.shape()
    kernel = node.integers("kernel_shape")
    if node.integer("channels_last") or node.op.endswith("NhwcMaxPool"):
        made: Sides = (data[0], *_windows(node, data[1:-1], kernel), data[-1])
    else:
        made = (*data[:2], *_windows(node, data[2:], kernel))
    return [made] * len(node.outputs)


def _windows(node: Node, sides: Sides, kernel: Sequence[int]) -> list[Any]:
    strides, dilations = (_each_axis(node, each, len(kernel)) for each in ("strides", "dilations"))
    found = []
    for axis, (side, taps, stride, gap) in enumerate(zip(sides, kernel, strides, dilations, strict=True)):
        before, after = _borders(node, axis, len(kernel))
        if _is_same(node):
            before, after = _same_borders(node, side, taps, stride)
        found.append(_places(side, before, after, gap * (taps - 1) + 1, stride, node.integer("ceil_mode")))
    return found


def _same_borders(node: Node, side: Any, taps: int, stride: int) -> tuple[Any, Any]:
    """So much that a window without gaps has a place every stride; the odd one goes to the named end.

    Where steps are longer than the window that is less than nothing, and the runtime takes it off the end.
    """
    whole = (-quotient(-side, stride) - 1) * stride + taps - side
    before = quotient(whole, 2)
    before = before if node.text("auto_pad") == "SAME_UPPER" else whole - before
    before = 0 if whole < 0 else before
    return before, whole - before


def _places(side: Any, before: Any, after: Any, reach: int, stride: int, round_up: int) -> Any:
    """How many places a window has along an axis."""
    rest = side + before + after - reach
    # Also where the window is too large: the runtime divides, and cuts off what is behind the point.
    if rest >= 0 and not round_up:
        return quotient(rest, stride) + 1
    count = 1 - quotient(-rest, stride)
    if count < 0:
        raise NotClosed("its window is larger than what it looks at")
    # The last window starts inside of the picture or its first border, or is left out.
    return count - 1 if round_up and (count - 1) * stride >= side + before else count


@shapes("MaxUnpool")
def _unpool(spot: Spot) -> list[Sides]:
    if spot.given(2):
        return [tuple(spot.numbers(2))]
    node, data = spot.node, spot.shape()
    kernel = node.integers("kernel_shape")
    strides = _each_axis(node, "strides", len(kernel))
    sides = [
        (data[2 + axis] - 1) * strides[axis] + kernel[axis] - sum(_borders(node, axis, len(kernel)))
        for axis in range(len(kernel))
    ]
    return [(*data[:2], *sides)]


@shapes("GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft::QLinearGlobalAveragePool")
def _global_pool(spot: Spot) -> list[Sides]:
    data = spot.shape()
    places = (1,) * (len(data) - 2)
    if spot.node.integer("channels_last"):
        return [(data[0], *places, data[-1])]
    return [(*data[:2], *places)]


@shapes("ConvTranspose")
def _conv_transpose(spot: Spot) -> list[Sides]:
    node, data, weight = spot.node, spot.shape(), spot.shape(1)
    kernel = node.integers("kernel_shape") or weight[2:]
    count = len(kernel)
    strides, dilations = (_each_axis(node, each, count) for each in ("strides", "dilations"))
    added, wanted = node.integers("output_padding") or (0,) * count, node.integers("output_shape")
    sides: list[Any] = list(wanted[-count:])
    for axis, side in enumerate(() if wanted else data[2:]):
        full = strides[axis] * (side - 1) + added[axis] + dilations[axis] * (kernel[axis] - 1) + 1
        if _is_same(node):
            # What is more than a stride for every number is cut off; where it is less, nothing is added.
            sides.append(smallest([full, side * strides[axis]]))
        else:
            sides.append(full - sum(_borders(node, axis, count)))
    return [(data[0], weight[1] * node.integer("group", 1), *sides)]


@shapes("Resize Upsample")
def _resize(spot: Spot) -> list[Sides]:
    node, made = spot.node, list(spot.shape())
    axes = list(node.integers("axes")) or list(range(len(made)))
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotClosed("it keeps the aspect ratio")
    if spot.given(3):
        for axis, side in zip(axes, spot.numbers(3), strict=True):
            made[axis] = side
        return [tuple(made)]
    for axis, scale in zip(axes, _scales(spot), strict=True):
        made[axis] = _scaled(made[axis], scale)
    return [tuple(made)]


def _scales(spot: Spot) -> Sequence[float]:
    """The third input; the second one of the first Resize and of Upsample, whose oldest has an attribute."""
    held = spot.node.attributes.get("scales")
    if isinstance(held, tuple):
        return held
    place = 1 if len(spot.node.inputs) == 2 else 2
    scales = spot.values[place] if spot.given(place) else None
    if scales is None or scales.dtype == object or not scales.size:
        raise NotClosed("its scales are not known before the run")
    found: list[float] = scales.tolist()
    return found


def _scaled(side: Any, scale: float) -> Any:
    if not isinstance(side, Expression):
        # With the digits that the runtime has: 10 times what comes closest to 0.9 is 9, not a little less.
        with np.errstate(over="ignore", invalid="ignore"):
            return int(np.float32(side) * np.float32(scale))
    ratio = Fraction(scale)
    if ratio.denominator > _FINEST:
        raise NotClosed(f"it scales by {scale}, which is rounded")
    return quotient(side * ratio.numerator, ratio.denominator)
