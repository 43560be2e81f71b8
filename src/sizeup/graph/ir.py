"""The graph that every format is converted to: tensors, ops and their schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from sizeup.dtypes import DType

# In a graph with symbolic dimensions a Dim may be a SymbolicSize. Cost rules therefore use + - * // only,
# and neither cast nor compare a Dim.
Dim: TypeAlias = int
Shape: TypeAlias = tuple[Dim, ...]

# parameter: trained. buffer: stored with the model but not trained (running statistics, tables).
# constant: neither (a shape, an axis, a scale in the graph). derived: computed from constants only, so a
# runtime can compute it before the first inference. scratch: no content, memory that an op requests.
Role = Literal["parameter", "buffer", "constant", "derived", "scratch"]

ABSENT = -1
"""The id of an omitted optional input."""


class SymbolicSize:
    """A size that depends on symbolic dimensions; `sizeup.symbolic` has the arithmetic."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant:
    """The fixed content of a tensor; `read` loads the values on demand."""

    role: Role
    read: Callable[[], np.ndarray[Any, Any]] | None = None
    stored_bytes: int | None = None  # in the file, if not elements x width
    elements: int | None = None  # weights as the user counts them, if a packed tensor has fewer elements
    scheme: str = ""  # how a quantized weight is stored, such as "1 scale per row"
    scale_bytes: int = 0  # of these: scales and zero points, which are read with the elements


@dataclass(frozen=True, slots=True)
class Quant:
    """Affine quantization: real = scale x (stored - zero point), per tensor or along one axis."""

    scale: np.ndarray[Any, Any]
    zero_point: np.ndarray[Any, Any]
    axis: int | None = None
    recorded_axis: int | None = None  # of the file, if its size is not the number of scales


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor; `shape` is None if it depends on data. `data` is set for constants only."""

    name: str
    shape: Shape | None
    dtype: DType
    data: Constant | None = None
    quant: Quant | None = None

    @property
    def elements(self) -> Dim | None:
        """Number of elements; None if the shape depends on data."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def weights(self) -> Dim | None:
        """Number of weights as the user counts them: of a packed tensor, those that it contains."""
        return self.elements if self.data is None or self.data.elements is None else self.data.elements

    @property
    def follows_precision(self) -> bool:
        """Whether a change of precision changes its dtype; indices, masks and shapes keep theirs."""
        return self.dtype.family == "float" or self.quant is not None

    @property
    def is_parameter(self) -> bool:
        """Whether it is a trained weight."""
        return self.data is not None and self.data.role == "parameter"


@dataclass(frozen=True, slots=True)
class Body:
    """A subgraph run by a control-flow op; `runs` is None if the trip count depends on data."""

    name: str
    graph: Graph
    runs: Dim | None = 1


@dataclass(frozen=True, slots=True)
class Op:
    """One op. `kind` is the op kind, `source` the name in the model's format, `scope` the module path."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    name: str = ""
    scope: str = ""
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded execution in this schedule: the storage of every tensor, and when each was freed."""

    storage: tuple[int, ...]  # per tensor; -1 for constants
    freed_after: tuple[
        int, ...
    ]  # per storage, the last op during which it was allocated; () if freed at last use
    device: str = "cpu"
    threads: int = 1
    simd_lanes: int = 16  # elements per SIMD vector, as oneDNN uses them; 0 if oneDNN is not available
    # Non-contiguous layouts by tensor. Inputs of convolutions and norms: "channels_last" or "other".
    # Inputs of matrix products: "apart" if their leading dimensions cannot be flattened to one.
    layouts: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class OperatorUse:
    """An operator as a file names it, its opset, and the dtypes of its values, empty if unknown."""

    domain: str
    name: str
    opset: int
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.domain}::{self.name}" if self.domain else self.name


@dataclass(frozen=True, slots=True)
class Requirements:
    """What an .onnx file requires of a runtime: the version of the format, and each use of an operator."""

    ir_version: int
    operators: tuple[OperatorUse, ...]
    external_bytes: int = 0  # of constants in other files
    other_bytes: int = 0  # of large attributes, and of constants in blocks that never run
    violations: tuple[str, ...] = ()  # of the definitions of operators, for which runtimes refuse the file


@dataclass(frozen=True, slots=True, repr=False)
class Graph:
    """A network with its ops in schedule order; tensor ids index `tensors`."""

    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = ""
    format: str = ""
    notes: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()  # memory plan stored in the file: one offset per tensor, -1 for none
    recorded_run: RecordedRun | None = None  # set if the graph was recorded from an execution
    # The other graphs of the same file, called or not, in file order; None if one of them cannot be read.
    other_graphs: tuple[Graph, ...] | None = ()
    uncounted_signatures: tuple[
        str, ...
    ] = ()  # signatures of the file that run another graph, which is not counted
    fit_notes: tuple[str, ...] = ()  # those of `notes` that a fit verdict depends on
    # Shapes that the file records for tensors whose `shape` was inferred instead, by tensor id.
    recorded_shapes: Mapping[int, Shape] = field(default_factory=dict)
    placeholder_sizes: tuple[str, ...] = ()  # inputs whose recorded sizes stand for any size, as sentences
    # Outputs of which LiteRT makes another shape or dtype than the file records, as sentences.
    recomputed_outputs: tuple[str, ...] = ()
    weights_are_upper_bound: bool = False  # they are stored in a format whose size is unknown
    requirements: Requirements | None = None  # of an .onnx file
    missing_files: tuple[str, ...] = ()  # of weights: they do not exist, cannot be read, or are too short

    def open_sizes(self, *, uses_record: bool) -> tuple[str, ...]:
        """Why sizes of tensors are only lower bounds: inputs, or outputs that a runtime computes anew."""
        return self.placeholder_sizes if uses_record else self.placeholder_sizes + self.recomputed_outputs

    def __repr__(self) -> str:
        # The generated repr would be as long as the model.
        name = self.name or "without a name"
        return f"<Graph {name}: {len(self.ops):,} operators, {len(self.tensors):,} tensors>"


def name_of(graph: Graph, op: Op) -> str:
    """Returns the op's name, or its first output's name if the op has none."""
    return op.name or (graph.tensors[op.outputs[0]].name if op.outputs else "")


def is_precomputed(graph: Graph, op: Op) -> bool:
    """Whether an op is computed from constants only, before the first inference."""
    for identity in op.outputs:
        if graph.tensors[identity].data is None:
            return False
    return bool(op.outputs)


def differ_only_in_dtypes(one: Graph, other: Graph) -> bool:
    """Whether both graphs have the same op objects, equal shapes and the same set of constant tensors."""
    if one is other:
        return True
    if (len(one.ops), len(one.tensors)) != (len(other.ops), len(other.tensors)):
        return False
    return all(a is b for a, b in zip(one.ops, other.ops, strict=True)) and all(
        a is b or _differ_in_type_alone(a, b) for a, b in zip(one.tensors, other.tensors, strict=True)
    )


def _differ_in_type_alone(one: Tensor, other: Tensor) -> bool:
    # String tensors have 0 bits: their size is unknown, which affects the cost.
    return (
        one.shape == other.shape
        and (one.data is None) == (other.data is None)
        and bool(one.dtype.bits) == bool(other.dtype.bits)
    )
