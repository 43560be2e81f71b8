"""The architecture of a language model as frozen data: layers, weights, cache and precision.

    Architecture
        embedding   weights of the first pipeline stage, before the layers
        layers      decoder layers in order; equal layers are one object, so that `set(layers)` is small
            attention   kind, heads, elements of the key-value cache, state per sequence
            experts     routed experts of the layer, or None if it is dense
            weights     every parameter of the layer, with stored bytes and how it can be split
        head        weights of the last pipeline stage, after the layers: final norm and output head
        parts       what is apart from the decoder: MTP layers, vision and audio towers, projectors
            tower       how a vision tower divides images; `images` are those of a prompt, if it has any

Every `Weight` states by `ways` how tensor parallelism divides it: 1 is replicated on every GPU of the group,
0 is divided by any group size, g is divided by at most g and replicated beyond (keys and values of g heads).
Routed experts (`role == "experts"`) are divided by whole experts under expert parallelism, and like any other
weight of `ways` 0 without it. A GPU of a group of n holds `shard_bytes(n)`.

The number of bytes is that of a checkpoint: quantized weights include scales and zero points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal[
    "embedding", "attention", "dense", "shared_experts", "experts", "router", "norm", "head", "mtp", "tower",
    "projector",
]  # fmt: skip
AttentionKind: TypeAlias = Literal["full", "window", "latent", "linear", "state_space", "none"]
PartKind: TypeAlias = Literal["mtp", "vision", "audio"]
ImageLimit: TypeAlias = Literal["pixels", "patches", "tokens"]


@dataclass(frozen=True, slots=True)
class Weight:
    """The parameters of one module, e.g. `self_attn.q_proj`, with its bias."""

    name: str
    role: Role
    parameters: int
    stored_bytes: int
    precision: str = "bf16"  # or the scheme of a quantized weight: "fp8 in blocks of 128 x 128"
    ways: int = 0  # 0: any group size divides it; 1: replicated; g: divided by at most g
    # Per token that passes the layer, of experts: of those that it is routed to; of a tower: per patch.
    macs: int = 0

    def shard_ways(self, group: int) -> int:
        """By how many GPUs of a tensor-parallel group the weight is divided."""
        return min(group, self.ways) if self.ways else group

    def shard_bytes(self, group: int) -> int:
        """Bytes per GPU of a tensor-parallel group."""
        return -(-self.stored_bytes // self.shard_ways(group))


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer, or the operator in its place.

    `full` and `window` cache keys and values, `latent` (MLA) one compressed vector that every GPU of a
    tensor-parallel group holds, `linear` and `state_space` a state of fixed size per sequence.
    """

    kind: AttentionKind
    query_heads: int = 0
    kv_heads: int = 0  # latent: 1
    cache_elements: int = 0  # per token: 2 g D, or r + rope; 0 if another layer's cache is read
    index_elements: int = 0  # per token, of the sparse indexer
    index_topk: int = 0  # tokens that the sparse indexer selects; 0: all
    window: int = 0  # tokens; 0: unlimited
    pair_macs: int = 0  # per query token and cached token: scores and weighted sum of all heads
    index_pair_macs: int = 0  # per query token and cached token, of the sparse indexer
    state_elements: int = 0  # per sequence, of the recurrence
    conv_elements: int = 0  # per sequence, of the convolution before it
    state_dtype: str = "fp32"
    state_macs: int = 0  # per token, of the recurrence
    reads_cache_of: int = -1  # index of the layer whose cache is read instead of an own one; -1: none

    @property
    def cache_ways(self) -> int:
        """By how many GPUs of a tensor-parallel group the cache can be divided."""
        return 1 if self.kind == "latent" else max(self.kv_heads, 1)


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of a layer."""

    count: int
    per_token: int
    shared: int = 0  # experts that every token passes; their weights have the role shared_experts


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    attention: Attention
    weights: tuple[Weight, ...]
    experts: Experts | None = None
    intermediate_size: int = 0  # width of the widest activation of its feed-forward network

    @property
    def parameters(self) -> int:
        """Parameters of the layer."""
        return sum(weight.parameters for weight in self.weights)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the weights of the layer."""
        return sum(weight.stored_bytes for weight in self.weights)

    @property
    def macs(self) -> int:
        """MACs per token in the weights of the layer, without attention to cached tokens."""
        return sum(weight.macs for weight in self.weights)


def distinct(layers: Iterable[Layer]) -> list[tuple[Layer, int]]:
    """The layers that are different objects, each with its number; readers share equal layers."""
    first: dict[int, Layer] = {}
    counts: Counter[int] = Counter()
    for layer in layers:
        first.setdefault(id(layer), layer)
        counts[id(layer)] += 1
    return [(layer, counts[key]) for key, layer in first.items()]


@dataclass(frozen=True, slots=True)
class Tower:
    """How a vision tower divides an image into patches, and merges them into tokens.

    An image is scaled into a least and a most number of `pixels`; down to a most number of `patches`, and of
    patches along a side; or up or down to a most number of `tokens`, to which its patches are padded.
    """

    limit: ImageLimit
    limits: tuple[int, int]  # least and most pixels; most patches, and along a side; most tokens, and 0
    patch_size: int
    merge: int  # patches of a token, along a side
    blocks: int
    attention_width: int  # elements of all heads
    pooled_width: int = 0  # of patches that a matrix product pools into tokens


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a prompt, which have one size."""

    count: int
    width: int
    height: int
    tokens: int  # of the prompt, per image
    patches: int  # in the tower, per image, with padding


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the checkpoint apart from the decoder layers: MTP layers, a vision or audio tower.

    Weights of the role `tower` are multiplied with patches, those of the role `projector` with tokens.
    """

    name: str
    kind: PartKind
    weights: tuple[Weight, ...]
    layers: tuple[Layer, ...] = ()
    tower: Tower | None = None
    images: Images | None = None

    @property
    def parameters(self) -> int:
        """Parameters of the part."""
        own = sum(weight.parameters for weight in self.weights)
        return own + sum(layer.parameters for layer in self.layers)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the weights of the part."""
        return sum(each.stored_bytes for each in self.weights) + sum(
            each.stored_bytes for each in self.layers
        )


@dataclass(frozen=True, slots=True)
class Architecture:
    """A language model: everything that memory, FLOPs and layouts depend on."""

    name: str
    model_type: str
    hidden_size: int
    vocabulary: int
    embedding: tuple[Weight, ...]
    layers: tuple[Layer, ...]
    head: tuple[Weight, ...]
    parts: tuple[Part, ...] = ()
    tied_head: bool = False  # the head reads the embedding: stored once, unless pipeline stages separate them
    max_context: int = 0  # 0: not stated
    dtype: str = "bf16"  # of weights that are not quantized, and of activations
    kv_dtype: str | None = None  # of the key-value cache, if the configuration states it
    caveats: tuple[str, ...] = ()

    def weights(self) -> Iterator[Weight]:
        """Yields every weight of the decoder, without `parts`."""
        yield from self.embedding
        for layer in self.layers:
            yield from layer.weights
        yield from self.head

    @property
    def images(self) -> Images | None:
        """The images of a prompt; None without any."""
        return next((part.images for part in self.parts if part.images is not None), None)

    @property
    def query_heads(self) -> int:
        """Number of query heads that a tensor-parallel group must divide; 0 without attention."""
        return max((layer.attention.query_heads for layer in self.layers), default=0)

    @property
    def expert_count(self) -> int:
        """Routed experts of a layer; 0 in a dense model."""
        return max((layer.experts.count for layer in self.layers if layer.experts), default=0)

    @property
    def decoder_parameters(self) -> int:
        """Parameters without `parts`."""
        return sum(weight.parameters for weight in self.weights())

    @property
    def parameters(self) -> int:
        """Parameters with towers and without MTP layers, as frameworks build the model."""
        return self.decoder_parameters + sum(part.parameters for part in self.parts if part.kind != "mtp")

    @property
    def stored_bytes(self) -> int:
        """Bytes of the decoder's weights, without `parts`."""
        return sum(weight.stored_bytes for weight in self.weights())
