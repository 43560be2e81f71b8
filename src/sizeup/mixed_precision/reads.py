"""Who reads what at which type: where a mixture of types converts a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.mixed_precision.assign import CONVERSIONS
from sizeup.mixed_precision.layers import Layer
from sizeup.mixed_precision.trellis import Codes

OWN = -1  # the type that the model has, whatever is chosen


@dataclass(frozen=True, slots=True)
class Read:
    """An operator reads a tensor at the type of a group, or at the tensor's own."""

    op: int
    tensor: int
    group: int


@dataclass(frozen=True, slots=True, eq=False)
class Typing:
    """The group whose type each tensor has, and all reads of tensors that follow a precision."""

    group: list[int]  # of every tensor, OWN if it keeps its type
    reads: dict[int, list[Read]]  # of every tensor that is read, in the order of operators
    inputs: dict[int, list[int]]  # of what enters the graph the groups that read it

    def foreign(self, tensor: int) -> list[Read]:
        """The reads of a tensor at a type that may differ from its own group's."""
        group = self.group[tensor]
        differs = len(self.inputs.get(tensor, ())) > 1
        return [each for each in self.reads.get(tensor, ()) if differs or each.group != group]


def own_kind(tensor: Tensor, kinds: Sequence[DType]) -> int:
    """The place of a tensor's own type among those on offer; behind them all if it is none of these."""
    same = [place for place, each in enumerate(kinds) if is_same(each, tensor.dtype)]
    return same[0] if same else len(kinds)


def is_same(first: DType, second: DType) -> bool:
    """Whether a value of one type is one of the other without a conversion."""
    return (first.bits, first.family) == (second.bits, second.family)


def typing_of(graph: Graph, layers: Sequence[Layer], group_of: Codes, owner: Codes) -> Typing:
    """What `assign` will do, by groups instead of types."""
    chosen = {layer.op: int(group) for layer, group in zip(layers, group_of, strict=True)}
    group = [OWN] * len(graph.tensors)
    reads: dict[int, list[Read]] = {}
    for identity in graph.inputs:
        group[identity] = int(owner[identity])
    for index, op in enumerate(graph.ops):
        real = [i for i in op.outputs if _moves(graph, i)]
        if index in chosen:
            wanted = chosen[index]
        elif op.bodies or op.kind in CONVERSIONS or not real:
            wanted = OWN
        else:
            wanted = int(owner[real[0]])
        for identity in real:
            group[identity] = wanted
        for identity in dict.fromkeys(op.inputs):
            if identity != ABSENT and _moves(graph, identity):
                reads.setdefault(identity, []).append(Read(index, identity, wanted))
    inputs = {
        identity: list(dict.fromkeys(each.group for each in reads.get(identity, ()) if each.group != OWN))
        for identity in graph.inputs
        if _moves(graph, identity)
    }
    return Typing(group, reads, inputs)


def _moves(graph: Graph, identity: int) -> bool:
    tensor = graph.tensors[identity]
    return tensor.data is None and tensor.follows_precision
