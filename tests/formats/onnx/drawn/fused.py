"""Operators of ONNX Runtime's own, which its optimizer and its quantizer write."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from formats.onnx.drawn.case import Case, drawn
from formats.onnx.drawn.windows import window

_MS = "com.microsoft::"
_STEPS = (0.5, 1)


def _steps(case: Case, kind: Any = np.uint8) -> list[str]:
    """A scale and a zero point."""
    return [case.fixed(_STEPS[0], np.float32), case.fixed(_STEPS[1], kind)]


@drawn
def fused_conv(case: Case) -> None:
    case.opset = max(case.opset, 11)
    held = window(case, 2)
    if "auto_pad" in held:
        held.pop("dilations", None)
    groups, inner, outer = case.sides(3, 3)
    data = case.model_input((2, groups * inner, *case.sides(2, 9, 4)))
    shape = (groups * outer, inner, *held["kernel_shape"])
    weights, bias = case.fixed(np.ones(shape), np.float32), case.fixed(np.ones(shape[0]), np.float32)
    made = case.op(_MS + "FusedConv", data, weights, bias, group=groups, activation="Relu", **held)
    case.macs = lambda real: sum(1 for _ in product(*map(range, (*real[made], *shape[1:]))))


@drawn
def quantized_pairs(case: Case) -> None:
    case.opset = max(case.opset, 13)
    shape = case.sides(case.random.randint(1, 4), 4)
    one = case.model_input(shape, np.uint8)
    two = case.model_input([1 if case.maybe(0.3) else side for side in shape], np.uint8)
    steps = _steps(case)
    for kind in ("QLinearAdd", "QLinearMul"):
        case.op(_MS + kind, one, *steps, two, *steps, *steps)
    case.op(_MS + "QLinearSigmoid", one, *steps, *steps)
    case.op(_MS + "QLinearLeakyRelu", one, *steps, *steps, alpha=0.1)
    case.op(_MS + "QLinearSoftmax", one, *steps, *steps, axis=-1, opset=13)
    truth = case.model_input(shape, np.bool_)
    case.op(_MS + "QLinearWhere", truth, one, *steps, two, *steps, *steps)
    case.op(_MS + "QLinearConcat", *steps, one, *steps, one, *steps, axis=case.random.randrange(len(shape)))


@drawn
def quantized_pictures(case: Case) -> None:
    case.opset = max(case.opset, 13)
    last = case.random.randint(0, 1)
    data, steps = case.model_input((2, *case.sides(3, 6, 4)), np.uint8), _steps(case)
    case.op(_MS + "QLinearGlobalAveragePool", data, *steps, *steps, channels_last=last)
    held = window(case, 2, auto=False, dilated=False) | {"ceil_mode": case.random.randint(0, 1)}
    case.op(_MS + "QLinearAveragePool", data, *steps, *steps, channels_last=last, **held)
    case.op(_MS + "NhwcMaxPool", data, **held)


@drawn
def quantized_products(case: Case) -> None:
    case.opset = max(case.opset, 13)
    rows, inner, columns = case.sides(3, 5)
    data, weights = case.model_input((2, rows, inner)), case.fixed(np.ones((inner, columns)), np.uint8)
    step, zero = _steps(case)
    made = case.op(_MS + "DynamicQuantizeMatMul", data, weights, step, zero)
    whole = case.model_input((2, rows, inner), np.uint8)
    case.op(_MS + "MatMulIntegerToFloat", whole, weights, step, step, zero, zero)
    turn = case.random.randint(0, 1)
    flat = case.model_input((inner, rows) if turn else (rows, inner), np.uint8)
    case.op(_MS + "QGemm", flat, step, zero, weights, step, zero, "", step, zero, transA=turn)
    case.macs = lambda real: sum(1 for _ in product(*map(range, (*real[made], inner))))


@drawn
def packed_products(case: Case) -> None:
    case.opset = max(case.opset, 13)
    rows, blocks, columns = case.sides(3, 3)
    size, bits = case.random.choice([16, 32]), case.random.choice([4, 8])
    length = size * blocks - case.random.choice([0, 0, 3])
    weights = case.fixed(np.ones((columns, blocks, size * bits // 8)), np.uint8)
    scales = case.fixed(np.ones(columns * blocks), np.float32)
    data = case.model_input((2, rows, length))
    case.op(_MS + "MatMulNBits", data, weights, scales, K=length, N=columns, bits=bits, block_size=size)
    case.macs = lambda _made: sum(1 for _ in product(range(2), range(rows), range(length), range(columns)))


@drawn
def skip_norms(case: Case) -> None:
    case.opset = max(case.opset, 13)
    shape = (*case.sides(2, 4), case.random.choice([4, 8]))
    one, two = case.model_input(shape), case.model_input(shape)
    held = [case.fixed(np.ones(shape[-1]), np.float32) for _ in range(2)]
    count = case.random.choice([1, 4])
    made = case.ops(_MS + "SkipLayerNormalization", count, one, two, *held)
    if count == 4:  # mean and deviation are not made on this processor
        case.nodes[-1].output[1] = case.nodes[-1].output[2] = ""
        case.outputs = [each for each in case.outputs if each not in made[1:3]]
    case.op(_MS + "SkipSimplifiedLayerNormalization", one, two, held[0])
    case.op(_MS + "BiasGelu", one, held[0])
    for kind in ("FastGelu", "QuickGelu", "Gelu"):
        case.op(_MS + kind, one)


@drawn
def embedded(case: Case) -> None:
    case.opset = max(case.opset, 13)
    batch, length = case.sides(2, 4)
    tokens = case.model_input((batch, length), np.int32)
    tables = [case.fixed(np.ones((rows, 8)), np.float32) for rows in (11, 5, 2)]
    held = [case.fixed(np.ones(8), np.float32) for _ in range(2)]
    kinds = case.model_input((batch, length), np.int32) if case.maybe() else ""
    read = [tokens, kinds, *tables[:2], tables[2] if kinds else "", *held]
    case.ops(_MS + "EmbedLayerNormalization", 2, *read)


@drawn
def heads(case: Case) -> None:
    case.opset = max(case.opset, 13)
    batch, length, keys, count = case.sides(4, 3)
    size, wide = case.random.choice([4, 8]), case.random.choice([4, 8])
    query = case.model_input((batch, length, count * size))
    key, value = case.model_input((batch, keys, count * size)), case.model_input((batch, keys, count * wide))
    past, outputs, read = 0, 1, [query, key, value]
    if case.maybe() and size == wide:
        past, outputs = case.random.randint(1, 3), 3
        read += ["", "", "", *(case.model_input((batch, count, past, size)) for _ in range(2))]
    case.ops(_MS + "MultiHeadAttention", outputs, *read, num_heads=count)
    sides = (batch, count, length, past + keys, size + wide)
    case.macs = lambda _made: sum(1 for _ in product(*map(range, sides)))


@drawn
def projecting_heads(case: Case) -> None:
    case.opset = max(case.opset, 13)
    batch, length, width, count = case.sides(4, 4)
    size, past = case.random.choice([2, 4]), case.random.randint(1, 3) if case.maybe() else 0
    weights = case.fixed(np.ones((width, 3 * count * size)), np.float32)
    read = [
        case.model_input((batch, length, width)),
        weights,
        case.fixed(np.ones(3 * count * size), np.float32),
    ]
    if past:
        read += ["", case.model_input((2, batch, count, past, size))]
    case.ops(_MS + "Attention", 2 if past else 1, *read, num_heads=count)
    projected = (batch, length, width, 3 * count * size)
    scored = (2, batch, count, length, past + length, size)
    case.macs = lambda _made: sum(1 for sides in (projected, scored) for _ in product(*map(range, sides)))


@drawn
def grouped_heads(case: Case) -> None:
    case.opset = max(case.opset, 13)
    batch, length, shared, times = case.sides(4, 3)
    size, count = 8, shared * times
    total = case.fixed(length, np.int32)
    lengths = case.model_input((batch,), np.int32, [length - 1] * batch)
    if case.maybe():
        packed = case.model_input((batch, length, (count + 2 * shared) * size))
        read = [packed, "", "", "", "", lengths, total]
    else:
        kept = [case.model_input((batch, length, shared * size)) for _ in range(2)]
        read = [case.model_input((batch, length, count * size)), *kept, "", "", lengths, total]
    case.ops(_MS + "GroupQueryAttention", 3, *read, num_heads=count, kv_num_heads=shared)
    sides = (2, batch, count, length, length, size)
    case.macs = lambda _made: sum(1 for _ in product(*map(range, sides)))


@drawn
def gathered_from_packed(case: Case) -> None:
    case.opset = max(case.opset, 13)
    rows, indices = (
        case.random.randint(1, 4),
        case.model_input(case.sides(case.random.randint(1, 2), 3), np.int64),
    )
    case.feeds[indices][...] = 0
    table = case.fixed(np.ones((rows, 16)), np.uint8)
    scales = case.fixed(np.ones((rows, 2)), np.float32)
    case.op(
        _MS + "GatherBlockQuantized",
        table,
        indices,
        scales,
        gather_axis=0,
        quantize_axis=1,
        block_size=16,
        bits=4,
    )


@drawn
def quantized_lstm(case: Case) -> None:
    case.opset = max(case.opset, 13)
    steps, batch, features, hidden = case.sides(4, 4)
    ways = case.random.randint(1, 2)
    weights = [(ways, features, 4 * hidden), (ways, hidden, 4 * hidden)]
    held = [case.fixed(np.ones(each), np.uint8) for each in weights]
    shape_constant = [case.fixed(np.ones(ways), kind) for kind in (np.float32, np.uint8)] * 2
    bias = case.fixed(np.ones((ways, 8 * hidden)), np.float32)
    read = [case.model_input((steps, batch, features)), *held, bias, "", "", "", "", *shape_constant]
    direction = "bidirectional" if ways == 2 else "forward"
    count = case.random.randint(1, 3)
    case.ops(_MS + "DynamicQuantizeLSTM", count, *read, hidden_size=hidden, direction=direction)
    sides = (ways, steps, batch, 4 * hidden, features + hidden)
    case.macs = lambda _made: sum(1 for _ in product(*map(range, sides)))
