"""The architecture of a language model from the header of a GGUF file.

Weights are the tensors of the file with their exact bytes; attention and cache follow from the metadata and
are compared with the shapes of the tensors. An unknown architecture, tensor or setting is refused by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sizeup.errors import CorruptModel, LoadError
from sizeup.serving.models.architecture import Architecture, Attention, Experts, Layer, Role, Weight
from sizeup.serving.models.gguf_header import Header, TensorInfo, read_header
from sizeup.serving.models.settings import MOST_LAYERS, MOST_REPEATS, MOST_SIZE, MOST_TOKENS
from sizeup.units import quoted

SUFFIX = ".gguf"
# Layers of a window pattern, of which the last is without a window; 0 if the architecture has none. From
# `set_swa_pattern` in https://github.com/ggml-org/llama.cpp/blob/master/src/llama-model.cpp.
ARCHITECTURES: Mapping[str, int] = {
    "llama": 0,
    "qwen2": 0,
    "qwen3": 0,
    "qwen3moe": 0,
    "deepseek2": 0,
    "gemma3": 6,
    "gpt-oss": 2,
}
_BLOCK = re.compile(r"blk\.([0-9]{1,5})\.(.+)")
# Role of a tensor of a layer, and by how many devices it can be divided: 0 any, 1 none, -1 key-value heads.
_TENSORS: tuple[tuple[re.Pattern[str], Role, int], ...] = (
    (re.compile(r"attn_q\.(weight|bias)|attn_output\.weight|attn_sinks\.weight"), "attention", 0),
    (re.compile(r"attn_(q_b|kv_b|k_b|v_b)\.weight"), "attention", 0),
    (re.compile(r"attn_[kv]\.(weight|bias)"), "attention", -1),
    (re.compile(r"attn_(q_a|kv_a_mqa)\.weight|attn_output\.bias"), "attention", 1),
    (
        re.compile(r"(attn|ffn|attn_q|attn_k|attn_q_a|attn_kv_a|post_attention|post_ffw)_norm\.weight"),
        "norm",
        1,
    ),
    (re.compile(r"ffn_(gate|up|down)\.(weight|bias)"), "dense", 0),
    (re.compile(r"ffn_(gate|up|down)_exps\.(weight|bias)"), "experts", 0),
    (re.compile(r"ffn_(gate|up|down)_shexp\.weight"), "shared_experts", 0),
    (re.compile(r"ffn_gate_inp\.(weight|bias)|exp_probs_b(\.bias)?"), "router", 1),
)
_IGNORED = re.compile(
    r"rope_freqs\.weight|rope_factors_(long|short)\.weight"
)  # constants of the position code
# Settings that change neither weights (those are tensors) nor the cache.
_NEUTRAL = re.compile(
    r"vocab_size|context_length|(expert_(shared_)?)?feed_forward_length|rope\..+"
    r"|attention\.layer_norm(_rms)?_epsilon"
    r"|attention\.(scale|causal|temperature_length|temperature_scale)|logit_scale|tensor_data_layout"
    r"|expert_(weights_(scale|norm)|gating_func|group_count|group_used_count|shared_count)|leading_dense_block_count"
    r"|(final|attn)_logit_softcapping|attention\.q_lora_rank"
)


def read(path: str | os.PathLike[str]) -> Architecture:
    """Return the architecture of a GGUF file; only its header is read.

    Raises LoadError for an unknown architecture, tensor or setting, CorruptModel for a damaged file.
    """
    return architecture_of(read_header(path), os.fspath(path))


def architecture_of(header: Header, source: str) -> Architecture:
    """Return the architecture that a header describes."""
    kind = header.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise LoadError(
            f"{source}: GGUF architecture {quoted(kind)} is not supported; sizeup llm reads {known}"
        )
    metadata = _Metadata(header.metadata, kind, source)
    if metadata.integer("split.count", 0, MOST_REPEATS, 0, prefix="") > 1:
        raise LoadError(f"{source}: one of several files of a model; merge them by llama-gguf-split --merge")
    count = metadata.integer("block_count", 1, MOST_LAYERS)
    blocks, others = _blocks(header, count, source)
    attentions = _attentions(metadata, count)
    experts = _experts(metadata)
    layers = tuple(
        _layer(blocks[index], attentions[index], experts, f"{source}: blk.{index}") for index in range(count)
    )
    metadata.refuse_unread()
    hidden = metadata.integer("embedding_length", 1, MOST_SIZE)
    return _architecture(header, metadata, others, layers, hidden, source)


def _architecture(
    header: Header,
    metadata: _Metadata,
    others: Mapping[str, TensorInfo],
    layers: tuple[Layer, ...],
    hidden: int,
    source: str,
) -> Architecture:
    table, output = others.get("token_embd.weight"), others.get("output.weight")
    if table is None or len(table.shape) != 2 or table.shape[0] != hidden:
        raise CorruptModel(f"{source}: token_embd.weight is missing or not of embedding_length {hidden:,}")
    head = [_weight(others["output_norm.weight"], "norm", 1)] if "output_norm.weight" in others else []
    if output is not None:
        head.append(_weight(output, "head", 0, macs=output.elements))
    name = header.metadata.get("general.name")
    shared: dict[Layer, Layer] = {}
    return Architecture(
        name if isinstance(name, str) and name.isprintable() and name else Path(source).stem,
        metadata.kind,
        hidden,
        table.shape[1],
        (_weight(table, "embedding", 0),),
        tuple(shared.setdefault(layer, layer) for layer in layers),
        tuple(head),
        tied_head=output is None,
        max_context=metadata.integer("context_length", 0, MOST_TOKENS, 0),
        dtype="fp16",
        caveats=("weights are those of the GGUF file; activations and an unquantized cache have 16 bits",),
    )


class _Metadata:
    """Typed access to the settings of an architecture, which remembers what was read."""

    def __init__(self, values: Mapping[str, object], kind: str, source: str) -> None:
        self._values, self.kind, self._source = values, kind, source
        self._read: set[str] = set()

    def integer(
        self, name: str, low: int, high: int, default: int | None = None, *, prefix: str | None = None
    ) -> int:
        """A setting that is an integer within limits; required unless there is a default."""
        key = name if prefix is not None else f"{self.kind}.{name}"
        self._read.add(key)
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            problem = (
                "is missing"
                if value is None
                else f"is {quoted(value)}, not an integer from {low} to {high:,}"
            )
            raise CorruptModel(f"{self._source}: {key} {problem}")
        return value

    def per_layer(self, name: str, layers: int, high: int, default: int | None = None) -> list[int]:
        """A setting that is one integer, or a list with one per layer."""
        value = self._values.get(f"{self.kind}.{name}")
        if not isinstance(value, list):
            return [self.integer(name, 0, high, default)] * layers
        self._read.add(f"{self.kind}.{name}")
        is_valid = len(value) == layers and all(isinstance(each, int) and 0 <= each <= high for each in value)
        if not is_valid:
            raise CorruptModel(f"{self._source}: {self.kind}.{name} is not a list of {layers:,} integers")
        return [int(each) for each in value]

    def refuse_unread(self) -> None:
        """Raise LoadError for the first setting that was not read and may change sizes."""
        start = f"{self.kind}."
        for key in self._values:
            if key.startswith(start) and key not in self._read and not _NEUTRAL.fullmatch(key[len(start) :]):
                raise self.error(f"{quoted(key)} is an unknown setting that may change sizes")

    def error(self, problem: str) -> LoadError:
        """The error for a valid value that sizeup cannot size."""
        return LoadError(f"{self._source}: {problem}; sizeup does not guess sizes")


@dataclass(frozen=True, slots=True)
class _Heads:
    """An attention, and the outputs that its projections must have."""

    attention: Attention
    outputs: Mapping[str, int]


def _attentions(metadata: _Metadata, count: int) -> list[_Heads]:
    queries = metadata.per_layer("attention.head_count", count, MOST_SIZE)
    groups = metadata.per_layer("attention.head_count_kv", count, MOST_SIZE, default=0)
    hidden = metadata.integer("embedding_length", 1, MOST_SIZE)
    windows = _windows(metadata, count)
    rank = metadata.integer("attention.kv_lora_rank", 0, MOST_SIZE, 0)
    if min(queries) < 1:
        raise metadata.error("a layer without attention heads is not supported")
    size = metadata.integer("attention.key_length", 1, MOST_SIZE, max(hidden // queries[0], 1))
    value = metadata.integer("attention.value_length", 1, MOST_SIZE, size)
    if rank:
        return _latent(metadata, queries, groups, rank, size + value)
    return [
        _Heads(
            Attention(
                "window" if window else "full",
                query,
                kv or query,
                cache_elements=(kv or query) * (size + value),
                window=window,
                pair_macs=query * (size + value),
            ),
            {
                "attn_q.weight": query * size,
                "attn_k.weight": (kv or query) * size,
                "attn_v.weight": (kv or query) * value,
            },
        )
        for query, kv, window in zip(queries, groups, windows, strict=True)
    ]


def _latent(
    metadata: _Metadata, queries: list[int], groups: list[int], rank: int, sizes: int
) -> list[_Heads]:
    """Multi-head latent attention; files without `key_length_mla` make llama.cpp cache keys and values."""
    rope = metadata.integer("rope.dimension_count", 1, MOST_SIZE)
    key = metadata.integer("attention.key_length_mla", 0, MOST_SIZE, 0)
    value = metadata.integer("attention.value_length_mla", 0, MOST_SIZE, 0)
    outputs = {"attn_kv_a_mqa.weight": rank + rope}
    if key:
        return [
            _Heads(
                Attention("latent", query, 1, cache_elements=rank + rope, pair_macs=query * (key + value)),
                outputs,
            )
            for query in queries
        ]
    return [
        _Heads(
            Attention(
                "full", query, kv or query, cache_elements=(kv or query) * sizes, pair_macs=query * sizes
            ),
            outputs,
        )
        for query, kv in zip(queries, groups, strict=True)
    ]


def _windows(metadata: _Metadata, count: int) -> list[int]:
    window = metadata.integer("attention.sliding_window", 0, MOST_TOKENS, 0)
    pattern = ARCHITECTURES[metadata.kind]
    if window and not pattern:
        raise metadata.error(
            f"which layers of {metadata.kind} have the window of {window:,} tokens is not known"
        )
    return [window if pattern and index % pattern < pattern - 1 else 0 for index in range(count)]


def _experts(metadata: _Metadata) -> Experts | None:
    count = metadata.integer("expert_count", 0, MOST_REPEATS, 0)
    used = metadata.integer("expert_used_count", 0, MOST_REPEATS, 0)
    if not count:
        return None
    if not 1 <= used <= count:
        raise metadata.error(f"expert_used_count {used:,} of {count:,} experts")
    return Experts(count, used, 0)


def _blocks(
    header: Header, count: int, source: str
) -> tuple[list[dict[str, TensorInfo]], dict[str, TensorInfo]]:
    blocks: list[dict[str, TensorInfo]] = [{} for _ in range(count)]
    others: dict[str, TensorInfo] = {}
    known = ("token_embd.weight", "output.weight", "output_norm.weight")
    for tensor in header.tensors:
        match = _BLOCK.fullmatch(tensor.name)
        if match is not None and int(match[1]) < count:
            blocks[int(match[1])][match[2]] = tensor
        elif tensor.name in known:
            others[tensor.name] = tensor
        elif not _IGNORED.fullmatch(tensor.name):
            raise LoadError(
                f"{source}: tensor {quoted(tensor.name)} is not known; sizeup does not guess its part"
            )
    return blocks, others


def _layer(tensors: Mapping[str, TensorInfo], heads: _Heads, experts: Experts | None, source: str) -> Layer:
    for name, outputs in heads.outputs.items():
        tensor = tensors.get(name)
        if tensor is None or len(tensor.shape) != 2 or tensor.shape[1] != outputs:
            raise CorruptModel(
                f"{source}: {name} is missing or has not the {outputs:,} outputs of the metadata"
            )
    weights = []
    width = shared = 0
    for name, tensor in tensors.items():
        role, ways = _role(name, source)
        if role == "experts" and (experts is None or tensor.shape[-1] != experts.count):
            raise CorruptModel(f"{source}: {name} has not the experts of the metadata")
        macs = tensor.elements if name.endswith(".weight") and len(tensor.shape) > 1 else 0
        if role == "experts" and experts is not None:
            macs = macs // experts.count * experts.per_token
        width = max(width, tensor.shape[1] if name.startswith("ffn_up") and len(tensor.shape) > 1 else 0)
        shared = max(shared, int(role == "shared_experts"))
        divided = heads.attention.cache_ways if ways < 0 else ways
        weights.append(_weight(tensor, role, divided, name=name.removesuffix(".weight"), macs=macs))
    has_experts = any(weight.role == "experts" for weight in weights)
    routed = Experts(experts.count, experts.per_token, shared) if experts and has_experts else None
    return Layer(heads.attention, tuple(weights), routed, width)


def _role(name: str, source: str) -> tuple[Role, int]:
    for pattern, role, ways in _TENSORS:
        if pattern.fullmatch(name):
            return role, ways
    raise LoadError(f"{source}: tensor {quoted(name)} is not known; sizeup does not guess its part")


def _weight(tensor: TensorInfo, role: Role, ways: int, *, name: str = "", macs: int = 0) -> Weight:
    label = name or tensor.name.removesuffix(".weight")
    return Weight(label, role, tensor.elements, tensor.stored_bytes, tensor.dtype, ways, macs)
