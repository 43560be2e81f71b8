"""Arena requests of kernels for products: the reference kernels, and those that use CMSIS-NN if they differ.

Reference kernels are those of tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c). The
glue code of CMSIS-NN is in its folder cmsis_nn, as optimized for speed; buffer sizes are those of the
`*_get_buffer_size` functions of ARM-software/CMSIS-NN (commit 4ab83cc), compiled by GCC: Arm's own compiler
requests more for 1x1 convolutions of cores with DSP instructions. `Build.vectors` chooses the functions: none
(Cortex-M0 to M3), `dsp` (M4, M7, M33) or `mve` (M55, M85).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sizeup.backends.tflm.kernel import (
    Call,
    KernelRequests,
    Prepare,
    Window,
    elements_of,
    output_shape_copy,
    shape_of,
    window_of,
)
from sizeup.backends.tflm.layout import EVAL_TENSOR, Build, round_up
from sizeup.graph import Tensor

_LANES = 16  # 8-bit lanes of a vector register
_CHANNEL_BLOCK = 124  # of depthwise convolutions with vector instructions
REVERSED_ABOVE = 16
"""Input channels from which CMSIS-NN runs a transposed convolution as a convolution."""


def _unpacked(weights: Tensor) -> tuple[int, ...]:
    """4-bit weights are unpacked to one byte each in every inference."""
    return (elements_of(weights),) if weights.dtype.bits == 4 else ()


def per_channel_tables(channels: int) -> tuple[int, int]:
    """A multiplier and a shift per output channel."""
    return 4 * channels, 4 * channels


def filters_at(axis: int) -> Prepare:
    """A multiplier and a shift per output channel, even for unquantized data."""

    def prepare(call: Call) -> KernelRequests:
        weights = call.input(1)
        return KernelRequests(per_channel_tables(shape_of(weights)[axis]), _unpacked(weights))

    return prepare


def transposed_convolution(call: Call) -> KernelRequests:
    """Accumulators of quantized sums: 32 bits for int8, 64 bits for int16."""
    tables = per_channel_tables(shape_of(call.input(1))[0])
    data, scratch = call.input(0).dtype.name, []
    if data in ("int8", "int16"):
        scratch.append(elements_of(call.output()) * (4 if data == "int8" else 8))
    if data == "int16" and call.has(2) and call.input(2).dtype.name == "int16":
        scratch.append(8 * elements_of(call.input(2)))
    return KernelRequests(tables, tuple(scratch))


def transposed_convolution_tensors(call: Call) -> Sequence[int]:
    """Quantized tensors are loaded a second time; the output shape is not loaded."""
    loaded = (-1, 0, 1)
    return loaded if call.input(0).dtype.family == "float" else (*loaded, 0, 1, 2, -1)


def fully_connected(call: Call) -> KernelRequests:
    """Tables per channel, and unpacked weights."""
    _data, weights, tables = fully_connected_operands(call)
    return KernelRequests(tables, _unpacked(weights))


def fully_connected_operands(call: Call) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Data, weights, and the bytes of tables per channel, if it has any."""
    # If the runtime cuts rows across axes, our graph has the weights first.
    swapped = call.input(0).data is not None and call.input(1).data is None
    weights, data = (call.input(0), call.input(1)) if swapped else (call.input(1), call.input(0))
    if data.dtype.family == "float" or weights.quant is None or weights.quant.scale.size <= 1:
        return data, weights, ()
    return data, weights, per_channel_tables(weights.quant.scale.size)


def svdf(call: Call) -> KernelRequests:
    """One value per filter, and for quantized data one per unit."""
    batch, filters = shape_of(call.input(0))[0], shape_of(call.input(1))[0]
    units = (4 * elements_of(call.output()),) if call.input(0).dtype.name == "int8" else ()
    return KernelRequests(scratch=(4 * batch * filters, *units))


def lstm(call: Call) -> KernelRequests:
    """Four gates, each of the size of the cell state."""
    state = call.input(19)
    return KernelRequests(scratch=(elements_of(state) * state.dtype.bits // 8,) * 4)


def batch_matmul(call: Call) -> KernelRequests:
    """Persistent transposed copies of operands with the wrong layout, and the output shape."""
    persistent = [call.size("7i")] if call.input(0).dtype.name in ("int8", "int16") else []
    for position, is_transposed in enumerate(_is_transposed(call)):
        if is_transposed:
            tensor = call.input(position)
            persistent += [
                call.size(EVAL_TENSOR),
                4 + 4 * len(shape_of(tensor)),
                elements_of(tensor) * tensor.dtype.bits // 8,
            ]
    return KernelRequests((*persistent, *output_shape_copy(call).persistent))


def _is_transposed(call: Call) -> tuple[bool, bool]:
    """Whether each operand is stored transposed: the left one if adjoint, the right one if not."""
    left, right = call.op.attrs.get("adjoint", (False, False))
    return left, not right


def _is_integer(tensor: Tensor) -> bool:
    return tensor.dtype.name in ("int8", "int16")


def _scratch(size: int) -> tuple[int, ...]:
    return (size,) if size > 0 else ()


def cmsis_nn_convolution(call: Call) -> KernelRequests:
    """Float convolutions run the reference kernel, without tables per channel."""
    data = call.input(0)
    if not _is_integer(data):
        return KernelRequests()
    conv = window_of(call)
    columns = conv.data[3] * math.prod(conv.filter[1:3])
    if data.dtype.name == "int16":
        has_lanes = call.build.vectors == "mve"
        size = 4 * round_up(columns, 8) * 2 if has_lanes else 2 * columns * 2
    else:
        size = _convolution_bytes(conv, call.build)
    return KernelRequests(per_channel_tables(conv.filter[0]), _scratch(size))


def _convolution_bytes(conv: Window, build: Build) -> int:
    """The buffer of a convolution of 8-bit data."""
    if conv.is_pointwise:
        return 0
    if conv.is_one_row and build.vectors == "mve":
        return _one_row_bytes(conv)
    return _column_bytes(conv.data[3] * math.prod(conv.filter[1:3]), build)


def _column_bytes(columns: int, build: Build) -> int:
    """Four columns of 8-bit inputs with vector instructions, else two of 16 bits."""
    return 4 * round_up(columns, _LANES) if build.vectors == "mve" else 4 * round_up(columns, 4)


def _one_row_bytes(conv: Window) -> int:
    """Padded inputs of the first and of the last outputs of a row."""
    channels, taps, step, pad = conv.data[3], conv.filter[2], conv.stride[1], conv.padding[1]
    total = (conv.result[2] - 1) * step + taps - conv.data[2]
    odd = int(math.fmod(total, 2))  # as C: the sign of the dividend
    right = max(1, (pad + odd + step - 1) // step) if pad + odd else 0
    left = max(1, (pad + step - 1) // step) if pad else 0
    if right + left + max(conv.result[2] - right - left, 0) != conv.result[2]:
        return 4 * round_up(taps * channels, _LANES)
    before = pad * channels
    after = right * channels if odd else before
    return max(taps * channels + before, (taps - 1) * channels + after)


def cmsis_nn_depthwise(call: Call) -> KernelRequests:
    """Float convolutions run the reference kernel, and those of 16 bits have no buffer."""
    data, weights = call.input(0), call.input(1)
    if not _is_integer(data):
        return KernelRequests()
    conv = window_of(call)
    tables = per_channel_tables(conv.filter[3])
    size = _depthwise_bytes(conv, weights, call.build) if data.dtype.name == "int8" else 0
    return KernelRequests(tables, _scratch(size))


def _depthwise_bytes(conv: Window, weights: Tensor, build: Build) -> int:
    taps, channels = math.prod(conv.filter[1:3]), conv.result[3]
    is_packed = weights.dtype.bits == 4
    if build.vectors == "mve" and conv.data[3] == 1 and channels > 1 and not is_packed:
        # Runs as a convolution, on a copy of the filter.
        filter = (channels, *conv.filter[1:3], 1)
        return _convolution_bytes(conv._replace(filter=filter), build) + channels * taps
    if conv.data[3] != channels or conv.data[0] != 1 or conv.dilation != (1, 1):
        return 0
    if build.vectors == "mve":
        return 4 * _CHANNEL_BLOCK * taps
    if not is_packed:
        if conv.filter[1:3] == (3, 3) and max(conv.padding) <= 1:
            return 0
        if not build.vectors:
            return 0
    return 2 * conv.data[3] * taps


def runs_as_convolution(call: Call) -> bool:
    """Whether a FULLY_CONNECTED operator of 8-bit data runs as a 1x1 convolution."""
    return len(shape_of(call.output())) > 2 and shape_of(call.input(1))[-1] % 4 == 0


def cmsis_nn_fully_connected(call: Call) -> KernelRequests:
    """The sum of each row of 8-bit weights, kept if the weights are fixed."""
    data, weights, persistent = fully_connected_operands(call)
    if data.dtype.name != "int8" or weights.dtype.bits == 4:
        return KernelRequests(persistent)
    result = shape_of(call.output())
    if runs_as_convolution(call):
        return KernelRequests(persistent, () if persistent else (8 * result[-1],))
    sums = 4 * result[-1] if call.build.vectors == "mve" else 0
    is_fixed = weights.data is not None and (not call.has(2) or call.input(2).data is not None)
    if is_fixed:
        return KernelRequests((*persistent, *_scratch(sums)))
    return KernelRequests(persistent, _scratch(sums))


def cmsis_nn_average_pool(call: Call) -> KernelRequests:
    """Sums per channel with DSP instructions."""
    if call.build.vectors != "dsp" or not _is_integer(call.input(0)):
        return KernelRequests()
    return KernelRequests(scratch=_scratch(4 * shape_of(call.output())[3]))


def cmsis_nn_svdf(call: Call) -> KernelRequests:
    """As the reference kernel, and with vector instructions the sum of every filter."""
    batch, filters = shape_of(call.input(0))[0], shape_of(call.input(1))[0]
    if call.input(0).dtype.name != "int8":
        return KernelRequests(scratch=(4 * batch * filters,))
    sums = 4 * filters if call.build.vectors == "mve" else 0
    return KernelRequests(_scratch(sums), (4 * batch * filters, 4 * elements_of(call.output())))


def cmsis_nn_batch_matmul(call: Call) -> KernelRequests:
    """With vector instructions, sums per column of 8-bit data."""
    requests = batch_matmul(call)
    if call.input(0).dtype.name != "int8" or call.build.vectors != "mve":
        return requests
    return KernelRequests(requests.persistent, _scratch(4 * shape_of(call.output())[-1]))


def cmsis_nn_transposed_convolution(call: Call) -> KernelRequests:
    """A window and a reversed filter, or the rows of sums under the filter."""
    requests = transposed_convolution(call)
    if call.input(0).dtype.name != "int8":
        return requests
    data, filter, result = (shape_of(tensor) for tensor in (call.input(0), call.input(1), call.output()))
    stride = tuple(call.op.attrs.get("stride", (1, 1)))
    if max(stride) <= 2 and data[3] > REVERSED_ABOVE:
        columns = data[3] * math.prod(filter[1:3])
        return KernelRequests(requests.persistent, (_column_bytes(columns, call.build), columns * filter[0]))
    row = ((data[2] - 1) * stride[1] + max(filter[2], stride[0])) * result[3]
    return KernelRequests(requests.persistent, (row * max(filter[1], stride[0]) * 4, 0))


def cmsis_nn_lstm(call: Call) -> KernelRequests:
    """Three gates, and two sums per gate and unit; float cells run the reference kernel."""
    state = call.input(19)
    gate = elements_of(state) * state.dtype.bits // 8
    if state.dtype.name != "int16":
        return KernelRequests(scratch=(gate,) * 4)
    width = 4 if call.input(0).dtype.name == "int8" else 8
    units = shape_of(state)[-1]
    return KernelRequests((width * units,) * 8, (gate,) * 3)
