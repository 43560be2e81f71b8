"""Operators that change every number by itself, norms, and the rest that keeps a shape."""

from __future__ import annotations

from itertools import product

import numpy as np

from formats.onnx.drawn.case import Case, drawn

_ALONE = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Celu Ceil Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish"
    " IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus"
    " Softsign Sqrt Tan Tanh ThresholdedRelu Hardmax LogSoftmax LpNormalization MeanVarianceNormalization"
)
_PAIRS = "Equal Greater GreaterOrEqual LessOrEqual Mod Add PRelu"


@drawn
def alone(case: Case) -> None:
    case.opset = 21
    shape = case.sides(case.random.randint(1, 4), 4)
    data = case.model_input(shape)
    for kind in _ALONE.split():
        if kind != "MeanVarianceNormalization" or len(shape) == 4:
            case.op(kind, data)


@drawn
def in_pairs(case: Case) -> None:
    case.opset = 21
    shape = case.sides(case.random.randint(1, 4), 4)
    left = case.model_input(shape)
    right = case.model_input([1 if case.maybe(0.3) else side for side in shape][case.random.randint(0, 1) :])
    for kind in _PAIRS.split():
        case.op(kind, left, right, fmod=1 if kind == "Mod" else None)
    truths = [case.model_input(case.feeds[each].shape, np.bool_) for each in (left, right)]
    for kind in ("And", "Or", "Xor"):
        case.op(kind, *truths)
    whole = [case.model_input(case.feeds[each].shape, np.uint8) for each in (left, right)]
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"):
        case.op(kind, *whole, direction="LEFT" if kind == "BitShift" else None)
    case.op("Not", truths[0])
    case.op("BitwiseNot", whole[0])
    case.op("CastLike", left, whole[0])
    bounds = [case.fixed(each, np.float32) for each in (0.0, 1.0)]
    case.op("Clip", left, *bounds)


@drawn
def norms(case: Case) -> None:
    case.opset = 21
    batch, groups, inner = case.sides(3, 3)
    shape = (batch, groups * inner, *case.sides(2, 4))
    data = case.model_input(shape)
    held = [case.fixed(np.ones(shape[1]), np.float32) for _ in range(2)]
    case.op("InstanceNormalization", data, *held)
    case.op("GroupNormalization", data, *held, num_groups=groups)
    case.op("LRN", data, size=case.random.choice([1, 3, 5]))
    length = case.random.randint(1, shape[0])
    case.op("ReverseSequence", data, case.fixed([length] * shape[1]), time_axis=0, batch_axis=1)
    step, zero = case.fixed(0.5, np.float32), case.fixed(1, np.uint8)
    case.op("DequantizeLinear", case.op("QuantizeLinear", data, step, zero), step, zero)


@drawn
def blockwise(case: Case) -> None:
    """A scale for every few numbers along an axis."""
    case.opset = 21
    rows, blocks, size = case.sides(3, 3)
    data = case.model_input((rows, blocks * size))
    steps = case.fixed(np.ones((rows, blocks)), np.float32)
    case.op("QuantizeLinear", data, steps, axis=1, block_size=size)


@drawn
def deformed(case: Case) -> None:
    case.opset = 21
    groups, inner, outer = case.sides(3, 2)
    kernel, strides = case.sides(2, 3), case.sides(2, 2)
    image = case.sides(2, 7, 5)
    places = [(side - taps) // step + 1 for side, taps, step in zip(image, kernel, strides, strict=True)]
    weight = (groups * outer, inner, *kernel)
    data, taps = case.model_input((2, groups * inner, *image)), kernel[0] * kernel[1]
    read = [data, case.fixed(np.ones(weight), np.float32), case.model_input((2, 2 * taps, *places))]
    if case.maybe():
        read += ["", case.model_input((2, taps, *places))]
    case.op("DeformConv", *read, kernel_shape=kernel, strides=strides, group=groups)
    sides = (2, *weight, *places)
    case.macs = lambda _made: sum(1 for _ in product(*map(range, sides)))


@drawn
def listed(case: Case) -> None:
    """Sequences of tensors."""
    case.opset = max(case.opset, 17)
    shape = case.sides(2, 4)
    items = [case.model_input(shape) for _ in range(case.random.randint(1, 3))]
    made = case.op("SequenceConstruct", *items)
    more = case.op("SequenceInsert", made, items[0])
    fewer = case.op("SequenceErase", more, case.fixed(0))
    for each in (made, more, fewer):
        case.outputs.remove(each)
    case.op("SequenceAt", more, case.fixed(0))
    case.op("SequenceLength", fewer)
    case.op("ConcatFromSequence", fewer, axis=0, new_axis=case.random.randint(0, 1))
    case.is_open = True
