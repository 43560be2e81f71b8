"""How far TFLite Micro's reference kernels let an output reach into its dying input.

They write from front to back, each number once, after having read all that it is made of. So an output may
lie over bytes of an input that are not read any more. Where a write ends, counted from the output's
beginning, minus the first byte that is read after it, counted from the input's beginning: the input must
begin at least that much behind the output, and the largest such number is the least distance.

Facts of the loops in the sources of tensorflow/tflite-micro; tests run every kernel of the table at its
least distance in the interpreter. Kernels that are not in the table read in an order that is not known here,
read again what they wrote over, or copy blocks of bytes that must not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from sizeup.errors import InvalidPlan
from sizeup.graph import ABSENT, Graph, Op, Shape, Tensor
from sizeup.memory.check import Overlap, check_overlapping
from sizeup.memory.liveness import Column
from sizeup.memory.tflm.head import Planned

LABEL = "TFLite Micro reference kernels only (not CMSIS-NN, Ethos-U or other optimised kernels)"
"""What a plan with overlaps holds for; whoever shows one says so."""

FOREIGN_LABEL = (
    "only the kernels that the plan was made for (tensors share bytes in a way that TFLite Micro's reference"
    " kernels are not known to bear)"
)
"""The same for a plan whose overlaps are not those that are known here."""

_NEVER = np.iinfo(np.int64).max // 4  # what is not read again is first read there
_WIDTHS = {"int8": 1, "int16": 2, "float32": 4}  # the types in which kernels were tried
# C lets bytes alias numbers of any type; of two other types a compiler may assume that they do not meet.
_BYTE = "int8"


@dataclass(frozen=True, slots=True)
class Windows:
    """The loops of a convolution or pool: batch, row, column, channel of the output, for each its window."""

    batches: int
    input: tuple[int, int]  # rows and columns
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    input_channels: int
    output_channels: int
    groups: int  # output channels of one read the same input channels
    width: int  # bytes of a number

    def least_distance(self) -> int:
        """The least number of bytes by which the input must begin behind the output, often below zero."""
        first = self._first_reads()
        later = np.append(np.minimum.accumulate(first[::-1])[::-1][1:], _NEVER)
        written = np.arange(len(first), dtype=np.int64) * self.output_channels  # before each window
        nothing = -math.prod(self.input) * self.batches * self.input_channels  # is shared from there on
        after = int(np.max((written + self.output_channels - later)[later < _NEVER], initial=nothing))
        within = int(np.max((written - first)[first < _NEVER], initial=nothing))
        if self.output_channels > 1 and within > nothing:
            after = max(after, within + self._ahead())
        return after * self.width

    def _ahead(self) -> int:
        """How far writing is ahead of reading among the channels of one window, at most."""
        done = np.arange(1, self.output_channels, dtype=np.int64)
        group = done // (self.output_channels // self.groups)  # that is read next
        return int((done - group * (self.input_channels // self.groups)).max())

    def _first_reads(self) -> Column:
        """The number of the input with which each window begins; `_NEVER` where it lies in the padding."""
        rows, columns = (
            _first_taps(*axis)
            for axis in zip(self.input, self.output, self.kernel, self.stride, self.dilation, strict=True)
        )
        batch = np.arange(self.batches, dtype=np.int64) * math.prod(self.input)
        place = batch[:, None, None] + rows[:, None] * self.input[1] + columns
        is_empty = (rows[:, None] == _NEVER) | (columns == _NEVER)
        found: Column = np.where(is_empty, _NEVER, place * self.input_channels).ravel()
        return found


def _first_taps(size: int, outputs: int, kernel: int, stride: int, dilation: int) -> Column:
    """Along one axis the first index that each window reads."""
    padding = max(0, (outputs - 1) * stride + (kernel - 1) * dilation + 1 - size) // 2
    origin = np.arange(outputs, dtype=np.int64) * stride - padding
    skipped = np.maximum(0, -(origin // dilation))  # taps before the first number
    first = origin + dilation * skipped
    return np.where((skipped < kernel) & (first < size), first, _NEVER)


def flat_distance(elements: int, read: int, written: int) -> int:
    """The least distance where one number after the other is read and written, of those widths."""
    if elements == 1:
        return -read
    return (elements - 1 if written > read else 1) * (written - read)


def padded_distance(shape: Shape, before: tuple[int, ...], output: Shape, width: int) -> int:
    """The least distance of a copy into a larger shape: the last number is written the farthest ahead."""
    place = 0
    for size, skipped, outer in zip(shape, before, output, strict=True):
        place = place * outer + size - 1 + skipped
    if place == 0:  # all is read before anything is written
        return -width
    return (place - math.prod(shape) + 1) * width


class _Reading(NamedTuple):
    """How a kernel reads the input at a place: at a least distance, or only exactly where it writes."""

    position: int
    distance: int
    in_place: bool = False


class _Call(NamedTuple):
    op: Op
    inputs: tuple[Tensor | None, ...]
    output: Tensor

    def shape(self, position: int) -> Shape:
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return () if tensor is None or tensor.shape is None else tensor.shape

    def is_made(self, position: int) -> bool:
        """Whether the input there is computed in the run."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return tensor is not None and (tensor.data is None or tensor.data.role == "derived")


Readings: TypeAlias = Callable[[_Call], Iterator[_Reading]]


def overlaps(graph: Graph, head: Planned) -> tuple[Overlap, ...]:
    """Every pair of a dying input and an output of the main graph that may share bytes."""
    buffers = head.buffers
    found = []
    for op in graph.ops:
        readings = _KERNELS.get(op.source)
        if readings is None or len(op.outputs) != 1:
            continue
        result = buffers.of_tensor[op.outputs[0]]
        for reading in readings(_call(graph, op)) if result >= 0 else ():
            identity = op.inputs[reading.position]
            source = buffers.of_tensor[identity]
            if source < 0 or identity in graph.outputs or buffers.last[source] != buffers.first[result]:
                continue
            found.append(Overlap(source, result, reading.distance, reading.in_place))
    return tuple(dict.fromkeys(found))


def label(graph: Graph, head: Planned, offsets: Sequence[int]) -> str:
    """Which kernels a plan with overlaps holds for."""
    try:
        check_overlapping(head.buffers, offsets, overlaps(graph, head))
    except InvalidPlan:
        return FOREIGN_LABEL
    return LABEL


def _call(graph: Graph, op: Op) -> _Call:
    inputs = tuple(None if each == ABSENT else graph.tensors[each] for each in op.inputs)
    return _Call(op, inputs, graph.tensors[op.outputs[0]])


def _width(call: _Call, position: int) -> tuple[int, int] | None:
    """Bytes of a number that is read and of one that is written; None where nothing is known of them."""
    tensor = call.inputs[position] if position < len(call.inputs) else None
    if tensor is None or not tensor.elements or not call.output.elements:
        return None
    read, written = tensor.dtype.name, call.output.dtype.name
    if read not in _WIDTHS or written not in _WIDTHS:
        return None
    return (_WIDTHS[read], _WIDTHS[written]) if read == written or _BYTE in (read, written) else None


def _is_read_once(call: _Call, position: int) -> bool:
    return call.op.inputs.count(call.op.inputs[position]) == 1


def _windows(call: _Call) -> Iterator[_Reading]:
    """Convolutions and pools: all of a window is read, then one number is written."""
    source, result, attrs = call.shape(0), call.output.shape or (), call.op.attrs
    width, stride = _width(call, 0), attrs.get("stride")
    if width is None or width[0] != width[1] or stride is None or not _is_read_once(call, 0):
        return
    if len(source) != 4 or len(result) != 4 or source[0] != result[0]:
        return
    groups = attrs.get("groups", source[3])  # a pool keeps its channels apart
    windows = Windows(
        source[0], source[1:3], result[1:3], tuple(attrs["kernel"]), stride, attrs.get("dilation", (1, 1)),
        source[3], result[3], groups, width[0],
    )  # fmt: skip
    if (
        groups
        and not source[3] % groups
        and not result[3] % groups
        and _is_sound(windows, attrs.get("padding"))
    ):
        yield _Reading(0, windows.least_distance())


def _is_sound(windows: Windows, padding: str | None) -> bool:
    """Whether the output is as large as the padding makes it that the file declares, by which it is run."""
    for size, outputs, kernel, stride, dilation in zip(
        windows.input, windows.output, windows.kernel, windows.stride, windows.dilation, strict=True
    ):
        if min(stride, dilation, kernel) < 1:
            return False
        valid = size - (kernel - 1) * dilation
        if outputs != {"same": -(-size // stride), "valid": -(-valid // stride)}.get(padding or ""):
            return False
    return True


def _fully_connected(call: _Call) -> Iterator[_Reading]:
    """Every row is read for each number of the row that it becomes."""
    # Where the runtime cuts rows across axes, our graph has the weights in front, which then looks like
    # constant data for a computed filter: neither is a case worth a mistake.
    weights, width = call.shape(1), _width(call, 0)
    if width is None or width[0] != width[1] or len(weights) != 2 or not _is_read_once(call, 0):
        return
    units, inner = weights
    read, written = math.prod(call.shape(0)), call.output.elements or 0
    if call.is_made(0) and inner and read % inner == 0 and written == read // inner * units:
        one = (1, 1)
        windows = Windows(read // inner, one, one, one, one, one, inner, units, 1, width[0])
        yield _Reading(0, windows.least_distance())


def _flat(count: int) -> Readings:
    """Number by number; an input that is spread over the output is read again and again, and left out."""

    def readings(call: _Call) -> Iterator[_Reading]:
        for position in range(min(count, len(call.inputs))):
            width = _width(call, position)
            if width is not None and call.shape(position) == call.output.shape:
                yield _Reading(position, flat_distance(call.output.elements or 0, *width))

    return readings


def _pad(call: _Call) -> Iterator[_Reading]:
    width, shape, result = _width(call, 0), call.shape(0), call.output.shape or ()
    paddings = call.inputs[1] if len(call.inputs) > 1 else None
    if width is None or width[0] != width[1] or paddings is None or not _is_read_once(call, 0):
        return
    if paddings.data is None or paddings.data.read is None or paddings.elements != 2 * len(shape):
        return
    before, after = np.reshape(paddings.data.read(), (-1, 2)).T.tolist()
    if min(*before, *after) < 0 or result != tuple(map(sum, zip(shape, before, after, strict=True))):
        return
    yield _Reading(0, padded_distance(shape, tuple(before), result, width[0]))


def _renamed(call: _Call) -> Iterator[_Reading]:
    """Bytes are copied as a block, which must not overlap, unless input and output are at one place."""
    if call.inputs[0] is not None and call.inputs[0].dtype == call.output.dtype:
        yield _Reading(0, 0, in_place=True)


_KERNELS: dict[str, Readings] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), _windows),
    "FULLY_CONNECTED": _fully_connected,
    **dict.fromkeys(("ADD", "SUB", "MUL"), _flat(2)),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE", "RELU", "RELU6", "LOGISTIC", "PRELU"), _flat(1)),
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    "RESHAPE": _renamed,
}
