"""The call of a kernel, what it requests of the arena, and the entries of the tables of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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


Prepare: TypeAlias = Callable[[Call], KernelRequests]


@dataclass(frozen=True, slots=True)
class Kernel:
    """C structures of a kernel (fields as in `layout.extent`): its parsed options and its OpData.

    Prepare allocates a temporary TfLiteTensor per tensor. `again` lists the inputs (-1: the output) for which
    it does so twice. `inputs` is the number of them that it takes: 2 is exact, 2+ is the least; with `own`,
    rules of this kernel count them.
    """

    options: str = ""
    data: str = ""
    prepare: Prepare | None = None
    again: tuple[int, ...] = ()
    tensors: Callable[[Call], Sequence[int]] | None = None  # all temporary tensors instead, as for `again`
    overwrites: bool = (
        False  # persistent memory may overwrite the zero points of its output: not read anymore
    )
    inputs: str = ""
    outputs: int = 1  # the fewest


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor; raises Incomplete if it depends on data."""
    if tensor.shape is None:
        raise Incomplete(f"the shape of {tensor.name!r} depends on data")
    return tensor.shape


def elements_of(tensor: Tensor) -> int:
    """The number of elements; raises Incomplete if it depends on data."""
    return math.prod(shape_of(tensor))


def gathered_axes(call: Call) -> tuple[int, int]:
    """The axis of GATHER, and its number of batch dimensions; both count from the end if negative."""
    axis, batch = call.op.attrs["axis"], call.op.attrs["batch_dims"]
    data, indices = shape_of(call.input(0)), shape_of(call.input(1))
    return axis + len(data) * (axis < 0), batch + len(indices) * (batch < 0)
