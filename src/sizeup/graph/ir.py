"""The one graph that every format becomes: tensors, operators, and the order they run in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from sizeup.dtypes import DType

# A graph with symbolic dimensions has a SymbolicSize in the place of an int: cost rules compute with
# + - * // alone and neither cast nor compare a Dim.
Dim: TypeAlias = int
Shape: TypeAlias = tuple[Dim, ...]

# parameter: trained; buffer: kept with the model but not trained (running statistics, tables);
# constant: neither (a shape, an axis, a scale written into the graph); derived: computed from
# constants alone, so a runtime can have it before the first run; scratch: no content at all, memory
# that an operator asks for by reading it.
Role = Literal["parameter", "buffer", "constant", "derived", "scratch"]

ABSENT = -1
"""The id that stands where an optional input was not given."""


class SymbolicSize:
    """A size that depends on symbolic dimensions; `sizeup.symbolic` has the arithmetic."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant:
    """What is known of a tensor's fixed content; `read` fetches the numbers only when asked."""

    role: Role
    read: Callable[[], np.ndarray[Any, Any]] | None = None
    stored_bytes: int | None = None  # in the file, where that differs from elements x width


@dataclass(frozen=True, slots=True)
class Quant:
    """Affine quantisation: real = scale x (stored - zero point), per tensor or along one axis."""

    scale: np.ndarray[Any, Any]
    zero_point: np.ndarray[Any, Any]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value; `shape` is None where it depends on data. `data` is set for constants only."""

    name: str
    shape: Shape | None
    dtype: DType
    data: Constant | None = None
    quant: Quant | None = None

    @property
    def elements(self) -> Dim | None:
        """How many numbers it holds; None where the shape depends on data."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def follows_precision(self) -> bool:
        """Whether a change of precision changes its width; indices, masks and shapes keep theirs."""
        return self.dtype.family == "float" or self.quant is not None

    @property
    def is_parameter(self) -> bool:
        """Whether it holds trained numbers."""
        return self.data is not None and self.data.role == "parameter"


@dataclass(frozen=True, slots=True)
class Body:
    """A sub-graph that an operator of control flow runs; `runs` is None where data decides."""

    name: str
    graph: Graph
    runs: Dim | None = 1


@dataclass(frozen=True, slots=True)
class Op:
    """One step. `kind` is ours, `source` the name in the model's own format, `scope` the module."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    name: str = ""
    scope: str = ""
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """How a framework ran it in this order: which tensors lay in one storage, and when that was freed."""

    storage: tuple[int, ...]  # of every tensor; -1 for constants
    freed: tuple[int, ...]  # of every storage, the last operator that it was there for; () where last used
    device: str = "cpu"
    threads: int = 1
    lanes: int = 16  # numbers in a vector of the processor, as oneDNN computes; 0 where it is not there
    # Of tensors that convolutions and norms read, where not row by row: "channels_last" or "other". Of those
    # that products read, "apart" where their leading dimensions do not lie in memory as one.
    layouts: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Graph:
    """A network in the order in which it runs; tensor ids index `tensors`."""

    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = ""
    format: str = ""
    notes: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()  # a memory plan that the file prescribes: one a tensor, -1 for none
    run: Run | None = None  # where the graph was recorded from one
    # The other graphs of the same file, called or not, in its order; None where one of them cannot be read.
    others: tuple[Graph, ...] | None = ()
    entries: tuple[str, ...] = ()  # signatures of the file that run another graph, which is not counted

    def __repr__(self) -> str:
        # In full it would be as long as the model.
        name = self.name or "without a name"
        return f"<Graph {name}: {len(self.ops):,} operators, {len(self.tensors):,} tensors>"


def name_of(graph: Graph, op: Op) -> str:
    """An operator's own name, or that of its first output where the format gives it none."""
    return op.name or (graph.tensors[op.outputs[0]].name if op.outputs else "")


def differ_in_types_alone(one: Graph, other: Graph) -> bool:
    """Whether both graphs have the same op objects, equal shapes and the same constants."""
    if one is other:
        return True
    if (len(one.ops), len(one.tensors)) != (len(other.ops), len(other.tensors)):
        return False
    return all(a is b for a, b in zip(one.ops, other.ops, strict=True)) and all(
        a is b or _differ_in_type_alone(a, b) for a, b in zip(one.tensors, other.tensors, strict=True)
    )


def _differ_in_type_alone(one: Tensor, other: Tensor) -> bool:
    # Strings have no bits: their bytes are unknown, which a cost reports.
    return (
        one.shape == other.shape
        and (one.data is None) == (other.data is None)
        and bool(one.dtype.bits) == bool(other.dtype.bits)
    )
