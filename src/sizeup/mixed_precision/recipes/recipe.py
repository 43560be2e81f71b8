"""Parts shared by the recipes for all quantizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Op, Tensor, name_of
from sizeup.mixed_precision.assign import assign

_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Recipe:
    """A mixed-precision assignment in a quantizer's format, with notes on what it cannot express.

    Weights have the assigned dtypes, or an error is raised. Activations may be wider if the quantizer has no
    narrower dtype: `weights` and `activations` are the dtypes by op that the quantizer will write.
    """

    kind: str
    content: Any
    weights: Mapping[int, DType]
    activations: Mapping[int, DType]
    notes: tuple[str, ...] = ()

    def applied(self, graph: Graph) -> Graph:
        """Returns the graph as the quantizer will write it."""
        return assign(graph, self.activations, self.weights)


class Notes:
    """What a recipe cannot express: each reason once, with the ops it applies to."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._ops_by_reason: dict[str, list[str]] = {}

    def add(self, reason: str, index: int) -> None:
        """Adds an op to a reason."""
        self._ops_by_reason.setdefault(reason, []).append(name_of(self._graph, self._graph.ops[index]))

    def sentences(self) -> tuple[str, ...]:
        """Returns one sentence per reason."""
        return tuple(f"{reason}: {_listed(names)}" for reason, names in self._ops_by_reason.items())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(map(repr, names[:_MAX_NAMED])) + more


def unsupported_error(graph: Graph, index: int, dtype: DType, tool: str, remedy: str) -> SizeupError:
    """Returns the error for a layer that a quantizer cannot write as assigned."""
    op = graph.ops[index]
    return SizeupError(
        f"layer {name_of(graph, op)!r} (#{index}, {op.source or op.kind}): {tool} cannot write it at "
        f"{precision_name(dtype)}; {remedy}"
    )


def require_format(graph: Graph, format: str, tool: str) -> None:
    """Raises SizeupError if a graph was not read from the format that a quantizer reads."""
    if graph.format != format:
        raise SizeupError(
            f"{tool} quantizes {format} models; this one is {graph.format or 'not from a file'}"
        )


def weights_of(graph: Graph, op: Op) -> list[Tensor]:
    """Returns the weights that an op multiplies by or looks up, without biases."""
    inputs = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    return [tensor for tensor in inputs if tensor.is_parameter and len(tensor.shape or ()) > 1]


def reads_unpacked_constants(graph: Graph, op: Op) -> bool:
    """Whether an op reads constants that the file stores at another dtype and unpacks once."""
    inputs = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    return any(t.data is not None and t.data.role == "derived" and t.follows_precision for t in inputs)


def output_dtype(graph: Graph, assigned: Graph, op: Op) -> DType | None:
    """Returns the dtype of an op's outputs once assigned; None if they are neither real nor quantized."""
    for identity in op.outputs:
        tensor = graph.tensors[identity]
        if tensor.data is None and tensor.follows_precision:
            return assigned.tensors[identity].dtype
    return None
