"""Memory and communication of many layouts at many batch sizes, as arrays of layouts x batches.

All figures are those of the fullest device. Weights are divided as `Weight.ways` states; routed experts by
tensor x data, whatever the number of expert groups. The cache holds ceil(sequences / (data x replicas))
sequences of the given context, divided by at most the key-value heads.

Communication of one step, in bytes that a device sends, with t tokens of its data group, d bytes per token of
the hidden state, k experts per token and m = tensor x data:

    attention, dense layer  an all-reduce each: 2 (tensor - 1) / tensor x t d
    routed experts          dispatch, combine: 2 (m - 1) / m x t / tensor x min(k, expert) x m / expert x d,
                            which is an all-reduce if the experts are divided by tensor alone
    stage boundary          a send: t d

An all-reduce over several nodes reduces in the node first, so that 1 / (devices of the group in a node) of it
crosses the network. Groups that are not aligned with nodes are counted as if all devices were in other nodes;
a send crosses the network if it leaves its node.
Not counted: the embedding's all-reduce, the gathering of logits, and imbalance between experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Integers, Layouts, stages
from sizeup.serving.models.architecture import Architecture, Layer, Weight
from sizeup.serving.models.cache import sequence_cost
from sizeup.targets.clusters import Cluster, Link

Floats = npt.NDArray[np.float64]
ACTIVATION_BYTES = 2
_MOST_BYTES = 2**62


@dataclass(frozen=True, slots=True)
class LayoutCosts:
    """Bytes per step on the fullest device: one row per layout, one column per number of sequences."""

    layouts: Layouts
    sequences: Integers
    context: int
    weight_bytes: Integers  # by layout
    cache_bytes: Integers
    memory_bytes: Integers  # weights and cache of the fullest stage
    link_bytes: Floats  # sent within the node
    network_bytes: Floats  # sent to other nodes
    transfer_seconds: Floats  # all stages one after another at data-sheet bandwidth; NaN if unknown

    def order(self, by: str = "memory", column: int = 0, most_bytes: int | None = None) -> Integers:
        """Rows from the least to the most `memory` or `communication`, equal ones by the other.

        Communication is compared by its seconds, or by bytes (network first) if a bandwidth is unknown. Rows
        with more than `most_bytes` of memory are left out.
        """
        if by not in ("memory", "communication"):
            raise SizeupError(f"layouts are ordered by memory or communication, not {by!r}")
        memory, seconds = self.memory_bytes[:, column], self.transfer_seconds[:, column]
        is_unknown = bool(np.isnan(seconds).any())
        traffic = (self.link_bytes[:, column], self.network_bytes[:, column]) if is_unknown else (seconds,)
        keys = (*traffic, memory) if by == "memory" else (memory, *traffic)  # the last key counts first
        rows = np.lexsort(keys).astype(np.int64)
        return rows if most_bytes is None else rows[memory[rows] <= most_bytes]


@dataclass(frozen=True, slots=True)
class _Model:
    """What layouts need of an architecture: kinds of layers, and how many of each a stage has."""

    architecture: Architecture
    kinds: tuple[Layer, ...]
    sequence: tuple[int, ...]  # the kind of each layer

    def counts(self, pipeline: int) -> Integers:
        """Layers by stage and kind."""
        counts = np.zeros((pipeline, len(self.kinds)), np.int64)
        first = 0
        for stage, layers in enumerate(stages(len(self.sequence), pipeline)):
            for kind in self.sequence[first : first + layers]:
                counts[stage, kind] += 1
            first += layers
        return counts


def _model(architecture: Architecture) -> _Model:
    kinds: dict[Layer, int] = {}
    by_object: dict[int, int] = {}
    for layer in architecture.layers:
        if id(layer) not in by_object:
            by_object[id(layer)] = kinds.setdefault(layer, len(kinds))
    return _Model(architecture, tuple(kinds), tuple(by_object[id(layer)] for layer in architecture.layers))


def evaluate(
    architecture: Architecture,
    cluster: Cluster,
    layouts: Layouts,
    *,
    sequences: Sequence[int] = (1,),
    context: int = 0,
    tokens: int = 1,
    kv: str = "bf16",
) -> LayoutCosts:
    """Memory and communication of layouts for batches of sequences.

    `context` tokens per sequence are cached at precision `kv`; `tokens` of each are processed in one step.
    """
    model = _model(architecture)
    batches = np.array(list(sequences), np.int64)
    _check_sizes(architecture, batches, context, tokens)
    groups = -(-batches[None, :] // (layouts.data * layouts.replicas)[:, None])
    weights = _layer_weights(model, layouts)

    def cached(tensor: int) -> list[int]:
        kinds = ((kind,) for kind in model.kinds)
        return [sequence_cost(architecture, kv, tensor, kind).bytes_of(context) for kind in kinds]

    caches = _by_value(layouts.tensor, cached)
    first, last = _ends(architecture, layouts)
    traffic = _traffic(model, cluster, layouts)
    shape = (len(layouts), len(batches))
    weight_bytes = np.zeros(len(layouts), np.int64)
    cache_bytes, memory_bytes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    link, network, seconds = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for pipeline in np.unique(layouts.pipeline):
        rows = np.flatnonzero(layouts.pipeline == pipeline)
        counts = model.counts(int(pipeline)).T  # kinds x stages
        stage_weights = weights[rows] @ counts
        stage_weights[:, 0] += first[rows]
        stage_weights[:, -1] += last[rows]
        stage_caches = caches[rows] @ counts
        weight_bytes[rows] = stage_weights.max(axis=1)
        cache_bytes[rows] = stage_caches.max(axis=1)[:, None] * groups[rows]
        for stage in range(int(pipeline)):
            held = stage_weights[:, stage, None] + stage_caches[:, stage, None] * groups[rows]
            memory_bytes[rows] = np.maximum(memory_bytes[rows], held)
        sent = traffic.sent(rows, counts, cluster)
        link[rows], network[rows], seconds[rows] = (
            column[:, None] * (groups[rows] * tokens) for column in sent
        )
    return LayoutCosts(
        layouts, batches, context, weight_bytes, cache_bytes, memory_bytes, link, network, seconds
    )


def _check_sizes(architecture: Architecture, batches: Integers, context: int, tokens: int) -> None:
    """Raises SizeupError if a figure would not fit into 64 bits."""
    if not len(batches) or batches.min() < 1 or context < 0 or tokens < 1:
        raise SizeupError("sequences and tokens are at least 1, context at least 0")
    elements = sum(
        8 * (each.attention.cache_elements + each.attention.index_elements) * max(context, 1)
        + 8 * (each.attention.state_elements + each.attention.conv_elements)
        for each in architecture.layers
    )
    traffic = 8 * architecture.hidden_size * tokens * len(architecture.layers)
    largest = max(architecture.stored_bytes * 2, max(elements, traffic) * int(batches.max()))
    if largest > _MOST_BYTES:
        raise SizeupError(f"{architecture.name}: more than 2^62 bytes of weights, cache or communication")


def _by_value(column: Integers, row: Callable[[int], list[int]]) -> Integers:
    """A row of figures per layout, computed once for each distinct value of a column."""
    values, inverse = np.unique(column, return_inverse=True)
    return np.array([row(int(value)) for value in values], np.int64).reshape(len(values), -1)[inverse]


def _layer_weights(model: _Model, layouts: Layouts) -> Integers:
    """Bytes of one layer of each kind, per layout and device."""

    def shared(tensor: int) -> list[int]:
        return [
            _shards((each for each in kind.weights if each.role != "experts"), tensor) for kind in model.kinds
        ]

    def routed(devices: int) -> list[int]:
        return [
            _shards((each for each in kind.weights if each.role == "experts"), devices)
            for kind in model.kinds
        ]

    return _by_value(layouts.tensor, shared) + _by_value(layouts.tensor * layouts.data, routed)


def _shards(weights: Iterable[Weight], devices: int) -> int:
    return sum(weight.shard_bytes(devices) for weight in weights)


def _ends(architecture: Architecture, layouts: Layouts) -> tuple[Integers, Integers]:
    """Bytes before the first and after the last layer; a tied head is a copy unless there is one stage."""
    first = _by_value(layouts.tensor, lambda tensor: [_shards(architecture.embedding, tensor)])[:, 0]
    last = _by_value(layouts.tensor, lambda tensor: [_shards(architecture.head, tensor)])[:, 0]
    if architecture.tied_head:
        last = last + np.where(layouts.pipeline > 1, first, 0)
    return first, last


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes that a device sends per token of its data group, by layout and kind of layer, and per send."""

    link: Floats
    network: Floats
    send: float
    layouts: Layouts

    def sent(self, rows: Integers, counts: Integers, cluster: Cluster) -> tuple[Floats, Floats, Floats]:
        """Per token: bytes of the busiest stage over links and the network, and seconds of all stages.

        The busiest stage sends most over the network, and of those with as much the most over links.
        """
        link, network = self.link[rows] @ counts, self.network[rows] @ counts
        across = _sends_across(self.layouts, rows, counts.shape[1], cluster)
        network[:, :-1] += np.where(across, self.send, 0.0)
        link[:, :-1] += np.where(across, 0.0, self.send)
        seconds = _seconds(link, cluster.link) + _seconds(network, cluster.network)
        most = network.max(axis=1)
        busiest = np.where(network == most[:, None], link, -1.0).max(axis=1)
        return busiest, most, seconds.sum(axis=1)


def _sends_across(layouts: Layouts, rows: Integers, pipeline: int, cluster: Cluster) -> npt.NDArray[np.bool_]:
    """Whether stages send to another node, by layout and stage but the last."""
    members, node = (layouts.tensor * layouts.data)[rows, None], cluster.devices_per_node
    first = np.arange(pipeline - 1)[None, :] * members
    is_outside = first // node != (first + 2 * members - 1) // node
    # Servers that do not start with a node cross nodes at other stages.
    span = members * pipeline
    is_split = (layouts.replicas[rows, None] > 1) & (span % node != 0) & (node % span != 0)
    across: npt.NDArray[np.bool_] = (is_outside | is_split) & (cluster.nodes > 1)
    return across


def _seconds(sent: Floats, link: Link | None) -> Floats:
    if link is None or link.bytes_per_second is None:
        return np.where(sent > 0, np.nan, 0.0)
    return sent / link.bytes_per_second


def _traffic(model: _Model, cluster: Cluster, layouts: Layouts) -> _Traffic:
    token = float(model.architecture.hidden_size * ACTIVATION_BYTES)
    one = np.ones(len(layouts), np.int64)
    tensor, members = layouts.tensor, layouts.tensor * layouts.data
    near = _in_node(tensor, one, cluster)
    far = tensor // near
    reduce_link = 2 * token * (near - 1) / near
    reduce_network = 2 * token * (far - 1) / far / near
    near = _in_node(members, one, cluster)
    link, network = np.zeros((2, len(layouts), len(model.kinds)))
    for column, kind in enumerate(model.kinds):
        reduces = _all_reduces(kind)
        link[:, column], network[:, column] = reduces * reduce_link, reduces * reduce_network
        if kind.experts is not None:
            copies = np.minimum(kind.experts.per_token, layouts.expert) * (members // layouts.expert)
            exchanged = 2 * token * copies / tensor
            link[:, column] += exchanged * (near - 1) / members
            network[:, column] += exchanged * (members - near) / members
    return _Traffic(link, network, token, layouts)


def _all_reduces(layer: Layer) -> int:
    """All-reduces of a layer in its tensor group: after attention, and after a dense feed-forward network."""
    is_dense = layer.experts is None and any(weight.role == "dense" for weight in layer.weights)
    return int(layer.attention.kind != "none") + int(is_dense)


def _in_node(size: Integers, stride: Integers, cluster: Cluster) -> Integers:
    """Members of a group in one node; 1 if the group is not aligned with nodes."""
    node = cluster.devices_per_node
    span = size * stride
    fills = (span % node == 0) & (node % stride == 0)
    inside = (node % span == 0) | (cluster.nodes == 1)
    return np.where(inside, size, np.where(fills, node // np.minimum(stride, node), 1))
