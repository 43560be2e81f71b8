"""Scratch buffers that the kernels of ESP-NN request per operator.

Sizes are those of the `esp_nn_get_*_scratch_size` functions of espressif/esp-nn (commit d45b843) for int8
data: vector instructions of the ESP32-S3 and of the ESP32-P4, and optimized C for other chips.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from sizeup.backends.tflm.kernel_call import Call, KernelRequests, shape_of
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import FIRMWARE, Chip, round_up
from sizeup.backends.tflm.window import Window, window_of
from sizeup.graph import Graph, Op

# Chips by the core whose vector instructions ESP-NN uses.
_CHIPS: dict[str, Chip] = {"xtensa-lx7-s3": "esp32-s3", "esp-rv32-p4": "esp32-p4"}
_CACHE = 32_768  # bytes of the ESP32-P4's first-level cache that a tile of inputs may take
_STRIP, _WHOLE = 40 << 10, 48 << 10  # bytes from which depthwise convolutions of the ESP32-S3 run in strips


def chip_of(core: str) -> Chip:
    """The chip with that core; empty if ESP-NN has no vector instructions for it."""
    return _CHIPS.get(core, "")


def scratch_bytes(graph: Graph, op: Op, chip: Chip) -> int:
    """The scratch of one operator; raises Incomplete if a shape depends on data."""
    return _scratch_of(Call(op, graph.tensors, replace(FIRMWARE, chip=chip)))


def _scratch_of(call: Call) -> int:
    op, chip = call.op, call.build.chip
    if not op.outputs or not call.has(0) or call.input(0).dtype.name != "int8":
        return 0
    if op.source == "LOGISTIC":
        return 256
    if op.source == "HARD_SWISH":
        return 512 if chip == "esp32-s3" else 0
    if op.source == "SOFTMAX":
        return 4 * shape_of(call.output())[-1]
    if op.source not in ("CONV_2D", "DEPTHWISE_CONV_2D") or not chip or call.input(1).dtype.name != "int8":
        return 0
    window = window_of(call)
    if op.source == "CONV_2D":
        return _convolution_s3(window) if chip == "esp32-s3" else _convolution_p4(window)
    return _depthwise_s3(window) if chip == "esp32-s3" else 0


def largest_scratch_bytes(graphs: Iterable[Graph], chip: Chip) -> int:
    """The largest scratch buffer of one operator, rounded up as in the arena."""
    sizes = (scratch_bytes(graph, op, chip) for graph in graphs for op in graph.ops)
    return round_up(max(sizes, default=0), 16)


def _prepare(call: Call) -> KernelRequests:
    """The requests of the reference kernel, and the scratch of ESP-NN."""
    prepare, size = KERNELS[call.op.source].prepare, _scratch_of(call)
    requests = KernelRequests() if prepare is None else prepare(call)
    return replace(requests, scratch=(*requests.scratch, size)) if size else requests


ESP_NN = {
    **KERNELS,
    **{
        source: replace(KERNELS[source], prepare=_prepare)
        for source in ("CONV_2D", "DEPTHWISE_CONV_2D", "HARD_SWISH", "LOGISTIC", "SOFTMAX")
    },
}
"""The kernels of a build with ESP-NN, with the persistent memory of the reference kernels."""


def _is_pointwise(conv: Window) -> bool:
    return conv.filter[1:3] == (1, 1) and conv.padding == (0, 0) and conv.stride == (1, 1)


def _pointwise(conv: Window, margin: int) -> int:
    """Copies of filter and input with a multiple of 8 channels, and two tiles of 8 pixels."""
    pixels, channels = math.prod(conv.data[1:3]), round_up(conv.data[3], 8)
    copied = pixels * channels if conv.data[3] % 8 else 0
    tiles = 16 * channels if pixels >= 8 else 0
    return copied + channels * conv.result[3] + tiles + margin


def _convolution_s3(conv: Window) -> int:
    margin = 64
    if _is_pointwise(conv):
        return _pointwise(conv, margin)
    (_, height, width, channels), (_, rows, columns, _) = conv.data, conv.filter
    filters, row = conv.result[3], columns * channels
    length = rows * row
    if row < 16 <= length:  # windows as columns
        aligned = round_up(length, 16)
        return filters * 4 + 16 + filters * aligned + 16 + aligned + margin
    pad_rows, pad_columns = conv.padding
    padded = 0
    if pad_rows or pad_columns:
        padded = (width + 2 * pad_columns) * (height + 2 * pad_rows) * channels
    below = max(0, conv.result[1] * conv.stride[0] + rows - 1 - height)
    right = max(0, conv.result[2] * conv.stride[1] + columns - 1 - width)
    boundary = (width + right) * (height + below) * channels if below or right else 0
    copies = rows * columns * round_up(channels, 16) * filters + round_up(row, 16) * rows * filters
    return padded + copies + boundary + margin + 4 * filters


def _convolution_p4(conv: Window) -> int:
    margin, channels, filters = 32, conv.data[3], conv.result[3]
    if _is_pointwise(conv):
        if channels < 16:
            return 4 * filters + 16 * filters + 32 + margin
        return _pointwise(conv, margin)
    (_, height, width, _), (_, rows, columns, _) = conv.data, conv.filter
    pad_rows, pad_columns = conv.padding
    sums, taps = 4 * filters, rows * columns
    if conv.padding == (0, 0) and columns * channels >= 16:
        return taps * round_up(channels, 16) * filters + margin + sums
    if taps * channels >= 16:
        return sums + taps * channels + margin
    filter = taps * 16 * filters  # copied with 16 channels
    if conv.padding == (0, 0):
        return sums + filter + width * height * 16 + margin
    across = width + 2 * pad_columns
    whole = across * (height + 2 * pad_rows) * channels
    if whole + sums <= _CACHE:
        return whole + filter + margin + sums
    row = across * 16
    budget, tile = _CACHE - sums - filter, 1
    if budget > 0 and rows * row <= budget:
        tile = min((budget - rows * row) // (conv.stride[0] * row) + 1, conv.result[1])
    return ((tile - 1) * conv.stride[0] + rows + 2 * pad_rows) * row + filter + margin + sums


def _depthwise_s3(conv: Window) -> int:
    (_, height, width, channels), (_, rows, columns, _) = conv.data, conv.filter
    multiplier = conv.result[3] // max(channels, 1)
    filter, data = rows * columns * channels * multiplier, width * height * channels
    if multiplier == 1 and channels % 8 == 0:
        if (rows, columns) == (3, 3) and channels != 8:
            return _depthwise_3x3_s3(conv, filter)
        wide = 2 * (filter + data)
        if (rows, columns) == (3, 3) or wide <= _WHOLE:
            return wide + 32
        return 2 * filter + 2 * width * rows * channels + 32
    if multiplier == 1 and channels > 3:
        padded = round_up(channels, 8)
        end = round_up(2 * rows * columns * padded, 16)
        end = round_up(end + 2 * width * height * padded, 16)
        end = round_up(end + conv.result[1] * conv.result[2] * padded, 16)
        return end + 3 * 4 * padded + 16
    return 2 * (filter + data) + 32 if multiplier % 4 == 0 else 32


def _depthwise_3x3_s3(conv: Window, filter: int) -> int:
    (_, height, width, channels), (pad_rows, pad_columns) = conv.data, conv.padding
    below = conv.result[1] * conv.stride[0] + 2 - height
    right = conv.result[2] * conv.stride[1] + 2 - width
    if channels % 16:
        padded = round_up(channels, 16)
        across, down = width + 2 * pad_columns + max(0, right), height + 2 * pad_rows + max(0, below)
        return padded * (9 + across * down + conv.result[1] * conv.result[2]) + 64
    if pad_rows or pad_columns:
        below, right = 2 * pad_rows, 2 * pad_columns
    if not below and not right:
        return filter + 16
    whole = (width + right) * (height + below) * channels
    return filter + (whole if whole <= _STRIP else (width + right) * 3 * channels) + 16
