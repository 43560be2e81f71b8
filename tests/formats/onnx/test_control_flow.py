"""Subgraphs of nodes: trip counts, captured values and costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from formats.onnx.making import (
    BOOL,
    FLOAT,
    INT64,
    count,
    graph,
    model,
    node,
    numbers,
    shapes,
    tensor,
    value,
    weight,
)
from sizeup.formats.onnx import load

MATMUL = 2 * 3 * 3  # a 2x3 state times a 3x3 matrix


def loop_body(*extra: onnx.NodeProto, keeps_going: str = "cond") -> onnx.GraphProto:
    """state = state @ w; the matrix is taken from around the loop."""
    return graph(
        [node("MatMul", "state w", "next"), node("Identity", keeps_going, "go"), *extra],
        [value("i", (), INT64), value("cond", (), BOOL), value("state")],
        "go next next",
        name="step",
    )


def looping(
    body: onnx.GraphProto, inputs: str = "trips - x", constants: Any = (), **given: Any
) -> onnx.ModelProto:
    return model(
        [node("Loop", inputs, "last all", body=body)],
        [value("x", (2, 3)), *(value(name, shape, element) for name, (shape, element) in given.items())],
        "last all",
        [weight("w", 3, 3), *constants],
    )


def test_loop_with_a_fixed_trip_count_runs_that_often() -> None:
    cost = count(looping(loop_body(), constants=[numbers("trips", 5)]))
    assert cost.known.all(), cost.reasons
    assert cost.total_macs == 5 * MATMUL
    assert cost.total_params == 9
    op = cost.graph.ops[0]
    assert (op.kind, op.source, op.bodies[0].runs, op.bodies[0].name) == ("loop", "Loop", 5, "body")
    # The state keeps its shape in every round; the results of all rounds are stacked.
    assert shapes(cost.graph)["last"] == (2, 3)
    assert shapes(cost.graph)["all"] == (5, 2, 3)


def test_trip_count_may_be_computed_from_a_shape() -> None:
    made = looping(loop_body())
    made.graph.node.insert(0, node("Gather", "s zero", "trips"))
    made.graph.node.insert(0, node("Shape", "x", "s"))
    made.graph.initializer.append(numbers("zero", 0))
    assert load(made).ops[-1].bodies[0].runs == 2


def test_loop_whose_trip_count_is_an_input_is_unknown() -> None:
    cost = count(looping(loop_body(), trips=((), INT64)))
    assert cost.graph.ops[0].bodies[0].runs is None
    assert "the trip count depends on data" in cost.reasons[0]
    assert cost.total_macs == MATMUL


def test_loop_that_its_body_may_stop_is_unknown() -> None:
    small = node("ReduceMax", "next", "most", keepdims=0)
    stops = node("Less", "most limit", "small")
    body = loop_body(small, stops, keeps_going="small")
    body.node.append(body.node[1])
    del body.node[1]
    made = looping(body, constants=[numbers("trips", 5), numbers("limit", 1, np.float32)])
    assert load(made).ops[0].bodies[0].runs is None


@pytest.mark.parametrize(("start", "runs"), [(True, 5), (False, 0)])
def test_condition_before_the_first_round_counts(start: bool, runs: int) -> None:
    constants = [numbers("trips", 5), numbers("start", start, np.bool_)]
    assert load(looping(loop_body(), "trips start x", constants)).ops[0].bodies[0].runs == runs


def test_state_that_grows_has_no_known_shape() -> None:
    body = graph(
        [node("Concat", "state state", "next", axis=0), node("Identity", "cond", "go")],
        [value("i", (), INT64), value("cond", (), BOOL), value("state")],
        "go next",
    )
    made = model(
        [node("Loop", "trips - x", "y", body=body)], [value("x", (2, 3))], "y", [numbers("trips", 5)]
    )
    cost = count(made)
    assert shapes(cost.graph)["y"] is None
    assert not cost.known.any()


def test_body_takes_values_from_around_it_as_inputs_and_constants_as_they_are() -> None:
    body = loop_body(node("Add", "next x", "unused"))
    found = load(looping(body, constants=[numbers("trips", 5)]))
    inner = found.ops[0].bodies[0].graph
    names = [inner.tensors[each].name for each in inner.inputs]
    assert names == ["i", "cond", "state", "x"]
    assert tensor(inner, "w").data is tensor(found, "w").data
    # What the body takes from around it is an input of the operator, so that it lives that long.
    assert [found.tensors[each].name for each in found.ops[0].inputs if each >= 0] == ["trips", "x", "x"]


def branching(condition: str, constants: Any = (), **given: Any) -> onnx.ModelProto:
    then = graph([node("MatMul", "x w", "a")], outputs="a", name="dear")
    other = graph([node("Relu", "x", "a")], outputs="a", name="cheap")
    return model(
        [node("If", condition, "y", then_branch=then, else_branch=other)],
        [value("x", (2, 3)), *(value(name, shape, element) for name, (shape, element) in given.items())],
        "y",
        [weight("w", 3, 3), *constants],
    )


def test_branches_that_data_decides_are_both_kept() -> None:
    cost = count(branching("c", c=((), BOOL)))
    assert sorted(each.name for each in cost.graph.ops[0].bodies) == ["else_branch", "then_branch"]
    assert cost.total_macs == MATMUL
    assert "the branch depends on data" in cost.reasons[0]
    assert shapes(cost.graph)["y"] == (2, 3)


@pytest.mark.parametrize(("condition", "macs"), [(True, MATMUL), (False, 0)])
def test_fixed_condition_leaves_one_branch(condition: bool, macs: int) -> None:
    cost = count(branching("c", [numbers("c", condition, np.bool_)]))
    assert len(cost.graph.ops[0].bodies) == 1
    assert cost.known.all(), cost.reasons
    assert cost.total_macs == macs


def test_condition_on_a_shape_is_decided() -> None:
    made = branching("c", [numbers("zero", 0), numbers("two", 2)])
    for each in (node("Equal", "n two", "c"), node("Gather", "s zero", "n"), node("Shape", "x", "s")):
        made.graph.node.insert(0, each)
    cost = count(made)
    assert [each.name for each in cost.graph.ops[-1].bodies] == ["then_branch"]
    assert cost.total_macs == MATMUL


def scan(axis: int) -> onnx.ModelProto:
    body = graph(
        [node("Add", "state slice", "next"), node("MatMul", "next w", "out")],
        [value("state"), value("slice")],
        "next out",
    )
    shape = (10, 3) if axis == 0 else (3, 10)
    return model(
        [node("Scan", "start xs", "last all", body=body, num_scan_inputs=1, scan_input_axes=[axis])],
        [value("start", (3,)), value("xs", shape)],
        "last all",
        [weight("w", 3, 4)],
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scan_runs_once_for_each_slice(axis: int) -> None:
    cost = count(scan(axis))
    assert cost.graph.ops[0].bodies[0].runs == 10
    assert cost.known.all(), cost.reasons
    assert cost.total_macs == 10 * 3 * 4
    assert (shapes(cost.graph)["last"], shapes(cost.graph)["all"]) == ((3,), (10, 4))


def test_scan_of_operator_set_8_runs_for_each_sequence_of_the_batch() -> None:
    body = graph(
        [node("Add", "state slice", "next"), node("MatMul", "next w", "out")],
        [value("state"), value("slice")],
        "next out",
    )
    made = model(
        [node("Scan", "- start xs", "last all", body=body, num_scan_inputs=1)],
        [value("start", (2, 3)), value("xs", (2, 10, 3))],
        "last all",
        [weight("w", 3, 4)],
        opset=8,
    )
    cost = count(made)
    assert cost.graph.ops[0].bodies[0].runs == 20
    assert cost.total_macs == 20 * 3 * 4
    assert (shapes(cost.graph)["last"], shapes(cost.graph)["all"]) == ((2, 3), (2, 10, 4))


def test_loop_within_a_branch_sees_both_blocks_around_it() -> None:
    body = loop_body()
    then = graph([node("Loop", "trips - x", "a s", body=body)], outputs="a")
    other = graph([node("Identity", "x", "a")], outputs="a")
    made = model(
        [node("If", "c", "y", then_branch=then, else_branch=other)],
        [value("x", (2, 3))],
        "y",
        [weight("w", 3, 3), numbers("trips", 7), numbers("c", True, np.bool_)],
    )
    cost = count(made)
    assert cost.total_macs == 7 * MATMUL
    assert cost.total_params == 9
    assert cost.known.all(), cost.reasons


def test_constants_of_a_body_are_parameters_too() -> None:
    then = graph([node("MatMul", "x inner", "a")], outputs="a", constants=[weight("inner", 3, 3)])
    other = graph([node("Identity", "x", "a")], outputs="a")
    made = model(
        [node("If", "c", "y", then_branch=then, else_branch=other)],
        [value("x", (2, 3)), value("c", (), BOOL)],
    )
    assert count(made).total_params == 9


@pytest.mark.parametrize("made", [looping(loop_body(), constants=[numbers("trips", 5)]), scan(0), scan(1)])
def test_runtime_makes_outputs_of_the_shapes_that_were_inferred(made: onnx.ModelProto) -> None:
    typed = onnx.ModelProto()
    typed.CopyFrom(made)
    for block in [typed.graph, *(each.g for each in typed.graph.node[0].attribute if each.name == "body")]:
        for each in (*block.input, *block.output):
            if not each.type.WhichOneof("value"):
                each.type.tensor_type.elem_type = BOOL if each.name == "go" else FLOAT
    session = onnxruntime.InferenceSession(typed.SerializeToString())
    feeds = {each.name: np.zeros(each.shape, np.float32) for each in session.get_inputs()}
    results = session.run(None, feeds)
    expected = dict(
        zip([each.name for each in session.get_outputs()], [each.shape for each in results], strict=True)
    )
    found = shapes(load(made))
    assert {name: found[name] for name in expected} == expected
