"""Single operators whose shapes depend on symbolic dimensions in ways that are easy to get wrong."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from onnx import parser

import sizeup
from free_points import assert_equal_to_fresh_loads

SIZES = (1, 2, 3, 7, 33, 96, 97)
_ONES = ", ".join("1" * 96)
_HALVED = (
    "s = Shape(x) f = Cast<to = 1>(s) two = Constant<value = float[1] {2}>() d = Div(f, two)"
    " {then} k = Cast<to = 7>(e) y = ConstantOfShape(k)"
)
_BRANCHES = (
    "If(c)<then_branch = t () => (float[p] a) {a = Relu(x)}, else_branch = e () => (float[p] b) {b = Neg(x)}>"
)

# Inputs, operators and outputs, as ONNX writes them.
MODELS: dict[str, tuple[str, str, str]] = {
    "rows that do not divide": (
        "float[batch,7] x",
        "s = Constant<value = int64[2] {-1, 14}>() y = Reshape(x, s)",
        "float[p,q] y",
    ),
    "joined with what has a size": (
        "float[batch,7] x",
        "c = Constant<value = float[2,1] {1, 1}>() y = Concat<axis = 1>(x, c)",
        "float[p,q] y",
    ),
    "half, rounded up": ("float[h] x", _HALVED.replace("{then}", "e = Ceil(d)"), "float[p] y"),
    "half, twice": ("float[h] x", _HALVED.replace("{then}", "e = Mul(d, two)"), "float[p] y"),
    "a root": (
        "float[h] x",
        "s = Shape(x) f = Cast<to = 1>(s) d = Sqrt(f) k = Cast<to = 7>(d) y = ConstantOfShape(k)",
        "float[p] y",
    ),
    "a negative quotient": (
        "float[h] x",
        (
            "s = Shape(x) n = Neg(s) c = Constant<value = int64[1] {2}>() r = Div(n, c) q = Neg(r)"
            " y = ConstantOfShape(q)"
        ),
        "float[p] y",
    ),
    "the largest of a shape": (
        "float[batch,h] x",
        "s = Shape(x) k = ReduceMax<keepdims = 1>(s) y = ConstantOfShape(k)",
        "float[p] y",
    ),
    "a window larger than the picture": (
        "float[batch,1,h,w] x",
        "k = Constant<value = float[1,1,3,3] {1,1,1,1,1,1,1,1,1}>() y = Conv<strides = [2, 2]>(x, k)",
        "float[p,q,r,s] y",
    ),
    "spread or the same": ("float[n] x, float[k] z", "y = Add(x, z)", "float[p] y"),
    "weights for one size": (
        "float[batch,k] x",
        f"w = Constant<value = float[96,1] {{{_ONES}}}>() y = Gemm(x, w)",
        "float[p,q] y",
    ),
    "parts of a given length": (
        "float[batch,h] x",
        "s = Constant<value = int64[2] {40, 56}>() a, b = Split<axis = 1>(x, s)",
        "float[p,q] a, float[p,r] b",
    ),
    "more parts than elements": (
        "float[batch,h] x",
        "a, b, c = Split<axis = 1, num_outputs = 3>(x)",
        "float[p,q] a, float[p,r] b, float[p,s] c",
    ),
    "borders that are turned over": (
        "float[h] x",
        (
            "s = Shape(x) five = Constant<value = int64[1] {5}>() m = Mod(s, five) z = Sub(five, m)"
            " nought = Constant<value = int64[1] {0}>() c = Concat<axis = 0>(z, nought)"
            " two = Constant<value = int64[2] {1, 2}>() r = Reshape(c, two) t = Transpose<perm = [1, 0]>(r)"
            " flat = Constant<value = int64[1] {-1}>() p = Reshape(t, flat) y = Pad(x, p)"
        ),
        "float[p] y",
    ),
    "the ten largest": (
        "float[batch,h] x",
        "k = Constant<value = int64[1] {10}>() a, b = TopK(x, k)",
        "float[p,q] a, int64[p,q] b",
    ),
    "a branch that reads what is outside": (
        "float[h] x, bool c",
        f"y = {_BRANCHES} z = Exp(y)",
        "float[p] z",
    ),
    "a loop that reads what is outside": (
        "float[h] x",
        (
            "n = Constant<value = int64 {4}>() c = Constant<value = bool {1}>()"
            " i = Constant<value = float[1] {1}>()"
            " r, v = Loop(n, c, i)<body = b (int64 it, bool ci, float[1] acc)"
            " => (bool co, float[1] ao, float[p] s)"
            " {co = Identity(ci) ao = Identity(acc) s = Relu(x)}> z = Exp(v)"
        ),
        "float[1] r, float[p,q] z",
    ),
    "steps that begin at a half": (
        "float[h] x",
        (
            "s = Shape(x) f = Cast<to = 1>(s) q = Squeeze(f) a = Constant<value_float = 0.5>()"
            " t = Constant<value_float = 1.0>() r = Range(a, q, t)"
        ),
        "float[p] r",
    ),
}


def _model(name: str) -> Any:
    inputs, operators, outputs = MODELS[name]
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g ({inputs}) => ({outputs}) {{ {operators} }}'
    )


@pytest.mark.parametrize("name", MODELS)
def test_an_operator_has_the_shapes_of_a_fresh_load_at_every_size(name: str) -> None:
    model = _model(name)
    free = sizeup.load(model, free=True)
    points = [
        dict(zip(free.names, sizes, strict=True))
        for sizes in itertools.islice(itertools.product(SIZES, repeat=len(free.names)), 60)
    ]

    def load(point: Mapping[str, int]) -> Any:
        return sizeup.load(model, bind=point)

    assert_equal_to_fresh_loads(free, load, points)


def test_the_operator_that_no_expression_tells_is_named() -> None:
    free = sizeup.load(_model("a root"), free=True)
    assert free.specializations[0].reason is not None
    assert "depends on Sqrt operator 'd'" in free.specializations[0].reason


def test_one_point_that_does_not_fit_leaves_the_others_their_closed_forms() -> None:
    free = sizeup.load(_model("a window larger than the picture"), free=True)
    free.at(batch=3, h=2, w=9)
    free.at(batch=3, h=9, w=2)
    assert free.specialization_at({"batch": 5, "h": 77, "w": 3}) is free.specializations[0]
