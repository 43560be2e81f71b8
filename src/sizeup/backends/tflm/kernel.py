"""A kernel of TFLite Micro: its call, its requests, and the row that has all that is known of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from sizeup.backends.tflm.layout import Build, extent
from sizeup.errors import Incomplete
from sizeup.graph import ABSENT, Op, Tensor


@dataclass(frozen=True, slots=True)
class KernelRequests:
    """Bytes that a kernel requests in Prepare, one entry per request.

    `persistent` is allocated in the tail. `scratch` is planned in the head, live while the operator runs.
    """

    persistent: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """The call of an operator's kernel; inputs are in the order of our graph."""

    op: Op
    tensors: Sequence[Tensor]
    build: Build

    def input(self, position: int) -> Tensor:
        """The input at a position; raises Incomplete if it is absent."""
        identity = self.op.inputs[position] if position < len(self.op.inputs) else ABSENT
        if identity == ABSENT:
            raise Incomplete(f"{self.op.source} {self.op.name!r} has no input {position}")
        return self.tensors[identity]

    def has(self, position: int) -> bool:
        """Whether the input at a position is present."""
        return position < len(self.op.inputs) and self.op.inputs[position] != ABSENT

    def output(self, position: int = 0) -> Tensor:
        """The output at a position; raises Incomplete if it is absent."""
        if position >= len(self.op.outputs):
            raise Incomplete(f"{self.op.source} {self.op.name!r} has no output {position}")
        return self.tensors[self.op.outputs[position]]

    def size(self, fields: str) -> int:
        """Bytes of a C structure of the kernel."""
        return extent(fields, self.build).size


class InputOverlap(NamedTuple):
    """The overlap that a kernel permits for an input: a least distance, or only the same offset."""

    position: int
    distance: int
    in_place: bool = False


Prepare: TypeAlias = Callable[[Call], KernelRequests]
Rule: TypeAlias = Callable[[Call], str | None]
Rules: TypeAlias = tuple[Rule, ...]
InputOverlaps: TypeAlias = Callable[[Call], Iterator[InputOverlap]]
Strips: TypeAlias = Literal["", "rows", "windows", "padding"]
CountedBy: TypeAlias = Literal[
    "", "pairs", "means", "window", "convolution", "depthwise", "dense", "transposed", "batches",
    "filters", "gates",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelMemory:
    """C structures of a kernel (fields as in `layout.extent`): its parsed options and its OpData.

    Prepare allocates a temporary TfLiteTensor per tensor. `again` lists the inputs (-1: the output) for which
    it does so twice.
    """

    options: str = ""
    data: str = ""
    prepare: Prepare | None = None  # None: it requests nothing
    again: tuple[int, ...] = ()
    tensors: Callable[[Call], Sequence[int]] | None = None  # all temporary tensors instead, as for `again`
    # Persistent memory may overwrite the zero points of its output, which are not read anymore.
    overwrites: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """All that is known of a kernel of TFLite Micro.

    A property that has no default is known of every kernel. The defaults of the others are on the safe side,
    or those of a kernel without a peculiarity.
    """

    name: str
    # How many it takes: 2 is exact, 2+ is the least; with "own", its rules count them.
    inputs: str
    memory: KernelMemory | None  # None: its persistent memory is not known
    # What it requires, as the end of a sentence that starts with "its GATHER kernel".
    rules: Rules
    outputs: int = 1  # the fewest
    optional_input: int | None = None  # that the file may mark as absent
    written_inputs: int | None = None  # that converters write; None: the fewest
    assumed_rules: Rules = ()  # those that also hold for graphs at an assumed precision, without scales
    cmsis_nn: KernelMemory | None = None  # of the kernel that uses CMSIS-NN, if it differs
    esp_nn: Callable[[Call], int] | None = None  # bytes of scratch of ESP-NN's kernel for int8, if it has one
    # Where it computes something else or fails for some inputs, as the end of the same sentence.
    caveats: Rules = ()  # ESP-NN's kernels were not compared
    cmsis_nn_caveats: Rules = ()
    fails_by: int | None = None  # the input of which some values end the inference
    overlaps: InputOverlaps | None = None  # None: its output must not overlap an input
    # Which rows of its inputs it needs for rows of its output, besides elementwise kernels; "": all.
    strips: Strips = ""
    counted_by: CountedBy = ""  # the sizes of its formulas of instructions, besides those of its tensors
    reduces_axes: bool = False  # the axes in its second input
    is_portable: bool = True  # other runtimes for microcontrollers are assumed to have the operator
    needs_npu: bool = False  # only firmware for an Ethos-U has it

    @property
    def fewest_inputs(self) -> int:
        """The inputs that it takes at least; 0 if its rules count them."""
        return 0 if self.inputs == "own" else int(self.inputs.removesuffix("+"))


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor; raises Incomplete if it depends on data."""
    if tensor.shape is None:
        raise Incomplete(f"the shape of {tensor.name!r} depends on data")
    return tensor.shape


def elements_of(tensor: Tensor) -> int:
    """The number of elements; raises Incomplete if it depends on data."""
    return math.prod(shape_of(tensor))


def output_shape_copy(call: Call) -> KernelRequests:
    """A writable copy of the output shape, for kernels that compute it."""
    return KernelRequests((4 + 4 * len(shape_of(call.output())),))


def require_elements(call: Call, computed: int) -> None:
    """Raise Incomplete if the recorded output shape is not the one that the kernel computes."""
    if elements_of(call.output()) != computed:
        raise Incomplete(
            f"{call.op.source} {call.op.name!r} computes another output shape than the file records"
        )


class Window(NamedTuple):
    """A convolution: shapes (batch, height, width, channels), and pairs (height, width)."""

    data: tuple[int, ...]
    filter: tuple[int, ...]  # filters, height, width, channels
    result: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a product of matrices."""
        return (
            self.padding == (0, 0)
            and self.filter[1:3] == (1, 1)
            and self.dilation == (1, 1)
            and self.data[3] == self.filter[3]
        )

    @property
    def is_one_row(self) -> bool:
        """Whether both data and filter have one row, in the cases that have a separate function."""
        return (
            self.data[1] == self.filter[1] == self.dilation[1] == 1
            and self.stride[1] * self.data[3] % 4 == 0
            and self.data[3] == self.filter[3]
        )


def window_of(call: Call) -> Window:
    """The window of a convolution's kernel; raises Incomplete if a shape depends on data."""
    data, weights, result = (shape_of(tensor) for tensor in (call.input(0), call.input(1), call.output()))
    attrs = call.op.attrs
    stride, dilation = (tuple(attrs.get(name, (1, 1))) for name in ("stride", "dilation"))
    padding = (0, 0)
    if attrs.get("padding") == "same":
        first, second = (
            max(
                (result[axis] - 1) * stride[axis - 1]
                + (weights[axis] - 1) * dilation[axis - 1]
                + 1
                - data[axis],
                0,
            )
            // 2
            for axis in (1, 2)
        )
        padding = (first, second)
    return Window(data, weights, result, stride, dilation, padding)
