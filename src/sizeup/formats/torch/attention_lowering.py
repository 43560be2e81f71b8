"""Numbers of scores of attention calls that skip some: block masks and sequences of different lengths."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from sizeup.formats.torch.inputs import values_of

_UNKNOWN_MASK = (
    "flex_attention: all blocks are counted, because the block mask is created in forward;"
    " create it outside to count only its blocks"
)
_UNKNOWN_LENGTHS = (
    "attention over sequences of different lengths: every query is counted with the longest sequence of"
    " keys (an upper bound), because the lengths are computed in forward"
)
BOUND_CAVEATS = frozenset((_UNKNOWN_MASK, _UNKNOWN_LENGTHS))
# Argument names of the cumulative lengths of queries and keys, and of the greatest length of keys.
_LENGTHS = {
    "_varlen_attn": ("cu_seq_q", "cu_seq_k", "max_k"),
    "_flash_attention_forward": ("cum_seq_q", "cum_seq_k", "max_k"),
    "_efficient_attention_forward": ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_k"),
}


def attention_sizes(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an attention call; none if its inputs are (..., heads, length, size)."""
    if name != "higher_order.flex_attention" and name not in _LENGTHS:
        return {}
    with _disable_current_modes():  # computes with the caller's tensors
        return _packed_attention(args, *_LENGTHS[name]) if name in _LENGTHS else _flex_attention(args)


def _sizes(args: dict[str, Any], scores: Any) -> dict[str, Any]:
    """Return the sizes of one row per score: each has a product with one key and with one value."""
    return {"sizes": (scores, 1, args["query"].shape[-1], args["value"].shape[-1])}


def _flex_attention(args: dict[str, Any]) -> dict[str, Any]:
    query, key, mask = args["query"], args["key"], args["block_mask"]
    queries, keys = query.shape[-2], key.shape[-2]
    block, key_block, mask_function = mask[-3], mask[-2], mask[-1]
    # Functions of the scores and of the mask run once per score.
    functions = (args["score_mod"].__name__ != "_identity") + (mask_function.__name__ != "noop_mask")
    attrs = {"score_functions": functions} if functions else {}
    if block >= queries and key_block >= keys:
        return attrs  # a single block
    scores = 0
    for counts, indices in (mask[2:4], mask[4:6]):  # blocks that the mask cuts, and full blocks
        if counts is None:
            continue
        count_values, index_values = values_of(counts), values_of(indices)
        if count_values is None or index_values is None:
            return {**attrs, "caveat": _UNKNOWN_MASK}
        part = _scores_of_blocks(count_values, index_values, (queries, keys), (block, key_block))
        # A mask with one batch row or one head is valid for all.
        scores += part * (query.shape[0] // counts.shape[0]) * (query.shape[1] // counts.shape[1])
    return {**attrs, **_sizes(args, scores)}


def _scores_of_blocks(
    counts: torch.Tensor, indices: torch.Tensor, lengths: tuple[int, int], blocks: tuple[int, int]
) -> int:
    """Return the number of scores in the listed blocks; the last block of a side may be shorter."""
    row_starts = torch.arange(counts.shape[-1]) * blocks[0]
    rows = (lengths[0] - row_starts).clamp(0, blocks[0])
    columns = (lengths[1] - indices.cpu().long() * blocks[1]).clamp(0, blocks[1])
    is_listed = torch.arange(indices.shape[-1]) < counts.cpu()[..., None]
    return int(((columns * is_listed).sum(-1) * rows).sum())


def _packed_attention(args: dict[str, Any], *names: str) -> dict[str, Any]:
    query, key = args["query"], args["key"]
    query_ends, key_ends, longest = (args.get(name) for name in names)
    if query_ends is None:  # (batch, length, heads, size)
        rows = query.shape[0] * query.shape[1] * query.shape[2]
        return {"sizes": (rows, key.shape[1], query.shape[-1], args["value"].shape[-1])}
    heads = query.shape[-2]
    used = args.get("seqused_k")
    query_lengths = _lengths(query_ends)
    key_lengths = _lengths(key_ends) if used is None else values_of(used)
    if query_lengths is None or key_lengths is None:
        tokens = math.prod(query.shape[:-2])
        longest = key.shape[-3] if longest is None else longest
        return {**_sizes(args, heads * tokens * longest), "caveat": _UNKNOWN_LENGTHS}
    return _sizes(args, heads * int((query_lengths.cpu().long() * key_lengths.cpu().long()).sum()))


def _lengths(ends: torch.Tensor | None) -> torch.Tensor | None:
    values = None if ends is None else values_of(ends)
    return None if values is None else values.diff()
