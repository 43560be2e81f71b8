"""Scratch buffers that the kernels of ESP-NN request per operator.

Sizes are those of the `esp_nn_get_*_scratch_size` functions of espressif/esp-nn (commit d45b843) for int8
data: vector instructions of the ESP32-S3 and of the ESP32-P4, and optimized C for other chips.
"""

from __future__ import annotations

import math

from sizeup.backends.tflm.kernel import Call, Window, shape_of, window_of
from sizeup.backends.tflm.layout import round_up

_CACHE = 32_768  # bytes of the ESP32-P4's first-level cache that a tile of inputs may take
_STRIP, _WHOLE = 40 << 10, 48 << 10  # bytes from which depthwise convolutions of the ESP32-S3 run in strips


def no_scratch(_call: Call) -> int:
    """For kernels without a size function."""
    return 0


def logistic(_call: Call) -> int:
    """A table of all 8-bit inputs."""
    return 256


def hard_swish(call: Call) -> int:
    """Two numbers per 8-bit input, for the vector instructions of the ESP32-S3."""
    return 512 if call.build.chip == "esp32-s3" else 0


def softmax(call: Call) -> int:
    """A 32-bit exponential per number of a row."""
    return 4 * shape_of(call.output())[-1]


def convolution(call: Call) -> int:
    """Copies of filter and input for vector instructions."""
    if not call.build.chip or call.input(1).dtype.name != "int8":
        return 0
    window = window_of(call)
    return _convolution_s3(window) if call.build.chip == "esp32-s3" else _convolution_p4(window)


def depthwise(call: Call) -> int:
    """Copies of filter and input for the vector instructions of the ESP32-S3."""
    is_vectorized = call.build.chip == "esp32-s3" and call.input(1).dtype.name == "int8"
    return _depthwise_s3(window_of(call)) if is_vectorized else 0


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
