"""How far an output may overlap an input that is not used afterwards, by the loops of the reference kernels.

These kernels write the output from front to back, each element once, after reading its inputs. So the output
may share the input bytes that are not read again. For each write, take the end of the write (relative to the
output) minus the first byte read afterwards (relative to the input). The maximum is the least distance: the
input must start at least that many bytes after the output.

The functions follow the loops in the sources of tensorflow/tflite-micro. Tests run every kernel that has one
at its least distance in the interpreter. Other kernels read in an unknown order, read bytes again that they
overwrote, or copy blocks that must not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sizeup.backends.tflm.kernel import Call, InputOverlap, InputOverlaps
from sizeup.graph import Shape, Tensor
from sizeup.memory.liveness import Column

_NEVER = np.iinfo(np.int64).max // 4  # position of bytes that are not read again
_WIDTHS = {"int8": 1, "int16": 2, "float32": 4}  # the dtypes that are tested
# In C, bytes may alias any type. A compiler may assume that two other types do not alias.
_BYTE = "int8"


@dataclass(frozen=True, slots=True)
class Windows:
    """The loops of a convolution or pool: over batch, row, column and channel of the output."""

    batches: int
    input: tuple[int, int]  # rows and columns
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    input_channels: int
    output_channels: int
    groups: int
    width: int  # bytes per element

    def least_distance(self) -> int:
        """The least number of bytes by which the input must start after the output; often negative."""
        first = self._first_reads()
        later = np.append(np.minimum.accumulate(first[::-1])[::-1][1:], _NEVER)
        written = np.arange(len(first), dtype=np.int64) * self.output_channels  # before each window
        no_overlap = -math.prod(self.input) * self.batches * self.input_channels  # no overlap from there on
        after = int(np.max((written + self.output_channels - later)[later < _NEVER], initial=no_overlap))
        within = int(np.max((written - first)[first < _NEVER], initial=no_overlap))
        if self.output_channels > 1 and within > no_overlap:
            after = max(after, within + self._ahead())
        return after * self.width

    def _ahead(self) -> int:
        """The maximum lead of writes over reads among the channels of one window."""
        done = np.arange(1, self.output_channels, dtype=np.int64)
        group = done // (self.output_channels // self.groups)  # that is read next
        return int((done - group * (self.input_channels // self.groups)).max())

    def _first_reads(self) -> Column:
        """The index of the first input element of each window; `_NEVER` if it is all padding."""
        rows, columns = (
            _first_taps(*axis)
            for axis in zip(self.input, self.output, self.kernel, self.stride, self.dilation, strict=True)
        )
        batch = np.arange(self.batches, dtype=np.int64) * math.prod(self.input)
        position = batch[:, None, None] + rows[:, None] * self.input[1] + columns
        is_empty = (rows[:, None] == _NEVER) | (columns == _NEVER)
        starts: Column = np.where(is_empty, _NEVER, position * self.input_channels).ravel()
        return starts


def _first_taps(size: int, outputs: int, kernel: int, stride: int, dilation: int) -> Column:
    """The first index that each window reads along one axis."""
    padding = max(0, (outputs - 1) * stride + (kernel - 1) * dilation + 1 - size) // 2
    origin = np.arange(outputs, dtype=np.int64) * stride - padding
    skipped = np.maximum(0, -(origin // dilation))  # taps in the padding
    first = origin + dilation * skipped
    return np.where((skipped < kernel) & (first < size), first, _NEVER)


def flat_distance(elements: int, read: int, written: int) -> int:
    """The least distance of an elementwise kernel with elements of those widths."""
    if elements == 1:
        return -read
    return (elements - 1 if written > read else 1) * (written - read)


def padded_distance(shape: Shape, before: tuple[int, ...], output: Shape, width: int) -> int:
    """The least distance of a padding copy: the last element has the largest lead."""
    position = 0
    for size, skipped, outer in zip(shape, before, output, strict=True):
        position = position * outer + size - 1 + skipped
    if position == 0:  # everything is read before anything is written
        return -width
    return (position - math.prod(shape) + 1) * width


def _input(call: Call, position: int) -> Tensor | None:
    return call.input(position) if call.has(position) else None


def _shape(call: Call, position: int) -> Shape:
    tensor = _input(call, position)
    return () if tensor is None or tensor.shape is None else tensor.shape


def _is_computed(call: Call, position: int) -> bool:
    """Whether the input is computed during the inference."""
    tensor = _input(call, position)
    return tensor is not None and (tensor.data is None or tensor.data.role == "derived")


def _width(call: Call, position: int) -> tuple[int, int] | None:
    """Element widths of an input and the output in bytes; None if not supported."""
    tensor = _input(call, position)
    if tensor is None or not tensor.elements or not call.output().elements:
        return None
    read, written = tensor.dtype.name, call.output().dtype.name
    if read not in _WIDTHS or written not in _WIDTHS:
        return None
    return (_WIDTHS[read], _WIDTHS[written]) if read == written or _BYTE in (read, written) else None


def _is_read_once(call: Call, position: int) -> bool:
    return call.op.inputs.count(call.op.inputs[position]) == 1


def windows(call: Call) -> Iterator[InputOverlap]:
    """Convolutions and pools: read a window, then write one element."""
    source, result, attrs = _shape(call, 0), call.output().shape or (), call.op.attrs
    width, stride = _width(call, 0), attrs.get("stride")
    if width is None or width[0] != width[1] or stride is None or not _is_read_once(call, 0):
        return
    if len(source) != 4 or len(result) != 4 or source[0] != result[0]:
        return
    groups = attrs.get("groups", source[3])  # a pool treats channels separately
    loops = Windows(
        source[0], source[1:3], result[1:3], tuple(attrs["kernel"]), stride, attrs.get("dilation", (1, 1)),
        source[3], result[3], groups, width[0],
    )  # fmt: skip
    if (
        groups
        and not source[3] % groups
        and not result[3] % groups
        and _is_consistent(loops, attrs.get("padding"))
    ):
        yield InputOverlap(0, loops.least_distance())


def _is_consistent(windows: Windows, padding: str | None) -> bool:
    """Whether the output size matches the padding that the file declares."""
    for size, outputs, kernel, stride, dilation in zip(
        windows.input, windows.output, windows.kernel, windows.stride, windows.dilation, strict=True
    ):
        if min(stride, dilation, kernel) < 1:
            return False
        valid = size - (kernel - 1) * dilation
        if outputs != {"same": -(-size // stride), "valid": -(-valid // stride)}.get(padding or ""):
            return False
    return True


def fully_connected(call: Call) -> Iterator[InputOverlap]:
    """The whole input row is read for each element of the output row."""
    # If the runtime cuts rows across axes, our graph has the weights first. This looks like constant data
    # with a computed filter. Both cases are skipped.
    weights, width = _shape(call, 1), _width(call, 0)
    if width is None or width[0] != width[1] or len(weights) != 2 or not _is_read_once(call, 0):
        return
    units, inner = weights
    read, written = math.prod(_shape(call, 0)), call.output().elements or 0
    if _is_computed(call, 0) and inner and read % inner == 0 and written == read // inner * units:
        one = (1, 1)
        loops = Windows(read // inner, one, one, one, one, one, inner, units, 1, width[0])
        yield InputOverlap(0, loops.least_distance())


def elementwise(count: int) -> InputOverlaps:
    """Elementwise kernels. A broadcast input is read repeatedly, so it is excluded."""

    def input_overlaps(call: Call) -> Iterator[InputOverlap]:
        for position in range(min(count, len(call.op.inputs))):
            width = _width(call, position)
            if width is not None and _shape(call, position) == call.output().shape:
                yield InputOverlap(position, flat_distance(call.output().elements or 0, *width))

    return input_overlaps


def padding(call: Call) -> Iterator[InputOverlap]:
    """Copies of the rows of the input, with constants in between."""
    width, shape, result = _width(call, 0), _shape(call, 0), call.output().shape or ()
    paddings = _input(call, 1)
    if width is None or width[0] != width[1] or paddings is None or not _is_read_once(call, 0):
        return
    if paddings.data is None or paddings.data.read is None or paddings.elements != 2 * len(shape):
        return
    before, after = np.reshape(paddings.data.read(), (-1, 2)).T.tolist()
    if min(*before, *after) < 0 or result != tuple(map(sum, zip(shape, before, after, strict=True))):
        return
    yield InputOverlap(0, padded_distance(shape, tuple(before), result, width[0]))


def block_copy(call: Call) -> Iterator[InputOverlap]:
    """A block copy, which must not overlap, unless input and output have the same offset."""
    source = _input(call, 0)
    if source is not None and source.dtype == call.output().dtype:
        yield InputOverlap(0, 0, in_place=True)
