"""`sizeup.plan`: orders and places, judged by counting from the definition."""

from __future__ import annotations

import csv
import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sizeup
from by_hand import clashes, in_use, spans
from memory.memory_graphs import branches
from memory.planner_graphs import known_answers, read
from networks import with_unknown
from sizeup.dtypes import dtype
from sizeup.errors import Incomplete, SizeupError
from sizeup.graph import Graph, GraphBuilder


def is_an_order(graph: Graph, order: tuple[int, ...]) -> bool:
    """Whether every operator runs once, and after those that make its inputs."""
    done: set[int] = set(graph.inputs)
    for index in order:
        if not done.issuperset(i for i in graph.ops[index].inputs if graph.tensors[i].data is None):
            return False
        done.update(graph.ops[index].outputs)
    return sorted(order) == list(range(len(graph.ops)))


def test_two_branches_are_run_one_after_the_other() -> None:
    graph = branches()
    # x 100, a and b 1,000 each, a2, b2 and out 10: a branch with x, plus the rest of the other.
    assert (
        max(in_use(graph)),
        min(max(in_use(graph, o)) for o in permutations(range(5)) if is_an_order(graph, o)),
    ) == (
        2_100,
        1_110,
    )
    plan = sizeup.plan(graph)
    assert (plan.file_schedule_peak_bytes, plan.peak_bytes, plan.plan_bytes) == (2_100, 1_110, 1_110)
    assert (plan.lower_bound_bytes, plan.status) == (1_110, "optimal")
    assert is_an_order(graph, plan.schedule)
    assert in_use(graph, plan.schedule)[plan.peak_step or 0] == 1_110
    assert clashes(graph, plan.schedule, plan.offsets) == []
    assert plan.moved_ops == 2


def test_without_reordering_the_order_stays_and_its_arena_is_the_least() -> None:
    plan = sizeup.plan(branches(), reorder=False)
    assert plan.schedule == (0, 1, 2, 3, 4)
    assert (plan.plan_bytes, plan.lower_bound_bytes, plan.status) == (2_100, 2_100, "optimal")
    assert plan.memory_plan.best_schedule is None


def test_an_alignment_is_kept_and_paid_for() -> None:
    graph = branches()
    plan = sizeup.plan(graph, alignment=16)
    # 1,008 + 112 + 16: each size rounded up.
    assert (plan.plan_bytes, plan.status) == (1_136, "optimal")
    assert [offset % 16 for offset in plan.offsets] == [0] * len(plan.offsets)
    assert clashes(graph, plan.schedule, plan.offsets) == []
    with pytest.raises(SizeupError, match="alignment is 0, not a number of bytes"):
        sizeup.plan(graph, alignment=0)


def test_sizes_follow_a_precision() -> None:
    builder = GraphBuilder("floats")
    x, y = builder.input("x", (100,), dtype("float32")), builder.tensor("y", (50,), dtype("float32"))
    builder.op("relu", [x], [y])
    builder.outputs.append(y)
    graph = builder.freeze()
    assert sizeup.plan(graph).plan_bytes == 600
    assert sizeup.plan(graph, precision="int8").plan_bytes == 150
    assert [place.dtype for place in sizeup.plan(graph, precision="int4").planned_tensors()] == [
        "int4",
        "int4",
    ]
    assert sizeup.plan(graph, precision="int4").plan_bytes == 75


def test_a_size_that_depends_on_data_is_no_zero() -> None:
    with pytest.raises(Incomplete, match="the size of 1 tensor depends on data: 'z'"):
        sizeup.plan(with_unknown())


@pytest.mark.parametrize(
    ("count", "names"), [(2, "'t0', 't1'"), (3, "'t0', 't1', 't2'"), (4, "'t0', 't1', 't2' and more")]
)
def test_tensors_of_unknown_size_are_named_up_to_three(count: int, names: str) -> None:
    """Strings have a shape, but no size."""
    builder = GraphBuilder("text")
    tensors = [builder.input(f"t{number}", (4,), dtype("string")) for number in range(count)]
    builder.outputs.append(tensors[0])
    with pytest.raises(Incomplete, match=f"the sizes of {count} tensors depend on data: {names}$"):
        sizeup.plan(builder.freeze())


def test_a_graph_without_operators_needs_its_inputs() -> None:
    builder = GraphBuilder("passed on")
    builder.outputs += [builder.input("x", (3,), dtype("int8")), builder.input("y", (4,), dtype("int8"))]
    plan = sizeup.plan(builder.freeze())
    assert (plan.plan_bytes, plan.peak_step, plan.status) == (7, None, "optimal")
    assert sorted(plan.offsets) in ([0, 3], [0, 4])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine operators that read any earlier tensors; tensors that are not read are outputs."""
    builder = GraphBuilder("random")
    tensors = [builder.input("in", (draw(st.integers(0, 40)),), dtype("int8"))]
    for number in range(draw(st.integers(1, 9))):
        read = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
        kind = draw(st.sampled_from(["int4", "int8", "float32"]))
        new = builder.tensor(f"t{number}", (draw(st.integers(0, 40)),), dtype(kind))
        builder.op("add" if len(read) > 1 else "cast", read, [new])
        tensors.append(new)
    read_at_all = {identity for op in builder.ops for identity in op.inputs}
    builder.outputs += [identity for identity in tensors if identity not in read_at_all]
    return builder.freeze()


@settings(deadline=None, max_examples=60)
@given(graph=graphs(), alignment=st.sampled_from([1, 4, 16]), reorder=st.booleans())
def test_any_plan_holds(graph: Graph, alignment: int, reorder: bool) -> None:
    plan = sizeup.plan(graph, alignment=alignment, reorder=reorder, time_limit=1)
    assert is_an_order(graph, plan.schedule)
    assert clashes(graph, plan.schedule, plan.offsets) == []
    spans_of = spans(graph, plan.schedule)
    assert all(plan.offsets[each] % alignment == 0 for each in spans_of)
    assert max(plan.offsets[each] + spans_of[each].bytes for each in spans_of) <= plan.plan_bytes
    assert plan.peak_bytes == max(in_use(graph, plan.schedule))
    assert plan.file_schedule_peak_bytes == max(in_use(graph))
    assert plan.lower_bound_bytes <= plan.plan_bytes
    assert plan.peak_bytes <= plan.plan_bytes
    if alignment == 1 and len(graph.ops) <= 6:
        orders = [o for o in permutations(range(len(graph.ops))) if is_an_order(graph, o)]
        least = min(max(in_use(graph, order)) for order in (orders if reorder else [plan.schedule]))
        assert plan.lower_bound_bytes <= least <= plan.peak_bytes


def test_the_data_says_the_same_as_the_plan(tmp_path: Path) -> None:
    plan = sizeup.plan(branches())
    plan.save(tmp_path / "plan.json")
    data = json.loads((tmp_path / "plan.json").read_text("utf-8"))
    assert data == plan.to_dict()
    assert data["peak"]["file_schedule_bytes"] == 2_100
    assert data["plan"] == {
        "bytes": 1_110,
        "lower_bound_bytes": 1_110,
        "status": "optimal",
        "alignment_bytes": 1,
    }
    assert sorted(data["schedule"]["ops"]) == [0, 1, 2, 3, 4]
    assert data["tflite_micro"] is None
    plan.save(tmp_path / "plan.csv")
    with (tmp_path / "plan.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["x", "a", "b", "a2", "b2", "out"]
    spans_of = spans(branches(), plan.schedule)
    for row, (identity, span) in zip(rows, spans_of.items(), strict=True):
        assert int(row["tensor"]) == identity
        assert (int(row["bytes"]), int(row["first_step"]), int(row["last_step"])) == span
        assert int(row["offset"]) == plan.offsets[identity]
    with pytest.raises(SizeupError, match=r"written as \.json or \.csv"):
        plan.save(tmp_path / "plan.txt")


@pytest.mark.extras
def test_swiftnet_is_proven_to_need_301056_bytes(shared: Path) -> None:
    plan = sizeup.plan(shared / "models/swiftnet_vww_uint8.tflite")
    assert (plan.file_schedule_peak_bytes, plan.peak_bytes) == (351_232, 301_056)
    assert (plan.plan_bytes, plan.lower_bound_bytes, plan.status) == (301_056, 301_056, "optimal")
    assert plan.offsets != plan.graph.offsets


@pytest.mark.extras
@pytest.mark.parametrize(
    ("name", "peak", "shipped", "live"),
    # What models/README.md gives as live and as measured in TFLite Micro; for the last, its best plan.
    [("mlperf_kws_int8", 16_000, 16_000, 16_000), ("mlperf_vww96_int8", 55_296, 73_728, 55_296)],
)
def test_what_tflite_micro_takes_as_shipped_stands_beside(
    shared: Path, name: str, peak: int, shipped: int, live: int
) -> None:
    plan = sizeup.plan(shared / f"models/{name}.tflite")
    assert plan.plan_bytes == plan.peak_bytes == peak
    assert plan.tflm_arena is not None
    assert (plan.tflm_arena.head_bytes, plan.tflm_arena.live_bytes) == (shipped, live)


def test_a_search_tells_how_far_it_is(shared: Path) -> None:
    known = next(each for each in known_answers(shared / "planner") if not each.solved)
    problem = read(shared / "planner/graphs" / f"{known.name}.txt")
    builder = GraphBuilder(known.name)
    for number, size in enumerate(problem.sizes):
        builder.tensor(f"t{number}", (size,), dtype("int8"))
    for number, inputs in enumerate(problem.inputs):
        builder.op("add", inputs, [number])
    builder.outputs += [number for number, is_output in enumerate(problem.is_output) if is_output]
    heard: list[tuple[str, int, int]] = []
    plan = sizeup.plan(builder.freeze(), time_limit=1, progress=lambda *news: heard.append(news))
    assert {what for what, _, _ in heard} <= {"schedule", "arena"}
    orders = [(bound, best) for what, bound, best in heard if what == "schedule"]
    assert orders
    assert all(bound <= known.best and best >= known.proven for bound, best in orders)
    assert plan.status == "feasible"
    assert plan.lower_bound_bytes <= known.best
    assert known.proven <= plan.peak_bytes <= plan.plan_bytes
