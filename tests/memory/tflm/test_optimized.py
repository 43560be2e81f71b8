"""Scratch of optimized kernels never exceeds our bound, by the formulas of their sources."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sizeup.dtypes import DTYPES
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.memory.tflm import max_scratch_bytes


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _network(
    side: int, channels: int, filters: int, taps: int, stride: int, depthwise: bool, dtype: str = "int8"
) -> tuple[Graph, int]:
    """One convolution with 'same' padding, as TFLite has it, and the side of its output."""
    output = math.ceil(side / stride)
    builder = GraphBuilder("one", "tflite")
    x = builder.input("x", (1, side, side, channels), DTYPES[dtype])
    shape = (1, taps, taps, filters) if depthwise else (filters, taps, taps, channels)
    weights = builder.tensor("w", shape, DTYPES[dtype], Constant("parameter"))
    y = builder.tensor("y", (1, output, output, filters), DTYPES[dtype])
    attrs = {"out_channels": filters, "groups": channels if depthwise else 1, "kernel": (taps, taps)}
    source = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    builder.op("conv", [x, weights], [y], attrs, source=source)
    builder.outputs.append(y)
    return builder.freeze(), output


_SIDES, _CHANNELS = st.integers(1, 40), st.integers(1, 40)
_TAPS, _STRIDES = st.integers(1, 7), st.integers(1, 3)


@given(_SIDES, _CHANNELS, _CHANNELS, _TAPS, _STRIDES)
def test_convolutions_of_cmsis_nn(side: int, channels: int, filters: int, taps: int, stride: int) -> None:
    graph, _ = _network(side, channels, filters, taps, stride, False)
    window = taps * taps * channels
    # arm_convolve_s8_get_buffer_size: two columns of 16 bits; with Helium four of 8, and sums of weights.
    assert (max_scratch_bytes(graph, "cmsis-nn") or 0) >= 2 * _up(window, 4) * 2
    assert (max_scratch_bytes(graph, "cmsis-nn with helium") or 0) >= 4 * _up(window, 16) + 4 * filters


@given(_SIDES, _CHANNELS, st.integers(1, 4), _TAPS, _STRIDES)
def test_depthwise_convolutions_of_cmsis_nn(
    side: int, channels: int, multiplier: int, taps: int, stride: int
) -> None:
    graph, _ = _network(side, channels, channels * multiplier, taps, stride, True)
    # arm_depthwise_conv_s8_opt_get_buffer_size; one input channel is computed as a convolution with Helium.
    as_convolution = taps * taps * channels * multiplier + 4 * _up(taps * taps, 16)
    helium = max(4 * 124 * taps * taps, as_convolution if channels == 1 else 0)
    assert (max_scratch_bytes(graph, "cmsis-nn") or 0) >= channels * taps * taps * 2
    assert (max_scratch_bytes(graph, "cmsis-nn with helium") or 0) >= helium


@given(_SIDES, _CHANNELS, _CHANNELS, _TAPS, _STRIDES)
def test_convolutions_of_esp_nn(side: int, channels: int, filters: int, taps: int, stride: int) -> None:
    graph, output = _network(side, channels, filters, taps, stride, False)
    pad = max((output - 1) * stride + taps - side, 0) // 2
    # esp_nn_get_conv_scratch_size_esp32s3, its three ways, and the one of its first version.
    ahead = max(0, output * stride + taps - 1 - side)
    padded = (side + 2 * pad) ** 2 * channels if pad else 0
    boundary = (side + ahead) ** 2 * channels if ahead else 0
    copied = taps * taps * _up(channels, 16) * filters + _up(taps * channels, 16) * taps * filters
    general = padded + copied + boundary + 32 + 4 * filters
    columns = 4 * filters + 32 + (filters + 1) * _up(taps * taps * channels, 16) + 32
    pointwise = side * side * _up(channels, 8) + _up(channels, 8) * filters + 16 * _up(channels, 8) + 32
    first = 2 * (taps * taps * channels * filters + side * side * channels) + 16 * channels + 32
    largest = max(general, columns if taps * channels < 16 else 0, pointwise if taps == 1 else 0, first)
    assert (max_scratch_bytes(graph, "esp-nn") or 0) >= largest


@given(_SIDES, _CHANNELS, st.integers(1, 4), _TAPS, _STRIDES)
def test_depthwise_convolutions_of_esp_nn(
    side: int, channels: int, multiplier: int, taps: int, stride: int
) -> None:
    graph, output = _network(side, channels, channels * multiplier, taps, stride, True)
    filter = taps * taps * channels * multiplier
    pad = max((output - 1) * stride + taps - side, 0) // 2
    # esp_nn_get_depthwise_conv_scratch_size_esp32s3: in 16 bits, or padded with a copy of the output.
    wide = 2 * (filter + side * side * channels) + 32
    more, across = _up(channels, 16), side + 2 * pad + max(0, output * stride + 2 - side)
    padded = 9 * more + across**2 * more + output * output * more + 12 * more + 64
    some = _up(channels, 8)
    eight = 2 * some * (taps * taps + side * side) + output * output * some + 12 * some + 64
    largest = max(wide, padded if taps == 3 else 0, eight if multiplier == 1 else 0)
    assert (max_scratch_bytes(graph, "esp-nn") or 0) >= largest


def test_real_numbers_and_reference_kernels_need_no_more() -> None:
    for kernels in ("cmsis-nn", "esp-nn"):
        assert max_scratch_bytes(_network(8, 8, 8, 3, 1, False, "float32")[0], kernels) == 0
    assert max_scratch_bytes(_network(8, 8, 8, 3, 1, False)[0], "reference") == 0
    assert max_scratch_bytes(_network(8, 8, 8, 3, 1, False)[0], "ethos-u") is None


def test_bounds_by_hand() -> None:
    """8x8x8, 3x3 filters and a stride of 2: 4x4 outputs."""
    convolution, depthwise = _network(8, 8, 24, 3, 2, False)[0], _network(8, 8, 8, 3, 2, True)[0]
    # Channels in lanes of 16; sides of 8, with padding of 2 * 3 and the last stride of 2.
    copied = 2 * 16 * 16 * 16 + 16 * (16 + 16)
    assert max_scratch_bytes(convolution, "esp-nn") == copied + 4 * 24 + 2 * (9 * 16) * 24
    assert max_scratch_bytes(depthwise, "esp-nn") == copied + 4 * 8 + 2 * (9 * 16) + 4 * 4 * 16
    # A window of 72 in 80 bytes, four of them, and a sum per filter; 9 taps in 16 bytes.
    for kernels in ("cmsis-nn", "cmsis-nn with helium"):
        assert max_scratch_bytes(convolution, kernels) == 4 * 80 + 4 * 24
    assert max_scratch_bytes(depthwise, "cmsis-nn") == 4 * 16 + 2 * 72
    assert max_scratch_bytes(depthwise, "cmsis-nn with helium") == _up(4 * 16 + 4 * 124 * 9 + 72, 16)


def _operator(
    kind: str,
    data: tuple[int, ...],
    filter: tuple[int, ...] | None,
    output: tuple[int, ...] | None,
    format: str = "onnx",
) -> Graph:
    """An operator in the layout of a format."""
    builder = GraphBuilder("one", format)
    inputs = [builder.input("x", data, DTYPES["int8"])]
    if filter is not None:
        inputs.append(builder.tensor("w", filter, DTYPES["int8"], Constant("parameter")))
    result = builder.tensor("y", output, DTYPES["int8"])
    builder.op(kind, inputs, [result])
    builder.outputs.append(result)
    return builder.freeze()


def test_bounds_of_other_operators_by_hand() -> None:
    # 10x6 with 20 channels in 32 lanes, and a stride of 2.
    first, last = (
        _operator("conv", (1, 20, 10, 6), (24, 20, 3, 3), (1, 24, 5, 3)),
        _operator("conv", (1, 10, 6, 20), (24, 3, 3, 20), (1, 5, 3, 24), "tflite"),
    )
    copied = 2 * (10 + 6 + 2) * (6 + 6 + 2) * 32 + 16 * (32 + 16)
    for convolution in (first, last):
        assert max_scratch_bytes(convolution, "esp-nn") == copied + 4 * 24 + 2 * (9 * 32) * 24
    softmax = _operator("softmax", (2, 20), None, (2, 20))
    assert max_scratch_bytes(softmax, "esp-nn") == 4 * 20
    assert max_scratch_bytes(softmax, "cmsis-nn") == 0
    pool = _operator("pool", (1, 8, 8, 20), None, (1, 8, 4, 20))
    assert max_scratch_bytes(pool, "cmsis-nn") == 4 * 20
    assert max_scratch_bytes(pool, "esp-nn") == 0
    product = _operator("matmul", (2, 30), (12, 30), (2, 12))
    assert max_scratch_bytes(product, "cmsis-nn") == 4 * 12
    # Filters of 3 * 3 * 8 for the 24 outputs of the transposed convolution, sums of all outputs in 32 bits.
    transposed = _operator("conv_transpose", (1, 8, 4, 4), (24, 8, 3, 3), (1, 24, 8, 8))
    assert max_scratch_bytes(transposed, "cmsis-nn") == 4 * 24 + 4 * 80 + 24 * 72 + 4 * 24 * 64
    # Without the other graphs of its file, only kernels without scratch have a bound.
    for kernels, size in (("reference", 0), ("cmsis-nn", None), ("esp-nn", None)):
        assert max_scratch_bytes(replace(pool, other_graphs=None), kernels) == size
    for unknown in (
        _operator("conv", (1, 8, 8, 6), (24, 8, 3, 3), None),
        _operator("conv", (1, 8, 8, 6), None, (1, 24, 4, 3)),
    ):
        assert max_scratch_bytes(unknown, "cmsis-nn") is None
        assert max_scratch_bytes(unknown, "esp-nn") is None
        assert max_scratch_bytes(unknown, "reference") == 0
