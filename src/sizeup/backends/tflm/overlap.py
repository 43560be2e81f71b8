"""How far an output may overlap an input that is not used afterwards, for TFLite Micro's reference kernels.

These kernels write the output from front to back, each element once, after reading its inputs. So the output
may share the input bytes that are not read again. For each write, take the end of the write (relative to the
output) minus the first byte read afterwards (relative to the input). The maximum is the least distance: the
input must start at least that many bytes after the output.

The table follows the loops in the sources of tensorflow/tflite-micro. Tests run every kernel of the table at
its least distance in the interpreter. Kernels that are not in the table read in an unknown order, read bytes
again that they overwrote, or copy blocks that must not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from sizeup.backends.tflm.head import HeadBuffers, Owner
from sizeup.backends.tflm.kernels import ETHOS_U
from sizeup.backends.tflm.subgraphs import variable_bytes
from sizeup.errors import InvalidPlan
from sizeup.graph import ABSENT, Graph, Op, Shape, Tensor
from sizeup.memory.check import Overlap, shared_bytes
from sizeup.memory.liveness import Column

LABEL = "TFLite Micro reference kernels only (not CMSIS-NN, Ethos-U or other optimized kernels)"
"""The kernels that a plan with overlaps is valid for; shown with every such plan."""

FOREIGN_LABEL = (
    "only the kernels that the plan was made for (tensors share bytes in a way that is not verified for"
    " TFLite Micro's reference kernels)"
)
"""The label of a plan with other overlaps than those of this module."""

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


class _InputOverlap(NamedTuple):
    """The overlap that a kernel permits for an input: a least distance, or only the same offset."""

    position: int
    distance: int
    in_place: bool = False


class _Call(NamedTuple):
    op: Op
    inputs: tuple[Tensor | None, ...]
    output: Tensor

    def input(self, position: int) -> Tensor | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def shape(self, position: int) -> Shape:
        tensor = self.input(position)
        return () if tensor is None or tensor.shape is None else tensor.shape

    def is_computed(self, position: int) -> bool:
        """Whether the input is computed during the inference."""
        tensor = self.input(position)
        return tensor is not None and (tensor.data is None or tensor.data.role == "derived")


InputOverlaps: TypeAlias = Callable[[_Call], Iterator[_InputOverlap]]


def overlaps(graph: Graph, head: HeadBuffers) -> tuple[Overlap, ...]:
    """The pairs of an input, not used afterwards, and an output of the main graph that may share bytes."""
    buffers = head.buffers
    pairs = []
    for op in graph.ops:
        input_overlaps = _KERNELS.get(op.source)
        if input_overlaps is None or len(op.outputs) != 1:
            continue
        result = buffers.buffer_of_tensor[op.outputs[0]]
        for input_overlap in input_overlaps(_call(graph, op)) if result >= 0 else ():
            identity = op.inputs[input_overlap.position]
            source = buffers.buffer_of_tensor[identity]
            if source < 0 or identity in graph.outputs or buffers.last[source] != buffers.first[result]:
                continue
            pairs.append(Overlap(source, result, input_overlap.distance, input_overlap.in_place))
    return tuple(dict.fromkeys(pairs))


def check_plan(graphs: Sequence[Graph], head: HeadBuffers, offsets: Sequence[int]) -> None:
    """Raise InvalidPlan if the interpreter computes something else with a memory plan of a file.

    It takes any offset: it checks neither alignment nor whether tensors that are live at once are apart.
    Operands of an NPU's operator are left out, since only its compiler knows when it reads and writes them.
    """
    for owner, offset in zip(head.owners, offsets, strict=True):
        tensor = graphs[owner.subgraph].tensors[owner.tensor]
        width = tensor.dtype.bits // 8
        if owner.tensor >= 0 and width and offset % width:
            raise InvalidPlan(
                f"the memory plan in the file puts {tensor.name!r} at offset {offset:,}, not a multiple of"
                f" {width} B"
            )
    head = _as_used(graphs, head)
    shared = shared_bytes(head.buffers, offsets, overlaps(graphs[0], head))
    if shared is not None:
        names = " and ".join(_owner_name(graphs, head.owners[buffer]) for buffer in sorted(shared.pair))
        raise InvalidPlan(f"the memory plan in the file lets live tensors overlap: {names}")


def _as_used(graphs: Sequence[Graph], head: HeadBuffers) -> HeadBuffers:
    """The buffers as they are used: variables between inferences too, what never runs not at all."""
    size, first, last = head.buffers.size.copy(), head.buffers.first.copy(), head.buffers.last.copy()
    variables = [variable_bytes(graph) for graph in graphs]
    ignored = [npu_operands(graph) for graph in graphs]
    for buffer, owner in enumerate(head.owners):
        if owner.tensor in variables[owner.subgraph]:
            first[buffer], last[buffer] = 0, head.buffers.steps - 1
        if not last[buffer] or owner.tensor in ignored[owner.subgraph]:
            size[buffer] = 0
    return replace(head, buffers=replace(head.buffers, size=size, first=first, last=last))


def npu_operands(graph: Graph) -> set[int]:
    """The tensors that an NPU's operator reads, writes or keeps its intermediate results in."""
    return {identity for op in graph.ops if op.source == ETHOS_U for identity in (*op.inputs, *op.outputs)}


def _owner_name(graphs: Sequence[Graph], owner: Owner) -> str:
    graph = graphs[owner.subgraph]
    if owner.tensor >= 0:
        return repr(graph.tensors[owner.tensor].name)
    return f"the scratch of {graph.ops[owner.operator].source}"


def _call(graph: Graph, op: Op) -> _Call:
    inputs = tuple(None if identity == ABSENT else graph.tensors[identity] for identity in op.inputs)
    return _Call(op, inputs, graph.tensors[op.outputs[0]])


def _width(call: _Call, position: int) -> tuple[int, int] | None:
    """Element widths of an input and the output in bytes; None if not supported."""
    tensor = call.input(position)
    if tensor is None or not tensor.elements or not call.output.elements:
        return None
    read, written = tensor.dtype.name, call.output.dtype.name
    if read not in _WIDTHS or written not in _WIDTHS:
        return None
    return (_WIDTHS[read], _WIDTHS[written]) if read == written or _BYTE in (read, written) else None


def _is_read_once(call: _Call, position: int) -> bool:
    return call.op.inputs.count(call.op.inputs[position]) == 1


def _windows(call: _Call) -> Iterator[_InputOverlap]:
    """Convolutions and pools: read a window, then write one element."""
    source, result, attrs = call.shape(0), call.output.shape or (), call.op.attrs
    width, stride = _width(call, 0), attrs.get("stride")
    if width is None or width[0] != width[1] or stride is None or not _is_read_once(call, 0):
        return
    if len(source) != 4 or len(result) != 4 or source[0] != result[0]:
        return
    groups = attrs.get("groups", source[3])  # a pool treats channels separately
    windows = Windows(
        source[0], source[1:3], result[1:3], tuple(attrs["kernel"]), stride, attrs.get("dilation", (1, 1)),
        source[3], result[3], groups, width[0],
    )  # fmt: skip
    if (
        groups
        and not source[3] % groups
        and not result[3] % groups
        and _is_consistent(windows, attrs.get("padding"))
    ):
        yield _InputOverlap(0, windows.least_distance())


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


def _fully_connected(call: _Call) -> Iterator[_InputOverlap]:
    """The whole input row is read for each element of the output row."""
    # If the runtime cuts rows across axes, our graph has the weights first. This looks like constant data
    # with a computed filter. Both cases are skipped.
    weights, width = call.shape(1), _width(call, 0)
    if width is None or width[0] != width[1] or len(weights) != 2 or not _is_read_once(call, 0):
        return
    units, inner = weights
    read, written = math.prod(call.shape(0)), call.output.elements or 0
    if call.is_computed(0) and inner and read % inner == 0 and written == read // inner * units:
        one = (1, 1)
        windows = Windows(read // inner, one, one, one, one, one, inner, units, 1, width[0])
        yield _InputOverlap(0, windows.least_distance())


def _flat(count: int) -> InputOverlaps:
    """Elementwise kernels. A broadcast input is read repeatedly, so it is excluded."""

    def input_overlaps(call: _Call) -> Iterator[_InputOverlap]:
        for position in range(min(count, len(call.inputs))):
            width = _width(call, position)
            if width is not None and call.shape(position) == call.output.shape:
                yield _InputOverlap(position, flat_distance(call.output.elements or 0, *width))

    return input_overlaps


def _pad(call: _Call) -> Iterator[_InputOverlap]:
    width, shape, result = _width(call, 0), call.shape(0), call.output.shape or ()
    paddings = call.input(1)
    if width is None or width[0] != width[1] or paddings is None or not _is_read_once(call, 0):
        return
    if paddings.data is None or paddings.data.read is None or paddings.elements != 2 * len(shape):
        return
    before, after = np.reshape(paddings.data.read(), (-1, 2)).T.tolist()
    if min(*before, *after) < 0 or result != tuple(map(sum, zip(shape, before, after, strict=True))):
        return
    yield _InputOverlap(0, padded_distance(shape, tuple(before), result, width[0]))


def _block_copy(call: _Call) -> Iterator[_InputOverlap]:
    """A block copy, which must not overlap, unless input and output have the same offset."""
    source = call.input(0)
    if source is not None and source.dtype == call.output.dtype:
        yield _InputOverlap(0, 0, in_place=True)


_KERNELS: dict[str, InputOverlaps] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), _windows),
    "FULLY_CONNECTED": _fully_connected,
    **dict.fromkeys(("ADD", "SUB", "MUL"), _flat(2)),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE", "RELU", "RELU6", "LOGISTIC", "PRELU"), _flat(1)),
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    "RESHAPE": _block_copy,
}

OVERLAPPING = frozenset(_KERNELS)
"""The operators whose output may overlap an input."""
