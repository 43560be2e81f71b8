"""Work of one engine step on one device: bytes, MACs and collectives, for arrays of batches and contexts.

A step processes `tokens` new tokens of each of `batch` sequences that have `context` cached tokens: one token
in decode, the prompt in prefill. Sequences are divided over data groups, replicas, and the micro-batches of
pipeline stages. A step passes all stages one after another, so work is summed over all layers. Replicas and
micro-batches run batches that do not wait for each other. Data groups that share routed experts have steps in
common, which wait for the fullest group.

Weights are grouped into parts by module class and dtype of the arithmetic. Routed experts are read as far as
the tokens of all data groups touch them, if routing is uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sizeup.serving.memory.layout_costs import evaluate
from sizeup.serving.memory.layouts import Layout, from_layouts
from sizeup.serving.models.architecture import Architecture, Attention, Weight
from sizeup.serving.models.cache import state_bytes, token_bytes
from sizeup.serving.steps.kernels import arithmetic_dtype, kernel_counts, layer_counts
from sizeup.targets.clusters import Cluster

Floats: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = npt.ArrayLike
PartClass = Literal["attention", "dense", "experts", "head"]
PART_CLASSES: tuple[PartClass, ...] = get_args(PartClass)

_CLASSES: Mapping[str, PartClass] = {
    "attention": "attention", "norm": "attention", "dense": "dense", "shared_experts": "dense",
    "router": "dense", "experts": "experts", "head": "head",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """Weights of one module class that are multiplied in one dtype, on one device."""

    part_class: PartClass
    dtype: str  # of the arithmetic
    weight_bytes: float
    macs: float  # per token of a data group


@dataclass(frozen=True, slots=True)
class _CachedLayers:
    """Equal attentions: how many layers have them, and their figures on one device."""

    attention: Attention
    layers: int
    token_bytes: float
    index_bytes: float  # of token_bytes, those of the sparse indexer
    state_bytes: float
    pair_macs: float
    index_pair_macs: float
    state_macs: float


@dataclass(frozen=True, slots=True)
class Division:
    """A model divided over devices: what the work of any step follows from."""

    parts: tuple[Part, ...]
    cached: tuple[_CachedLayers, ...]
    servers: int  # groups that hold different sequences, times pipeline stages
    data: int  # data groups that share routed experts
    tensor: int
    members: int  # devices of a stage that share routed experts
    experts: int
    experts_per_token: int
    kernels: int  # launched in a step
    quantizations: int  # further kernels, which quantize activations
    collectives: int
    link_bytes: float  # sent per token of a data group, over all layers
    network_bytes: float

    @property
    def batches(self) -> int:
        """Batches that run independently: data groups that share routed experts are one batch."""
        return self.servers // self.groups

    @property
    def groups(self) -> int:
        """Data groups of a batch."""
        return self.data if self.experts else 1


@dataclass(frozen=True, slots=True)
class StepWork:
    """Work of steps on one device; the arrays of a field have one shape."""

    division: Division
    tokens: Floats  # of the fullest data group
    sequences: Floats  # of the fullest data group
    weight_bytes: tuple[Floats, ...]  # by part
    macs: tuple[Floats, ...]  # by part
    cache_bytes: Floats
    pair_macs: Floats  # of attention
    link_bytes: Floats
    network_bytes: Floats


def divide(architecture: Architecture, layout: Layout, cluster: Cluster, kv: str) -> Division:
    """The figures of a model in a layout that do not depend on the batch."""
    kinds = layer_counts(architecture)
    parts: dict[tuple[PartClass, str], list[float]] = {}
    body = ((weight, layers) for layer, layers in kinds for weight in layer.weights)
    for weight, count in (*body, *((weight, 1) for weight in _head(architecture))):
        part_class = _CLASSES.get(weight.role)
        if part_class is None:
            continue
        if part_class == "experts":
            # MACs per token of a data group: all groups bring tokens, and all their devices divide the work
            share = weight.stored_bytes / (layout.tensor * layout.data)
            macs = weight.macs / layout.tensor
        else:
            share = weight.shard_bytes(layout.tensor)
            macs = weight.macs / weight.shard_ways(layout.tensor)
        sums = parts.setdefault((part_class, arithmetic_dtype(weight.precision)), [0.0, 0.0])
        sums[0] += count * share
        sums[1] += count * macs
    experts = next((layer.experts for layer in architecture.layers if layer.experts), None)
    sent = evaluate(architecture, cluster, from_layouts([layout]), kv=kv)
    # `evaluate` counts the busiest stage; a step passes all of them.
    link, network = (
        float(column[0, 0]) * layout.pipeline for column in (sent.link_bytes, sent.network_bytes)
    )
    return Division(
        tuple(Part(name, dtype, *sums) for (name, dtype), sums in parts.items()),
        tuple(_cached(architecture, kv, layout.tensor)),
        layout.data * layout.replicas * layout.pipeline,
        layout.data,
        layout.tensor,
        layout.tensor * layout.data,
        experts.count if experts else 0,
        experts.per_token if experts else 0,
        *kernel_counts(architecture),
        _collectives(architecture, layout),
        link,
        network,
    )


def _head(architecture: Architecture) -> Iterable[Weight]:
    if architecture.tied_head and not any(weight.macs for weight in architecture.head):
        return (*architecture.head, *architecture.embedding)
    return architecture.head


def _cached(architecture: Architecture, kv: str, tensor: int) -> Iterable[_CachedLayers]:
    counts: dict[Attention, int] = {}
    for layer, layers in layer_counts(architecture):
        counts[layer.attention] = counts.get(layer.attention, 0) + layers
    for attention, layers in counts.items():
        heads = min(tensor, attention.query_heads) if attention.query_heads else tensor
        each = token_bytes(attention, kv, tensor)
        elements = (
            -(-attention.cache_elements // min(tensor, attention.cache_ways)) + attention.index_elements
        )
        yield _CachedLayers(
            attention,
            layers,
            each,
            each * attention.index_elements / elements if elements else 0.0,
            state_bytes(attention, architecture.dtype, tensor),
            attention.pair_macs / heads,
            attention.index_pair_macs,
            attention.state_macs / tensor,
        )


def _collectives(architecture: Architecture, layout: Layout) -> int:
    """Collectives of a step: one after attention and one after the feed-forward network; sends of stages.

    Experts that data groups share take two: dispatch and combine.
    """
    count = layout.pipeline - 1
    for layer, layers in layer_counts(architecture):
        if layout.tensor > 1:
            count += layers * ((layer.attention.kind != "none") + (layer.experts is None))
        if layer.experts is not None and layout.tensor * layout.data > 1:
            count += layers * (1 if layout.data == 1 else 2)
    return count


def touched_share(division: Division, tokens: Floats) -> Floats:
    """The share of routed experts that tokens of all data groups touch, if routing is uniform."""
    if not division.experts:
        return np.ones_like(tokens)
    missed = np.log1p(-min(division.experts_per_token / division.experts, 1 - 1e-12))
    share: Floats = -np.expm1(tokens * missed)
    return share


def step_work(division: Division, batch: Numbers, context: Numbers, tokens: Numbers = 1) -> StepWork:
    """The work of steps of `batch` sequences; arguments broadcast.

    `batch` counts the sequences of all servers. The step is that of the fullest batch, and waits for its
    fullest data group; routed experts get the tokens of all groups.
    """
    together, cached, new = np.broadcast_arrays(
        np.ceil(np.asarray(batch, np.float64) / division.batches),
        np.asarray(context, np.float64),
        np.asarray(tokens, np.float64),
    )
    sequences = np.ceil(together / division.groups)
    group, routed = sequences * new, together * new
    touched = touched_share(division, routed)
    weight_bytes, macs = [], []
    for part in division.parts:
        is_routed = part.part_class == "experts"
        rows = sequences if part.part_class == "head" else group  # logits of the last position only
        weight_bytes.append(part.weight_bytes * (touched if is_routed else 1.0))
        macs.append(part.macs * (routed / division.groups if is_routed else rows))
    cache_bytes, pair_macs = np.zeros_like(group), np.zeros_like(group)
    for each in division.cached:
        read, pairs, index_pairs = _attention(each, cached, new)
        cache_bytes = cache_bytes + each.layers * sequences * (read + each.state_bytes)
        work = each.pair_macs * pairs + each.index_pair_macs * index_pairs + each.state_macs * new
        pair_macs = pair_macs + each.layers * sequences * work
    return StepWork(
        division,
        group,
        sequences,
        tuple(np.broadcast_to(column, group.shape) for column in weight_bytes),
        tuple(macs),
        cache_bytes,
        pair_macs,
        division.link_bytes * group,
        division.network_bytes * group,
    )


def _attention(each: _CachedLayers, context: Floats, new: Floats) -> tuple[Floats, Floats, Floats]:
    """Bytes read from the cache, and pairs of attention and of the indexer, per sequence and layer."""
    attention = each.attention
    length = context + new
    all_pairs = new * context + new * (new + 1) / 2
    if attention.window:
        seen = np.minimum(length, attention.window)
        return each.token_bytes * seen, _limited(context, new, attention.window), np.zeros_like(length)
    if attention.index_topk:
        # Every selected token is read once per query in decode; prefill reads the whole cache.
        seen = np.minimum(length, attention.index_topk * new)
        read = (each.token_bytes - each.index_bytes) * seen + each.index_bytes * length
        return read, _limited(context, new, attention.index_topk), all_pairs
    return each.token_bytes * length, all_pairs, np.zeros_like(length)


def _limited(context: Floats, new: Floats, limit: int) -> Floats:
    """Pairs of new tokens with earlier ones, of which each sees at most `limit`, itself included."""
    growing = np.clip(limit - context, 0, new)  # tokens that see all tokens before them
    return growing * context + growing * (growing + 1) / 2 + (new - growing) * limit
