"""Attention: softmax(Q K^T) V as one op. The products are counted in full, masked or not."""

from __future__ import annotations

import math
from typing import NamedTuple

from sizeup.graph import Dim, Shape
from sizeup.ops.cost_rule import Call, names, op_rule


class AttentionSizes(NamedTuple):
    """Rows of the scores and of the output (batch x heads x length), key length, and the two head sizes."""

    score_rows: Dim
    output_rows: Dim
    keys: Dim
    size: Dim
    value_size: Dim


def sizes_of(call: Call) -> AttentionSizes:
    """The sizes of an attention op, whose inputs have one of three forms.

    With the attribute `heads`, inputs are (batch, length, heads x size), as ONNX allows. Otherwise they are
    (..., heads, length, size), and leading dimensions of 1 are broadcast. The attribute `sizes` is set if one
    input packs several operands. Cached keys precede those of the input.
    """
    past = _earlier_keys(call)
    if "sizes" in call.attrs:
        rows, keys, size, value_size = call.attrs["sizes"]
        return AttentionSizes(rows, rows, past + keys, size, value_size)
    query, key, value = (call.input(index).shape for index in range(3))
    heads: Dim | None = call.attrs.get("heads")
    if heads is None:
        score_rows = math.prod(_broadcast(query[:-2], key[:-2])) * query[-2]
        return AttentionSizes(
            score_rows, math.prod(call.output.shape[:-1]), past + key[-2], query[-1], value[-1]
        )
    kv_heads: Dim = call.attrs.get("kv_heads", heads)
    rows = query[0] * query[1] * heads
    return AttentionSizes(rows, rows, past + key[-2], query[2] // heads, value[-1] // kv_heads)


def _broadcast(queries: Shape, keys: Shape) -> list[Dim]:
    """Leading dimensions of the scores: those of the queries, with 1 broadcast to those of the keys."""
    missing = max(len(keys) - len(queries), 0)
    aligned = (*[1] * missing, *queries)
    others = (*[1] * (len(aligned) - len(keys)), *keys)
    return [other if own == 1 else own for own, other in zip(aligned, others, strict=True)]


def _earlier_keys(call: Call) -> Dim:
    """Number of cached keys: `past`, or the length of the input at index `cached`, (..., length, size)."""
    cached: int | None = call.attrs.get("cached")
    past: Dim = call.attrs.get("past", 0) if cached is None else call.input(cached).shape[-2]
    return past


def softmax_of_scores(call: Call) -> Dim:
    """Per score: one scaling and five softmax operations, one addition of a mask, one per score function."""
    sizes = sizes_of(call)
    functions: int = call.attrs.get("score_functions", 0)
    return (6 + call.has_input(3) + functions) * sizes.output_rows * sizes.keys


@op_rule(
    "attention",
    family="attention",
    torch=names(
        "aten.scaled_dot_product_attention aten._scaled_dot_product_flash_attention"
        " aten._scaled_dot_product_flash_attention_for_cpu aten._scaled_dot_product_efficient_attention"
        " aten._scaled_dot_product_cudnn_attention aten._scaled_dot_product_attention_math"
        " higher_order.flex_attention torch_attn._varlen_attn aten._flash_attention_forward"
        " aten._efficient_attention_forward"
    ),
    onnx=names("Attention com.microsoft::MultiHeadAttention com.microsoft::GroupQueryAttention"),
    elementwise=softmax_of_scores,
)
def attention(call: Call) -> Dim:
    """Query x key products (head size MACs per score), then score x value products (value size per score)."""
    sizes = sizes_of(call)
    return sizes.keys * (sizes.score_rows * sizes.size + sizes.output_rows * sizes.value_size)


def _softmax_and_bias(call: Call) -> Dim:
    batch, length, _ = call.input(0).shape
    scores = batch * call.number("heads") * length * (length + _earlier_keys(call))
    bias = batch * length * call.input(2).elements if call.has_input(2) else 0
    return (7 if call.has_input(3) else 6) * scores + bias


@op_rule(
    "fused_attention",
    family="attention",
    onnx=names("com.microsoft::Attention com.microsoft::QAttention"),
    weight=1,
    elementwise=_softmax_and_bias,
)
def fused_attention(call: Call) -> Dim:
    """The joint projection to Q, K and V, then the two attention products over the sequence."""
    batch, length, width = call.input(0).shape
    projected = call.input(1).shape[-1]
    key_width: Dim = call.attrs.get("key_width", projected // 3)
    value_width = projected - 2 * key_width
    keys = length + _earlier_keys(call)
    return batch * length * (width * projected + keys * (key_width + value_width))


def _layer_elementwise(call: Call) -> Dim:
    batch, length, width = call.input(0).shape
    rows = batch * length
    hidden = call.number("hidden")
    biases = sum(call.input(index).elements for index in call.attrs["biases"])
    # A full encoder layer adds two norms (7 each), two residual sums and the activation of its hidden layer.
    rest = rows * (2 * 7 * width + 2 * width + hidden) if len(call.attrs["matrices"]) > 2 else 0
    return 6 * rows * call.number("heads") * length + rows * biases + rest


@op_rule(
    "attention_layer",
    family="attention",
    torch=names("aten._native_multi_head_attention aten._transformer_encoder_layer_fwd"),
    weight=1,
    elementwise=_layer_elementwise,
    traits=("blas",),
)
def attention_layer(call: Call) -> Dim:
    """Per token: all weight matrices of the layer, and two attention products with every token."""
    batch, length, width = call.input(0).shape
    matrices = sum(call.input(index).elements for index in call.attrs["matrices"])
    return batch * length * (matrices + 2 * length * width)
