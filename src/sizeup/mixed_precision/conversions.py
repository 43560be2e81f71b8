"""Conversions between layers of different dtypes, and their costs as tables over the dtypes of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.latency import Basis, energy_by_op, estimate
from sizeup.mixed_precision.assign import CONVERSIONS, conversion_op_kind
from sizeup.mixed_precision.layers import Layer
from sizeup.mixed_precision.trellis import Codes, Floats
from sizeup.targets import Target

_MAX_READERS = 3  # reading groups per tensor; conversions for further groups count as free


def conversion_tables(
    graph: Graph, typing: DtypeGroups, dtypes: Sequence[DType], target: Target, basis: Basis | None
) -> list[tuple[tuple[int, ...], Floats]]:
    """Returns groups, and seconds and joules by their dtypes, of converting each tensor for its readers."""
    foreign = {tensor: typing.foreign(tensor) for tensor in typing.reads}
    converted = [tensor for tensor, reads in foreign.items() if reads]
    prices = _prices(graph, converted, dtypes, target, basis)
    tables = []
    for tensor, price in zip(converted, prices, strict=True):
        readers = list(dict.fromkeys(read.group for read in foreign[tensor]))
        known = [group for group in readers if group != OWN][:_MAX_READERS]
        writer = typing.group[tensor]
        scope = tuple(dict.fromkeys([*([writer] if writer != OWN else []), *known]))
        if scope:
            targets = [*known, *([OWN] * (OWN in readers))]
            own = own_dtype_index(graph.tensors[tensor], dtypes)
            tables.append((scope, _table(scope, typing, tensor, targets, price, own)))
    return tables


def _table(
    scope: tuple[int, ...], typing: DtypeGroups, tensor: int, readers: list[int], price: Floats, own: int
) -> Floats:
    """Returns the cost of converting a tensor to each dtype of its readers, by the dtypes of all groups."""
    shape = (len(price) - 1,) * len(scope)
    grid = np.indices(shape).reshape(len(scope), -1)
    code_of = {group: grid[row] for row, group in enumerate(scope)}
    fixed = np.full(grid.shape[1], own)
    source = code_of.get(typing.group[tensor], fixed)
    entering = typing.inputs.get(tensor, ())
    if len(entering) > 1:
        agreed = np.all([code_of.get(group, source) == source for group in entering], axis=0)
        source = np.where(agreed, source, own)
    amounts = np.zeros((grid.shape[1], 2))
    done: list[np.ndarray] = []
    for group in readers:
        target = code_of.get(group, fixed)
        fresh = np.all([target != other for other in done], axis=0) if done else np.True_
        amounts += price[source, target] * np.asarray(fresh)[..., None]
        done.append(target)
    return amounts.reshape(*shape, 2)


def _prices(
    graph: Graph, tensors: Sequence[int], dtypes: Sequence[DType], target: Target, basis: Basis | None
) -> list[Floats]:
    """Returns seconds and joules of converting each tensor between dtypes; the last dtype is its own."""
    if not tensors:
        return []
    all_tensors, ops, inputs = list(graph.tensors), list(graph.ops), list(graph.inputs)
    outputs, op_index = list(graph.outputs), {}
    for tensor in tensors:
        original = graph.tensors[tensor]
        all_dtypes = [*dtypes, original.dtype]
        for first, source in enumerate(all_dtypes):
            start = len(all_tensors)
            all_tensors.append(replace(original, dtype=source, quant=None))
            inputs.append(start)
            for second, target_dtype in enumerate(all_dtypes):
                if is_same(source, target_dtype):
                    continue
                op_index[tensor, first, second] = len(ops)
                op_kind = conversion_op_kind(source, target_dtype)
                ops.append(Op(op_kind, (start,), (len(all_tensors),), scope="conversions"))
                outputs.append(len(all_tensors))
                all_tensors.append(replace(original, dtype=target_dtype, quant=None))
    extended = replace(
        graph,
        tensors=tuple(all_tensors),
        ops=tuple(ops),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        offsets=(),
        recorded_run=None,
        other_graphs=(),
    )
    latency = estimate(count(extended), target, basis=basis)
    seconds, joules = latency.by_op()[0], energy_by_op(latency)
    prices = []
    for tensor in tensors:
        price = np.zeros((len(dtypes) + 1, len(dtypes) + 1, 2))
        for first in range(len(dtypes) + 1):
            for second in range(len(dtypes) + 1):
                op = op_index.get((tensor, first, second))
                if op is not None:
                    price[first, second] = seconds[op], 0.0 if joules is None else joules[op]
        prices.append(price)
    return prices


OWN = -1  # the dtype in the model, for every assignment


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a tensor by an op, at the dtype of a group or at the tensor's own."""

    op: int
    tensor: int
    group: int


@dataclass(frozen=True, slots=True, eq=False)
class DtypeGroups:
    """The group whose dtype each tensor has, and all reads of tensors that follow a precision."""

    group: list[int]  # of every tensor, OWN if it keeps its dtype
    reads: dict[int, list[Read]]  # of every tensor that is read, in execution order
    inputs: dict[int, list[int]]  # of every graph input, the groups that read it

    def foreign(self, tensor: int) -> list[Read]:
        """Returns the reads of a tensor at a dtype that may differ from its own group's."""
        group = self.group[tensor]
        differs = len(self.inputs.get(tensor, ())) > 1
        return [read for read in self.reads.get(tensor, ()) if differs or read.group != group]


def own_dtype_index(tensor: Tensor, dtypes: Sequence[DType]) -> int:
    """Returns the index of a tensor's dtype in `dtypes`; their count if it is none of them."""
    same = [index for index, dtype in enumerate(dtypes) if is_same(dtype, tensor.dtype)]
    return same[0] if same else len(dtypes)


def is_same(first: DType, second: DType) -> bool:
    """Whether a value of one dtype is also one of the other, without a conversion."""
    return (first.bits, first.family) == (second.bits, second.family)


def typing_of(graph: Graph, layers: Sequence[Layer], group_of: Codes, owner: Codes) -> DtypeGroups:
    """Returns what `assign` will do, by groups instead of dtypes."""
    group_of_op = {layer.op: int(group) for layer, group in zip(layers, group_of, strict=True)}
    group = [OWN] * len(graph.tensors)
    reads: dict[int, list[Read]] = {}
    for identity in graph.inputs:
        group[identity] = int(owner[identity])
    for index, op in enumerate(graph.ops):
        real = [i for i in op.outputs if _follows_precision(graph, i)]
        if index in group_of_op:
            target = group_of_op[index]
        elif op.bodies or op.kind in CONVERSIONS or not real:
            target = OWN
        else:
            target = int(owner[real[0]])
        for identity in real:
            group[identity] = target
        for identity in dict.fromkeys(op.inputs):
            if identity != ABSENT and _follows_precision(graph, identity):
                reads.setdefault(identity, []).append(Read(index, identity, target))
    inputs = {
        identity: list(dict.fromkeys(read.group for read in reads.get(identity, ()) if read.group != OWN))
        for identity in graph.inputs
        if _follows_precision(graph, identity)
    }
    return DtypeGroups(group, reads, inputs)


def _follows_precision(graph: Graph, identity: int) -> bool:
    tensor = graph.tensors[identity]
    return tensor.data is None and tensor.follows_precision
