"""Operators that move a window: convolutions, pools, and what resamples a picture."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from formats.onnx.drawn.case import Case, drawn

Shapes = dict[str, tuple[int, ...]]


def window(case: Case, rank: int, auto: bool = True, dilated: bool = True) -> dict[str, Any]:
    """The attributes of a window over `rank` axes."""
    kernel = case.sides(rank, 4)
    made: dict[str, Any] = {"kernel_shape": kernel}
    if case.maybe(0.8):
        made["strides"] = case.sides(rank, 4)
    if dilated and case.maybe(0.4):
        made["dilations"] = case.sides(rank, 3)
    choice = case.random.random()
    if auto and choice < 0.3:
        made["auto_pad"] = case.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif choice < 0.8:
        # Runtimes refuse borders of a pool that are as long as its window.
        made["pads"] = [case.random.randint(0, side - 1) for side in (*kernel, *kernel)]
    return made


def _then_a_product(case: Case, made: str) -> None:
    """What follows must have the right sizes, too: flat rows, and their shape as numbers."""
    if case.maybe(0.3):
        flat = case.op("Flatten", made, axis=1)
        case.op("MatMul", case.op("Transpose", flat, perm=[1, 0]), flat)
        if case.opset >= 9:
            case.op("ConstantOfShape", case.op("Shape", made))


@drawn
def pool(case: Case) -> None:
    kind = case.random.choice(["MaxPool", "AveragePool", "LpPool"])
    rank = case.random.choice([1, 2, 2, 3])
    case.opset = max(case.opset, {"MaxPool": 7, "AveragePool": 7, "LpPool": 11}[kind])
    may_dilate = case.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[kind]
    may_ceil = case.opset >= (18 if kind == "LpPool" else 10)
    held = window(case, rank, dilated=may_dilate)
    if may_ceil and case.maybe(0.7):
        held["ceil_mode"] = 1
    if kind == "AveragePool" and case.maybe():
        held["count_include_pad"] = 1
    data = case.model_input((*case.sides(2, 2), *case.sides(rank, 13)))
    count = 2 if kind == "MaxPool" and case.opset >= 8 and case.maybe(0.3) else 1
    _then_a_product(case, case.ops(kind, count, data, **held)[0])


@drawn
def pool_in_ceil_mode_whose_last_window_is_outside(case: Case) -> None:
    case.opset = 21
    stride = case.random.randint(2, 5)
    kernel, before = case.random.randint(1, stride), 0
    if kernel > 1:
        before = case.random.randint(0, kernel - 1)
    data = case.model_input((1, 2, case.random.randint(4, 14)))
    kind = case.random.choice(["MaxPool", "AveragePool", "LpPool"])
    after = case.random.randint(0, kernel - 1)
    pooled = case.op(kind, data, kernel_shape=[kernel], strides=[stride], pads=[before, after], ceil_mode=1)
    _then_a_product(case, pooled)


@drawn
def quantized_pool(case: Case) -> None:
    held = window(case, 2, dilated=False) | {"ceil_mode": case.random.randint(0, 1)}
    # A window larger than the picture ends the runtime's process.
    data = case.model_input((*case.sides(2, 3), *case.sides(2, 13, 4)), np.uint8)
    steps = [case.fixed(0.5, np.float32), case.fixed(3, np.uint8)]
    case.op("com.microsoft::QLinearAveragePool", data, *steps, *steps, **held)


@drawn
def global_pool(case: Case) -> None:
    kind = case.random.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    case.op(kind, case.model_input(case.sides(case.random.randint(3, 5))))


def _products_of_conv(made: str, weight: tuple[int, ...]) -> Any:
    def macs(shapes: Shapes) -> int:
        total = 0
        for _ in product(*map(range, shapes[made])):
            for _ in product(*map(range, weight[1:])):
                total += 1
        return total

    return macs


@drawn
def conv(case: Case) -> None:
    rank = case.random.choice([1, 2, 2, 3])
    held = window(case, rank)
    if "auto_pad" in held:
        held.pop("dilations", None)  # the runtime refuses both at once
    groups, inner, outer = case.sides(3, 3)
    data = case.model_input(
        (case.random.randint(1, 2), groups * inner, *case.sides(rank, 9 if rank < 3 else 6))
    )
    shape = (groups * outer, inner, *held["kernel_shape"])
    if case.maybe(0.2):
        del held["kernel_shape"]
    held["group"] = groups
    kind = case.random.choice(["Conv", "Conv", "ConvInteger", "QLinearConv"])
    if kind == "Conv":
        weights = case.fixed(np.ones(shape), np.float32)
        bias = case.fixed(np.ones(shape[0]), np.float32) if case.maybe() else ""
        made = case.op(kind, data, weights, bias, **held)
    else:
        made = _conv_of_integers(case, kind, data, shape, held)
    case.macs = _products_of_conv(made, shape)
    if kind == "Conv":
        _then_a_product(case, made)


def _conv_of_integers(case: Case, kind: str, data: str, shape: tuple[int, ...], held: dict[str, Any]) -> str:
    case.opset = max(case.opset, 10)
    case.feeds[data] = case.feeds[data].astype(np.uint8)
    weights, zero = case.fixed(np.ones(shape), np.uint8), case.fixed(3, np.uint8)
    if kind == "ConvInteger":
        return case.op(kind, data, weights, zero, zero, **held)
    step = case.fixed(0.5, np.float32)
    return case.op(kind, data, step, zero, weights, step, zero, step, zero, **held)


@drawn
def conv_transpose(case: Case) -> None:
    rank = case.random.choice([1, 2, 2, 3])
    held = window(case, rank)
    groups, inner, outer = case.sides(3, 3)
    size = (case.random.randint(1, 2), groups * inner, *case.sides(rank, 7 if rank < 3 else 4))
    shape = (groups * inner, outer, *held["kernel_shape"])
    strides = held.get("strides", (1,) * rank)
    if case.maybe(0.4):
        held["output_padding"] = [case.random.randint(0, max(stride - 1, 0)) for stride in strides]
    if case.maybe(0.25):
        held["output_shape"] = [
            side * stride + case.random.randint(0, 2) for side, stride in zip(size[2:], strides, strict=True)
        ]
    if case.maybe(0.2):
        del held["kernel_shape"]
    held["group"] = groups
    made = case.op("ConvTranspose", case.model_input(size), case.fixed(np.ones(shape), np.float32), **held)

    def macs(_shapes: Shapes) -> int:
        total = 0
        for _ in product(*map(range, size)):
            for _ in product(*map(range, shape[1:])):
                total += 1
        return total

    case.macs = macs
    _then_a_product(case, made)


_COORDINATES = [
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
]


def _scales(case: Case, count: int) -> list[float]:
    ready = [0.5, 2.0, 1.5, 0.3, 0.6, 1 / 3, 0.7, 2.3, 1.1, 0.9, 3.0]
    return [case.random.choice(ready) if case.maybe() else case.random.uniform(0.3, 3) for _ in range(count)]


@drawn
def resize(case: Case) -> None:
    case.opset = max(case.opset, 10)
    mode = case.random.choice(["nearest", "nearest", "linear", "cubic"])
    shape = (*case.sides(2, 2), *case.sides(2, 11, 2))
    data = case.model_input(shape)
    if case.opset == 10:
        mode = mode if mode != "cubic" else "linear"
        case.op("Resize", data, case.fixed([1, 1, *_scales(case, 2)], np.float32), mode=mode)
        return
    held: dict[str, Any] = {"mode": mode}
    held["coordinate_transformation_mode"] = case.random.choice(_COORDINATES[: 7 if case.opset < 13 else 6])
    axes = list(range(4))
    if case.opset >= 18 and case.maybe():
        axes = held["axes"] = case.random.choice([[2, 3], [3, 2], [-1], [-2, -1], [3]])
        if case.maybe(0.2):
            held["antialias"] = 1 if mode != "nearest" else 0
    region = held["coordinate_transformation_mode"] == "tf_crop_and_resize"
    where = case.fixed([0.0] * len(axes) + [0.7] * len(axes), np.float32) if region or case.opset < 13 else ""
    plain = [1 if axis in (0, 1) else None for axis in axes]
    if case.maybe():
        sizes = [
            shape[axis] if kept else case.random.randint(1, 15)
            for axis, kept in zip(axes, plain, strict=True)
        ]
        if case.opset >= 18 and len(axes) < 4:
            policies = ["stretch", "not_larger", "not_smaller"]
            held["keep_aspect_ratio_policy"] = case.random.choice(policies)
        nothing = case.fixed([], np.float32) if case.opset < 13 else ""
        case.op("Resize", data, where, nothing, case.shape_constant(sizes), **held)
    else:
        scales = [kept or scale for kept, scale in zip(plain, _scales(case, len(axes)), strict=True)]
        case.op("Resize", data, where, case.shape_constant(scales, np.float32), **held)


@drawn
def upsample(case: Case) -> None:
    case.opset = case.random.choice([7, 8, 9])
    scales = [1.0, 1.0, *(max(1.0, each) for each in _scales(case, 2))]
    data = case.model_input((*case.sides(2, 2), *case.sides(2, 11)))
    mode = case.random.choice(["nearest", "linear"])
    if case.opset < 9:
        case.op("Upsample", data, mode=mode, scales=scales)
    else:
        case.op("Upsample", data, case.fixed(scales, np.float32), mode=mode)


@drawn
def regions(case: Case) -> None:
    case.opset = max(case.opset, 10)
    count = case.random.randint(1, 5)
    data = case.model_input((2, 3, *case.sides(2, 9, 3)))
    height, width = case.sides(2, 4)
    if case.maybe():
        rois = case.model_input((count, 5), content=[[0, 0, 0, 2, 2]] * count)
        case.op("MaxRoiPool", data, rois, pooled_shape=[height, width], spatial_scale=1.0)
        return
    rois = case.model_input((count, 4), content=[[0, 0, 2, 2]] * count)
    batch = case.model_input((count,), np.int64, [1] * count)
    ratio = case.random.randint(0, 2)
    held = {"output_height": height, "output_width": width} if case.maybe(0.8) else {}
    case.op("RoiAlign", data, rois, batch, sampling_ratio=ratio, **held)


@drawn
def columns_to_image(case: Case) -> None:
    case.opset = max(case.opset, 18)
    image, block = case.sides(2, 8, 4), case.sides(2, 3)
    strides, channels = case.sides(2, 2), case.random.randint(1, 3)
    places = 1
    for side, taps, stride in zip(image, block, strides, strict=True):
        places *= (side - taps) // stride + 1
    data = case.model_input((2, channels * block[0] * block[1], places))
    case.op("Col2Im", data, case.shape_constant(image), case.shape_constant(block), strides=strides)


@drawn
def unpool(case: Case) -> None:
    case.opset = max(case.opset, 9)
    kernel = case.random.randint(1, 3)
    strides = [kernel, kernel] if case.maybe() else case.sides(2, 3)
    data = case.model_input((1, 2, *case.sides(2, 4)))
    places = case.model_input(case.feeds[data].shape, np.int64)
    wanted = ""
    if case.maybe(0.4):
        sides = [(s - 1) * t + kernel for s, t in zip(case.feeds[data].shape[2:], strides, strict=True)]
        wanted = case.shape_constant([1, 2, sides[0] + case.random.randint(0, 2), sides[1]])
    case.op("MaxUnpool", data, places, wanted, kernel_shape=[kernel, kernel], strides=strides)


@drawn
def sampled(case: Case) -> None:
    case.opset = max(case.opset, 16)
    data = case.model_input((2, 3, *case.sides(2, 8)))
    modes = ["linear", "nearest", "cubic"] if case.opset >= 20 else ["bilinear", "nearest", "bicubic"]
    case.op("GridSample", data, case.model_input((2, *case.sides(2, 6), 2)), mode=case.random.choice(modes))


@drawn
def affine_grid(case: Case) -> None:
    case.opset = max(case.opset, 20)
    rank = case.random.choice([2, 3])
    size = [2, 3, *case.sides(rank, 5)]
    case.op("AffineGrid", case.model_input((2, rank, rank + 1)), case.shape_constant(size))
