"""What every choice of a dtype costs, and which of them a runtime has kernels for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sizeup import dtypes
from sizeup.cost import count
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.latency import Basis, energy, energy_by_op, estimate
from sizeup.memory import tensor_bytes
from sizeup.mixed_precision.assign import CONVERSIONS, assign
from sizeup.mixed_precision.conversions import Typing, conversion_tables, typing_of
from sizeup.mixed_precision.layers import Layer, layers
from sizeup.mixed_precision.network import Codes, Flags, Floats
from sizeup.targets import Target, WeightOnly, current

_SAMPLES = 16
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Options:
    """One row an option, a number type for a group of layers that must share it.

    `weights`, `seconds` and `joules` are of the group at that type; `conversions` what values take that
    a mixture converts on the way between groups. `owner` is the group whose type a tensor has, -1: none.
    """

    graph: Graph
    layers: tuple[Layer, ...]
    group_of: Codes  # of every layer
    owner: Codes
    group: Codes
    dtype: tuple[DType, ...]
    weights: Floats
    seconds: Floats | None
    joules: Floats | None
    target: Target | None
    basis: Basis | None  # of all times, so that choices are compared on one
    fixed_weights: float  # what no choice changes
    fixed_seconds: float
    fixed_joules: float
    kinds: tuple[DType, ...]
    unsupported: tuple[str, ...]  # why precisions that were asked for are not offered, or not to all layers
    allowed: Flags  # the options whose layers all have a kernel
    typing: Typing
    conversions: tuple[tuple[tuple[int, ...], Floats], ...]  # groups; seconds and joules by their types

    def chosen(self, picked: Codes) -> dict[int, DType]:
        """The number type of every layer, by operator, where options are picked."""
        dtype = {int(self.group[option]): self.dtype[option] for option in picked}
        return {layer.op: dtype[int(group)] for layer, group in zip(self.layers, self.group_of, strict=True)}

    @cached_property
    def is_plain(self) -> bool:
        """Whether no operator of the model itself converts, nor runs others inside."""
        return not any(op.bodies or op.kind in CONVERSIONS for op in self.graph.ops)

    @cached_property
    def is_additive(self) -> bool:
        """Whether times and energies are the sums of groups and conversions, tried on mixtures at random.

        They are not if a runtime merges conversions into other kernels.
        """
        if self.target is None or self.seconds is None:
            return True
        drawn, groups = np.random.default_rng(0), int(self.group.max()) + 1
        return all(self._is_sum(drawn.integers(len(self.kinds), size=groups)) for _ in range(_SAMPLES))

    def _is_sum(self, types: Codes) -> bool:
        assert self.target is not None
        assert self.seconds is not None
        places = np.arange(len(types)) * len(self.kinds) + types
        timed = estimate(count(assign(self.graph, self.chosen(places))), self.target, basis=self.basis)
        converted = [table[tuple(types[list(groups)])] for groups, table in self.conversions]
        seconds = self.seconds[places].sum() + self.fixed_seconds + sum(each[0] for each in converted)
        if abs(seconds - timed.seconds) > _SAME * timed.seconds:
            return False
        spent = energy(timed)
        if spent is None or self.joules is None:
            return spent is None and self.joules is None
        joules = self.joules[places].sum() + self.fixed_joules + sum(each[1] for each in converted)
        return bool(abs(joules - spent.joules) <= _SAME * spent.joules)

    def picked(self, chosen: Mapping[int, DType]) -> Codes:
        """The options behind the number types of layers: the other way round."""
        wanted = {int(g): chosen[each.op] for each, g in zip(self.layers, self.group_of, strict=True)}
        rows = enumerate(zip(self.group.tolist(), self.dtype, strict=True))
        return np.array([option for option, (group, dtype) in rows if wanted[group] == dtype], np.int64)

    def losses(self, table: Mapping[str, Mapping[str, float]]) -> Floats:
        """What every option loses: the sum over its layers of {layer: {precision: loss}}."""
        kinds = list(dict.fromkeys(self.dtype))
        by_group = np.zeros((int(self.group.max()) + 1, len(kinds)))
        for layer, group in zip(self.layers, self.group_of, strict=True):
            by_group[group] += [_loss(table, layer, precision_name(kind)) for kind in kinds]
        return by_group[self.group, [kinds.index(each) for each in self.dtype]]

    def by_layer(
        self, table: Mapping[str, Mapping[str, float]], chosen: Mapping[int, DType]
    ) -> dict[int, float]:
        """What every layer loses at its chosen type, by operator."""
        return {each.op: _loss(table, each, precision_name(chosen[each.op])) for each in self.layers}


_EXACT = "fp32"  # what is not rounded loses nothing


def _loss(table: Mapping[str, Mapping[str, float]], layer: Layer, precision: str) -> float:
    row = table.get(f"#{layer.op}") or table.get(layer.name)
    if row is not None and not isinstance(row, Mapping):
        raise SizeupError(f"the losses of layer {layer.name} are {row!r}, not {{precision: loss}}")
    if row is not None and precision == _EXACT and precision not in row:
        return 0.0
    if row is None or precision not in row:
        raise SizeupError(f"the losses tell nothing of layer {layer.name} at {precision}")
    if not isinstance(row[precision], int | float) or not row[precision] >= 0:
        raise SizeupError(
            f"the loss of layer {layer.name} at {precision} is {row[precision]}, not a number from 0"
        )
    return float(min(row[precision], sys.float_info.max))


def options_of(graph: Graph, precisions: Sequence[DType], target: Target | None = None) -> Options:
    """Every number type that the target has kernels for, for every group of layers, and what it takes."""
    if not precisions:
        raise SizeupError("no precision is named to choose from")
    asked = list(dict.fromkeys(precisions))
    kinds = [each for each in asked if target is None or precision_name(each) in target.runtime.dtypes]
    if not kinds:
        raise SizeupError(f"{target} has kernels for none of {', '.join(map(precision_name, precisions))}")
    found = layers(graph)
    if not found:
        raise SizeupError("there is no layer whose number type could be chosen")
    # Numbers that are stored narrow gain nothing from a wider type.
    stored = max(_stored_bits(graph, layer) for layer in found)
    kinds = [each for each in kinds if each.bits <= stored]
    if not kinds:
        raise SizeupError(f"all layers have {stored} bits already; no type that was named is as narrow")
    group_of, owner = _tied(graph, found, _owners(graph, found))
    groups = int(group_of.max()) + 1
    allowed = _with_kernels(graph, found, group_of, kinds, target)
    offered = np.flatnonzero(allowed.any(axis=0))
    kinds, allowed = [kinds[each] for each in offered.tolist()], allowed[:, offered]
    basis = common_basis(kinds, target)
    columns = [_taken(graph, found, owner, groups, each, target, basis) for each in kinds]
    group = np.repeat(np.arange(groups), len(kinds))
    weights = np.stack([each[0] for each in columns], axis=1).ravel()
    seconds, joules = _stacked([each[1] for each in columns]), _stacked([each[2] for each in columns])
    fixed_weights, fixed_seconds, fixed_joules = (
        min(each[3][place] for each in columns) for place in range(3)
    )
    typing = typing_of(graph, found, group_of, owner)
    conversions = () if target is None else conversion_tables(graph, typing, kinds, target, basis)
    return Options(
        graph,
        found,
        group_of,
        owner,
        group,
        tuple(kinds) * groups,
        weights,
        seconds,
        joules,
        target,
        basis,
        fixed_weights,
        fixed_seconds,
        fixed_joules,
        tuple(kinds),
        tuple(filter(None, (unsupported(graph, each, target) for each in asked))),
        allowed.ravel(),
        typing,
        tuple(conversions),
    )


def _with_kernels(
    graph: Graph, found: Sequence[Layer], group_of: Codes, kinds: Sequence[DType], target: Target | None
) -> Flags:
    """By group and type whether all layers have a kernel: some runtimes lack them for some op kinds."""
    allowed = np.ones((int(group_of.max()) + 1, len(kinds)), bool)
    for layer, group in zip(found, group_of.tolist(), strict=True):
        allowed[group] &= [has_kernel(graph, layer, kind, target) for kind in kinds]
    lacking = np.flatnonzero(~allowed.any(axis=1))
    if len(lacking):
        layer = next(each for each, group in zip(found, group_of, strict=True) if group == lacking[0])
        names = ", ".join(map(precision_name, kinds))
        raise SizeupError(f"{target} has no kernel for {layer.name} ({layer.kind}) at any of {names}")
    return allowed


def common_basis(kinds: Sequence[DType], target: Target | None) -> Basis | None:
    """Measurements where all types were measured, else the data sheet: two bases cannot be compared."""
    if target is None:
        return None
    fit = current().fit(target)
    measured = fit is not None and all(precision_name(each) in fit.precisions for each in kinds)
    return None if measured else "roofline"


def _stored_bits(graph: Graph, layer: Layer) -> int:
    """The width of a layer's results as the model has them."""
    made = [graph.tensors[i] for i in graph.ops[layer.op].outputs]
    return max((each.dtype.bits for each in made if each.follows_precision), default=0)


def _stacked(columns: Sequence[Floats | None]) -> Floats | None:
    known = [each for each in columns if each is not None]
    return np.stack(known, axis=1).ravel() if len(known) == len(columns) else None


def _owners(graph: Graph, found: Sequence[Layer]) -> Codes:
    """Of every tensor the layer whose type it has: the one that makes it, or that what makes it follows; and
    before the first layers, the one that reads it."""
    owner = np.full(len(graph.tensors), -1, np.int64)
    place = {layer.op: index for index, layer in enumerate(found)}
    _follow_what_feeds(graph, owner, place)
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        made = next((int(owner[i]) for i in op.outputs if owner[i] >= 0), -1)
        for identity in op.inputs:
            if identity != ABSENT and owner[identity] < 0 and _follows(graph, identity):
                owner[identity] = place.get(index, made)
    _follow_what_feeds(graph, owner, place)  # also what leads from an input to no layer
    return owner


def _follow_what_feeds(graph: Graph, owner: Codes, place: Mapping[int, int]) -> None:
    """Give every tensor without an owner the layer that makes it, or the owner of what it is made of."""
    for index, op in enumerate(graph.ops):
        fed = next((int(owner[i]) for i in op.inputs if i != ABSENT and owner[i] >= 0), -1)
        for identity in op.outputs:
            if owner[identity] < 0 and _follows(graph, identity):
                owner[identity] = place.get(index, fed)


def _tied(graph: Graph, found: Sequence[Layer], owner: Codes) -> tuple[Codes, Codes]:
    """Groups of layers that share a type, because their results meet or their weights are the same."""
    parent = list(range(len(found)))

    def root(layer: int) -> int:
        while parent[layer] != layer:
            parent[layer] = parent[parent[layer]]
            layer = parent[layer]
        return layer

    is_layer = {layer.op for layer in found}
    holder: dict[int, int] = {}
    for place, layer in enumerate(found):
        for identity in graph.ops[layer.op].inputs:
            if identity != ABSENT and graph.tensors[identity].is_parameter:
                first = holder.setdefault(id(graph.tensors[identity].data), place)
                parent[root(place)] = root(first)
    for index, op in enumerate(graph.ops):
        fed = [int(owner[i]) for i in op.inputs if i != ABSENT and owner[i] >= 0]
        if index not in is_layer and op.outputs and _follows(graph, op.outputs[0]):
            for other in fed[1:]:
                parent[root(other)] = root(fed[0])
    roots = {each: index for index, each in enumerate(sorted({root(i) for i in range(len(found))}))}
    group_of = np.array([roots[root(i)] for i in range(len(found))], np.int64)
    return group_of, np.where(owner >= 0, group_of[owner], -1)


def _follows(graph: Graph, identity: int) -> bool:
    return graph.tensors[identity].data is None and graph.tensors[identity].follows_precision


_Rest = tuple[float, float, float]


def _taken(
    graph: Graph,
    found: Sequence[Layer],
    owner: Codes,
    groups: int,
    dtype: DType,
    target: Target | None,
    basis: Basis | None,
) -> tuple[Floats, Floats | None, Floats | None, _Rest]:
    """Flash, seconds and joules of every group where all layers have one type; then what belongs to none."""
    uniform = assign(graph, {layer.op: dtype for layer in found})
    by_op = _groups_of_ops(uniform, owner)
    weights, rest = _weights(uniform, by_op, groups)
    if target is None:
        return weights, None, None, (rest, 0.0, 0.0)
    timed = estimate(count(uniform), target, basis=basis)
    spent, spent_by_op = energy(timed), energy_by_op(timed)
    seconds, other = _split(timed.by_op()[0], timed.seconds, by_op, groups)
    if spent is None or spent_by_op is None:
        return weights, seconds, None, (rest, other, 0.0)
    joules, spent_elsewhere = _split(spent_by_op, spent.joules, by_op, groups)
    return weights, seconds, joules, (rest, other, spent_elsewhere)


_CONVERSION = -2  # no group: an operator that a mixture adds


def _groups_of_ops(graph: Graph, owner: Codes) -> Codes:
    """Of every operator the group whose type it computes in."""
    made = [[int(owner[i]) if i < len(owner) else _CONVERSION for i in op.outputs] for op in graph.ops]
    return np.array([each[0] if each else -1 for each in made], np.int64)


def _split(column: Floats, total: float, group: Codes, groups: int) -> tuple[Floats, float]:
    """Sums over the operators of every group, and what else there is of the total, conversions apart."""
    there = group >= 0
    sums = np.asarray(np.bincount(group[there], column[there], groups), np.float64)
    return sums, total - float(sums.sum()) - float(column[group == _CONVERSION].sum())


def _weights(graph: Graph, by_op: Codes, groups: int) -> tuple[Floats, float]:
    """Bytes of parameters by the group that first reads them, and of those that nobody's type changes."""
    taken, rest = np.zeros(groups), 0.0
    seen: set[int] = set()
    for op, group in zip(graph.ops, by_op.tolist(), strict=True):
        for identity in op.inputs:
            tensor = graph.tensors[identity] if identity != ABSENT else None
            if tensor is None or not tensor.is_parameter or id(tensor.data) in seen:
                continue
            seen.add(id(tensor.data))
            if group >= 0:
                taken[group] += _stored(tensor)
            else:
                rest += _stored(tensor)
    for tensor in graph.tensors:
        if tensor.is_parameter and id(tensor.data) not in seen:
            seen.add(id(tensor.data))
            rest += _stored(tensor)
    return taken, rest


def _stored(tensor: Tensor) -> int:
    kept = None if tensor.data is None else tensor.data.stored_bytes
    return tensor_bytes(tensor) if kept is None else kept


def unsupported(graph: Graph, dtype: DType, target: Target | None) -> str:
    """Why the runtime of a target does not run a network at a precision; empty if it does."""
    if target is None:
        return ""
    runtime, name = target.runtime.name, precision_name(dtype)
    if name not in target.runtime.dtypes:
        return f"{runtime} has no kernels for {name}"
    lacking = Counter(layer.kind for layer in layers(graph) if not has_kernel(graph, layer, dtype, target))
    if not lacking:
        return ""
    counts = ", ".join(f"{number:,} {kind}" for kind, number in lacking.most_common())
    total = lacking.total()
    return f"{runtime} has no {name} kernels for {counts} layer{'s' if total != 1 else ''}"


def has_kernel(graph: Graph, layer: Layer, dtype: DType, target: Target | None) -> bool:
    """Whether the runtime of a target has a kernel for a layer with its weights at a precision."""
    if target is None:
        return True
    if precision_name(dtype) not in target.runtime.dtypes:
        return False
    limits = weight_only(dtype, target)
    return limits is None or layer.kind in limits.op_kinds or not _has_weights(graph, layer)


def weight_only(dtype: DType, target: Target | None) -> WeightOnly | None:
    """How a precision is supported for weights alone on a target; None if activations have it too."""
    return None if target is None else target.runtime.weights_at(precision_name(dtype))


def uniform(graph: Graph, dtype: DType, target: Target | None = None) -> Graph:
    """The network with every layer, or its weights if the runtime takes no more, at a precision."""
    limits = weight_only(dtype, target)
    ops = [layer.op for layer in layers(graph)]
    if limits is None:
        return assign(graph, dict.fromkeys(ops, dtype))
    return assign(graph, dict.fromkeys(ops, dtypes.precision(limits.computes_in)), dict.fromkeys(ops, dtype))


def _has_weights(graph: Graph, layer: Layer) -> bool:
    """Whether a layer multiplies by, or looks up in, trained numbers: products of activations have none."""
    tensors = (graph.tensors[each] for each in graph.ops[layer.op].inputs if each != ABSENT)
    return any(each.is_parameter and len(each.shape or ()) > 1 for each in tensors)
