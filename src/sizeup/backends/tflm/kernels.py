"""Arena requests of TFLite Micro's kernels, as one table.

The values are those of the reference kernels in tensorflow/tflite-micro. For 64 bits, tests compare every row
with the interpreter of PyPI's `tflite-micro`. The split of a structure into pointers and numbers, which the
32-bit sizes depend on, is verified by emulated boards for the operators that they ran. `cmsis_nn` has the
kernels that use CMSIS-NN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sizeup.backends.tflm.kernel_call import (
    Call,
    Kernel,
    KernelRequests,
    Prepare,
    elements_of,
    gathered_axes,
    shape_of,
)
from sizeup.errors import Incomplete
from sizeup.graph import Tensor


def _unpacked(weights: Tensor) -> tuple[int, ...]:
    """4-bit weights are unpacked to one byte each in every inference."""
    return (elements_of(weights),) if weights.dtype.bits == 4 else ()


def per_channel_tables(channels: int) -> tuple[int, int]:
    """A multiplier and a shift per output channel."""
    return 4 * channels, 4 * channels


def _per_channel(axis: int) -> Prepare:
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


def _fully_connected(call: Call) -> KernelRequests:
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


def _softmax(call: Call) -> KernelRequests:
    """Two tables of 513 entries for int16."""
    return KernelRequests((1026, 1026)) if call.input(0).dtype.name == "int16" else KernelRequests()


def _svdf(call: Call) -> KernelRequests:
    """One value per filter, and for quantized data one per unit."""
    batch, filters = shape_of(call.input(0))[0], shape_of(call.input(1))[0]
    units = (4 * elements_of(call.output()),) if call.input(0).dtype.name == "int8" else ()
    return KernelRequests(scratch=(4 * batch * filters, *units))


def _lstm(call: Call) -> KernelRequests:
    """Four gates, each of the size of the cell state."""
    state = call.input(19)
    return KernelRequests(scratch=(elements_of(state) * state.dtype.bits // 8,) * 4)


def _axes(call: Call) -> tuple[int, int]:
    """One index per axis of the data, and the axes to reduce."""
    return 4 * len(shape_of(call.input(0))), 4 * elements_of(call.input(1))


def _reduce(call: Call) -> KernelRequests:
    return KernelRequests(scratch=_axes(call))


def _mean_or_sum(call: Call) -> KernelRequests:
    """Integers are summed at 32 bits."""
    sums = (4 * elements_of(call.output()),) if call.input(0).dtype.name in ("int8", "int16") else ()
    return KernelRequests(scratch=sums + _axes(call))


def _mirror_pad(call: Call) -> KernelRequests:
    return KernelRequests(scratch=(4 * len(shape_of(call.input(0))),) * 2)


def _add_n(call: Call) -> KernelRequests:
    """One pointer per input."""
    persistent = (call.size("10i"),) if call.output().dtype.name == "int8" else ()
    return KernelRequests(persistent, (call.build.pointer_bytes * len(call.op.inputs),))


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
    return KernelRequests((*persistent, *_output_shape(call).persistent))


def _is_transposed(call: Call) -> tuple[bool, bool]:
    """Whether each operand is stored transposed: the left one if adjoint, the right one if not."""
    left, right = call.op.attrs.get("adjoint", (False, False))
    return left, not right


def _output_shape(call: Call) -> KernelRequests:
    """A writable copy of the output shape, for kernels that compute it."""
    return KernelRequests((4 + 4 * len(shape_of(call.output())),))


def _rearranged(call: Call) -> KernelRequests:
    """The computed output shape has as many elements as the input."""
    _require_elements(call, elements_of(call.input(0)))
    return _output_shape(call)


def _pooled(call: Call) -> KernelRequests:
    """The computed output shape follows from the window."""
    batch, *sides, channels = shape_of(call.input(0))
    attrs = call.op.attrs
    window = (1, 1) if attrs.get("padding") == "same" else attrs.get("kernel", (0, 0))
    counts = [
        -(-max(side - taps + 1, 0) // max(step, 1))
        for side, taps, step in zip(sides, window, attrs.get("stride", (0, 0)), strict=False)
    ]
    _require_elements(call, batch * math.prod(counts) * channels)
    return _output_shape(call)


def _gathered(call: Call) -> KernelRequests:
    """The computed output shape has the indices in place of one axis."""
    data, indices, (axis, batch) = shape_of(call.input(0)), shape_of(call.input(1)), gathered_axes(call)
    _require_elements(call, math.prod((*data[:axis], *indices[batch:], *data[axis + 1 :])))
    return _output_shape(call)


def _gathered_slices(call: Call) -> KernelRequests:
    """The computed output shape has one slice per row of indices."""
    data, indices = shape_of(call.input(0)), shape_of(call.input(1))
    _require_elements(call, math.prod(indices[:-1]) * math.prod(data[indices[-1] :]))
    return _output_shape(call)


def _require_elements(call: Call, computed: int) -> None:
    """Raise Incomplete if the recorded output shape is not the one that the kernel computes."""
    if elements_of(call.output()) != computed:
        raise Incomplete(
            f"{call.op.source} {call.op.name!r} computes another output shape than the file records"
        )


def _embedding_lookup(call: Call) -> KernelRequests:
    _require_elements(call, elements_of(call.input(0)) * math.prod(shape_of(call.input(1))[1:]))
    return KernelRequests((call.size("ip"), *_output_shape(call).persistent))


def _int8_only(fields: str) -> Prepare:
    def prepare(call: Call) -> KernelRequests:
        return (
            KernelRequests((call.size(fields),)) if call.input(0).dtype.name == "int8" else KernelRequests()
        )

    return prepare


def _rfft(call: Call) -> KernelRequests:
    """The kissfft state for half the length: a header, factors, and complex tables of 1 and 3/2 times it."""
    data = call.input(0)
    length, number = shape_of(call.output())[-1] - 2, 2 * data.dtype.bits // 8
    state = call.size("3p") + call.size("66i") + number * (length // 2 + length // 2 * 3 // 2)
    return KernelRequests((call.size("5ipip"), state), (length * data.dtype.bits // 8,))


def _filter_bank(call: Call) -> KernelRequests:
    """One 64-bit sum per channel, plus one."""
    _require_elements(call, elements_of(call.input(3)) - 1)
    return KernelRequests((call.size("i5p2ip"), 8 * (elements_of(call.output()) + 1)))


def _spectral_subtraction(call: Call) -> KernelRequests:
    """One noise estimate per channel."""
    return KernelRequests((call.size("9i2p"), 4 * elements_of(call.input(0))))


def _decode(call: Call) -> KernelRequests:
    """One state pointer per output, and the states, which are known only for lookup tables."""
    persistent = [call.build.pointer_bytes * len(call.op.outputs)]
    for position in range(1, len(call.op.inputs), 2):
        data = call.input(position).data
        if data is None or data.read is None or np.ravel(data.read())[0] != 0:
            raise Incomplete(f"{call.op.source} {call.op.name!r} does not decode with a lookup table")
        persistent.append(call.size("8p3b"))
    return KernelRequests(tuple(persistent))


def _ethos_u(call: Call) -> KernelRequests:
    """A 64-bit address and a size per input and output."""
    tensors = len(call.op.inputs) + len(call.op.outputs)
    return KernelRequests(scratch=(8 * tensors, call.build.pointer_bytes * tensors))


def _command_stream(call: Call) -> Sequence[int]:
    """Prepare loads the first input only."""
    return (0,)


EVAL_TENSOR = "2pe"
_REDUCER = Kernel("b", "11i", _reduce, again=(0, 1, -1), inputs="2+")
_POOL = Kernel("e4ie4i", "8i", inputs="1+")
_COMPARISON = Kernel("", "8i", inputs="2+")

ETHOS_U = "ethos-u"
"""The operator that Vela puts in place of those that it compiles."""
# tensorflow/lite/micro/kernels/ethos_u/ethosu.cc, which only firmware for an Ethos-U has.
ETHOS_U_KERNEL = Kernel("", "3i", _ethos_u, tensors=_command_stream, inputs="own")

KERNELS: dict[str, Kernel] = {
    "CONV_2D": Kernel("e2ie2ie", "9i2p3i|2i", _per_channel(0), again=(0, 1, -1), inputs="own"),
    "DEPTHWISE_CONV_2D": Kernel("e3ie2i", "9i2p3i|2i", _per_channel(3), again=(0, 1, -1), inputs="2+"),
    "TRANSPOSE_CONV": Kernel(
        "e2i2e", "16i2p|2i", transposed_convolution, tensors=transposed_convolution_tensors, inputs="own"
    ),
    # The package on PyPI is newer than the sources of the boards, and its options have two more fields.
    "FULLY_CONNECTED": Kernel("2e2be|pi", "9i2pb|2i", _fully_connected, overwrites=True, inputs="own"),
    "BATCH_MATMUL": Kernel("3b", "3p3b", batch_matmul, inputs="2"),
    "SVDF": Kernel("ieb", "9i", _svdf, inputs="own"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Kernel("e2i3b", "172i", _lstm, inputs="own"),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": Kernel("e4ie4i", "", _pooled, inputs="1"),
    "SOFTMAX": Kernel("i", "l7i5p", _softmax, inputs="1"),
    "LOG_SOFTMAX": Kernel("", "", _int8_only("5i2p"), inputs="1"),
    "L2_NORMALIZATION": Kernel("e", "i", inputs="1"),
    "CUMSUM": Kernel("2b", "", _int8_only("9i"), inputs="2"),
    "MEAN": Kernel("b", "11i", _mean_or_sum, again=(0, 1, -1), inputs="2+"),
    "SUM": Kernel("b", "11i", _mean_or_sum, again=(0, 1, -1), inputs="2+"),
    "REDUCE_ALL": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "ADD": Kernel("eb", "15i", inputs="2+"),
    "SUB": Kernel("eb", "13i", inputs="2+"),
    "MUL": Kernel("e", "9i", inputs="2"),
    "DIV": Kernel("e", "7i", inputs="2+"),
    "ADD_N": Kernel("", "", _add_n, inputs="1+"),
    "SQUARED_DIFFERENCE": Kernel("", "28i", inputs="2"),
    "PRELU": Kernel("", "7i", inputs="2+"),
    "RELU": Kernel("", "7i", inputs="1+"),
    "RELU6": Kernel("", "2i", inputs="1+"),
    "LEAKY_RELU": Kernel("i", "6i", inputs="1"),
    "ELU": Kernel("", "256b", inputs="1"),
    "HARD_SWISH": Kernel("", "5i", inputs="1"),
    "LOGISTIC": Kernel("", "4i", inputs="1+"),
    "TANH": Kernel("", "4i", again=(0,), inputs="1"),
    "ABS": Kernel("", "7i", inputs="1"),
    "RSQRT": Kernel("", "7i", inputs="1"),
    "QUANTIZE": Kernel("", "4l", inputs="1"),
    "DEQUANTIZE": Kernel("", "4l", inputs="1"),
    "SELECT_V2": Kernel("", "b", inputs="3"),
    "CONCATENATION": Kernel("ie", "b2ph2i|10i", again=(0,), inputs="1+"),
    "STRIDED_SLICE": Kernel("5ib", "21i", inputs="4"),
    "PAD": Kernel("", "14i", inputs="2+"),
    "PADV2": Kernel("", "14i", inputs="2+"),
    "MIRROR_PAD": Kernel("e", "5i", _mirror_pad, inputs="2+"),
    "SPACE_TO_BATCH_ND": Kernel("", "i", inputs="3"),
    "RESHAPE": Kernel("9i", inputs="1+"),
    "SQUEEZE": Kernel("9i", inputs="1"),
    "CAST": Kernel("2e", inputs="1"),
    "SHAPE": Kernel("e", inputs="1"),
    "PACK": Kernel("2i", inputs="1+"),
    "UNPACK": Kernel("2i", inputs="1+"),
    "SPLIT": Kernel("i", inputs="2+", outputs=0),
    "SPLIT_V": Kernel("i", inputs="3", outputs=0),
    "ARG_MAX": Kernel("e", inputs="2+"),
    "ARG_MIN": Kernel("e", inputs="2+"),
    "RESIZE_BILINEAR": Kernel("2b", inputs="2"),
    "RESIZE_NEAREST_NEIGHBOR": Kernel("2b", inputs="2"),
    "GATHER": Kernel("2i", "", _gathered, inputs="2"),
    "GATHER_ND": Kernel("", "", _gathered_slices, inputs="2"),
    "EMBEDDING_LOOKUP": Kernel("", "", _embedding_lookup, inputs="2"),
    "DEPTH_TO_SPACE": Kernel("i", "", _rearranged, inputs="1"),
    "SPACE_TO_DEPTH": Kernel("i", "", _rearranged, inputs="1"),
    "IF": Kernel("2i", "2i", inputs="1+", outputs=0),
    "WHILE": Kernel("2i", "2i", inputs="own", outputs=0),
    "CALL_ONCE": Kernel("i", "2i", inputs="0", outputs=0),
    "VAR_HANDLE": Kernel("2p", "i", inputs="0"),
    "READ_VARIABLE": Kernel(inputs="1+"),
    "ASSIGN_VARIABLE": Kernel(
        "", "|i", inputs="2", outputs=0
    ),  # plus the variable itself on its first assignment
    "SignalWindow": Kernel("", "2i", inputs="2"),
    "SignalFftAutoScale": Kernel(inputs="1"),
    "SignalRfft": Kernel("", "", _rfft, inputs="1"),
    "SignalEnergy": Kernel("", "2i", inputs="1"),
    "SignalFilterBank": Kernel("", "", _filter_bank, inputs="6"),
    "SignalFilterBankSquareRoot": Kernel(inputs="2"),
    "SignalFilterBankSpectralSubtraction": Kernel("", "", _spectral_subtraction, inputs="1"),
    "SignalPCAN": Kernel("", "i", inputs="3"),
    "SignalFilterBankLog": Kernel("", "2i", inputs="1"),
    "TFLM_DECODE": Kernel("", "", _decode, inputs="2+"),
}
KERNELS |= dict.fromkeys(
    ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _COMPARISON
)
# Kernels without requests, by their inputs.
_PLAIN = {
    "1": "CEIL COS EXP LOG LOGICAL_NOT ROUND SIN SQRT SQUARE ZEROS_LIKE",
    "1+": "FLOOR NEG",
    "2": "BROADCAST_ARGS BROADCAST_TO EXPAND_DIMS FLOOR_DIV FLOOR_MOD REVERSE_V2 TRANSPOSE",
    "2+": "FILL LOGICAL_AND LOGICAL_OR MAXIMUM MINIMUM",
    "3": "BATCH_TO_SPACE_ND DYNAMIC_UPDATE_SLICE SLICE",
}
KERNELS |= {name: Kernel(inputs=count) for count, names in _PLAIN.items() for name in names.split()}
# Kernels whose persistent memory is not known.
UNSIZED = {
    "CIRCULAR_BUFFER": Kernel(inputs="own"),
    "TFLite_Detection_PostProcess": Kernel(inputs="3"),
    **dict.fromkeys(("SignalDelay", "SignalFramer", "SignalIrfft"), Kernel(inputs="1")),
    **dict.fromkeys(("SignalOverlapAdd", "SignalStacker"), Kernel(inputs="1")),
}
