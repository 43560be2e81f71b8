"""Shape rules of matrix products, recurrent layers and attention."""

from __future__ import annotations

from typing import Any

from sizeup.formats.onnx.shape_rules.context import RULES, InferenceContext
from sizeup.ops.matmul import letters
from sizeup.symbolic import NoClosedForm, SymbolicShape, broadcast, broadcast_size, quotient


@RULES("MatMul", "MatMulInteger", "QLinearMatMul")
def _matmul(context: InferenceContext) -> list[SymbolicShape]:
    left, right = context.shape(), context.shape(3 if context.node.op == "QLinearMatMul" else 1)
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    inner, shared = left[-1], right[-2] if len(right) > 1 else right[0]
    if inner != shared:
        raise NoClosedForm(f"the inner dimensions differ: {inner} and {shared}")
    return [(*broadcast(left[:-2], right[:-2]), *rows, *columns)]


@RULES("Gemm")
def _gemm(context: InferenceContext) -> list[SymbolicShape]:
    left, right = context.shape(), context.shape(1)
    rows, inner = reversed(left) if context.node.integer("transA") else left
    shared, columns = reversed(right) if context.node.integer("transB") else right
    if inner != shared:
        raise NoClosedForm(f"the inner dimensions differ: {inner} and {shared}")
    return [(rows, columns)]


@RULES("Einsum")
def _einsum(context: InferenceContext) -> list[SymbolicShape]:
    inputs = [context.shape(index) for index in range(len(context.node.inputs))]
    terms, result = letters(context.node.text("equation"), [len(shape) for shape in inputs])
    sizes: dict[str, Any] = {}
    for term, shape in zip(terms, inputs, strict=True):
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = broadcast_size(sizes.get(letter, 1), size)
    return [tuple(sizes[letter] for letter in result)]


@RULES("LSTM", "GRU", "RNN")
def _recurrent(context: InferenceContext) -> list[SymbolicShape]:
    data, node = context.shape(), context.node
    directions, hidden = context.shape(2)[0], context.shape(2)[-1]
    if node.integer("layout"):
        last: SymbolicShape = (data[0], directions, hidden)
        return [(data[0], data[1], directions, hidden), last, last]
    last = (directions, data[1], hidden)
    return [(data[0], directions, data[1], hidden), last, last]


@RULES("Attention")
def _attention(context: InferenceContext) -> list[SymbolicShape]:
    query, value = context.shape(), context.shape(2)
    if len(context.node.outputs) > 1 or context.has_input(4):
        raise NoClosedForm("it has a cache of keys and values")
    if len(query) == 4:
        return [(*query[:3], value[-1])]
    heads, shared = context.node.integer("q_num_heads"), context.node.integer("kv_num_heads")
    return [(*query[:2], quotient(value[-1] * heads, shared or heads))]
