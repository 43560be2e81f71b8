"""Reservations about single operators, with the kernels that have them and those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.tflite.factory import options
from micro_kernels import CASES, Case, Value, convolution
from sizeup.backends.tflm.layout import Build
from sizeup.backends.tflm.support import caveats, may_fail_by_value
from sizeup.dtypes import dtype
from sizeup.formats import load
from sizeup.graph import GraphBuilder

pytestmark = pytest.mark.extras

REFERENCE = Build(4, 1)
DSP = Build(4, 1, kernels="cmsis-nn", vectors="dsp")
HELIUM = Build(4, 1, kernels="cmsis-nn", vectors="mve")
ESPRESSIF = Build(4, 1, kernels="esp-nn", chip="esp32-s3")
FAULT = "faults instead of reporting an error if the arena is too small"
LSTM = next(case for case in CASES if case.label == "UNIDIRECTIONAL_SEQUENCE_LSTM-INT8")
DENSE = next(case for case in CASES if case.label == "FULLY_CONNECTED-per channel")


def _transposed(
    rows: int, result: int, kind: str = "INT8", channels: int = 3, stride: int = 2, activation: int = 0
) -> Case:
    """A transposed convolution of 3x3 inputs."""
    fields = {"strideH": stride, "strideW": stride, "padding": 0, "fusedActivationFunction": activation}
    sizes = Value((4,), "INT32", np.array([1, result, result, 7], np.int32))
    shape = (7, rows, rows, channels)
    weights = Value(shape, kind, np.zeros(shape, np.float32 if kind == "FLOAT32" else np.int8))
    data, made = Value((1, 3, 3, channels), kind), Value((1, result, result, 7), kind)
    return Case("TRANSPOSE_CONV", [sizes, weights, data], [made], options("TransposeConvOptions", **fields))


def _rows_transposed() -> Case:
    """From 3x3 to 6x3: a stride of 2 along the rows alone."""
    fields = {"strideH": 2, "strideW": 1, "padding": 0}
    sizes = Value((4,), "INT32", np.array([1, 6, 3, 7], np.int32))
    weights = Value((7, 4, 1, 3), "INT8", bytes(84))
    data, made = Value((1, 3, 3, 3), "INT8"), Value((1, 6, 3, 7), "INT8")
    return Case("TRANSPOSE_CONV", [sizes, weights, data], [made], options("TransposeConvOptions", **fields))


def _pad(batch: int, *before: int) -> Case:
    """A padding of 5 dimensions."""
    paddings = np.zeros((5, 2), np.int32)
    paddings[: len(before), 0] = before
    data = (batch, 2, 2, 2, 2)
    padded = tuple(size + amount for size, amount in zip(data, paddings.sum(1).tolist(), strict=True))
    return Case("PAD", [Value(data, "INT8"), Value((5, 2), "INT32", paddings)], [Value(padded, "INT8")])


def _same(name: str, shape: tuple[int, ...], kinds: str, *others: Value) -> Case:
    """Tensors of one shape, of those dtypes: the inputs, then the output."""
    *read, written = (Value(shape, kind) for kind in kinds.split())
    return Case(name, [*read, *others], [written])


def _axes(count: int) -> Value:
    return Value((count,), "INT32", np.arange(count, dtype=np.int32))


def _free(case: Case, position: int) -> Case:
    """The case with a constant computed by the application instead."""
    value = case.inputs[position]
    assert value is not None
    inputs = [*case.inputs[:position], value._replace(content=None), *case.inputs[position + 1 :]]
    return case._replace(inputs=inputs)


def _depthwise(kind: str) -> Case:
    case = convolution("DEPTHWISE_CONV_2D", (6, 6, 5, 3, 3, 5, 1, 1, "same"))
    weights = Value((1, 3, 3, 5), kind, bytes(45))
    return case._replace(inputs=[case.inputs[0], weights, case.inputs[2]])


def _grouped(kind: str, channels: int) -> Case:
    case = convolution("CONV_2D", (6, 6, channels, 3, 3, 8, 1, 1, "same"), kind)
    return case._replace(inputs=[Value((1, 6, 6, 4), kind), *case.inputs[1:]])


@pytest.mark.parametrize(
    ("case", "build", "texts"),
    [
        (_transposed(2, 6, activation=1), DSP, ["ignores its fused relu"]),
        (_transposed(2, 6, "FLOAT32", activation=1), DSP, []),
        (_transposed(2, 6, activation=1), REFERENCE, []),
        # (3 - 1) * 2 + 4 - 6 = 2 rows of padding: one before, which is no multiple of the stride
        (_transposed(4, 6), DSP, ["writes wrong rows with a stride of 2 and a filter of 4 rows"]),
        (_rows_transposed(), DSP, ["writes wrong rows with a stride of 2 and a filter of 4 rows"]),
        (_transposed(4, 8), DSP, []),  # without padding
        (_transposed(4, 6)._replace(settings=None), DSP, []),  # a file without options has no stride
        (_transposed(3, 6), DSP, []),  # one row, after
        (
            _transposed(4, 6, channels=16),
            DSP,
            ["writes wrong rows with a stride of 2 and a filter of 4 rows"],
        ),
        (_transposed(4, 6, channels=17), DSP, []),  # computed as a convolution
        (_transposed(4, 6, "FLOAT32"), DSP, []),
        (
            _transposed(5, 9, channels=17, stride=3),
            DSP,
            ["writes wrong rows with a stride of 3 and a filter of 5 rows"],
        ),
        (
            _same("TRANSPOSE", (2,) * 5, "INT8 INT8", _axes(5)),
            DSP,
            ["writes nothing for int8 data of 5 dimensions"],
        ),
        (_same("TRANSPOSE", (2,) * 4, "INT8 INT8", _axes(4)), DSP, []),
        (_same("TRANSPOSE", (2,) * 5, "FLOAT32 FLOAT32", _axes(5)), DSP, []),
        (_pad(1, 0, 1), DSP, []),
        (_pad(1, 1), DSP, ["pads only the last 4 dimensions of int8 data"]),
        (_pad(2, 0, 1), DSP, ["pads only the last 4 dimensions of int8 data"]),
        (_same("MAXIMUM", (2,) * 5, "INT8 INT8 INT8"), DSP, ["reads only 4 dimensions of int8 data"]),
        (_same("MAXIMUM", (2,) * 4, "INT8 INT8 INT8"), DSP, []),
        (_same("MINIMUM", (2,) * 5, "INT16 INT16 INT16"), DSP, []),
        (_grouped("INT16", 2), DSP, ["computes grouped convolutions of int16 data as ungrouped"]),
        (_grouped("INT16", 4), DSP, []),
        (_grouped("INT8", 2), DSP, []),
        (
            _depthwise("INT4"),
            HELIUM,
            ["computed other values with int4 weights on an emulated Cortex-M55"],
        ),
        (_depthwise("INT4"), DSP, []),
        (_depthwise("INT8"), HELIUM, []),
        (LSTM, DSP, ["starts every inference without state", FAULT]),
        (LSTM, REFERENCE, []),
        (DENSE, HELIUM, [FAULT]),
        (DENSE, DSP, []),
        (_free(DENSE, 1), HELIUM, []),
        (
            Case("RSQRT", [Value((2, 9), "INT8", zero=-127)], [Value((2, 9), "INT8")]),
            REFERENCE,
            ["fails during inference for inputs below its zero point"],
        ),
        (Case("RSQRT", [Value((2, 9), "INT8", zero=-128)], [Value((2, 9), "INT8")]), REFERENCE, []),
        (Case("RSQRT", [Value((2, 9), "INT16", zero=-32768)], [Value((2, 9), "INT16")]), REFERENCE, []),
        (Case("RSQRT", [Value((2, 9))], [Value((2, 9))]), REFERENCE, []),
        (
            _same("GREATER", (2, 9), "INT16 INT16 BOOL"),
            REFERENCE,
            ["compares int16 data without setting its scales"],
        ),
        (_same("GREATER", (2, 9), "INT8 INT8 BOOL"), REFERENCE, []),
        (
            _same("ADD", (2, 9), "INT8 INT16 INT8"),
            REFERENCE,
            ["reads int8 and int16 tensors as int8"],
        ),
        (_same("ADD", (2, 9), "INT8 INT16 INT8"), ESPRESSIF, []),  # its own kernel
        (_same("SUB", (2, 9), "INT8 INT16 INT8"), ESPRESSIF, ["reads int8 and int16 tensors as int8"]),
        (_same("SUB", (2, 9), "INT8 INT8 INT8"), REFERENCE, []),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else "",
)
def test_a_caveat_is_that_of_its_kernels(case: Case, build: Build, texts: list[str]) -> None:
    found = caveats([load(case.pack())], build)
    assert found == [f"its {case.name} kernel {text} (operator 'out0')" for text in texts]


def test_an_operator_without_operands_has_no_caveat() -> None:
    builder = GraphBuilder("incomplete", "tflite")
    builder.op("rsqrt", [builder.input("x", (2, 9), dtype("int8"))], [], source="RSQRT")
    builder.op("pad", [], [builder.tensor("y", (2, 9), dtype("int8"))], source="PAD")
    assert caveats([builder.freeze()], DSP) == []


@pytest.mark.parametrize(
    ("name", "position"), [("DIV", 1), ("FLOOR_MOD", 1), ("GATHER", 1), ("EMBEDDING_LOOKUP", 0), ("RSQRT", 0)]
)
def test_only_operands_that_are_computed_fail_for_some_inputs(name: str, position: int) -> None:
    case = next(case for case in CASES if case.name == name)
    value = case.inputs[position]
    assert value is not None
    content: Any = np.ones(value.shape, np.int32 if value.kind == "INT32" else np.float32)
    inputs = [*case.inputs]
    for given, may_fail in ((content, False), (None, True)):
        inputs[position] = value._replace(content=given)
        graph = load(case._replace(inputs=inputs).pack())
        assert may_fail_by_value([graph], name) is may_fail
        assert not may_fail_by_value([graph], "ADD")
