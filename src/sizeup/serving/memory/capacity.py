"""Capacity of a GPU as a serving engine allocates it: groups of cache blocks, sequences and context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sizeup.serving.memory.engines import Engine
from sizeup.serving.models.architecture import Architecture, Layer, distinct
from sizeup.serving.models.cache import cache_bits, state_bytes, token_bytes

_SWA_RATIO = 0.8  # SGLang: tokens of windows per token of full attention
_STATE_RATIO = 0.9  # SGLang: bytes of states per byte of the rest
_LLAMACPP_PAD = 256


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a block table: `units` per block of `block` tokens, of at most `limit` tokens."""

    units: int
    block: int = 1
    limit: int = 0  # 0: unlimited
    extra: int = 0  # blocks in addition

    def needed(self, tokens: int) -> int:
        """Units of one sequence of that many tokens."""
        kept = min(tokens, self.limit) if self.limit else tokens
        return self.units * (-(-kept // self.block) + self.extra)


@dataclass(frozen=True, slots=True)
class Pool:
    """Memory that is divided into units: `size` of `unit_bytes` each."""

    size: int
    unit_bytes: int
    groups: tuple[Group, ...]

    def needed(self, tokens: int) -> int:
        """Units of one sequence of that many tokens."""
        return sum(group.needed(tokens) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the cache of one GPU holds."""

    pools: tuple[Pool, ...]
    context_limit: int = 0  # of the model; 0: not stated
    caveats: tuple[str, ...] = ()

    def max_sequences(self, context: int) -> int:
        """Sequences of `context` tokens that are held at once."""
        counts = [pool.size // max(pool.needed(context), 1) for pool in self.pools]
        return min(counts, default=0)

    def max_context(self, sequences: int = 1) -> int:
        """The longest context that `sequences` can have at once; at most that of the model."""
        low, high = 0, self.context_limit or 1 << 40
        while low < high:
            middle = (low + high + 1) // 2
            if self.max_sequences(middle) >= sequences:
                low = middle
            else:
                high = middle - 1
        return low

    def tokens(self, context: int) -> int:
        """Tokens of sequences of that context, as vLLM logs them: a fraction of a sequence counts."""
        pool = self.pools[0]
        return int(pool.size / max(pool.needed(context), 1) * context)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all pools."""
        return sum(pool.size * pool.unit_bytes for pool in self.pools)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Layers with the same window and bytes per token."""

    window: int
    token_bytes: int
    state_bytes: int


def _kinds(architecture: Architecture, layers: Sequence[Layer], kv: str, group: int) -> Counter[_Kind]:
    kinds: Counter[_Kind] = Counter()
    for layer, count in distinct(layers):
        attention = layer.attention
        per_token = token_bytes(attention, kv, group)
        state = state_bytes(attention, architecture.dtype, group)
        if per_token or state:
            kinds[_Kind(attention.window, per_token, state)] += count
    return kinds


def capacity_of(
    architecture: Architecture, layers: Sequence[Layer], engine: Engine, cache_bytes: int, kv: str, group: int
) -> Capacity:
    """The capacity of a cache on a GPU of a tensor-parallel group that has these layers."""
    cache_bits(kv)
    kinds = _kinds(architecture, layers, kv, group)
    cache_bytes = max(cache_bytes, 0)
    caveats: tuple[str, ...] = ()
    if not kinds:
        pools: tuple[Pool, ...] = ()
    elif engine.name == "vllm":
        pools, caveats = _vllm(kinds, engine, cache_bytes)
    elif engine.name == "sglang":
        pools = _sglang(kinds, cache_bytes)
    else:
        pools = (Pool(cache_bytes, 1, _bytewise(kinds, engine)),)
    return Capacity(pools, architecture.max_context, caveats)


def _vllm(
    kinds: Counter[_Kind], engine: Engine, cache_bytes: int
) -> tuple[tuple[Pool, ...], tuple[str, ...]]:
    """vLLM's blocks: layers in groups of equal size, pages of equal bytes."""
    block = engine.block_tokens
    if len({kind.window for kind in kinds}) == 1 and not any(kind.state_bytes for kind in kinds):
        # One type of attention: a block of each layer, whatever its bytes.
        unit = block * sum(kind.token_bytes * count for kind, count in kinds.items())
        window = next(iter(kinds)).window
        return (Pool(cache_bytes // unit, unit, (_window_group(1, block, window, engine),)),), ()
    page = max(block * kind.token_bytes for kind in kinds)
    states = max(kind.state_bytes for kind in kinds)
    widest = max((kind.token_bytes for kind in kinds), default=0)
    if states > page:  # the attention block is widened until its page holds a state
        page = -(-states // (block * widest)) * block * widest if widest else states
    caveats: tuple[str, ...] = ()
    if any(kind.token_bytes and page % (block * kind.token_bytes) for kind in kinds):
        caveats = ("vLLM cannot give all layers pages of equal bytes: pages are padded here",)
    counts = kinds.values()
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
    groups = []
    for kind, count in kinds.items():
        tables = -(-count // size)
        if not kind.token_bytes:
            groups.append(Group(tables, 1, 1))
        else:
            tokens = max(page // (block * kind.token_bytes), 1) * block
            groups.append(_window_group(tables, tokens, kind.window, engine))
    unit = page * size
    return (Pool(cache_bytes // unit, unit, tuple(groups)),), caveats


def _window_group(tables: int, block: int, window: int, engine: Engine) -> Group:
    """A window keeps its tokens, those of one step, and one more block as it need not start at a block."""
    if not window:
        return Group(tables, block)
    return Group(tables, block, window - 1 + engine.batched_tokens, 1)


def _sglang(kinds: Counter[_Kind], cache_bytes: int) -> tuple[Pool, ...]:
    """SGLang's pools: tokens of full attention, tokens of windows, states."""
    full = sum(kind.token_bytes * count for kind, count in kinds.items() if not kind.window)
    local = sum(kind.token_bytes * count for kind, count in kinds.items() if kind.window)
    states = sum(kind.state_bytes * count for kind, count in kinds.items())
    pools = []
    if states:
        share = int(cache_bytes * _STATE_RATIO / (1 + _STATE_RATIO)) if full or local else cache_bytes
        pools.append(Pool(share // states, states, (Group(1, 1, 1),)))
        cache_bytes -= share
    if not full and not local:
        return tuple(pools)
    if not full:
        window = max(kind.window for kind in kinds)
        return (*pools, Pool(cache_bytes // local, local, (Group(1, 1, window),)))
    tokens = int(cache_bytes / (full + _SWA_RATIO * local))
    pools.append(Pool(tokens, full, (Group(1),)))
    if local:
        window = max(kind.window for kind in kinds)
        pools.append(Pool(int(tokens * _SWA_RATIO), local, (Group(1, 1, window),)))
    return tuple(pools)


def _bytewise(kinds: Counter[_Kind], engine: Engine) -> tuple[Group, ...]:
    """TensorRT-LLM and llama.cpp: blocks of each layer, in bytes."""
    block = engine.block_tokens
    groups = []
    for kind, count in kinds.items():
        if kind.state_bytes:
            groups.append(Group(kind.state_bytes * count, 1, 1))
        if not kind.token_bytes:
            continue
        limit, extra = kind.window, 1 if kind.window else 0
        if kind.window and engine.name == "llamacpp":
            limit, extra = kind.window + engine.batched_tokens, 0
        groups.append(Group(kind.token_bytes * count * block, block, limit, extra))
    return tuple(groups)
