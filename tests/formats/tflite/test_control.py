"""Operators that run other subgraphs: bodies, how often they run, and calls that go round in circles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.tflite.factory import File, Subgraph, options
from sizeup.cost import count
from sizeup.errors import CorruptModel


def _dense(graph: Subgraph, units: int) -> Subgraph:
    """(1, 8) in, (1, units) out: 8 x units products."""
    data, out = graph.tensor("x", (1, 8)), graph.tensor("y", (1, units))
    weights = graph.tensor("w", (units, 8), data=np.zeros((units, 8), np.float32))
    graph.op("FULLY_CONNECTED", [data, weights], [out])
    graph.ends([data], [out])
    return graph


def _caller(name: str, settings: Any, inputs: int = 1) -> File:
    """A main graph of that one operator, on (1, 8) data."""
    file = File()
    data, out = file.main.tensor("x", (1, 8)), file.main.tensor("y", (1, 8))
    flag = file.main.tensor("flag", (1,), "BOOL")
    file.main.op(name, [flag, data][-inputs:], [out], settings)
    file.main.ends([flag, data], [out])
    return file


def test_if_shows_its_costliest_branch_as_unknown() -> None:
    file = _caller("IF", options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2), inputs=2)
    _dense(file.subgraph("small"), 4)
    _dense(file.subgraph("large"), 6)
    graph = file.load()
    cost = count(graph)
    assert [(body.name, body.runs) for body in graph.ops[0].bodies] == [("then", 1), ("else", 1)]
    assert (cost.total_macs, cost.known.tolist()) == (48, [False])
    # Parameters of both branches are in the file.
    assert cost.total_params == 32 + 48


def test_case_has_a_body_for_each_branch() -> None:
    file = _caller(
        "STABLEHLO_CASE", options("StablehloCaseOptions", branchSubgraphIndices=[1, 2, 1]), inputs=2
    )
    _dense(file.subgraph(), 4)
    _dense(file.subgraph(), 4)
    graph = file.load()
    assert [body.name for body in graph.ops[0].bodies] == ["branch 0", "branch 1", "branch 2"]
    assert (count(graph).total_macs, count(graph).known.tolist()) == (32, [True])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("CALL", options("CallOptions", subgraph=1)),
        (
            "STABLEHLO_COMPOSITE",
            options("StableHLOCompositeOptions", name="odml.dense", decompositionSubgraphIndex=1),
        ),
    ],
)
def test_call_costs_what_its_body_costs(name: str, settings: Any) -> None:
    file = _caller(name, settings)
    _dense(file.subgraph(), 4)
    graph = file.load()
    assert (count(graph).total_macs, count(graph).known.tolist()) == (32, [True])
    assert graph.ops[0].bodies[0].name == ("odml.dense" if "COMPOSITE" in name else "callee")


def test_call_once_costs_nothing_in_a_run_and_keeps_its_body() -> None:
    file = _caller("CALL_ONCE", options("CallOnceOptions", initSubgraphIndex=1))
    _dense(file.subgraph("init"), 4)
    graph = file.load()
    assert graph.ops[0].bodies[0].graph.name == "init"
    assert (count(graph).total_macs, count(graph).known.tolist()) == (0, [True])


# Loops


def _loop(
    comparison: str = "LESS",
    *,
    limit: int = 10,
    start: int | None = 0,
    step: int | None = 1,
    name: str = "WHILE",
    swapped: bool = False,
    limit_is_a_variable: bool = False,
) -> File:
    """A counter, data and perhaps a limit; the body is a dense layer of 8 x 8 products."""
    table = {"WHILE": "WhileOptions", "STABLEHLO_WHILE": "StablehloWhileOptions"}[name]
    file = File()
    main = file.main
    first = None if start is None else np.array([start], np.int32)
    variables = [main.tensor("i", (), "INT32", first), main.tensor("x", (1, 8))]
    results = [main.tensor("i_out", (), "INT32"), main.tensor("y", (1, 8))]
    if limit_is_a_variable:
        variables.append(main.tensor("n", (), "INT32", np.array([limit], np.int32)))
        results.append(main.tensor("n_out", (), "INT32"))
    main.op(name, variables, results, options(table, condSubgraphIndex=1, bodySubgraphIndex=2))
    main.ends([variables[1], *([variables[0]] if start is None else [])], results)
    _condition(file.subgraph("cond"), comparison, None if limit_is_a_variable else limit, swapped=swapped)
    _body(file.subgraph("body"), step, limit_is_a_variable=limit_is_a_variable)
    return file


def _condition(graph: Subgraph, comparison: str, limit: int | None, *, swapped: bool) -> None:
    inputs = [graph.tensor("i", (), "INT32"), graph.tensor("x", (1, 8))]
    if limit is None:
        bound = graph.tensor("n", (), "INT32")
        inputs.append(bound)
    else:
        bound = graph.tensor("limit", (), "INT32", np.array([limit], np.int32))
    go = graph.tensor("go", (), "BOOL")
    directions = {"LT": 5, "GT": 3, "NE": 1}
    settings = None
    if comparison in directions:
        settings = options("StablehloCompareOptions", comparisonDirection=directions[comparison])
    operands = [bound, inputs[0]] if swapped else [inputs[0], bound]
    graph.op("STABLEHLO_COMPARE" if settings else comparison, operands, [go], settings)
    graph.ends(inputs, [go])


def _body(graph: Subgraph, step: int | None, *, limit_is_a_variable: bool) -> None:
    _dense(graph, 8)
    counter, following = graph.tensor("i", (), "INT32"), graph.tensor("i_next", (), "INT32")
    if step is None:
        graph.op("SQUARE", [counter], [following])
    else:
        graph.op("ADD", [counter, graph.tensor("step", (), "INT32", np.array([step], np.int32))], [following])
    inputs, outputs = [counter, *graph.table.inputs], [following, *graph.table.outputs]
    if limit_is_a_variable:
        bound = graph.tensor("n", (), "INT32")
        inputs, outputs = [*inputs, bound], [*outputs, bound]
    graph.ends(inputs, outputs)


# `while i < 10: i += 3` from 0 runs at 0, 3, 6, 9; `i <= 10` from 1 by 3 at 1, 4, 7, 10.
LOOPS = [
    ({}, 10),
    ({"start": 4}, 6),
    ({"step": 3}, 4),
    ({"comparison": "LESS_EQUAL", "start": 1, "step": 3}, 4),
    ({"comparison": "GREATER", "swapped": True}, 10),
    ({"limit_is_a_variable": True}, 10),
    ({"start": 12}, 0),
    ({"name": "STABLEHLO_WHILE", "comparison": "LT"}, 10),
    ({"name": "STABLEHLO_WHILE", "comparison": "GT", "swapped": True}, 10),
]


@pytest.mark.parametrize(("settings", "runs"), LOOPS, ids=[str(settings) for settings, _ in LOOPS])
def test_loop_that_counts_to_a_constant_runs_that_often(settings: Any, runs: int) -> None:
    graph = _loop(**settings).load()
    assert [(body.name, body.runs) for body in graph.ops[0].bodies] == [("cond", runs + 1), ("body", runs)]
    assert count(graph).total_macs == 64 * runs
    assert count(graph).known.all()


@pytest.mark.parametrize(
    "settings",
    [
        {"start": None},
        {"step": None},
        {"step": 0},
        {"step": -1},
        {"comparison": "NOT_EQUAL"},
        {"comparison": "GREATER"},
        {"name": "STABLEHLO_WHILE", "comparison": "NE"},
    ],
    ids=str,
)
def test_loop_that_data_decides_is_unknown_and_shows_one_run(settings: Any) -> None:
    graph = _loop(**settings).load()
    assert [body.runs for body in graph.ops[0].bodies] == [None, None]
    assert (count(graph).total_macs, count(graph).known.tolist()) == (64, [False])


def test_loop_whose_limit_changes_is_unknown() -> None:
    file = _loop(limit_is_a_variable=True)
    body = file.model.subgraphs[2]
    body.outputs[2] = body.outputs[0]
    assert [body.runs for body in file.load().ops[0].bodies] == [None, None]


def test_loop_with_two_bounds_stops_at_the_first() -> None:
    file = _loop(limit=10)
    condition = file.model.subgraphs[1]
    graph = Subgraph(file, "cond")
    graph.table = condition
    second = graph.tensor("second", (), "INT32", np.array([7], np.int32))
    both, other = graph.tensor("both", (), "BOOL"), graph.tensor("other", (), "BOOL")
    graph.op("LESS", [condition.inputs[0], second], [other])
    graph.op("LOGICAL_AND", [condition.outputs[0], other], [both])
    condition.outputs = [both]
    assert [body.runs for body in file.load().ops[0].bodies] == [8, 7]


# Calls that lead nowhere


def test_subgraph_that_calls_itself_is_corrupt() -> None:
    file = _caller("CALL", options("CallOptions", subgraph=0))
    with pytest.raises(CorruptModel, match="calls itself"):
        file.load()


def test_subgraphs_that_call_each_other_are_corrupt() -> None:
    file = _caller("CALL", options("CallOptions", subgraph=1))
    other = _dense(file.subgraph(), 8)
    other.op("CALL", [0], [other.tensor("z", (1, 8))], options("CallOptions", subgraph=0))
    with pytest.raises(CorruptModel, match="calls itself"):
        file.load()


@pytest.mark.parametrize("index", [7, 2**31])
def test_call_of_a_subgraph_that_is_not_there_is_corrupt(index: int) -> None:
    with pytest.raises(CorruptModel, match="calls subgraph"):
        _caller("CALL", options("CallOptions", subgraph=index)).load()


def test_operator_without_the_options_that_name_its_body_is_corrupt() -> None:
    with pytest.raises(CorruptModel, match="WhileOptions are missing"):
        _caller("WHILE", None).load()


def test_calls_that_double_at_every_level_are_refused() -> None:
    # 40 subgraphs, each calling the next one twice, would run 2^40 operators.
    file = File()
    levels = [file.main, *(file.subgraph() for _ in range(40))]
    for place, level in enumerate(levels):
        data = level.tensor("x", (1, 8))
        outputs = [level.tensor("y", (1, 8)), level.tensor("z", (1, 8))]
        for out in outputs:
            if place < 40:
                level.op("CALL", [data], [out], options("CallOptions", subgraph=place + 1))
            else:
                level.op("RELU", [data], [out])
        level.ends([data], outputs)
    with pytest.raises(CorruptModel, match="nested subgraph calls execute too many operators"):
        file.load()


def test_calls_nested_too_deeply_are_refused() -> None:
    file = File()
    levels = [file.main, *(file.subgraph() for _ in range(3000))]
    for place, level in enumerate(levels):
        data, out = level.tensor("x", (1, 8)), level.tensor("y", (1, 8))
        level.op("CALL", [data], [out], options("CallOptions", subgraph=place + 1))
        level.ends([data], [out])
    with pytest.raises(CorruptModel, match="nested deeper"):
        file.load()


def test_subgraph_called_twice_is_read_once_and_its_parameters_count_once() -> None:
    file = _caller("CALL", options("CallOptions", subgraph=1))
    again = file.main.tensor("again", (1, 8))
    file.main.op("CALL", [0], [again], options("CallOptions", subgraph=1))
    _dense(file.subgraph(), 8)
    graph = file.load()
    assert graph.ops[0].bodies[0].graph is graph.ops[1].bodies[0].graph
    assert (count(graph).total_macs, count(graph).total_params) == (128, 64)
