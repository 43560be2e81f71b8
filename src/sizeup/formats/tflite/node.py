"""An operator of the file while it is lowered, and the state shared while a file is loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from sizeup.errors import CorruptModel
from sizeup.formats.tflite.constants import Constants
from sizeup.formats.tflite.schema import FileLimits, options
from sizeup.graph import ABSENT, Body, Graph, Shape, Tensor
from sizeup.ops.handlers import Handlers


class Context(ABC):
    """The limits, constants, notes and subgraph graphs of a file."""

    def __init__(self, limits: FileLimits, constants: Constants) -> None:
        self.limits = limits
        self.constants = constants
        self.notes: list[str] = []
        self.written: set[str] = set()  # variables that the main graph assigns in every inference

    @property
    def name(self) -> str:
        """The file name, for messages."""
        return self.limits.name

    def note(self, note: str) -> None:
        """Add a note for the report, once."""
        if note not in self.notes:
            self.notes.append(note)

    @abstractmethod
    def graph(self, index: int) -> Graph:
        """The graph of a subgraph."""


class Node:
    """One operator of the file; its lowering changes kind, inputs, attrs and bodies."""

    __slots__ = ("attrs", "bodies", "context", "has_dynamic_output", "has_foreign_options", "inputs", "kind",
                 "operator", "outputs", "source", "tensors")  # fmt: skip

    def __init__(
        self, context: Context, tensors: list[Tensor], operator: Any, source: str, op_kind: str,
        inputs: list[int], outputs: list[int],
    ) -> None:  # fmt: skip
        self.context = context
        self.tensors = tensors
        self.operator = operator
        self.source = source
        self.kind = op_kind
        self.inputs = inputs
        self.outputs = outputs
        self.attrs: dict[str, Any] = {}
        self.bodies: tuple[Body, ...] = ()
        self.has_dynamic_output = False  # the output shape depends on input values
        self.has_foreign_options = False  # a builtin operator has options of a custom one

    def fail(self, problem: str) -> NoReturn:
        """Raise CorruptModel about this operator."""
        raise CorruptModel(f"{self.context.name}: {self.source}: {problem}")

    def sizes(self, name: str, values: Iterable[int]) -> tuple[int, ...]:
        """Sizes from its options, each checked to be at least 1."""
        sizes = tuple(values)
        if min(sizes, default=1) < 1:
            self.fail(f"{name} are {sizes}; each must be at least 1")
        return sizes

    def window(self, sides: Sequence[int]) -> tuple[int, ...]:
        """Check the window sizes over its first input, one per axis."""
        shape = self.shape(0)
        if shape is not None and len(sides) != len(shape):
            self.fail(f"window of {len(sides)} dimensions over data of shape {shape}")
        return self.sizes("window sizes", sides)

    def has(self, position: int) -> bool:
        """Whether the input at a position is present."""
        return position < len(self.inputs) and self.inputs[position] != ABSENT

    def tensor(self, position: int) -> Tensor:
        """The input at a position; raises CorruptModel if it is absent."""
        if not self.has(position):
            self.fail(f"input {position} is missing")
        return self.tensors[self.inputs[position]]

    def shape(self, position: int, rank: int | None = None) -> Shape | None:
        """The shape of an input, or None if it depends on data.

        With `rank`, raises CorruptModel unless the shape has that rank and no empty dimension.
        """
        shape = self.tensor(position).shape
        if shape is not None and rank is not None and (len(shape) != rank or 0 in shape):
            self.fail(f"input {position} has shape {shape}; {rank} non-empty dimensions are required")
        return shape

    def options(self, table: str) -> Any | None:
        """Its options, or None if it has no options of that table."""
        return options(self.operator, table)

    def required_options(self, table: str) -> Any:
        """Its options; raises CorruptModel if they are missing."""
        table_options = options(self.operator, table)
        if table_options is None:
            self.fail(f"{table} are missing")
        return table_options

    def body(self, name: str, index: int) -> Body:
        """A body that runs a subgraph once."""
        return Body(name, self.graph(index))

    def graph(self, index: int) -> Graph:
        """A subgraph that it refers to."""
        return self.context.graph(index)

    def variable(self) -> str:
        """The name of the variable of a handle, shared by all subgraphs."""
        options = self.options("VarHandleOptions")
        if options is None:
            return ""
        label = self.context.limits.label
        return f"{label(options.Container())}/{label(options.SharedName())}"

    def integers(self, position: int) -> list[int] | None:
        """The values of a small constant integer input, or None."""
        return integers(self.tensor(position))


# Shapes, windows and loop bounds are short. Longer constants are not read.
_MAX_INTEGERS = 64


def integers(tensor: Tensor) -> list[int] | None:
    """The values of a small constant integer tensor, or None if it is not one."""
    data = tensor.data
    if data is None or data.read is None or tensor.dtype.family != "int":
        return None
    if tensor.elements is None or tensor.elements > _MAX_INTEGERS:
        return None
    return [int(number) for number in np.ravel(data.read())]


LOWERINGS = Handlers[Callable[[Node], None]]()
"""The lowering of each operator that has one."""
