"""Scratch of CMSIS-NN's convolutions equals what the library's own size functions return."""

from __future__ import annotations

import pytest

from micro_kernels import Sizes, convolution
from sizeup.formats import load
from sizeup.memory.tflm.layout import Build
from sizeup.memory.tflm.tail import kernel_requests

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
