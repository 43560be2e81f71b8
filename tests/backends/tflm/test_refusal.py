"""Models that TFLite Micro rejects, compared with its interpreter."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import sizeup
from formats.tflite.factory import File, options
from micro_interpreter import measure
from micro_kernels import Case, Value
from sizeup.backends.tflm import arena
from sizeup.backends.tflm.kernels import RESOLVED
from sizeup.backends.tflm.support import unsupported_reason
from sizeup.errors import RunFailed
from sizeup.formats.tflite.schema import operator_names
from sizeup.formats.tflite.write import rewrite
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras

MISSING = ("Didn't find op", "Failed to get registration")
CUSTOM = ("ethos-u", "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "no such operator")
WIDTHS = {"FLOAT32": 4, "FLOAT16": 2, "INT8": 1, "UINT8": 1, "INT16": 2, "INT4": 1, "INT32": 4, "INT64": 8}
BIASES = {"FLOAT32": "FLOAT32", "INT16": "INT64"}


@pytest.mark.slow
def test_a_file_is_refused_where_the_interpreter_refuses_it(shared: Path) -> None:
    paths = sorted((shared / "models").glob("*.tflite"))
    refused = {path.stem for path, measured in zip(paths, measure(paths), strict=True) if measured.failure}
    assert len(paths) == 33
    assert len(refused) == 7
    memories = {path.stem: sizeup.analyze(path).memory for path in paths}
    assert {name for name, measured in memories.items() if measured.unsupported_reason} == refused
    for measured in memories.values():
        assert measured.arena is None or measured.arena.unsupported_reason == measured.unsupported_reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mlperf_kws_fp32", "its CONV_2D kernel does not support float32 data with int8 weights"),
        ("swiftnet_vww_uint8", "its SPLIT kernel takes float32, int8, int16 and int32, not uint8"),
        ("mp_palm_detection_lite", "its DEQUANTIZE kernel does not convert float16 to float32"),
        ("mp_face_detection_full_range_sparse", "it has no kernel for DENSIFY"),
        ("mp_selfie_segmentation", "it has no kernel for Convolution2DTransposeBias"),
        ("tflm_person_detect_vela", "it has no kernel for ethos-u"),
    ],
)
def test_the_reason_is_reported(name: str, reason: str, shared: Path) -> None:
    text = unsupported_reason([sizeup.load(shared / "models" / f"{name}.tflite")])
    assert text is not None
    message, _, operator = text.partition(" (operator ")
    assert message == reason
    assert bool(operator) == ("no kernel" not in reason)


@pytest.mark.slow
def test_the_kernels_that_are_there_are_those_of_the_package() -> None:
    names = [name for name in operator_names().values() if name not in ("CUSTOM", _PLACEHOLDER)]
    names += [*CUSTOM, *(name for name in RESOLVED if name not in names)]
    failures = [measured.failure for measured in measure([_alone(name) for name in names])]
    there = {
        name for name, failure in zip(names, failures, strict=True) if not any(m in failure for m in MISSING)
    }
    assert there == RESOLVED


_PLACEHOLDER = "PLACEHOLDER_FOR_GREATER_OP_CODES"


def _alone(name: str) -> bytes:
    file = File()
    data, output = file.main.tensor("given", (1, 4)), file.main.tensor("made", (1, 4))
    file.main.op(name, [data], [output])
    file.main.ends([data], [output])
    return file.pack()


def _constant(shape: tuple[int, ...], kind: str) -> Value:
    size = WIDTHS[kind]
    for side in shape:
        size *= side
    return Value(shape, kind, bytes(size))


def _products() -> list[Case]:
    conv = options("Conv2DOptions", strideH=1, strideW=1, padding=0)
    depthwise = options("DepthwiseConv2DOptions", strideH=1, strideW=1, padding=0, depthMultiplier=1)
    transposed = options("TransposeConvOptions", strideH=2, strideW=2, padding=0)
    dense = options("FullyConnectedOptions")
    shape = _constant((4,), "INT32")._replace(content=bytes((1, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0)))
    measured = []
    for data, weights in product(("FLOAT32", "FLOAT16", "INT8", "UINT8", "INT16"), [*WIDTHS][:6]):
        note, bias = f"{data}-{weights}", BIASES.get(data, "INT32")
        image, small = Value((1, 6, 6, 3), data), Value((1, 3, 3, 3), data)
        filters = {
            shape: _constant(shape, weights) for shape in ((7, 3, 3, 3), (1, 3, 3, 3), (7, 2, 2, 3), (5, 9))
        }
        wide = Value((1, 6, 6, 7), data)
        measured += [
            Case("CONV_2D", [image, filters[7, 3, 3, 3], _constant((7,), bias)], [wide], conv, note),
            Case(
                "DEPTHWISE_CONV_2D",
                [image, filters[1, 3, 3, 3], _constant((3,), bias)],
                [image],
                depthwise,
                note,
            ),
            Case("TRANSPOSE_CONV", [shape, filters[7, 2, 2, 3], small], [wide], transposed, note),
            Case(
                "FULLY_CONNECTED",
                [Value((2, 9), data), filters[5, 9], _constant((5,), bias)],
                [Value((2, 5), data)],
                dense,
                note,
            ),
        ]
    return measured


def test_the_number_types_that_are_multiplied_are_those_of_the_package() -> None:
    cases = [case for case in _products() if case.label != "DEPTHWISE_CONV_2D-INT16-INT16"]
    models = [case.pack() for case in cases]
    for case, model, measured in zip(cases, models, measure(models), strict=True):
        assert (arena(sizeup.load(model)).unsupported_reason is not None) == bool(measured.failure), (
            case.label
        )


@pytest.mark.slow
def test_weights_of_16_bits_for_depthwise_convolutions_are_refused_only_in_the_run() -> None:
    """The interpreter sets it up, and its kernel then fails on the first input."""
    model = next(case for case in _products() if case.label == "DEPTHWISE_CONV_2D-INT16-INT16").pack()
    assert measure([model])[0].failure == ""
    graph = sizeup.load(model)
    assert arena(graph).unsupported_reason is not None
    with pytest.raises(RunFailed, match="not supported"):
        run("tflm", model, random_samples(graph, 1))


def test_the_number_types_that_are_dequantized_are_those_of_the_package() -> None:
    cases = [
        Case("DEQUANTIZE", [Value((2, 9), read)], [Value((2, 9), output)], None, f"{read}-{output}")
        for read, output in product([*WIDTHS][:5], [*WIDTHS][:5])
    ]
    models = [case.pack() for case in cases]
    for case, model, measured in zip(cases, models, measure(models), strict=True):
        assert (arena(sizeup.load(model)).unsupported_reason is not None) == bool(measured.failure), (
            case.label
        )


@pytest.mark.slow
def test_a_plan_for_another_number_of_tensors_is_a_reason() -> None:
    head_buffers = rewrite(_alone("RELU"), offline_offsets=[0, 16])
    wrong = head_buffers.replace(
        b"\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00",
    )
    assert wrong != head_buffers
    assert measure([head_buffers])[0].failure == ""
    assert "offline buffer offsets" in measure([wrong])[0].failure
    assert sizeup.analyze(sizeup.load(head_buffers)).memory.unsupported_reason is None
    assert sizeup.analyze(sizeup.load(wrong)).memory.unsupported_reason is not None


_LISTED: tuple[list[int] | None, ...] = (None, [], [2], [2, 1], [-1], [-2], [9])


@pytest.mark.parametrize(
    ("shape", "listed"),
    [*product([(0,)], _LISTED), *product([(4, 0), (4,), ()], [[2]])],
)
def test_intermediate_tensors_are_refused_where_the_interpreter_refuses_them(
    shape: tuple[int, ...], listed: list[int] | None
) -> None:
    file = File()
    data, out = (file.main.tensor(name, (1, 16)) for name in "xy")
    file.main.tensor("between", shape)
    file.main.op("RELU", [data], [out])
    file.main.ends([data], [out])
    file.main.table.operators[0].intermediates = listed
    (measured,) = measure([file.pack()])
    assert (unsupported_reason([file.load()]) is not None) == bool(measured.failure)
