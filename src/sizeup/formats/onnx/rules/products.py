"""Shapes of products: matrices, recurrent layers, attention."""

from __future__ import annotations

from typing import Any

from sizeup.formats.onnx.rules.spots import Spot, shapes
from sizeup.ops.matmul import letters
from sizeup.symbolic import NotClosed, Sides, broadcast, broadcast_size, quotient


@shapes("MatMul MatMulInteger QLinearMatMul")
def _matmul(spot: Spot) -> list[Sides]:
    left, right = spot.shape(), spot.shape(3 if spot.node.op == "QLinearMatMul" else 1)
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    inner, shared = left[-1], right[-2] if len(right) > 1 else right[0]
    if inner != shared:
        raise NotClosed(f"{inner} and {shared} do not fit")
    return [(*broadcast(left[:-2], right[:-2]), *rows, *columns)]


@shapes("Gemm")
def _gemm(spot: Spot) -> list[Sides]:
    left, right = spot.shape(), spot.shape(1)
    rows, inner = reversed(left) if spot.node.integer("transA") else left
    shared, columns = reversed(right) if spot.node.integer("transB") else right
    if inner != shared:
        raise NotClosed(f"{inner} and {shared} do not fit")
    return [(rows, columns)]


@shapes("Einsum")
def _einsum(spot: Spot) -> list[Sides]:
    given = [spot.shape(index) for index in range(len(spot.node.inputs))]
    terms, result = letters(spot.node.text("equation"), [len(shape) for shape in given])
    sizes: dict[str, Any] = {}
    for term, shape in zip(terms, given, strict=True):
        for letter, side in zip(term, shape, strict=True):
            sizes[letter] = broadcast_size(sizes.get(letter, 1), side)
    return [tuple(sizes[letter] for letter in result)]


@shapes("LSTM GRU RNN")
def _recurrent(spot: Spot) -> list[Sides]:
    data, node = spot.shape(), spot.node
    directions, hidden = spot.shape(2)[0], spot.shape(2)[-1]
    if node.integer("layout"):
        last: Sides = (data[0], directions, hidden)
        return [(data[0], data[1], directions, hidden), last, last]
    last = (directions, data[1], hidden)
    return [(data[0], directions, data[1], hidden), last, last]


@shapes("Attention")
def _attention(spot: Spot) -> list[Sides]:
    query, value = spot.shape(), spot.shape(2)
    if len(spot.node.outputs) > 1 or spot.given(4):
        raise NotClosed("it keeps keys and values")
    if len(query) == 4:
        return [(*query[:3], value[-1])]
    heads, shared = spot.node.integer("q_num_heads"), spot.node.integer("kv_num_heads")
    return [(*query[:2], quotient(value[-1] * heads, shared or heads))]
