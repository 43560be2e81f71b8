"""Columns and their sums, against plain Python that goes through the graph tensor by tensor."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.cost import Accesses, Cost, count, total
from sizeup.dtypes import PRECISIONS, DType, dtype, precision
from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Constant, Graph, GraphBuilder, Quant, Role, Tensor
from sizeup.ops import Call, op_rule, temporary_cost_rules

FLOAT = dtype("float32")
QUANT = Quant(np.array(0.5), np.array(0))


def perceptron() -> Graph:
    """3 -> 4 -> 4 with the second matrix shared, a bias each, and an integer index that goes along."""
    builder = GraphBuilder("perceptron")
    x = builder.input("x", (1, 3), FLOAT)
    shared = Constant("parameter")
    for place, width in enumerate((3, 4, 4)):
        weight = Constant("parameter") if width == 3 else shared
        w = builder.tensor(f"w{place}", (4, width), FLOAT, weight)
        b = builder.tensor(f"b{place}", (4,), FLOAT, Constant("parameter"))
        y = builder.tensor(f"y{place}", (1, 4), FLOAT)
        builder.op("matmul", [x, w, b], [y], {"contracted": (1,)}, source="Gemm", scope=f"layer{place}")
        x = y
    builder.outputs.append(x)
    return builder.freeze()


def test_a_cost_and_its_graph_show_themselves_in_one_line() -> None:
    graph = perceptron()
    assert repr(graph) == "<Graph perceptron: 3 operators, 10 tensors>"
    assert repr(count(graph)) == f"<Cost of {graph!r}: 44 MACs, 3 of 3 known>"


def test_rows_hold_the_hand_count() -> None:
    cost = count(perceptron())
    assert cost.macs.tolist() == [12, 16, 16]
    assert cost.elementwise.tolist() == [4, 4, 4]
    assert (cost.total_macs, cost.total_elementwise) == (44, 12)
    in_bytes = cost.bytes_at()
    assert in_bytes.read.tolist() == [4 * (3 + 12 + 4), 4 * (4 + 16 + 4), 4 * (4 + 16 + 4)]
    assert in_bytes.written.tolist() == [16, 16, 16]


def test_shared_parameters_count_once_and_belong_to_their_first_user() -> None:
    cost = count(perceptron())
    assert cost.params.tolist() == [12 + 4, 16 + 4, 4]
    assert cost.total_params == 40
    assert cost.bytes_at().weights == 160


def test_parameters_that_nothing_uses_count_too() -> None:
    builder = GraphBuilder()
    builder.tensor("unused", (7,), FLOAT, Constant("parameter"))
    builder.tensor("table", (5,), FLOAT, Constant("buffer"))
    cost = count(builder.freeze())
    assert cost.total_params == 7
    assert cost.params.tolist() == []


def test_biases_stay_at_32_bits_beside_quantized_weights() -> None:
    cost = count(perceptron())
    weights, biases = 12 + 16, 12
    assert cost.bytes_at(precision("int8")).weights == weights + 4 * biases
    assert cost.bytes_at(precision("int16")).weights == 2 * weights + 4 * biases
    assert cost.bytes_at(precision("int4")).weights == weights // 2 + 4 * biases
    assert cost.bytes_at(precision("fp16")).weights == 2 * (weights + biases)


def test_weights_take_what_the_file_keeps_until_another_precision_is_asked_for() -> None:
    builder = GraphBuilder()
    builder.tensor("sparse", (100, 10), FLOAT, Constant("parameter", stored_bytes=240))
    builder.tensor("dense", (10, 10), FLOAT, Constant("parameter"))
    cost = count(builder.freeze())
    assert cost.total_params == 1_100
    assert cost.bytes_at().weights == 240 + 400
    assert cost.bytes_at(precision("fp32")).weights == 4_400


def test_two_int4_numbers_share_a_byte_but_two_tensors_do_not() -> None:
    builder = GraphBuilder()
    inputs = [builder.input(f"x{place}", (3,), dtype("int4")) for place in range(2)]
    made = builder.tensor("y", (3,), dtype("int4"))
    builder.op("add", inputs, [made])
    cost = count(builder.freeze())
    assert cost.bytes_at().read.tolist() == [2 + 2]  # ceil(3 / 2) each; 3 + 3 numbers in one would be 3
    assert cost.bytes_at().written.tolist() == [2]


def test_unknown_op_is_reported_not_free() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (2, 3), FLOAT)
    w = builder.tensor("w", (5,), FLOAT, Constant("parameter"))
    y = builder.tensor("y", (2, 4), FLOAT)
    builder.op("mylib.magic", [x, w, ABSENT], [y], source="mylib.magic")
    cost = count(builder.freeze())
    assert cost.known.tolist() == [False]
    assert cost.reasons == {0: "no cost rule for mylib.magic"}
    # What is certain stays: it touches its inputs and outputs, and owns its parameters.
    assert cost.bytes_at().read.tolist() == [4 * (6 + 5)]
    assert cost.bytes_at().written.tolist() == [4 * 8]
    assert cost.params.tolist() == [5]


def test_a_shape_that_depends_on_data_is_reported_not_guessed() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 5), FLOAT)
    picked = builder.tensor("picked", None, dtype("int64"))
    builder.op("pick", [x], [picked], source="NonZero")
    w = builder.tensor("w", (5, 6), FLOAT, Constant("parameter"))
    y = builder.tensor("y", None, FLOAT)
    builder.op("matmul", [picked, w], [y], {"contracted": (1,)})
    cost = count(builder.freeze())
    assert cost.known.tolist() == [False, False]
    assert set(cost.reasons.values()) == {"a required shape depends on data"}


def test_what_is_derived_from_constants_alone_costs_nothing_in_a_run() -> None:
    builder = GraphBuilder()
    packed = builder.tensor("packed", (8,), dtype("float16"), Constant("parameter"))
    weight = builder.tensor("weight", (8,), FLOAT, Constant("derived"))
    builder.op("dequantize", [packed], [weight])
    cost = count(builder.freeze())
    assert cost.known.tolist() == [True]
    assert (cost.total_elementwise, cost.bytes_at().read.tolist()) == (0, [0])
    assert cost.total_params == 8
    assert cost.bytes_at().weights == 16


def test_an_operator_that_moves_strings_is_not_known() -> None:
    builder = GraphBuilder()
    x = builder.input("words", (3,), dtype("string"))
    builder.op("transpose", [x], [builder.tensor("y", (3,), dtype("string"))])
    assert "strings" in count(builder.freeze()).reasons[0]


def test_a_variable_is_priced_as_the_value_behind_its_handle() -> None:
    builder = GraphBuilder()
    handle = builder.tensor("handle", (), dtype("resource"))
    value = builder.tensor("value", (10,), dtype("int8"), quant=QUANT)
    builder.op("variable", [], [handle])
    builder.op("read_variable", [handle], [value])
    builder.op("assign_variable", [handle, value], [])
    cost = count(builder.freeze())
    assert cost.bytes_at().read.tolist() == [0, 10, 10]
    assert cost.bytes_at().written.tolist() == [0, 10, 10]
    assert cost.bytes_at(precision("int4")).written.tolist() == [0, 5, 5]


def test_an_input_given_twice_is_read_once() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (6,), FLOAT)
    builder.op("mul", [x, x], [builder.tensor("y", (6,), FLOAT)])
    assert count(builder.freeze()).bytes_at().read.tolist() == [24]


def test_an_operator_that_breaks_its_rule_is_unknown_and_the_rest_is_counted() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (6,), FLOAT)
    builder.op("conv", [x, x], [builder.tensor("y", (6,), FLOAT)], source="Conv", name="stem")
    builder.op("neg", [x], [builder.tensor("z", (6,), FLOAT)])
    found = count(builder.freeze())
    assert found.reasons == {0: "its cost rule failed: KeyError: 'out_channels'"}
    assert found.total_elementwise == 6


def test_a_users_rule_that_fails_names_the_operator() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (6,), FLOAT)
    builder.op("mine", [x], [builder.tensor("y", (6,), FLOAT)], source="Mine", name="stem")
    with temporary_cost_rules():

        @op_rule("mine", onnx=["Mine"])
        def mine(call: Call) -> int:
            """It asks for what is not there."""
            return call.number("width")

        with pytest.raises(
            RuleError, match=r"the cost rule of mine \(operator stem\) failed: KeyError: 'width'"
        ):
            count(builder.freeze())


def test_sums_beyond_64_bits_are_exact() -> None:
    column = np.array([2**62, 2**62, 2**62 + 1, 5], np.int64)
    assert total(column) == 3 * 2**62 + 6
    assert total(np.zeros(0, np.int64)) == 0
    assert total(np.array([-(2**62), -(2**62), -(2**62)], np.int64)) == -3 * 2**62


def test_a_model_beyond_64_bits_sums_exactly() -> None:
    builder = GraphBuilder()
    side = 2**20
    x = builder.input("x", (side, side), FLOAT)
    for place in range(5):
        y = builder.tensor(f"y{place}", (side, side), FLOAT)
        builder.op("matmul", [x, x], [y], {"contracted": (1,)})
    assert count(builder.freeze()).total_macs == 5 * side**3  # 5 x 2^60 is beyond 2^62


def test_one_row_beyond_64_bits_is_not_known() -> None:
    builder = GraphBuilder()
    side = 2**21
    x = builder.input("x", (side, side), FLOAT)
    builder.op("matmul", [x, x], [builder.tensor("y", (side, side), FLOAT)], {"contracted": (1,)})
    cost = count(builder.freeze())
    assert cost.reasons == {0: "its count does not fit 64 bits"}


# -- random graphs -----------------------------------------------------------------------------------

SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
STORED = st.sampled_from(
    [FLOAT, dtype("float16"), dtype("int8"), dtype("int4"), dtype("int64"), dtype("bool")]
)
ROLES: list[Role] = ["parameter", "buffer", "constant"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    builder = GraphBuilder("random")
    contents: list[tuple[Any, ...]] = []
    for place in range(draw(st.integers(1, 6))):
        quant = draw(st.sampled_from([None, QUANT]))
        repeated: bool = draw(st.booleans())
        if contents and repeated:
            shape, stored, data = draw(st.sampled_from(contents))  # shared: the same constant again
        else:
            role: Role | None = draw(st.sampled_from([None, *ROLES]))
            shape, stored, data = draw(SHAPES), draw(STORED), None if role is None else Constant(role)
            if data is not None:
                contents.append((shape, stored, data))
        if data is None:
            builder.input(f"x{place}", shape, stored)
        else:
            builder.tensor(f"c{place}", shape, stored, data, quant)
    for place in range(draw(st.integers(0, 12))):
        inputs = draw(st.lists(st.integers(-1, len(builder.tensors) - 1), min_size=1, max_size=3))
        made = builder.tensor(f"t{place}", draw(SHAPES), draw(STORED))
        kind = draw(st.sampled_from(["pointwise", "pad", "mystery"]))
        builder.op(kind, inputs, [made], source=kind)
    return builder.freeze()


def naive_bits(tensor: Tensor, asked: DType | None) -> int:
    follows = tensor.dtype.family == "float" or tensor.quant is not None
    if asked is None or not follows:
        return tensor.dtype.bits
    is_bias = tensor.data is not None and tensor.data.role == "parameter" and len(tensor.shape or ()) < 2
    if is_bias and asked.name in ("int16", "int8", "int4", "int2"):
        return 32
    return asked.bits


def naive_bytes(tensor: Tensor, asked: DType | None) -> int:
    assert tensor.shape is not None
    return math.ceil(math.prod(tensor.shape) * naive_bits(tensor, asked) / 8)


@pytest.mark.slow
@given(graphs(), st.sampled_from([None, *PRECISIONS.values()]))
@settings(deadline=None)
def test_bytes_agree_with_going_through_the_tensors_one_by_one(graph: Graph, asked: DType | None) -> None:
    found = count(graph).bytes_at(asked)
    read, written = [], []
    for op in graph.ops:
        distinct = sorted({identity for identity in op.inputs if identity != ABSENT})
        read.append(sum(naive_bytes(graph.tensors[identity], asked) for identity in distinct))
        written.append(sum(naive_bytes(graph.tensors[identity], asked) for identity in op.outputs))
    assert found.read.tolist() == read
    assert found.written.tolist() == written
    once: dict[int, Tensor] = {}
    for tensor in graph.tensors:
        if tensor.data is not None and tensor.data.role == "parameter":
            once.setdefault(id(tensor.data), tensor)
    assert found.weights == sum(naive_bytes(tensor, asked) for tensor in once.values())


@pytest.mark.slow
@given(graphs())
@settings(deadline=None)
def test_totals_are_the_sums_of_the_rows(graph: Graph) -> None:
    cost = count(graph)
    assert cost.total_elementwise == sum(cost.elementwise.tolist())
    expected = [
        math.prod(graph.tensors[op.outputs[0]].shape or ()) if op.kind == "pointwise" else 0
        for op in graph.ops
    ]
    assert cost.elementwise.tolist() == expected
    assert cost.known.tolist() == [op.kind != "mystery" for op in graph.ops]
    assert set(cost.reasons) == {index for index, op in enumerate(graph.ops) if op.kind == "mystery"}


@pytest.mark.slow
@given(graphs())
@settings(deadline=None)
def test_every_used_parameter_has_exactly_one_owner(graph: Graph) -> None:
    cost: Cost = count(graph)
    used: dict[int, int] = {}
    for op in graph.ops:
        for tensor in (graph.tensors[identity] for identity in op.inputs if identity != ABSENT):
            if tensor.data is not None and tensor.data.role == "parameter":
                used[id(tensor.data)] = math.prod(tensor.shape or ())
    assert sum(cost.params.tolist()) == sum(used.values()) <= cost.total_params


@given(st.lists(st.integers(1, 40), min_size=2, max_size=30))
@settings(deadline=None)
def test_a_chain_of_matrices_costs_the_sum_of_neighboring_widths(widths: list[int]) -> None:
    builder = GraphBuilder("chain")
    x = builder.input("x", (1, widths[0]), FLOAT)
    for place, (here, there) in enumerate(pairwise(widths)):
        w = builder.tensor(f"w{place}", (there, here), FLOAT, Constant("parameter"))
        y = builder.tensor(f"y{place}", (1, there), FLOAT)
        builder.op("matmul", [x, w], [y], {"contracted": (1,)})
        x = y
    cost = count(builder.freeze())
    assert cost.total_macs == cost.total_params == sum(a * b for a, b in pairwise(widths))


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6))
def test_grouped_sums_are_those_of_the_groups(groups: list[list[int]]) -> None:
    flat = np.array([each for group in groups for each in group], np.int64)
    first = np.cumsum([0, *map(len, groups)], dtype=np.int64)
    nothing = np.zeros(len(flat), np.bool_)
    accesses = Accesses(first, flat, flat, flat, flat, flat, flat, nothing, nothing, nothing, ())
    assert accesses.by_op(flat).tolist() == [sum(group) for group in groups]
