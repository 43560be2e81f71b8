"""Where layers of different types need conversions, and what these take, as tables over types of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.latency import Basis, energy_by_op, estimate
from sizeup.mixed_precision.assign import CONVERSIONS, conversion_kind
from sizeup.mixed_precision.layers import Layer
from sizeup.mixed_precision.network import Codes, Floats
from sizeup.targets import Target

_MOST_READERS = 3  # groups that read one tensor; of further ones the conversions count as free


def conversion_tables(
    graph: Graph, typing: Typing, kinds: Sequence[DType], target: Target, basis: Basis | None
) -> list[tuple[tuple[int, ...], Floats]]:
    """Groups, and seconds and joules by their types: what converting one tensor for its readers takes."""
    foreign = {tensor: typing.foreign(tensor) for tensor in typing.reads}
    converted = [tensor for tensor, reads in foreign.items() if reads]
    prices = _prices(graph, converted, kinds, target, basis)
    found = []
    for tensor, price in zip(converted, prices, strict=True):
        readers = list(dict.fromkeys(each.group for each in foreign[tensor]))
        kept = [group for group in readers if group != OWN][:_MOST_READERS]
        made_by = typing.group[tensor]
        scope = tuple(dict.fromkeys([*([made_by] if made_by != OWN else []), *kept]))
        if scope:
            wanted = [*kept, *([OWN] * (OWN in readers))]
            own = own_kind(graph.tensors[tensor], kinds)
            found.append((scope, _table(scope, typing, tensor, wanted, price, own)))
    return found


def _table(
    scope: tuple[int, ...], typing: Typing, tensor: int, readers: list[int], price: Floats, own: int
) -> Floats:
    """What converting a tensor to every type that its readers want takes, by the types of all groups."""
    shape = (len(price) - 1,) * len(scope)
    grid = np.indices(shape).reshape(len(scope), -1)
    kind_of = {group: grid[place] for place, group in enumerate(scope)}
    fixed = np.full(grid.shape[1], own)
    made = kind_of.get(typing.group[tensor], fixed)
    entering = typing.inputs.get(tensor, ())
    if len(entering) > 1:
        agreed = np.all([kind_of.get(group, made) == made for group in entering], axis=0)
        made = np.where(agreed, made, own)
    amounts = np.zeros((grid.shape[1], 2))
    done: list[np.ndarray] = []
    for group in readers:
        wanted = kind_of.get(group, fixed)
        fresh = np.all([wanted != each for each in done], axis=0) if done else np.True_
        amounts += price[made, wanted] * np.asarray(fresh)[..., None]
        done.append(wanted)
    return amounts.reshape(*shape, 2)


def _prices(
    graph: Graph, tensors: Sequence[int], kinds: Sequence[DType], target: Target, basis: Basis | None
) -> list[Floats]:
    """Seconds and joules of converting each tensor from one type to another; the last type is its own."""
    if not tensors:
        return []
    made, ops, inputs = list(graph.tensors), list(graph.ops), list(graph.inputs)
    outputs, place = list(graph.outputs), {}
    for tensor in tensors:
        whole = graph.tensors[tensor]
        types = [*kinds, whole.dtype]
        for first, source in enumerate(types):
            start = len(made)
            made.append(replace(whole, dtype=source, quant=None))
            inputs.append(start)
            for second, wanted in enumerate(types):
                if is_same(source, wanted):
                    continue
                place[tensor, first, second] = len(ops)
                ops.append(Op(conversion_kind(source, wanted), (start,), (len(made),), scope="conversions"))
                outputs.append(len(made))
                made.append(replace(whole, dtype=wanted, quant=None))
    whole_graph = replace(
        graph,
        tensors=tuple(made),
        ops=tuple(ops),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        offsets=(),
        run=None,
        others=(),
    )
    timed = estimate(count(whole_graph), target, basis=basis)
    seconds, joules = timed.by_op()[0], energy_by_op(timed)
    found = []
    for tensor in tensors:
        price = np.zeros((len(kinds) + 1, len(kinds) + 1, 2))
        for first in range(len(kinds) + 1):
            for second in range(len(kinds) + 1):
                op = place.get((tensor, first, second))
                if op is not None:
                    price[first, second] = seconds[op], 0.0 if joules is None else joules[op]
        found.append(price)
    return found


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
