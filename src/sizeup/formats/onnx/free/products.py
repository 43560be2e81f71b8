"""Shapes of products: convolutions and pools, matrices, recurrent layers, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sizeup.formats.onnx.free.spots import Spot, shapes
from sizeup.graph import NotClosed, Sides, broadcast, quotient, spread
from sizeup.ops.einsum import letters


def _windows(spot: Spot, kernel: Sequence[int]) -> list[Any]:
    """How many places a window has along every spatial axis."""
    node, sides = spot.node, spot.shape()[2:]
    strides = node.integers("strides") or (1,) * len(kernel)
    dilations = node.integers("dilations") or (1,) * len(kernel)
    pads = node.integers("pads") or (0,) * (2 * len(kernel))
    mode = node.text("auto_pad", "NOTSET")
    found = []
    for axis, (side, taps, stride, gap) in enumerate(zip(sides, kernel, strides, dilations, strict=True)):
        reach = gap * (taps - 1) + 1
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            found.append(-quotient(-side, stride))
            continue
        padded = side if mode == "VALID" else side + pads[axis] + pads[axis + len(kernel)]
        if padded < reach:
            raise NotClosed("its window is larger than what it looks at")
        if not node.integer("ceil_mode"):
            found.append(quotient(padded - reach, stride) + 1)
            continue
        count = -quotient(reach - padded, stride) + 1
        before = 0 if mode == "VALID" else pads[axis]
        # The last window starts inside of the picture or its first border, or is left out.
        found.append(count - 1 if (count - 1) * stride >= side + before else count)
    return found


@shapes("Conv ConvInteger QLinearConv")
def _conv(spot: Spot) -> list[Sides]:
    place = 3 if spot.node.op == "QLinearConv" else 1
    weight = spot.shape(place)
    kernel = spot.node.integers("kernel_shape") or weight[2:]
    if spot.shape()[1] != weight[1] * spot.node.integer("group", 1):
        raise NotClosed("its weights are for other channels")
    return [(spot.shape()[0], weight[0], *_windows(spot, kernel))]


@shapes("MaxPool AveragePool LpPool")
def _pool(spot: Spot) -> list[Sides]:
    made = (*spot.shape()[:2], *_windows(spot, spot.node.integers("kernel_shape")))
    return [made] * len(spot.node.outputs)


@shapes("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def _global_pool(spot: Spot) -> list[Sides]:
    return [(*spot.shape()[:2], *[1] * (len(spot.shape()) - 2))]


@shapes("ConvTranspose")
def _conv_transpose(spot: Spot) -> list[Sides]:
    node, data, weight = spot.node, spot.shape(), spot.shape(1)
    kernel = node.integers("kernel_shape") or weight[2:]
    count = len(kernel)
    strides, dilations = node.integers("strides") or (1,) * count, node.integers("dilations") or (1,) * count
    pads, added = node.integers("pads") or (0,) * 2 * count, node.integers("output_padding") or (0,) * count
    if node.integers("output_shape"):
        sides: list[Any] = list(node.integers("output_shape"))
    elif node.text("auto_pad", "NOTSET").startswith("SAME"):
        sides = [side * stride for side, stride in zip(data[2:], strides, strict=True)]
    else:
        sides = [
            strides[a] * (data[2 + a] - 1) + added[a] + dilations[a] * (kernel[a] - 1) + 1
            - pads[a] - pads[a + count]
            for a in range(count)
        ]  # fmt: skip
    return [(data[0], weight[1] * node.integer("group", 1), *sides)]


@shapes("MatMul MatMulInteger QLinearMatMul")
def _matmul(spot: Spot) -> list[Sides]:
    left, right = spot.shape(), spot.shape(3 if spot.node.op == "QLinearMatMul" else 1)
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    spread(left[-1], right[-2] if len(right) > 1 else right[0])
    return [(*broadcast(left[:-2], right[:-2]), *rows, *columns)]


@shapes("Gemm")
def _gemm(spot: Spot) -> list[Sides]:
    left, right = spot.shape(), spot.shape(1)
    rows, inner = reversed(left) if spot.node.integer("transA") else left
    shared, columns = reversed(right) if spot.node.integer("transB") else right
    if inner != shared:
        raise NotClosed(f"{inner} and {shared} do not fit")
    return [(rows, columns)]


@shapes("Einsum")
def _einsum(spot: Spot) -> list[Sides]:
    given = [spot.shape(index) for index in range(len(spot.node.inputs))]
    terms, result = letters(spot.node.text("equation"), [len(shape) for shape in given])
    sizes: dict[str, Any] = {}
    for term, shape in zip(terms, given, strict=True):
        for letter, side in zip(term, shape, strict=True):
            sizes[letter] = spread(sizes.get(letter, 1), side)
    return [tuple(sizes[letter] for letter in result)]


@shapes("LSTM GRU RNN")
def _recurrent(spot: Spot) -> list[Sides]:
    data, node = spot.shape(), spot.node
    directions, hidden = spot.shape(2)[0], spot.shape(2)[-1]
    if node.integer("layout"):
        last: Sides = (data[0], directions, hidden)
        return [(data[0], data[1], directions, hidden), last, last]
    last = (directions, data[1], hidden)
    return [(data[0], directions, data[1], hidden), last, last]


@shapes("Attention")
def _attention(spot: Spot) -> list[Sides]:
    query, value = spot.shape(), spot.shape(2)
    if len(spot.node.outputs) > 1 or spot.given(4):
        raise NotClosed("it keeps keys and values")
    if len(query) == 4:
        return [(*query[:3], value[-1])]
    heads, shared = spot.node.integer("q_num_heads"), spot.node.integer("kv_num_heads")
    return [(*query[:2], quotient(value[-1] * heads, shared or heads))]
