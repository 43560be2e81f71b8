"""Models of one operator each over dtypes, ranks and quantization: most of them at the edge of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from formats.tflite.factory import options
from micro_kernels import CASES, Case, Value, integers

KINDS = {
    "FLOAT32": np.float32,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}
# Sums of integers in recurrent cells need scales and states of other dtypes: those cases are listed there.
_FIXED = ("TFLM_DECODE", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "QUANTIZE", "DEQUANTIZE", "CAST")

_POOL = options("Pool2DOptions", strideH=1, strideW=1, filterHeight=2, filterWidth=2, padding=1)


def sweep() -> list[Case]:
    """All cases, with different labels."""
    cases = [*_dtypes(), *_conversions(), *_ranks(), *_scales(), *_mixtures(), *_counts()]
    return [case._replace(note=f"{case.note}-{number}") for number, case in enumerate(cases)]


def _ones(shape: tuple[int, ...], kind: str) -> Any:
    return np.ones(shape, KINDS[kind])


def _changed(value: Value | None, old: str, new: str) -> Value | None:
    if value is None or value.kind != old:
        return value
    content = None if value.content is None else _ones(value.shape, new)
    return value._replace(kind=new, content=content)


def in_dtype(case: Case, old: str, new: str) -> Case:
    """A case with its tensors of one dtype in another."""
    return case._replace(
        inputs=[_changed(value, old, new) for value in case.inputs],
        outputs=[_changed(value, old, new) or value for value in case.outputs],
        note=f"{case.note} {old} as {new}",
    )


def _dtypes() -> Iterator[Case]:
    """Every case of the table with its data in every dtype."""
    for case in CASES:
        if case.name in _FIXED:
            continue
        present = [value.kind for value in (*case.inputs, *case.outputs) if value is not None]
        main = next((kind for kind in ("FLOAT32", "INT8", "INT16") if kind in present), present[0])
        for kind in KINDS:
            yield in_dtype(case, main, kind)


def _conversions() -> Iterator[Case]:
    for read, written in product(KINDS, KINDS):
        ends = [Value((2, 9), read)], [Value((2, 9), written)]
        codes = {"FLOAT32": 0, "INT32": 2, "UINT8": 3, "INT64": 4, "BOOL": 6, "INT16": 7, "INT8": 9}
        cast = options("CastOptions", inDataType=codes[read], outDataType=codes[written])
        for name, settings in (("QUANTIZE", None), ("DEQUANTIZE", None), ("CAST", cast)):
            yield Case(name, *ends, settings, f"{read} to {written}")


def _ranks() -> Iterator[Case]:
    """Shapes of 1 to 6 dimensions."""
    for rank, kind in product(range(1, 7), ("FLOAT32", "INT8")):
        shape = (2,) * rank
        data, note = Value(shape, kind), f"{rank} dimensions"
        same = [data]
        paddings = Value((rank, 2), "INT32", np.ones((rank, 2), np.int32))
        wide = Value((4,) * rank, kind)
        yield Case("TRANSPOSE", [data, integers(*reversed(range(rank)))], same, None, note)
        yield Case("PAD", [data, paddings], [wide], None, note)
        yield Case("MIRROR_PAD", [data, paddings], [wide], options("MirrorPadOptions"), note)
        yield Case("SLICE", [data, integers(*[0] * rank), integers(*shape)], same, None, note)
        yield Case(
            "STRIDED_SLICE",
            [data, integers(*[0] * rank), integers(*shape), integers(*[1] * rank)],
            same,
            options("StridedSliceOptions"),
            note,
        )
        yield Case("BROADCAST_TO", [Value((1,) * rank, kind), integers(*shape)], same, None, note)
        if rank > 1:
            yield Case("BATCH_MATMUL", [data, data], same, options("BatchMatMulOptions"), note)
        yield Case("MEAN", [data, integers(0)], [Value(shape[1:], kind)], options("ReducerOptions"), note)
        yield Case("L2_NORMALIZATION", [data], same, options("L2NormOptions"), note)
        yield Case("ADD", [data, Value((1,) * rank, kind)], same, options("AddOptions"), note)
        yield Case("MUL", [data, Value((1,) * rank, kind)], same, options("MulOptions"), note)
        yield Case("LESS", [data, Value((1,) * rank, kind)], [Value(shape, "BOOL")], None, note)
        yield Case("RELU", [data], same, None, note)
        yield Case("REVERSE_V2", [data, integers(rank - 1)], same, None, note)
        yield Case(
            "CONCATENATION",
            [data, data],
            [Value((4, *shape[1:]), kind)],
            options("ConcatenationOptions", axis=0),
            note,
        )
        for name in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"):
            blocks = [data, integers(1, 1), Value((2, 2), "INT32", np.zeros((2, 2), np.int32))]
            yield Case(name, blocks, same, None, note)


def _scales() -> Iterator[Case]:
    """Outputs of the scales and zero points that kernels check."""
    scales = {"INT8": (1 / 256, 1 / 128, 16 / 256), "INT16": (2.0**-15, 2.0**-16, 0.01)}
    zeros = {"INT8": (-128, 0, 127), "INT16": (0, -32768, 5)}
    for kind, (name, settings) in product(
        ("INT8", "INT16"),
        (
            ("SOFTMAX", options("SoftmaxOptions", beta=1.0)),
            ("LOG_SOFTMAX", None),
            ("LOGISTIC", None),
            ("TANH", None),
            ("RELU", None),
            ("ABS", None),
            ("HARD_SWISH", None),
        ),
    ):
        for scale, zero in product(scales[kind], zeros[kind]):
            output = Value((2, 9), kind, scale=scale, zero=zero)
            yield Case(
                name, [Value((2, 9), kind, scale=0.05)], [output], settings, f"{kind} {scale:g} {zero}"
            )
    for (scale, zero), kind in product(((2.0**-11, 0), (0.01, 0), (2.0**-11, 3)), ("INT8", "INT16")):
        note = f"{kind} {scale:g} {zero}"
        image, small = Value((1, 4, 4, 3), kind), Value((1, 3, 3, 3), kind, scale=scale, zero=zero)
        yield Case("MAX_POOL_2D", [image], [small], _POOL, note)
        yield Case("AVERAGE_POOL_2D", [image], [small], _POOL, note)
        pair = [Value((2, 9), kind), Value((2, 9), kind)]
        long = Value((4, 9), kind, scale=scale, zero=zero)
        yield Case("CONCATENATION", pair, [long], options("ConcatenationOptions", axis=0), note)
        keep = options("ReducerOptions", keepDims=True)
        for name in ("REDUCE_MAX", "SUM"):
            output = Value((2, 1), kind, scale=scale, zero=zero)
            yield Case(name, [Value((2, 9), kind), integers(1)], [output], keep, note)
        for name, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
            yield Case(name, pair, [Value((2, 9), kind, scale=scale, zero=zero)], options(table), note)
        for output_scale in (1e-9, 1e-4, 10.0):
            output = Value((2, 9), kind, scale=output_scale, zero=zero)
            yield Case("ADD", pair, [output], options("AddOptions"), f"{note} {output_scale:g}")


def _mixtures() -> Iterator[Case]:
    """Two inputs or an output of another dtype."""
    tables = {"ADD": "AddOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
    pairs = [("FLOAT32", "INT8"), ("INT8", "FLOAT32"), ("INT32", "FLOAT32"), ("INT16", "INT8")]
    for (one, other), (name, table) in product(pairs, tables.items()):
        divisor = Value((2, 9), other, _ones((2, 9), other))
        yield Case(
            name, [Value((2, 9), one), divisor], [Value((2, 9), one)], options(table), f"{one} {other}"
        )
    for (one, other), name in product(pairs, ("TANH", "LOGISTIC", "ELU", "LEAKY_RELU", "FLOOR", "NEG")):
        settings = options("LeakyReluOptions", alpha=0.5) if name == "LEAKY_RELU" else None
        yield Case(name, [Value((2, 9), one)], [Value((2, 9), other)], settings, f"{one} to {other}")
    for kind in ("INT32", "INT64", "INT16"):
        index = Value((2,), kind, np.array([1, 0], KINDS[kind]))
        data = Value((5, 9))
        yield Case("GATHER", [data, index], [Value((2, 9))], options("GatherOptions", axis=0), kind)
        yield Case("MEAN", [data, index], [Value((1,))], options("ReducerOptions"), kind)
        yield Case("TRANSPOSE", [data, index], [Value((9, 5))], None, kind)
        yield Case("EMBEDDING_LOOKUP", [index, Value((5, 9), "FLOAT32", _ones((5, 9), "FLOAT32"))],
                   [Value((2, 9))], None, kind)  # fmt: skip
        sizes = Value((2,), kind, np.array([2, 9], KINDS[kind]))
        scalar = Value((), "FLOAT32", np.ones((), np.float32))
        yield Case("FILL", [sizes, scalar], [Value((2, 9))], None, kind)
        yield Case("BROADCAST_TO", [Value((1, 9)), sizes], [Value((2, 9))], None, kind)


def _counts() -> Iterator[Case]:
    """Numbers of inputs, parameters that are inputs, and activations."""
    row = Value((1, 5), "INT8")
    for count in (1, 2, 9, 10, 11, 12):
        settings = options("ConcatenationOptions", axis=0)
        yield Case("CONCATENATION", [row] * count, [Value((count, 5), "INT8")], settings, f"{count} inputs")
        yield Case("ADD_N", [row] * count, [row], None, f"{count} inputs")
    for activation in range(6):
        joined = options("ConcatenationOptions", axis=0, fusedActivationFunction=activation)
        yield Case("CONCATENATION", [row, row], [Value((2, 5), "INT8")], joined, f"activation {activation}")
        normed = options("L2NormOptions", fusedActivationFunction=activation)
        yield Case("L2_NORMALIZATION", [Value((2, 9))], [Value((2, 9))], normed, f"activation {activation}")
    data, pair = Value((2, 9)), Value((2,), "INT32")
    yield Case("TRANSPOSE", [data, pair], [Value((9, 2))], None, "axes as input")
    yield Case("PAD", [data, Value((2, 2), "INT32")], [Value((4, 11))], None, "paddings as input")
    yield Case("FILL", [pair, Value((), "FLOAT32", np.ones((), np.float32))], [data], None, "sizes as input")
    yield Case("BROADCAST_TO", [Value((1, 1)), pair], [data], None, "shape as input")
    scalar = Value((1,), "INT32")
    yield Case(
        "EXPAND_DIMS", [data, scalar], [Value((1, 2, 9))], options("ExpandDimsOptions"), "axis as input"
    )
    halves = [Value((2, 4)), Value((2, 4))]
    yield Case(
        "SPLIT", [scalar, Value((2, 8))], halves, options("SplitOptions", numSplits=2), "axis as input"
    )
    for mask in ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask"):
        for output in ((1, 4), (4,), (2, 9), (2, 4)):
            bounds = [integers(1, 5), integers(2, 9), integers(1, 1)]
            masks = options("StridedSliceOptions", **{mask: 1})
            yield Case("STRIDED_SLICE", [data, *bounds], [Value(output)], masks, f"{mask} {output}")
