"""Scratch of CMSIS-NN's convolutions equals what the library's own size functions return."""

from __future__ import annotations

import pytest

from formats.tflite.factory import options
from micro_kernels import CASES, Case, Sizes, Value, convolution, integers
from sizeup.backends.tflm.layout import Build
from sizeup.backends.tflm.tail import kernel_requests
from sizeup.formats import load

pytestmark = pytest.mark.extras

BUILDS = [Build(4, 1, kernels="cmsis-nn", vectors=vectors) for vectors in ("dsp", "mve")]
# Sizes, and what the functions of CMSIS-NN (commit 4ab83cc, compiled) return with DSP and
# with Helium instructions: for 8 bits, and for 16 bits. They tell all branches of the functions apart.
CONVOLUTIONS = [
    ((1, 3, 4, 1, 4, 3, 4, 4, "same"), 64, 16, 64, 128),
    ((1, 3, 12, 1, 5, 16, 3, 3, "same"), 240, 256, 240, 512),
    ((1, 3, 16, 1, 5, 3, 4, 2, "same"), 320, 112, 320, 640),
    ((1, 7, 1, 1, 1, 1, 3, 4, "valid"), 0, 0, 4, 64),
    ((1, 20, 4, 1, 2, 3, 1, 1, "same"), 32, 8, 32, 64),
    ((1, 30, 2, 2, 2, 8, 3, 3, "same"), 32, 64, 32, 64),
]
DEPTHWISE_CONVOLUTIONS = [
    ((1, 8, 1, 1, 1, 2, 1, 1, "same"), 0, 2),
    ((8, 6, 1, 1, 5, 1, 2, 2, "same"), 10, 2_480),
    ((12, 9, 12, 3, 3, 12, 1, 1, "same"), 0, 4_464),
]


def _scratch(name: str, sizes: Sizes, kind: str) -> list[int]:
    graph = load(convolution(name, sizes, kind).pack())
    return [sum(kernel_requests(graph, graph.ops[0], build).scratch) for build in BUILDS]


@pytest.mark.parametrize(("sizes", "dsp", "mve", "wide_dsp", "wide_mve"), CONVOLUTIONS)
def test_convolutions(sizes: Sizes, dsp: int, mve: int, wide_dsp: int, wide_mve: int) -> None:
    assert _scratch("CONV_2D", sizes, "INT8") == [dsp, mve]
    assert _scratch("CONV_2D", sizes, "INT16") == [wide_dsp, wide_mve]


@pytest.mark.parametrize(("sizes", "dsp", "mve"), DEPTHWISE_CONVOLUTIONS)
def test_depthwise_convolutions(sizes: Sizes, dsp: int, mve: int) -> None:
    assert _scratch("DEPTHWISE_CONV_2D", sizes, "INT8") == [dsp, mve]
    assert _scratch("DEPTHWISE_CONV_2D", sizes, "INT16") == [0, 0]  # the kernel requests none for 16 bits


def test_transposed_convolutions() -> None:
    """Above 16 channels and for strides of at most 2 as a convolution of 3 * 2 * channels numbers per output.

    Its window is in four columns of bytes, and a copy of the filter with 5 outputs is reversed. Otherwise
    rows of 32-bit sums: three are under the filter at once, of ((4 - 1) * 2 + 2) columns with 5 channels.
    """
    sizes = {}
    for channels in (16, 17):
        filter = Value((5, 3, 2, channels), "INT8", bytes(5 * 3 * 2 * channels))
        settings = options("TransposeConvOptions", strideH=2, strideW=2, padding=1)
        inputs = [integers(1, 7, 8, 5), filter, Value((1, 3, 4, channels), "INT8")]
        graph = load(Case("TRANSPOSE_CONV", inputs, [Value((1, 7, 8, 5), "INT8")], settings).pack())
        sizes[channels] = [kernel_requests(graph, graph.ops[0], build).scratch for build in BUILDS]
    assert sizes[16] == [(3 * 8 * 5 * 4, 0)] * 2
    assert sizes[17] == [(4 * 104, 102 * 5), (4 * 112, 102 * 5)]  # 3 * 2 * 17 is 102


def test_float_filters_with_state() -> None:
    """A number for each of 8 filters and 2 rows of data, as in the reference kernel."""
    case = next(case for case in CASES if case.label == "SVDF-FLOAT32-FLOAT32")
    graph = load(case.pack())
    assert [kernel_requests(graph, graph.ops[0], build).scratch for build in BUILDS] == [(4 * 2 * 8,)] * 2
