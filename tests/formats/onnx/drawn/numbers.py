"""Operators that compute: reductions, products, recurrent layers, attention, signals."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from formats.onnx.drawn.case import Case, drawn

Shapes = dict[str, tuple[int, ...]]
_REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
]


@drawn
def reduced(case: Case) -> None:
    kind = case.random.choice(_REDUCTIONS)
    shape = case.sides(case.random.randint(1, 4))
    data = case.model_input(shape)
    axes = case.random.sample(range(len(shape)), case.random.randint(0, len(shape)))
    if case.opset >= 11:
        axes = [axis - len(shape) if case.maybe(0.3) else axis for axis in axes]
    held: dict[str, Any] = {"keepdims": case.random.choice([0, 1, None])}
    if case.opset >= (13 if kind == "ReduceSum" else 18):
        held["noop_with_empty_axes"] = case.random.choice([0, 1, None])
        shape_constant = case.shape_constant(np.array(axes, np.int64)) if axes or case.maybe() else ""
        case.op(kind, data, shape_constant, **held)
    else:
        case.op(kind, data, axes=axes or None, **held)


@drawn
def place_of_the_largest(case: Case) -> None:
    shape = case.sides(case.random.randint(1, 4))
    low = -len(shape) if case.opset >= 11 else 0
    axis = case.random.randrange(low, len(shape))
    kind = case.random.choice(["ArgMax", "ArgMin"])
    case.op(kind, case.model_input(shape), axis=axis, keepdims=case.random.choice([0, 1, None]))


def _batches(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Leading sides of two operands, which broadcast."""
    sides = case.sides(case.random.randint(0, 2), 3)
    left, right = ([1 if case.maybe(0.3) else side for side in sides] for _ in range(2))
    cut = case.random.randint(0, len(sides))
    return (tuple(left[cut:]), tuple(right)) if case.maybe() else (tuple(left), tuple(right[cut:]))


@drawn
def matmul(case: Case) -> None:
    (left, right), (rows, inner, columns) = _batches(case), case.sides(3, 5)
    first, second = (*left, rows, inner), (*right, inner, columns)
    if case.maybe(0.15):
        first = (inner,)
    if case.maybe(0.15):
        second = (inner,)
    kind = case.random.choice(["MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul"])
    if kind == "MatMul":
        made = case.op(kind, case.model_input(first), case.model_input(second))
    elif kind == "FusedMatMul":
        made = _fused_matmul(case, (rows, inner, columns))
    else:
        case.opset = max(case.opset, 10)
        step, zero = case.fixed(0.5, np.float32), case.fixed(1, np.uint8)
        one, two = case.model_input(first, np.uint8), case.model_input(second, np.uint8)
        read = [one, two, zero, zero]
        if kind == "QLinearMatMul":
            read = [one, step, zero, two, step, zero, step, zero]
        made = case.op(kind, *read)

    def macs(shapes: Shapes) -> int:
        total = 0
        for _ in product(*map(range, shapes[made])):
            for _ in range(inner):
                total += 1
        return total

    case.macs = macs


def _fused_matmul(case: Case, sizes: tuple[int, int, int]) -> str:
    rows, inner, columns = sizes
    batch = case.sides(case.random.randint(1, 2), 3)
    turn_a, turn_b, batch_a, batch_b = (case.random.randint(0, 1) for _ in range(4))
    left = _laid_out(batch, (rows, inner), turn_a, batch_a)
    right = _laid_out(batch, (inner, columns), turn_b, batch_b)
    held = {"transA": turn_a, "transB": turn_b, "transBatchA": batch_a, "transBatchB": batch_b}
    return case.op("com.microsoft::FusedMatMul", case.model_input(left), case.model_input(right), **held)


def _laid_out(
    batch: tuple[int, ...], matrix: tuple[int, int], turned: int, batch_turned: int
) -> tuple[int, ...]:
    """The operand as it lies: transposed, and with its first axis moved behind the batch."""
    first, last = reversed(matrix) if turned else matrix
    return (first, *batch, last) if batch_turned else (*batch, first, last)


@drawn
def gemm(case: Case) -> None:
    rows, inner, columns = case.sides(3)
    turn_a, turn_b = case.random.randint(0, 1), case.random.randint(0, 1)
    left = case.model_input((inner, rows) if turn_a else (rows, inner))
    right = case.model_input((columns, inner) if turn_b else (inner, columns))
    added = case.model_input(case.random.choice([(columns,), (1, columns), (rows, 1), (rows, columns), ()]))
    kind = case.random.choice(["Gemm", "com.microsoft::FusedGemm"])
    held = {"activation": "Relu"} if "::" in kind else {}
    case.op(
        kind,
        left,
        right,
        added if case.maybe() or case.opset < 11 else "",
        transA=turn_a,
        transB=turn_b,
        **held,
    )
    case.macs = lambda _shapes: sum(1 for _ in product(range(rows), range(inner), range(columns)))


@drawn
def einsum(case: Case) -> None:
    case.opset = max(case.opset, 12)
    sizes = dict(zip("abcde", case.sides(5, 4), strict=True))
    first, second = (case.random.sample("abcde", case.random.randint(1, 3)) for _ in range(2))
    both = list(dict.fromkeys(first + second))
    result = case.random.sample(both, case.random.randint(0, len(both)))
    dots = case.sides(case.random.randint(0, 2), 3) if case.maybe(0.4) else None
    mark, lead = ("...", dots) if dots is not None else ("", ())
    equation = f"{mark}{''.join(first)},{mark}{''.join(second)}"
    if case.maybe(0.8):
        equation += f"->{mark}{''.join(result)}"
    else:
        result = sorted(each for each in both if (first + second).count(each) == 1)
    if case.maybe(0.3):
        equation = equation.replace(",", " , ").replace("->", " -> ")
    shapes = [(*lead, *(sizes[each] for each in term)) for term in (first, second)]
    case.op("Einsum", *map(case.model_input, shapes), equation=equation)
    # What only one operand has, and the result has not, is summed before the product.
    kept = [each for each in both if each in result or (each in first and each in second)]

    def macs(_shapes: Shapes) -> int:
        return sum(1 for _ in product(*(range(side) for side in (*lead, *(sizes[each] for each in kept)))))

    case.macs = macs


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@drawn
def recurrent(case: Case) -> None:
    kind = case.random.choice(list(_GATES))
    steps, batch, features, hidden = case.sides(4, 4)
    direction = case.random.choice(["forward", "reverse", "bidirectional"])
    ways, gates = 1 + (direction == "bidirectional"), _GATES[kind]
    weights = [(ways, gates * hidden, features), (ways, gates * hidden, hidden)]
    read = [
        case.model_input((steps, batch, features)),
        *(case.fixed(np.ones(each), np.float32) for each in weights),
    ]
    if case.maybe():
        read.append(case.fixed(np.ones((ways, 2 * gates * hidden)), np.float32))
        if case.maybe():
            read.append(case.model_input((batch,), np.int32, [steps] * batch))
    count = case.random.randint(1, 3 if kind == "LSTM" else 2)
    case.ops(kind, count, *read, hidden_size=hidden, direction=direction)

    def macs(_shapes: Shapes) -> int:
        total = 0
        for _ in product(range(ways), range(steps), range(batch), range(gates), range(hidden)):
            for _ in (*range(features), *range(hidden)):
                total += 1
        return total

    case.macs = macs


@drawn
def attention(case: Case) -> None:
    case.opset = 23
    batch, length, keys, size, value_size = case.sides(5, 4)
    shared, times = case.sides(2, 3)
    heads = shared * times
    held: dict[str, Any] = {}
    shapes: list[tuple[int, ...]]
    if case.maybe():
        shapes = [
            (batch, length, heads * size),
            (batch, keys, shared * size),
            (batch, keys, shared * value_size),
        ]
        held = {"q_num_heads": heads, "kv_num_heads": shared}
    else:
        shapes = [
            (batch, heads, length, size),
            (batch, shared, keys, size),
            (batch, shared, keys, value_size),
        ]
    read, past = [case.model_input(each) for each in shapes], 0
    read.append(case.model_input((length, keys)) if case.maybe(0.3) else "")
    count = 1
    if case.maybe(0.3) and not read[3]:
        past, count = case.random.randint(1, 3), 3
        read += [case.model_input((batch, shared, past, each)) for each in (size, value_size)]
    case.ops("Attention", count, *read, is_causal=case.random.randint(0, 1) if past == 0 else 0, **held)

    def macs(_shapes: Shapes) -> int:
        total = 0
        for _ in product(range(batch), range(heads), range(length), range(past + keys)):
            for _ in (*range(size), *range(value_size)):
                total += 1
        return total

    case.macs = macs


@drawn
def fourier(case: Case) -> None:
    case.opset = max(case.opset, 17)
    shape = [*case.sides(case.random.randint(2, 3), 8, 2), case.random.choice([1, 2])]
    inverse = case.random.randint(0, 1)
    onesided = case.random.randint(0, 1) if shape[-1] == 1 and not inverse else 0
    axis = case.random.randrange(1, len(shape) - 1)
    length = case.shape_constant(case.random.randint(2, 9)) if case.maybe() else ""
    held = {"inverse": inverse, "onesided": onesided}
    if case.opset < 20:
        case.op("DFT", case.model_input(shape), length, axis=axis, **held)
    else:
        case.op(
            "DFT",
            case.model_input(shape),
            length,
            case.fixed(axis - len(shape) if case.maybe() else axis),
            **held,
        )


@drawn
def short_fourier(case: Case) -> None:
    case.opset = max(case.opset, 17)
    length, frame, step = case.random.randint(20, 40), case.random.randint(4, 16), case.random.randint(1, 7)
    signal = case.model_input((2, length, 1))
    window = case.fixed(np.ones(frame), np.float32) if case.maybe(0.7) else ""
    shape_constant = case.fixed(frame) if not window or case.maybe() else ""
    case.op("STFT", signal, case.fixed(step), window, shape_constant, onesided=case.random.randint(0, 1))


@drawn
def windows_of_signals(case: Case) -> None:
    case.opset = max(case.opset, 17)
    kind = case.random.choice(["HannWindow", "HammingWindow", "BlackmanWindow"])
    case.op(kind, case.shape_constant(case.random.randint(1, 20)), periodic=case.random.randint(0, 1))
    bins, length = case.random.randint(1, 3), case.random.randint(16, 40)
    edges = [case.fixed(each, np.float32) for each in (0.0, 3000.0)]
    case.op(
        "MelWeightMatrix",
        case.shape_constant(bins),
        case.shape_constant(length),
        case.shape_constant(8000),
        *edges,
    )


@drawn
def quantized(case: Case) -> None:
    case.opset = max(case.opset, 11)
    made = case.ops("DynamicQuantizeLinear", 3, case.model_input(case.sides(case.random.randint(1, 4))))
    case.op("DequantizeLinear", made[0], made[1], made[2])


@drawn
def normalized(case: Case) -> None:
    case.opset = max(case.opset, 17)
    shape = case.sides(case.random.randint(2, 4))
    axis = case.random.randrange(-len(shape), len(shape))
    held = [case.fixed(np.ones(shape[axis % len(shape) :]), np.float32) for _ in range(2)]
    case.ops("LayerNormalization", case.random.choice([1, 3]), case.model_input(shape), *held, axis=axis)
    case.op("Softmax", case.model_input(shape), axis=axis)
    case.op("CumSum", case.model_input(shape), case.fixed(axis))


@drawn
def batch_norm(case: Case) -> None:
    channels = case.random.randint(1, 4)
    data = case.model_input((2, channels, *case.sides(case.random.randint(0, 3), 4)))
    case.op("BatchNormalization", data, *(case.fixed(np.ones(channels), np.float32) for _ in range(4)))


@drawn
def drawn_lots(case: Case) -> None:
    case.opset = max(case.opset, 15)
    case.op("Multinomial", case.model_input((3, 4)), sample_size=case.random.randint(1, 5))
    case.op("Bernoulli", case.model_input(case.sides(2)))
    dropped = case.model_input(case.sides(2))
    case.ops("Dropout", case.random.randint(1, 2), dropped)


@drawn
def boxes(case: Case) -> None:
    case.opset = max(case.opset, 10)
    count = case.random.randint(1, 5)
    model_input = case.model_input((1, count, 4), content=[[[0, 0, 1 + each, 1] for each in range(count)]])
    read = [model_input, case.model_input((1, 2, count)), case.fixed([case.random.randint(1, 3)])]
    case.op("NonMaxSuppression", *read, case.fixed([0.5], np.float32), case.fixed([0.1], np.float32))
    case.is_open = True


@drawn
def pairs(case: Case) -> None:
    """Broadcasting of elementwise operators."""
    left, right = _batches(case)
    one, two = case.model_input(left), case.model_input(right)
    case.op(case.random.choice(["Add", "Mul", "Sub", "Div", "Pow"]), one, two)
    case.op("Less", one, two)
    if case.opset >= 9:
        case.op("Where", case.model_input(right, np.bool_), one, two)
    case.op(case.random.choice(["Max", "Min", "Sum", "Mean"]), one, two, one) if case.opset >= 8 else None


@drawn
def losses(case: Case) -> None:
    case.opset = max(case.opset, 13)
    batch, classes = case.sides(2, 5)
    places = case.sides(case.random.randint(0, 2), 3)
    scores, target = case.model_input((batch, classes, *places)), case.model_input((batch, *places), np.int64)
    case.feeds[target][...] = 0
    how = case.random.choice(["none", "mean", "sum"])
    case.op("NegativeLogLikelihoodLoss", scores, target, reduction=how)
    case.ops("SoftmaxCrossEntropyLoss", case.random.choice([1, 2]), scores, target, reduction=how)
