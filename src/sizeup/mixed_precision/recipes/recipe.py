"""What every quantiser's recipe has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Op, Tensor, name_of
from sizeup.mixed_precision.assign import assign

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Recipe:
    """A choice of number types in a quantiser's own words, and what of the choice it cannot say.

    Weights are as chosen, or the recipe is refused. Activations may be wider, where the quantiser has
    nothing as narrow: `weights` and `activations` say, operator by operator, what the quantiser will write.
    """

    kind: str
    content: Any
    weights: Mapping[int, DType]
    activations: Mapping[int, DType]
    notes: tuple[str, ...] = ()

    def applied(self, graph: Graph) -> Graph:
        """The graph as the quantiser will write it."""
        return assign(graph, self.activations, self.weights)


class Notes:
    """What a recipe cannot say, each reason once with the operators that it is about."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found: dict[str, list[str]] = {}

    def add(self, reason: str, index: int) -> None:
        """One more operator with that reason."""
        self._found.setdefault(reason, []).append(name_of(self._graph, self._graph.ops[index]))

    def told(self) -> tuple[str, ...]:
        """A sentence for each reason."""
        return tuple(f"{reason}: {_listed(names)}" for reason, names in self._found.items())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(repr, names[:_MOST_NAMED])) + more


def refused(graph: Graph, index: int, dtype: DType, tool: str, remedy: str) -> SizeupError:
    """The error for a layer that a quantiser cannot write as chosen."""
    op = graph.ops[index]
    return SizeupError(
        f"layer {name_of(graph, op)!r} (#{index}, {op.source or op.kind}): {tool} cannot write it at "
        f"{precision_name(dtype)}; {remedy}"
    )


def must_be(graph: Graph, format: str, tool: str) -> None:
    """Raise SizeupError where a graph was not read from what a quantiser takes."""
    if graph.format != format:
        raise SizeupError(f"{tool} quantises {format} models; this one is {graph.format or 'of no format'}")


def weights_of(graph: Graph, op: Op) -> list[Tensor]:
    """The trained numbers that an operator multiplies by or looks up, biases apart."""
    read = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    return [each for each in read if each.is_parameter and len(each.shape or ()) > 1]


def reads_unpacked(graph: Graph, op: Op) -> bool:
    """Whether it reads numbers that the file keeps at another type, and unpacks before the first run."""
    read = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    return any(
        each.data is not None and each.data.role == "derived" and each.follows_precision for each in read
    )


def made_type(graph: Graph, assigned: Graph, op: Op) -> DType | None:
    """What an operator makes its numbers in once assigned; None where they are neither real nor quantised."""
    for identity in op.outputs:
        tensor = graph.tensors[identity]
        if tensor.data is None and tensor.follows_precision:
            return assigned.tensors[identity].dtype
    return None
