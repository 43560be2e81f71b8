"""Control flow costs what the graphs that it runs cost, as often as it runs them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.cost import Cost, count
from sizeup.dtypes import dtype, precision
from sizeup.graph import Body, Constant, Graph, GraphBuilder

FLOAT = dtype("float32")


def product(width: int, weight: Constant | None = None, name: str = "body") -> Graph:
    """A body of width x width MACs, `width` elementwise operations and width x width parameters."""
    builder = GraphBuilder(name)
    x = builder.input("x", (1, width), FLOAT)
    w = builder.tensor("w", (width, width), FLOAT, weight or Constant("parameter"))
    y = builder.tensor("y", (1, width), FLOAT)
    z = builder.tensor("z", (1, width), FLOAT)
    builder.op("matmul", [x, w], [y], {"contracted": (1,)})
    builder.op("relu", [y], [z])
    builder.outputs.append(z)
    return builder.freeze()


def around(kind: str, *bodies: Body) -> Graph:
    builder = GraphBuilder("outer")
    x = builder.input("x", (1, 4), FLOAT)
    y = builder.tensor("y", (1, 4), FLOAT)
    builder.op(kind, [x], [y], bodies=bodies, source=kind)
    builder.outputs.append(y)
    return builder.freeze()


def mystery() -> Graph:
    builder = GraphBuilder("dark")
    x = builder.input("x", (1, 4), FLOAT)
    builder.op("mystery", [x], [builder.tensor("y", (1, 4), FLOAT)], source="Mystery")
    return builder.freeze()


def row_of(graph: Graph) -> tuple[int, int, int, bool]:
    cost = count(graph)
    return cost.total_macs, cost.total_elementwise, cost.total_params, bool(cost.known[0])


@pytest.mark.parametrize("kind", ["call", "loop", "scan"])
@pytest.mark.parametrize("runs", [0, 1, 7])
def test_a_body_costs_as_often_as_it_runs(kind: str, runs: int) -> None:
    assert row_of(around(kind, Body("body", product(4), runs))) == (16 * runs, 4 * runs, 16, True)


def test_several_bodies_of_a_loop_add_up() -> None:
    # A while loop of three rounds asks its condition a fourth time.
    graph = around("loop", Body("condition", product(2), 4), Body("body", product(4), 3))
    assert row_of(graph) == (4 * 4 + 3 * 16, 4 * 2 + 3 * 4, 4 + 16, True)


def test_traffic_repeats_with_the_body_and_rounds_each_time() -> None:
    builder = GraphBuilder("body")
    x = builder.input("x", (3,), dtype("int4"))
    builder.op("relu", [x], [builder.tensor("y", (3,), dtype("int4"))])
    cost = count(around("loop", Body("body", builder.freeze(), 5)))
    assert cost.bytes_at().read.tolist() == [5 * 2]  # three halves of a byte are two bytes, five times
    assert cost.bytes_at().written.tolist() == [5 * 2]


def test_a_loop_whose_rounds_data_decides_shows_one_and_says_so() -> None:
    cost = count(around("loop", Body("body", product(4), None)))
    assert cost.total_macs == 16
    assert cost.reasons == {0: "the trip count depends on data; one iteration is counted"}


def test_a_branch_is_known_where_all_agree() -> None:
    assert row_of(around("if", Body("then", product(4)), Body("else", product(4)))) == (16, 4, 32, True)


def test_a_branch_that_data_decides_shows_the_costliest_and_says_so() -> None:
    cost = count(around("if", Body("then", product(2)), Body("else", product(4))))
    assert cost.total_macs == 16
    assert cost.reasons == {0: "the branch depends on data; the costliest one is counted"}


def test_branches_that_differ_in_elementwise_work_alone_do_not_agree() -> None:
    builder = GraphBuilder("idle")
    builder.outputs.append(builder.input("x", (1, 4), FLOAT))
    busy = GraphBuilder("busy")
    busy.op("relu", [busy.input("x", (1, 4), FLOAT)], [busy.tensor("y", (1, 4), FLOAT)])
    cost = count(around("if", Body("then", builder.freeze()), Body("else", busy.freeze())))
    assert cost.total_elementwise == 4
    assert cost.known.tolist() == [False]


@pytest.mark.parametrize("dark_first", [True, False])
def test_an_unknown_operator_in_any_branch_makes_the_branch_unknown(dark_first: bool) -> None:
    bodies = [Body("dark", mystery()), Body("light", GraphBuilder("light").freeze())]
    cost = count(around("if", *(bodies if dark_first else bodies[::-1])))
    assert cost.reasons == {0: "no cost rule for Mystery"}


def test_what_runs_once_before_the_first_inference_costs_nothing_in_a_run() -> None:
    cost = count(around("call_once", Body("setup", product(4))))
    assert (cost.total_macs, cost.bytes_at().read.tolist(), cost.known.tolist()) == (0, [0], [True])
    assert cost.total_params == 16


@pytest.mark.parametrize("kind", ["if", "loop", "scan", "call"])
def test_control_flow_without_its_graph_is_not_free(kind: str) -> None:
    assert count(around(kind)).reasons == {0: "its body was not loaded"}


def test_bodies_nest() -> None:
    inner = around("loop", Body("body", product(4), 3))
    both = around("if", Body("then", inner), Body("else", inner))
    assert row_of(around("loop", Body("body", both, 5))) == (5 * 3 * 16, 5 * 3 * 4, 16, True)


def test_an_unknown_operator_deep_inside_is_reported_outside() -> None:
    nested = around("call", Body("body", around("loop", Body("body", mystery(), 2))))
    assert count(nested).reasons == {0: "no cost rule for Mystery"}


def test_weights_shared_between_bodies_count_once() -> None:
    shared = Constant("parameter")
    cost: Cost = count(around("if", Body("then", product(4, shared)), Body("else", product(4, shared))))
    assert cost.total_params == 16
    assert cost.params.tolist() == [16]
    assert cost.bytes_at(precision("int8")).weights == 16


def test_a_loop_of_practically_endless_rounds_is_not_known() -> None:
    cost = count(around("loop", Body("body", product(4), 2**63 - 1)))
    assert cost.reasons == {0: "its count does not fit 64 bits"}


def nested(depths: Sequence[tuple[str, int]]) -> Graph:
    graph = product(3)
    for kind, runs in depths:
        branches = 2 if kind == "if" else 1
        graph = around(kind, *(Body(f"{kind}{place}", graph, runs) for place in range(branches)))
    return graph


@given(st.lists(st.tuples(st.sampled_from(["if", "loop", "scan", "call"]), st.integers(0, 4)), max_size=5))
@settings(deadline=None)
def test_any_nesting_multiplies(depths: list[tuple[str, int]]) -> None:
    times = 1
    for _, runs in depths:
        times *= runs
    cost = count(nested(depths))
    assert cost.total_macs == 9 * times
    assert cost.total_elementwise == 3 * times
    assert sum(cost.bytes_at().read.tolist()) == 4 * times * (3 + 9 + 3)
    assert sum(cost.bytes_at().written.tolist()) == 4 * times * 6
    assert cost.total_params == 9
