"""Operators that cut, join, move and make tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from formats.onnx.drawn.case import Case, drawn

_FAR = [2**63 - 1, -(2**63), 2**31 - 1, -(2**31), 1000, -1000]


def _place(case: Case, side: int) -> int:
    return case.random.choice(_FAR) if case.maybe(0.15) else case.random.randint(-side - 2, side + 2)


@drawn
def cut(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 4))
    data = case.model_input(shape)
    axes = case.random.sample(range(len(shape)), case.random.randint(1, len(shape)))
    starts, ends = ([_place(case, shape[axis]) for axis in axes] for _ in range(2))
    axes = [axis - len(shape) if case.maybe(0.3) else axis for axis in axes]
    if case.opset < 10:
        axes = [axis % len(shape) for axis in axes]
        case.op("Slice", data, starts=starts, ends=ends, axes=axes)
        return
    steps = [case.random.choice([1, 1, 2, 3, -1, -2, -3, 50, -50]) for _ in axes]
    inputs = [
        case.shape_constant(starts),
        case.shape_constant(ends),
        case.fixed(axes),
        case.fixed(steps) if case.maybe(0.8) else "",
    ]
    case.op("Slice", data, *inputs)


@drawn
def cut_where_the_run_decides(case: Case) -> None:
    case.opset = max(case.opset, 10)
    end = case.model_input((1,), np.int64, [case.random.randint(1, 3)])
    case.op("Slice", case.model_input((5, 4)), case.fixed([0]), end, case.fixed([1]))
    case.is_open = True


@drawn
def border(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 4), least=3)
    data = case.model_input(shape)
    mode = case.random.choice(["constant", "constant", "reflect", "edge"] + ["wrap"] * (case.opset >= 19))
    least = -1 if mode == "constant" else 0
    axes = list(range(len(shape)))
    if case.opset >= 18 and case.maybe():
        axes = case.random.sample(axes, case.random.randint(1, len(axes)))
    pads = [case.random.randint(least, 2) for _ in range(2 * len(axes))]
    if case.opset < 11:
        case.op("Pad", data, pads=pads, mode=mode)
        return
    named = ""
    if len(axes) < len(shape) or (case.maybe(0.2) and case.opset >= 18):
        named = case.fixed([axis - len(shape) if case.maybe(0.3) else axis for axis in axes])
    value = case.fixed(0.5, np.float32) if case.maybe() else ""
    case.op("Pad", data, case.shape_constant(pads), value, named, mode=mode)


@drawn
def parts(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 3), 9)
    data, axis = case.model_input(shape), case.random.randrange(-len(shape), len(shape))
    side = shape[axis]
    count = case.random.randint(1, min(side, 4))
    if case.maybe() or (case.opset < 18 and side % count):
        cuts = sorted(case.random.randint(0, side) for _ in range(count - 1))
        lengths = [after - before for before, after in zip([0, *cuts], [*cuts, side], strict=True)]
        if case.opset < 13:
            case.ops("Split", count, data, axis=axis, split=lengths)
        else:
            case.ops("Split", count, data, case.shape_constant(lengths), axis=axis)
    else:
        case.ops("Split", count, data, axis=axis, num_outputs=count if case.opset >= 18 else None)


@drawn
def reshaped(case: Case) -> None:
    shape = list(case.sides(case.random.randint(1, 4)))
    allowed = case.opset >= 14 and case.maybe(0.3)
    if allowed and case.maybe():
        shape[case.random.randrange(len(shape))] = 0
    data, elements = case.model_input(shape), math.prod(shape)
    wanted: list[int] = []
    rest = elements
    for _ in range(case.random.randint(0, 3)):
        factors = [each for each in range(1, rest + 1) if rest % each == 0] or [0]
        wanted.append(case.random.choice(factors))
        rest = rest // wanted[-1] if wanted[-1] else 0
    wanted.append(rest)
    case.random.shuffle(wanted)
    if not allowed:
        # A zero copies the side at its own place.
        wanted = [
            0 if at < len(shape) and shape[at] == side and case.maybe() else side
            for at, side in enumerate(wanted)
        ]
    if case.maybe() and 0 not in (wanted if allowed else ()):
        wanted[case.random.randrange(len(wanted))] = -1
    case.op("Reshape", data, case.shape_constant(wanted), allowzero=int(allowed) if allowed else None)


@drawn
def spread(case: Case) -> None:
    case.opset = max(case.opset, 8)
    shape = case.sides(case.random.randint(0, 3), 3)
    wanted = [
        side if side != 1 and case.maybe() else 1 if side != 1 else case.random.randint(1, 4)
        for side in shape
    ]
    if case.maybe(0.3):
        wanted = wanted[case.random.randint(0, len(wanted)) :]
    wanted = [*case.sides(case.random.randint(0, 2), 3), *wanted] if len(wanted) == len(shape) else wanted
    case.op("Expand", case.model_input(shape), case.shape_constant(np.array(wanted, np.int64)))


@drawn
def tiled(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 4), 4)
    case.op("Tile", case.model_input(shape), case.shape_constant([case.random.randint(0, 3) for _ in shape]))


@drawn
def counted(case: Case) -> None:
    case.opset = max(case.opset, 11)
    kind = case.random.choice([np.int64, np.int32, np.float32, np.float64])
    if kind in (np.int64, np.int32):
        step = case.random.choice([1, 2, 3, 7, -1, -2, -5])
        start, limit = (case.random.randint(-9, 9) for _ in range(2))
        held: list[Any] = [start, limit, step]
    else:
        held = [case.random.choice([0.0, 0.5, 1.1, -2.0]), case.random.choice([3.0, 1.0, 0.9, -1.7])]
        held.append(case.random.choice([0.1, 0.3, 1.0, 0.7, -0.5, -0.1]))
    case.op("Range", *(case.shape_constant(each, kind) for each in held))


@drawn
def range_of_the_run(case: Case) -> None:
    case.opset = max(case.opset, 11)
    limit = case.model_input((), np.int64, case.random.randint(1, 5))
    case.op("Range", case.fixed(0), limit, case.fixed(1))
    case.is_open = True


@drawn
def turned(case: Case) -> None:
    shape = case.sides(case.random.randint(0, 4))
    order = case.random.sample(range(len(shape)), len(shape))
    case.op("Transpose", case.model_input(shape), perm=order if case.maybe(0.8) and shape else None)


@drawn
def joined(case: Case) -> None:
    shape = list(case.sides(case.random.randint(1, 3)))
    axis = case.random.randrange(-len(shape) if case.opset >= 11 else 0, len(shape))
    model_input = []
    for _ in range(case.random.randint(1, 3)):
        shape[axis] = case.random.randint(0, 4)
        model_input.append(case.model_input(shape))
    case.op("Concat", *model_input, axis=axis)


@drawn
def axes_of_one(case: Case) -> None:
    shape = [1 if case.maybe() else side for side in case.sides(case.random.randint(1, 4))]
    data = case.model_input(shape)
    ones = [axis for axis, side in enumerate(shape) if side == 1]
    some = case.random.sample(ones, case.random.randint(0, len(ones)))
    if case.opset >= 11:
        some = [axis - len(shape) if case.maybe(0.3) else axis for axis in some]
    rank = len(shape) + case.random.randint(1, 2)
    fresh = case.random.sample(range(rank), rank - len(shape))
    if case.opset >= 13:
        case.op("Squeeze", data, case.fixed(some) if some else "")
        case.op(
            "Unsqueeze",
            data,
            case.shape_constant([axis - rank if case.maybe(0.3) else axis for axis in fresh]),
        )
    else:
        case.op("Squeeze", data, axes=some or None)
        case.op("Unsqueeze", data, axes=fresh)


@drawn
def flat(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 4))
    low = -len(shape) if case.opset >= 11 else 0
    case.op("Flatten", case.model_input(shape), axis=case.random.randint(low, len(shape)))


@drawn
def gathered(case: Case) -> None:
    case.opset = max(case.opset, 11)
    shape = case.sides(case.random.randint(1, 4), 4)
    data, axis = case.model_input(shape), case.random.randrange(-len(shape), len(shape))
    places = case.model_input(case.sides(case.random.randint(0, 2)), np.int64)
    case.feeds[places][...] = 0
    case.op("Gather", data, places, axis=axis)
    like = case.model_input([side if case.maybe() else 1 for side in shape], np.int64)
    case.feeds[like][...] = 0
    if case.opset >= 11:
        case.op("GatherElements", data, like, axis=axis)


@drawn
def gathered_deep(case: Case) -> None:
    case.opset = max(case.opset, 12)
    shape = case.sides(case.random.randint(2, 4), 4)
    batch = case.random.randint(0, len(shape) - 2)
    depth = case.random.randint(1, len(shape) - batch)
    places = case.model_input((*shape[:batch], *case.sides(case.random.randint(0, 2), 3), depth), np.int64)
    case.feeds[places][...] = 0
    case.op("GatherND", case.model_input(shape), places, batch_dims=batch)


@drawn
def scattered(case: Case) -> None:
    case.opset = max(case.opset, 16)
    shape = case.sides(case.random.randint(1, 3), 4)
    depth = case.random.randint(1, len(shape))
    outer = case.sides(case.random.randint(0, 2), 3)
    places = case.model_input((*outer, depth), np.int64)
    case.feeds[places][...] = 0
    update = case.model_input((*outer, *shape[depth:]))
    reduction = case.random.choice(["none", "add", "mul"])
    case.op("ScatterND", case.model_input(shape), places, update, reduction=reduction)
    like = case.model_input(shape, np.int64)
    case.feeds[like][...] = 0
    case.op("ScatterElements", case.model_input(shape), like, case.model_input(shape), axis=-1)


@drawn
def one_hot(case: Case) -> None:
    case.opset = max(case.opset, 9)
    shape = case.sides(case.random.randint(0, 3), 4)
    places = case.model_input(shape, np.int64)
    low = -len(shape) - 1
    axis = case.random.randint(low, len(shape))
    depth = case.random.randint(1, 6)
    shape_constant = case.shape_constant(depth if case.maybe() else [depth])
    if case.maybe(0.15):
        shape_constant = case.model_input((), np.int64, depth)
        case.is_open = True
    case.op("OneHot", places, shape_constant, case.fixed([0.0, 1.0], np.float32), axis=axis)


@drawn
def blocks(case: Case) -> None:
    block = case.random.randint(1, 3)
    batch, depth, height, width = case.sides(4, 3)
    mode = case.random.choice(["DCR", "CRD"]) if case.opset >= 11 else None
    case.op(
        "DepthToSpace", case.model_input((batch, depth * block**2, height, width)), blocksize=block, mode=mode
    )
    case.op("SpaceToDepth", case.model_input((batch, depth, height * block, width * block)), blocksize=block)


@drawn
def largest(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 3))
    axis = case.random.randrange(-len(shape), len(shape))
    most = case.random.randint(1, shape[axis])
    if case.opset < 10:
        case.ops("TopK", 2, case.model_input(shape), k=most, axis=axis)
        return
    shape_constant = case.shape_constant([most])
    if case.maybe(0.15):
        shape_constant = case.model_input((1,), np.int64, [most])
        case.is_open = True
    case.ops("TopK", 2, case.model_input(shape), shape_constant, axis=axis)


@drawn
def made(case: Case) -> None:
    case.opset = max(case.opset, 9)
    shape = [case.random.randint(0, 4) for _ in range(case.random.randint(0, 3))]
    case.op("ConstantOfShape", case.shape_constant(np.array(shape, np.int64)))
    square = case.model_input(case.sides(2))
    case.op("EyeLike", square, k=case.random.randint(-2, 2))
    if case.opset >= 14:
        case.op("Trilu", square, case.fixed(1) if case.maybe() else "")
    case.op("RandomNormal", shape=[*case.sides(2)])
    case.op("RandomUniformLike", square)


@drawn
def decided_by_data(case: Case) -> None:
    case.opset = max(case.opset, 11)
    shape = case.sides(case.random.randint(1, 3), 4)
    data = case.model_input(shape)
    case.feeds[data] = np.array(case.random.choices([0, 1, 2], k=math.prod(shape)), np.float32).reshape(shape)
    case.is_open = True
    choice = case.random.randrange(3)
    if choice == 0:
        case.op("NonZero", data)
    elif choice == 1:
        axis = case.random.randrange(-len(shape), len(shape)) if case.maybe() else None
        case.ops("Unique", case.random.choice([1, 4]), data, axis=axis)
    else:
        axis = case.random.randrange(-len(shape), len(shape)) if case.maybe() else None
        length = math.prod(shape) if axis is None else shape[axis]
        keep = case.model_input((length,), np.bool_, case.random.choices([True, False], k=length))
        case.op("Compress", data, keep, axis=axis)


@drawn
def cropped(case: Case) -> None:
    case.opset = max(case.opset, 18)
    shape = case.sides(3)
    axes = case.random.sample(range(-3, 0), case.random.randint(1, 3))
    wanted = case.shape_constant([case.random.randint(1, 9) for _ in axes])
    case.op("CenterCropPad", case.model_input(shape), wanted, axes=axes)


@drawn
def shape_of_part(case: Case) -> None:
    case.opset = max(case.opset, 15)
    data = case.model_input(case.sides(case.random.randint(1, 4), 3))
    start, end = (case.random.randint(-6, 6) for _ in range(2))
    held = {"start": start if case.maybe(0.7) else None, "end": end if case.maybe(0.7) else None}
    case.op("ConstantOfShape", case.op("Shape", data, **held))
    case.op("ConstantOfShape", case.op("Reshape", case.op("Size", data), case.fixed([1])))


@drawn
def arithmetic_of_shapes(case: Case) -> None:
    """Sizes computed from sizes by whole numbers and floats, then used."""
    case.opset = max(case.opset, 13)
    data = case.model_input(case.sides(2, 40))
    value = case.op("Cast", case.op("Shape", data), to=case.random.choice([1, 7, 7]))
    is_real = case.nodes[-1].attribute[0].i == 1
    kind = np.float32 if is_real else np.int64
    for _ in range(case.random.randint(1, 3)):
        other = case.random.choice([2, 3, -2]) if not is_real else case.random.choice([0.5, 0.3, 1.7, 2.0])
        value = case.op(
            case.random.choice(["Add", "Mul", "Div", "Sub", "Div"]), value, case.fixed(other, kind)
        )
        if is_real and case.maybe():
            value = case.op(case.random.choice(["Floor", "Ceil", "Round"]), value)
    value = case.op("Max", case.op("Cast", value, to=7), case.fixed([1]))
    case.op("ConstantOfShape", case.op("Min", value, case.fixed([50])))


@drawn
def sequences(case: Case) -> None:
    case.opset = max(case.opset, 11)
    shape = case.sides(2, 6, 2)
    data, axis = case.model_input(shape), case.random.randint(0, 1)
    split = case.random.randint(1, shape[axis])
    listed = case.op("SplitToSequence", data, case.shape_constant(split), axis=axis)
    case.outputs.remove(listed)
    case.is_open = True
    case.op("SequenceAt", listed, case.fixed(0))
    case.op("SequenceLength", listed)
    case.op("ConcatFromSequence", listed, axis=axis)
