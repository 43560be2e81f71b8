"""An operator on its way from the file to the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from sizeup.errors import CorruptModel
from sizeup.formats.tflite.context import Context
from sizeup.formats.tflite.schema import options
from sizeup.graph import ABSENT, Body, Graph, Shape, Tensor


class Node:
    """One operator as the file has it; lowering turns kind, inputs, attrs and bodies into ours."""

    __slots__ = ("attrs", "bodies", "context", "data_shaped", "inputs", "kind", "operator", "outputs",
                 "source", "tensors")  # fmt: skip

    def __init__(
        self, context: Context, tensors: list[Tensor], operator: Any, source: str, kind: str,
        inputs: list[int], outputs: list[int],
    ) -> None:  # fmt: skip
        self.context = context
        self.tensors = tensors
        self.operator = operator
        self.source = source
        self.kind = kind
        self.inputs = inputs
        self.outputs = outputs
        self.attrs: dict[str, Any] = {}
        self.bodies: tuple[Body, ...] = ()
        self.data_shaped = False  # the numbers that come in decide the shape that comes out

    def fail(self, problem: str) -> NoReturn:
        """Raise CorruptModel about this operator."""
        raise CorruptModel(f"{self.context.name}: {self.source}: {problem}")

    def sizes(self, what: str, values: Iterable[int]) -> tuple[int, ...]:
        """Sizes from its options, each at least 1, so that they cannot lower a total."""
        sizes = tuple(values)
        if min(sizes, default=1) < 1:
            self.fail(f"the {what} are {sizes}; each must be at least 1")
        return sizes

    def window(self, sides: Sequence[int]) -> tuple[int, ...]:
        """The sides of a window over its first input, one for each axis."""
        shape = self.shape(0)
        if shape is not None and len(sides) != len(shape):
            self.fail(f"a window of {len(sides)} sides over data of the shape {shape}")
        return self.sizes("sides of the window", sides)

    def has(self, position: int) -> bool:
        """Whether the input at that place is given."""
        return position < len(self.inputs) and self.inputs[position] != ABSENT

    def tensor(self, position: int) -> Tensor:
        """The input at that place, which must be given."""
        if not self.has(position):
            self.fail(f"input {position} is missing")
        return self.tensors[self.inputs[position]]

    def shape(self, position: int, rank: int | None = None) -> Shape | None:
        """The shape of an input, of a given rank and without empty dimensions; None where data decides it."""
        shape = self.tensor(position).shape
        if shape is not None and rank is not None and (len(shape) != rank or 0 in shape):
            self.fail(f"input {position} is {shape}, not a full shape of {rank} dimensions")
        return shape

    def options(self, table: str) -> Any | None:
        """Its options; None where it carries none of that table."""
        return options(self.operator, table)

    def needed_options(self, table: str) -> Any:
        """Its options, without which the operator means nothing."""
        found = options(self.operator, table)
        if found is None:
            self.fail(f"{table} are missing")
        return found

    def body(self, name: str, index: int) -> Body:
        """A subgraph that it runs once."""
        return Body(name, self.graph(index))

    def graph(self, index: int) -> Graph:
        """A subgraph that it refers to."""
        return self.context.graph(index)

    def variable(self) -> str:
        """The name under which all subgraphs know the variable that a handle stands for."""
        options = self.options("VarHandleOptions")
        if options is None:
            return ""
        label = self.context.limits.label
        return f"{label(options.Container())}/{label(options.SharedName())}"

    def integers(self, position: int) -> list[int] | None:
        """The numbers of a small constant input; None where they are not in the file."""
        return integers(self.tensor(position))


# Shapes, windows and loop bounds are short; a longer constant is none of these.
_LONGEST = 64


def integers(tensor: Tensor) -> list[int] | None:
    """The numbers of a small constant of integers; None where it is something else."""
    data = tensor.data
    if data is None or data.read is None or tensor.dtype.family != "int":
        return None
    if tensor.elements is None or tensor.elements > _LONGEST:
        return None
    return [int(number) for number in np.ravel(data.read())]
