"""The cost of every dtype option per group of layers, and the dtypes a runtime has kernels for."""

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
from sizeup.errors import NoLatency, SizeupError
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.latency import Basis, energy, energy_by_op, estimate
from sizeup.memory import tensor_bytes
from sizeup.mixed_precision.assign import CONVERSIONS, assign
from sizeup.mixed_precision.basis import common_basis
from sizeup.mixed_precision.conversions import DtypeGroups, conversion_tables, typing_of
from sizeup.mixed_precision.layers import Layer, layers
from sizeup.mixed_precision.sizes import offered_dtypes
from sizeup.mixed_precision.trellis import Codes, Flags, Floats
from sizeup.targets import Target, WeightOnly

_SAMPLES = 16
# Relative difference of a sum over groups to the estimate of the whole network, from rounding.
SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class OptionTable:
    """One row per option: a dtype for a group of layers that must share it.

    `weights`, `seconds` and `joules` are of the group at that dtype; `conversions` are the costs of
    converting tensors between groups. `owner` is the group whose dtype a tensor has, or -1.
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
    basis: Basis | None  # of all latencies, so that assignments are comparable
    fixed_weights: float  # weight bytes that no assignment changes
    fixed_seconds: float
    fixed_joules: float
    offered: tuple[DType, ...]
    unsupported: tuple[str, ...]  # why requested precisions are not offered, or not for all layers
    allowed: Flags  # options whose layers all have a kernel
    typing: DtypeGroups
    conversions: tuple[tuple[tuple[int, ...], Floats], ...]  # groups; seconds and joules by their dtypes

    def assignment_of(self, rows: Codes) -> dict[int, DType]:
        """Returns the dtype of every layer by op, for one option row per group."""
        dtype = {int(self.group[option]): self.dtype[option] for option in rows}
        return {layer.op: dtype[int(group)] for layer, group in zip(self.layers, self.group_of, strict=True)}

    @cached_property
    def is_plain(self) -> bool:
        """Whether no op of the model converts dtypes or contains a body."""
        return not any(op.bodies or op.kind in CONVERSIONS for op in self.graph.ops)

    @cached_property
    def is_additive(self) -> bool:
        """Whether latency and energy are sums over groups and conversions, tested on random assignments.

        They are not if a runtime fuses conversions into other kernels.
        """
        if self.target is None or self.seconds is None:
            return True
        random, groups = np.random.default_rng(0), int(self.group.max()) + 1
        return all(self._is_sum(random.integers(len(self.offered), size=groups)) for _ in range(_SAMPLES))

    def _is_sum(self, types: Codes) -> bool:
        assert self.target is not None
        assert self.seconds is not None
        rows = np.arange(len(types)) * len(self.offered) + types
        latency = estimate(count(assign(self.graph, self.assignment_of(rows))), self.target, basis=self.basis)
        converted = [table[tuple(types[list(groups)])] for groups, table in self.conversions]
        seconds = self.seconds[rows].sum() + self.fixed_seconds + sum(cost[0] for cost in converted)
        if abs(seconds - latency.seconds) > SUM_TOLERANCE * latency.seconds:
            return False
        consumption = energy(latency)
        if consumption is None or self.joules is None:
            return consumption is None and self.joules is None
        joules = self.joules[rows].sum() + self.fixed_joules + sum(cost[1] for cost in converted)
        return bool(abs(joules - consumption.joules) <= SUM_TOLERANCE * consumption.joules)

    def option_rows(self, assignment: Mapping[int, DType]) -> Codes:
        """Returns the option rows of an assignment; the inverse of `assignment_of`."""
        by_group = {int(g): assignment[layer.op] for layer, g in zip(self.layers, self.group_of, strict=True)}
        rows = enumerate(zip(self.group.tolist(), self.dtype, strict=True))
        return np.array([option for option, (group, dtype) in rows if by_group[group] == dtype], np.int64)

    def losses(self, table: Mapping[str, Mapping[str, float]]) -> Floats:
        """Returns the loss of every option: the sum over its layers of {layer: {precision: loss}}."""
        columns = list(dict.fromkeys(self.dtype))
        by_group = np.zeros((int(self.group.max()) + 1, len(columns)))
        for layer, group in zip(self.layers, self.group_of, strict=True):
            by_group[group] += [_loss(table, layer, precision_name(dtype)) for dtype in columns]
        return by_group[self.group, [columns.index(dtype) for dtype in self.dtype]]

    def by_layer(
        self, table: Mapping[str, Mapping[str, float]], assignment: Mapping[int, DType]
    ) -> dict[int, float]:
        """Returns the loss of every layer at its assigned dtype, by op."""
        return {layer.op: _loss(table, layer, precision_name(assignment[layer.op])) for layer in self.layers}


_EXACT_PRECISION = "fp32"  # nothing is rounded, so the loss is 0


def _loss(table: Mapping[str, Mapping[str, float]], layer: Layer, precision: str) -> float:
    row = table.get(f"#{layer.op}") or table.get(layer.name)
    if row is not None and not isinstance(row, Mapping):
        raise SizeupError(f"losses of layer {layer.name}: expected {{precision: loss}}, got {row!r}")
    if row is not None and precision == _EXACT_PRECISION and precision not in row:
        return 0.0
    if row is None or precision not in row:
        raise SizeupError(f"no loss for layer {layer.name} at {precision}")
    if not isinstance(row[precision], int | float) or not row[precision] >= 0:
        raise SizeupError(
            f"loss of layer {layer.name} at {precision}: expected a number >= 0, got {row[precision]}"
        )
    return float(min(row[precision], sys.float_info.max))


def options_of(graph: Graph, precisions: Sequence[DType], target: Target | None = None) -> OptionTable:
    """Returns every dtype that the target has kernels for, for every group of layers, with its cost."""
    if not precisions:
        raise SizeupError("no precisions to choose from")
    requested = list(dict.fromkeys(precisions))
    offered = offered_dtypes(requested, target)
    model_layers = layers(graph)
    if not model_layers:
        raise SizeupError("the model has no layers whose precision can be chosen")
    # Tensors that are stored narrow gain nothing from a wider dtype.
    stored = max(_stored_bits(graph, layer) for layer in model_layers)
    offered = [dtype for dtype in offered if dtype.bits <= stored]
    if not offered:
        raise SizeupError(f"layers already have {stored} bits or fewer, and all named precisions are wider")
    group_of, owner = _tie_groups(graph, model_layers, _owners(graph, model_layers))
    groups = int(group_of.max()) + 1
    allowed = _with_kernels(graph, model_layers, group_of, offered, target)
    supported = np.flatnonzero(allowed.any(axis=0))
    offered, allowed = [offered[index] for index in supported.tolist()], allowed[:, supported]
    basis = common_basis(graph, offered, target)
    columns = [_costs_at(graph, model_layers, owner, groups, dtype, target, basis) for dtype in offered]
    group = np.repeat(np.arange(groups), len(offered))
    weights = np.stack([column[0] for column in columns], axis=1).ravel()
    seconds, joules = _stacked([column[1] for column in columns]), _stacked([column[2] for column in columns])
    fixed_weights, fixed_seconds, fixed_joules = (
        min(column[3][index] for column in columns) for index in range(3)
    )
    typing = typing_of(graph, model_layers, group_of, owner)
    is_timed = target is not None and seconds is not None
    conversions = conversion_tables(graph, typing, offered, target, basis) if is_timed and target else ()
    return OptionTable(
        graph,
        model_layers,
        group_of,
        owner,
        group,
        tuple(offered) * groups,
        weights,
        seconds,
        joules,
        target,
        basis,
        fixed_weights,
        fixed_seconds,
        fixed_joules,
        tuple(offered),
        tuple(filter(None, (unsupported(graph, dtype, target) for dtype in requested))),
        allowed.ravel(),
        typing,
        tuple(conversions),
    )


def _with_kernels(
    graph: Graph,
    model_layers: Sequence[Layer],
    group_of: Codes,
    offered: Sequence[DType],
    target: Target | None,
) -> Flags:
    """Returns by group and dtype whether all layers have a kernel. Raises SizeupError if a group has none."""
    allowed = np.ones((int(group_of.max()) + 1, len(offered)), bool)
    for layer, group in zip(model_layers, group_of.tolist(), strict=True):
        allowed[group] &= [has_kernel(graph, layer, dtype, target) for dtype in offered]
    lacking = np.flatnonzero(~allowed.any(axis=1))
    if len(lacking):
        layer = model_layers[int(np.flatnonzero(group_of == lacking[0])[0])]
        names = ", ".join(map(precision_name, offered))
        raise SizeupError(f"{target} has no kernel for {layer.name} ({layer.kind}) at any of {names}")
    return allowed


def _stored_bits(graph: Graph, layer: Layer) -> int:
    """Returns the width of a layer's outputs in the model."""
    outputs = [graph.tensors[i] for i in graph.ops[layer.op].outputs]
    return max((tensor.dtype.bits for tensor in outputs if tensor.follows_precision), default=0)


def _stacked(columns: Sequence[Floats | None]) -> Floats | None:
    known = [column for column in columns if column is not None]
    return np.stack(known, axis=1).ravel() if len(known) == len(columns) else None


def _owners(graph: Graph, model_layers: Sequence[Layer]) -> Codes:
    """Returns the layer whose dtype each tensor has: its writer, its writer's owner, or its reader."""
    owner = np.full(len(graph.tensors), -1, np.int64)
    layer_index = {layer.op: index for index, layer in enumerate(model_layers)}
    _assign_owners(graph, owner, layer_index)
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        output_owner = next((int(owner[i]) for i in op.outputs if owner[i] >= 0), -1)
        for identity in op.inputs:
            if identity != ABSENT and owner[identity] < 0 and _follows(graph, identity):
                owner[identity] = layer_index.get(index, output_owner)
    _assign_owners(graph, owner, layer_index)  # also paths from an input that reach no layer
    return owner


def _assign_owners(graph: Graph, owner: Codes, layer_index: Mapping[int, int]) -> None:
    """Sets the owner of every tensor without one: the layer that writes it, or the owner of its inputs."""
    for index, op in enumerate(graph.ops):
        input_owner = next((int(owner[i]) for i in op.inputs if i != ABSENT and owner[i] >= 0), -1)
        for identity in op.outputs:
            if owner[identity] < 0 and _follows(graph, identity):
                owner[identity] = layer_index.get(index, input_owner)


def _tie_groups(graph: Graph, model_layers: Sequence[Layer], owner: Codes) -> tuple[Codes, Codes]:
    """Returns groups of layers that share a dtype because their outputs meet or they share weights."""
    parent = list(range(len(model_layers)))

    def root(layer: int) -> int:
        while parent[layer] != layer:
            parent[layer] = parent[parent[layer]]
            layer = parent[layer]
        return layer

    is_layer = {layer.op for layer in model_layers}
    first_reader: dict[int, int] = {}
    for position, layer in enumerate(model_layers):
        for identity in graph.ops[layer.op].inputs:
            if identity != ABSENT and graph.tensors[identity].is_parameter:
                first = first_reader.setdefault(id(graph.tensors[identity].data), position)
                parent[root(position)] = root(first)
    for index, op in enumerate(graph.ops):
        input_owners = [int(owner[i]) for i in op.inputs if i != ABSENT and owner[i] >= 0]
        if index not in is_layer and op.outputs and _follows(graph, op.outputs[0]):
            for other in input_owners[1:]:
                parent[root(other)] = root(input_owners[0])
    distinct = sorted({root(i) for i in range(len(model_layers))})
    roots = {number: index for index, number in enumerate(distinct)}
    group_of = np.array([roots[root(i)] for i in range(len(model_layers))], np.int64)
    return group_of, np.where(owner >= 0, group_of[owner], -1)


def _follows(graph: Graph, identity: int) -> bool:
    return graph.tensors[identity].data is None and graph.tensors[identity].follows_precision


_Rest = tuple[float, float, float]


def _costs_at(
    graph: Graph,
    model_layers: Sequence[Layer],
    owner: Codes,
    groups: int,
    dtype: DType,
    target: Target | None,
    basis: Basis | None,
) -> tuple[Floats, Floats | None, Floats | None, _Rest]:
    """Returns weight bytes, seconds and joules per group with all layers at one dtype, and the rest.

    Seconds by instructions are not sums over groups, and are None.
    """
    uniform = assign(graph, {layer.op: dtype for layer in model_layers})
    by_op = _groups_of_ops(uniform, owner)
    weights, rest = _weights(uniform, by_op, groups)
    if target is None or basis == "instructions":
        return weights, None, None, (rest, 0.0, 0.0)
    try:
        latency = estimate(count(uniform), target, basis=basis)
    except NoLatency:
        return weights, None, None, (rest, 0.0, 0.0)
    consumption, joules_by_op = energy(latency), energy_by_op(latency)
    seconds, other_seconds = _sum_by_group(latency.by_op()[0], latency.seconds, by_op, groups)
    if consumption is None or joules_by_op is None:
        return weights, seconds, None, (rest, other_seconds, 0.0)
    joules, other_joules = _sum_by_group(joules_by_op, consumption.joules, by_op, groups)
    return weights, seconds, joules, (rest, other_seconds, other_joules)


_CONVERSION = -2  # no group: a conversion added by `assign`


def _groups_of_ops(graph: Graph, owner: Codes) -> Codes:
    """Returns the group whose dtype each op computes in."""
    owners_by_op = [
        [int(owner[i]) if i < len(owner) else _CONVERSION for i in op.outputs] for op in graph.ops
    ]
    return np.array([owners[0] if owners else -1 for owners in owners_by_op], np.int64)


def _sum_by_group(column: Floats, total: float, group: Codes, groups: int) -> tuple[Floats, float]:
    """Returns the sums over the ops of each group, and the rest of the total without conversions."""
    is_grouped = group >= 0
    sums = np.asarray(np.bincount(group[is_grouped], column[is_grouped], groups), np.float64)
    return sums, total - float(sums.sum()) - float(column[group == _CONVERSION].sum())


def _weights(graph: Graph, by_op: Codes, groups: int) -> tuple[Floats, float]:
    """Returns parameter bytes by the group that reads them first, and of those that no group owns."""
    weight_bytes, other_bytes = np.zeros(groups), 0.0
    seen: set[int] = set()
    for op, group in zip(graph.ops, by_op.tolist(), strict=True):
        for identity in op.inputs:
            tensor = graph.tensors[identity] if identity != ABSENT else None
            if tensor is None or not tensor.is_parameter or id(tensor.data) in seen:
                continue
            seen.add(id(tensor.data))
            if group >= 0:
                weight_bytes[group] += _stored(tensor)
            else:
                other_bytes += _stored(tensor)
    for tensor in graph.tensors:
        if tensor.is_parameter and id(tensor.data) not in seen:
            seen.add(id(tensor.data))
            other_bytes += _stored(tensor)
    return weight_bytes, other_bytes


def _stored(tensor: Tensor) -> int:
    stored_bytes = None if tensor.data is None else tensor.data.stored_bytes
    return tensor_bytes(tensor) if stored_bytes is None else stored_bytes


def unsupported(graph: Graph, dtype: DType, target: Target | None) -> str:
    """Returns why a target's runtime cannot run a network at a precision; empty if it can."""
    if target is None:
        return ""
    runtime, name = target.runtime.name, precision_name(dtype)
    if name not in target.runtime.dtypes:
        return f"{runtime} has no kernels for {name}"
    lacking = Counter(layer.kind for layer in layers(graph) if not has_kernel(graph, layer, dtype, target))
    if not lacking:
        return ""
    counts = ", ".join(f"{layer_count:,} {op_kind}" for op_kind, layer_count in lacking.most_common())
    total = lacking.total()
    return f"{runtime} has no {name} kernels for {counts} layer{'s' if total != 1 else ''}"


def has_kernel(graph: Graph, layer: Layer, dtype: DType, target: Target | None) -> bool:
    """Whether a target's runtime has a kernel for a layer with its weights at a precision."""
    if target is None:
        return True
    if precision_name(dtype) not in target.runtime.dtypes:
        return False
    limits = weight_only(dtype, target)
    return limits is None or layer.kind in limits.op_kinds or not _has_weights(graph, layer)


def weight_only(dtype: DType, target: Target | None) -> WeightOnly | None:
    """Returns how a target supports a precision for weights only; None if also for activations."""
    return None if target is None else target.runtime.weight_only_at(precision_name(dtype))


def uniform(graph: Graph, dtype: DType, target: Target | None = None) -> Graph:
    """Returns the network with every layer (or only its weights, if required) at a precision."""
    limits = weight_only(dtype, target)
    ops = [layer.op for layer in layers(graph)]
    if limits is None:
        return assign(graph, dict.fromkeys(ops, dtype))
    return assign(graph, dict.fromkeys(ops, dtypes.precision(limits.computes_in)), dict.fromkeys(ops, dtype))


def _has_weights(graph: Graph, layer: Layer) -> bool:
    """Whether a layer uses trained weights; products of activations do not."""
    tensors = (graph.tensors[i] for i in graph.ops[layer.op].inputs if i != ABSENT)
    return any(tensor.is_parameter and len(tensor.shape or ()) > 1 for tensor in tensors)
