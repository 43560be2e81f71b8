"""Attention in the form that rules expect: heads, sizes of heads, and where earlier keys are."""

from __future__ import annotations

from typing import Any

from sizeup.formats.onnx.foreign import widths_of
from sizeup.formats.onnx.normalise import Contradiction, Form, Site, normaliser


@normaliser("Attention")
def _attention(site: Site) -> Form:
    """(batch, heads, length, size), or (batch, length, heads x size) with the heads in attributes."""
    query = site.shape(0)
    attrs: dict[str, Any] = {}
    if query is not None and len(query) == 3:
        heads = site.node.size("q_num_heads")
        kv_heads = site.node.size("kv_num_heads", heads)
        _check_all_heads(site, heads, kv_heads)
        attrs = {"heads": heads, "kv_heads": kv_heads}
    if site.given(4):
        attrs["cached"] = 4
    return Form((0, 1, 2, 3, 4), attrs)


# The axis of heads by the rank of an input: (batch, heads, length, size) or (batch, length, heads, n, size).
_HEAD_AXES = {4: 1, 5: 2}


def _check_all_heads(site: Site, heads: int, kv_heads: int) -> None:
    """Queries may share keys and values in groups of the same size."""
    if heads % kv_heads:
        site.node.refuse(f"{heads} heads do not divide into groups for {kv_heads} heads of keys")
    for index, shared in ((0, heads), (1, kv_heads), (2, kv_heads)):
        _check_heads(site, index, shared)


def _check_heads(site: Site, index: int, heads: int) -> None:
    """Heads share the last axis of (batch, length, heads x size) evenly, or have an axis to themselves."""
    shape = site.shape(index)
    columns = None if shape is None or len(shape) != 3 else shape[2]
    if isinstance(columns, int) and columns % heads:
        raise Contradiction(f"{heads} heads do not divide the {columns} columns of input {index}")
    axis = _HEAD_AXES.get(len(shape or ()))
    if shape is not None and axis is not None and shape[axis] != heads:
        raise Contradiction(f"{heads} heads, but {shape[axis]} in input {index} of the shape {shape}")


@normaliser(".MultiHeadAttention")
def _multi_head(site: Site) -> Form:
    """Order here: query, key, value, mask, past key; either mask counts as the one that is added."""
    heads = site.node.size("num_heads")
    _check_all_heads(site, heads, heads)
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": heads}
    sizes = _packed_sizes(site, heads)
    if sizes is not None:
        attrs = {"sizes": sizes}
    if site.given(6):
        attrs["cached"] = 4
    return Form((0, 1, 2, 5 if site.given(5) else 4, 6), attrs)


def _packed_sizes(site: Site, heads: int) -> tuple[int, int, int, int] | None:
    """Rows of queries, keys, and head sizes, where an input holds several operands or all heads apart."""
    query, key, value = (site.shape(index) for index in range(3))
    if query is not None and len(query) == 5:  # (batch, length, heads, 3, size)
        return query[0] * query[1] * query[2], query[1], query[4], query[4]
    if query is None or key is None:
        return None
    rows, size = query[0] * query[1] * heads, query[2] // heads
    if len(key) == 5:  # (batch, length, heads, 2, size)
        return rows, key[1], size, key[4]
    if len(key) == 4 and value is not None and len(value) == 4:  # (batch, heads, length, size)
        return rows, key[2], size, value[3]
    return None


@normaliser(".GroupQueryAttention")
def _group_query(site: Site) -> Form:
    heads, kv_heads = site.node.size("num_heads"), site.node.size("kv_num_heads")
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
    query, is_packed = site.shape(0), not site.given(1)
    if is_packed:
        _check_heads(site, 0, heads + 2 * kv_heads)
    else:
        _check_all_heads(site, heads, kv_heads)
    if query is not None and is_packed:  # queries, keys and values lie side by side
        size = query[2] // (heads + 2 * kv_heads)
        attrs = {"sizes": (query[0] * query[1] * heads, query[1], size, size)}
    if site.given(3):
        attrs["cached"] = 4
    return Form((0, 1, 2, 10, 3), attrs)


@normaliser(".Attention")
def _fused_attention(site: Site) -> Form:
    return _projecting(site, (0, 1, 2, 3, 4))


@normaliser(".QAttention")
def _quantised_attention(site: Site) -> Form:
    return _projecting(site, (0, 1, 2, 5, 8))


def _projecting(site: Site, order: tuple[int, ...]) -> Form:
    attrs: dict[str, Any] = {"heads": site.node.size("num_heads")}
    weights = site.shape(1)
    widths = widths_of(site.node, weights[-1]) if weights else ()
    if widths:
        attrs["key_width"] = widths[1]
    for width in widths or ((weights[-1] // 3,) if weights else ()):
        if width % attrs["heads"]:
            site.node.refuse(f"{attrs['heads']} heads do not divide {width} columns")
    if site.given(order[4]):
        attrs["cached"] = 4
    return Form(order, attrs)
