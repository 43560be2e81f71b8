"""What each kernel of TFLite Micro keeps in the arena: the one table of it.

Facts of the reference kernels, from the sources of tensorflow/tflite-micro and from what the interpreter of
PyPI's `tflite-micro` asks for; on 64 bits tests hold every row against that interpreter. The split of a
structure into pointers and numbers, which 32 bits depend on, is checked by its size on 64 bits only. Kernels
that a vendor optimised may ask for more scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sizeup.errors import Incomplete
from sizeup.graph import ABSENT, Op, Tensor
from sizeup.memory.tflm.layout import Build, extent


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes that a kernel asks for when it is prepared, one number a request.

    `persistent` stays in the tail, `scratch` is planned in the head for the time in which it runs.
    """

    persistent: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One operator as its kernel sees it; inputs are in the order of our graph."""

    op: Op
    tensors: tuple[Tensor, ...]
    build: Build

    def input(self, position: int) -> Tensor:
        """The input at that place; raises Incomplete where there is none."""
        identity = self.op.inputs[position] if position < len(self.op.inputs) else ABSENT
        if identity == ABSENT:
            raise Incomplete(f"{self.op.source} {self.op.name!r} lacks input {position}")
        return self.tensors[identity]

    def has(self, position: int) -> bool:
        """Whether the input at that place is given."""
        return position < len(self.op.inputs) and self.op.inputs[position] != ABSENT

    def output(self, position: int = 0) -> Tensor:
        """The output at that place; raises Incomplete where there is none."""
        if position >= len(self.op.outputs):
            raise Incomplete(f"{self.op.source} {self.op.name!r} lacks output {position}")
        return self.tensors[self.op.outputs[position]]

    def size(self, fields: str) -> int:
        """Bytes of a structure of the kernel."""
        return extent(fields, self.build).size


Prepare: TypeAlias = Callable[[Call], Demand]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Structures of a kernel, as fields (see `layout.extent`): its parsed options and its own data.

    Being prepared it asks for the description of every tensor; `again` are the inputs, and -1 the output, of
    which it asks a second time.
    """

    options: str = ""
    data: str = ""
    prepare: Prepare | None = None
    again: tuple[int, ...] = ()


def _shape(tensor: Tensor) -> tuple[int, ...]:
    if tensor.shape is None:
        raise Incomplete(f"the shape of {tensor.name!r} depends on data")
    return tensor.shape


def _elements(tensor: Tensor) -> int:
    return math.prod(_shape(tensor))


def _unpacked(weights: Tensor) -> tuple[int, ...]:
    """Four-bit weights are spread out to a byte each before every run."""
    return (_elements(weights),) if weights.dtype.bits == 4 else ()


def _per_channel(axis: int) -> Prepare:
    """A multiplier and a shift for every output channel, also where nothing is quantised."""

    def prepare(call: Call) -> Demand:
        weights = call.input(1)
        channels = 4 * _shape(weights)[axis]
        return Demand((channels, channels), _unpacked(weights))

    return prepare


def _transposed_convolution(call: Call) -> Demand:
    """Quantised sums are collected at full width: 32 bits for int8, 64 for int16."""
    channels = 4 * _shape(call.input(1))[0]
    data, scratch = call.input(0).dtype.name, []
    if data in ("int8", "int16"):
        scratch.append(_elements(call.output()) * (4 if data == "int8" else 8))
    if data == "int16" and call.has(2) and call.input(2).dtype.name == "int16":
        scratch.append(8 * _elements(call.input(2)))
    return Demand((channels, channels), tuple(scratch))


def _fully_connected(call: Call) -> Demand:
    # Where the runtime cuts rows across axes, our graph has the weights in front.
    swapped = call.input(0).data is not None and call.input(1).data is None
    weights, data = (call.input(0), call.input(1)) if swapped else (call.input(1), call.input(0))
    channels = 0
    if data.dtype.family != "float" and weights.quant is not None and weights.quant.scale.size > 1:
        channels = 4 * weights.quant.scale.size
    return Demand((channels, channels) if channels else (), _unpacked(weights))


def _softmax(call: Call) -> Demand:
    """Two tables of 513 numbers for int16."""
    return Demand((1026, 1026)) if call.input(0).dtype.name == "int16" else Demand()


def _svdf(call: Call) -> Demand:
    """A number for every filter, and for quantised data one for every unit."""
    batch, filters = _shape(call.input(0))[0], _shape(call.input(1))[0]
    units = (4 * _elements(call.output()),) if call.input(0).dtype.name == "int8" else ()
    return Demand(scratch=(4 * batch * filters, *units))


def _lstm(call: Call) -> Demand:
    """Four gates, each as large as the cell's state."""
    state = call.input(19)
    return Demand(scratch=(_elements(state) * state.dtype.bits // 8,) * 4)


def _axes(call: Call) -> tuple[int, int]:
    """An index for every axis of the data, and the axes to reduce."""
    return 4 * len(_shape(call.input(0))), 4 * _elements(call.input(1))


def _reduce(call: Call) -> Demand:
    return Demand(scratch=_axes(call))


def _mean_or_sum(call: Call) -> Demand:
    """Integers are summed at 32 bits."""
    sums = (4 * _elements(call.output()),) if call.input(0).dtype.name in ("int8", "int16") else ()
    return Demand(scratch=sums + _axes(call))


def _mirror_pad(call: Call) -> Demand:
    return Demand(scratch=(4 * len(_shape(call.input(0))),) * 2)


def _add_n(call: Call) -> Demand:
    """A pointer to every input."""
    persistent = (call.size("10i"),) if call.output().dtype.name == "int8" else ()
    return Demand(persistent, (call.build.pointer_bytes * len(call.op.inputs),))


def _batch_matmul(call: Call) -> Demand:
    """Operands that lie the wrong way round are kept transposed, for good; and the output's shape."""
    persistent = [call.size("7i")] if call.input(0).dtype.name in ("int8", "int16") else []
    for position, turned in enumerate(_turned(call)):
        if turned:
            tensor = call.input(position)
            persistent += [
                call.size(EVAL_TENSOR),
                4 + 4 * len(_shape(tensor)),
                _elements(tensor) * tensor.dtype.bits // 8,
            ]
    return Demand((*persistent, *_output_shape(call).persistent))


def _turned(call: Call) -> tuple[bool, bool]:
    """The left operand is stored transposed where it is adjoint, the right one where it is not."""
    left, right = call.op.attrs.get("adjoint", (False, False))
    return left, not right


def _output_shape(call: Call) -> Demand:
    """Kernels that compute their output's shape keep it where they can write."""
    return Demand((4 + 4 * len(_shape(call.output())),))


def _rearranged(call: Call) -> Demand:
    """The shape that the kernel computes has as many elements as its input."""
    _demand_elements(call, _elements(call.input(0)))
    return _output_shape(call)


def _pooled(call: Call) -> Demand:
    """The shape that the kernel computes follows from its window."""
    batch, *sides, channels = _shape(call.input(0))
    attrs = call.op.attrs
    window = (1, 1) if attrs.get("padding") == "same" else attrs.get("kernel", (0, 0))
    counts = [
        -(-max(side - taps + 1, 0) // max(step, 1))
        for side, taps, step in zip(sides, window, attrs.get("stride", (0, 0)), strict=False)
    ]
    _demand_elements(call, batch * math.prod(counts) * channels)
    return _output_shape(call)


def _gathered(call: Call) -> Demand:
    """The shape that the kernel computes has the indices in the place of one axis, whichever that is."""
    data, indices = _shape(call.input(0)), _shape(call.input(1))
    made = _elements(call.output())
    batches = [math.prod(indices[:count]) for count in range(len(indices) + 1)]
    products = [math.prod(data[:axis] + data[axis + 1 :]) * math.prod(indices) for axis in range(len(data))]
    if not any(made * batch == product for batch in batches for product in products):
        _demand_elements(call, -1)
    return _output_shape(call)


def _gathered_slices(call: Call) -> Demand:
    """The shape that the kernel computes has a slice for each row of indices."""
    data, indices = _shape(call.input(0)), _shape(call.input(1))
    _demand_elements(call, math.prod(indices[:-1]) * math.prod(data[indices[-1] :]))
    return _output_shape(call)


def _demand_elements(call: Call, computed: int) -> None:
    """Raise Incomplete if the file records another shape than the kernel will compute."""
    if _elements(call.output()) != computed:
        raise Incomplete(f"{call.op.source} {call.op.name!r} does not make the shape that the file records")


def _embedding_lookup(call: Call) -> Demand:
    _demand_elements(call, _elements(call.input(0)) * math.prod(_shape(call.input(1))[1:]))
    return Demand((call.size("4i"), *_output_shape(call).persistent))


def _where_int8(fields: str) -> Prepare:
    def prepare(call: Call) -> Demand:
        return Demand((call.size(fields),)) if call.input(0).dtype.name == "int8" else Demand()

    return prepare


def _rfft(call: Call) -> Demand:
    """kissfft's state for half the length: a header, factors, and complex tables of 1 and 3/2 of it."""
    data = call.input(0)
    length, number = _shape(call.output())[-1] - 2, 2 * data.dtype.bits // 8
    state = call.size("3p") + call.size("66i") + number * (length // 2 + length // 2 * 3 // 2)
    return Demand((call.size("5ipip"), state), (length * data.dtype.bits // 8,))


def _filter_bank(call: Call) -> Demand:
    """A 64-bit sum for every channel and one more; the starts of channels are as many."""
    _demand_elements(call, _elements(call.input(3)) - 1)
    return Demand((call.size("i5p2ip"), 8 * (_elements(call.output()) + 1)))


def _spectral_subtraction(call: Call) -> Demand:
    """An estimate of the noise in every channel."""
    return Demand((call.size("9i2p"), 4 * _elements(call.input(0))))


def _decode(call: Call) -> Demand:
    """A pointer to the state of every output; the states, of which only tables' are known."""
    persistent = [call.build.pointer_bytes * len(call.op.outputs)]
    for position in range(1, len(call.op.inputs), 2):
        data = call.input(position).data
        if data is None or data.read is None or np.ravel(data.read())[0] != 0:
            raise Incomplete(f"{call.op.source} {call.op.name!r} does not decode by a table")
        persistent.append(call.size("8p3b"))
    return Demand(tuple(persistent))


EVAL_TENSOR = "2pi"
_REDUCER = Kernel("b", "11i", _reduce, again=(0, 1, -1))
_POOL = Kernel("10i", "8i")
_COMPARISON = Kernel("", "8i")
_PLAIN = Kernel()

KERNELS: dict[str, Kernel] = {
    "CONV_2D": Kernel("7i", "9i2p3i|2i", _per_channel(0), again=(0, 1, -1)),
    "DEPTHWISE_CONV_2D": Kernel("7i", "9i2p3i|2i", _per_channel(3), again=(0, 1, -1)),
    "TRANSPOSE_CONV": Kernel("5i", "16i2p|2i", _transposed_convolution),
    "FULLY_CONNECTED": Kernel("2i2bipi", "9i2pb|2i", _fully_connected),
    "BATCH_MATMUL": Kernel("3b", "3p3b", _batch_matmul),
    "SVDF": Kernel("2ib", "9i", _svdf),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Kernel("3i3b", "172i", _lstm),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": Kernel("10i", "", _pooled),
    "SOFTMAX": Kernel("i", "l7i5p", _softmax),
    "LOG_SOFTMAX": Kernel("", "", _where_int8("5i2p")),
    "L2_NORMALIZATION": Kernel("i", "i"),
    "CUMSUM": Kernel("2b", "", _where_int8("9i")),
    "MEAN": Kernel("b", "11i", _mean_or_sum, again=(0, 1, -1)),
    "SUM": Kernel("b", "11i", _mean_or_sum, again=(0, 1, -1)),
    "REDUCE_ALL": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "ADD": Kernel("ib", "15i"),
    "SUB": Kernel("ib", "13i"),
    "MUL": Kernel("i", "9i"),
    "DIV": Kernel("i", "7i"),
    "ADD_N": Kernel("", "", _add_n),
    "SQUARED_DIFFERENCE": Kernel("", "28i"),
    "PRELU": Kernel("", "7i"),
    "RELU": Kernel("", "7i"),
    "RELU6": Kernel("", "2i"),
    "LEAKY_RELU": Kernel("i", "6i"),
    "ELU": Kernel("", "256b"),
    "HARD_SWISH": Kernel("", "5i"),
    "LOGISTIC": Kernel("", "4i"),
    "TANH": Kernel("", "4i", again=(0,)),
    "ABS": Kernel("", "7i"),
    "RSQRT": Kernel("", "7i"),
    "QUANTIZE": Kernel("", "4l"),
    "DEQUANTIZE": Kernel("", "4l"),
    "SELECT_V2": Kernel("", "b"),
    "CONCATENATION": Kernel("2i", "b2ph2i|10i", again=(0,)),
    "STRIDED_SLICE": Kernel("5ib", "21i"),
    "PAD": Kernel("", "14i"),
    "PADV2": Kernel("", "14i"),
    "MIRROR_PAD": Kernel("i", "5i", _mirror_pad),
    "SPACE_TO_BATCH_ND": Kernel("", "i"),
    "RESHAPE": Kernel("9i"),
    "SQUEEZE": Kernel("9i"),
    "CAST": Kernel("2i"),
    "SHAPE": Kernel("i"),
    "PACK": Kernel("2i"),
    "UNPACK": Kernel("2i"),
    "SPLIT": Kernel("i"),
    "SPLIT_V": Kernel("i"),
    "ARG_MAX": Kernel("i"),
    "ARG_MIN": Kernel("i"),
    "RESIZE_BILINEAR": Kernel("2b"),
    "RESIZE_NEAREST_NEIGHBOR": Kernel("2b"),
    "GATHER": Kernel("2i", "", _gathered),
    "GATHER_ND": Kernel("", "", _gathered_slices),
    "EMBEDDING_LOOKUP": Kernel("", "", _embedding_lookup),
    "DEPTH_TO_SPACE": Kernel("i", "", _rearranged),
    "SPACE_TO_DEPTH": Kernel("i", "", _rearranged),
    "IF": Kernel("2i", "2i"),
    "WHILE": Kernel("2i", "2i"),
    "CALL_ONCE": Kernel("i", "2i"),
    "VAR_HANDLE": Kernel("2p", "i"),
    "READ_VARIABLE": _PLAIN,
    "ASSIGN_VARIABLE": Kernel("", "i"),  # and the variable itself, where it is the first to be assigned
    "SignalWindow": Kernel("", "2i"),
    "SignalFftAutoScale": _PLAIN,
    "SignalRfft": Kernel("", "", _rfft),
    "SignalEnergy": Kernel("", "2i"),
    "SignalFilterBank": Kernel("", "", _filter_bank),
    "SignalFilterBankSquareRoot": _PLAIN,
    "SignalFilterBankSpectralSubtraction": Kernel("", "", _spectral_subtraction),
    "SignalPCAN": Kernel("", "i"),
    "SignalFilterBankLog": Kernel("", "2i"),
    "TFLM_DECODE": Kernel("", "", _decode),
}
KERNELS |= dict.fromkeys(
    ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _COMPARISON
)
# Kernels that keep nothing beyond their tensors.
KERNELS |= dict.fromkeys(
    (
        *(
            "BATCH_TO_SPACE_ND",
            "BROADCAST_ARGS",
            "BROADCAST_TO",
            "CEIL",
            "COS",
            "DYNAMIC_UPDATE_SLICE",
            "EXP",
        ),
        *("EXPAND_DIMS", "FILL", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "LOG", "LOGICAL_AND", "LOGICAL_NOT"),
        *("LOGICAL_OR", "MAXIMUM", "MINIMUM", "NEG", "REVERSE_V2", "ROUND", "SIN", "SLICE", "SQRT", "SQUARE"),
        *("TRANSPOSE", "ZEROS_LIKE"),
    ),
    _PLAIN,
)
