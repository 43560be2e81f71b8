"""The least peak of any order, and the proof that none is lower."""

from __future__ import annotations

import time
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings

import sizeup
from memory.memory_graphs import BYTE, branches, random_problem
from memory.planner_graphs import known_answers, read
from sizeup.errors import InvalidPlan
from sizeup.graph import GraphBuilder
from sizeup.memory import buffer_liveness, check_schedule
from sizeup.memory.schedule import best_schedule
from sizeup.memory.schedule_problem import ScheduleProblem, problem_of, static_bound
from timing import undisturbed

# Wide random graphs on which minutes of search prove nothing more, and three networks that take it
# longer than a test should: benchmarks/ordering.py runs them all.
HARD = {"hrnet_w18_nostem", "randwire_ws48_1stage", "randwire_ws64_1stage"}
HARD_RANDOM = {"rand_n100_w16", "rand_n150_w8", "rand_n75_w16"}
NETWORK_LIKE = 36


def _brute_force(problem: ScheduleProblem) -> int:
    """The least peak over all orders that are possible; shares no code with the search."""
    producer = {buffer: op for op, outputs in enumerate(problem.outputs) for buffer in outputs}
    least: int | None = None
    for order in permutations(range(problem.count)):
        place = {op: step for step, op in enumerate(order)}
        if any(
            buffer in producer and place[producer[buffer]] > place[op]
            for op, buffers in enumerate(problem.inputs)
            for buffer in buffers
        ):
            continue
        peak = 0
        for step in range(problem.count):
            in_use = 0
            for buffer, size in enumerate(problem.sizes):
                first = place[producer[buffer]] if buffer in producer else 0
                uses = [place[op] for op, inputs in enumerate(problem.inputs) if buffer in inputs]
                last = problem.count - 1 if problem.is_output[buffer] else max([first, *uses])
                in_use += size if first <= step <= last else 0
            peak = max(peak, in_use)
        least = peak if least is None else min(least, peak)
    assert least is not None
    return least


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(random_problem(most_ops=6))
def test_search_agrees_with_brute_force(problem: ScheduleProblem) -> None:
    schedule = best_schedule(problem)
    assert schedule.status == "optimal"
    assert schedule.peak_bytes == _brute_force(problem)
    assert problem.peak(schedule.ops) == schedule.peak_bytes
    assert static_bound(problem) <= schedule.peak_bytes


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(random_problem(most_ops=30))
def test_every_order_is_valid_and_every_bound_holds(problem: ScheduleProblem) -> None:
    schedule = best_schedule(problem, time_limit=2)
    assert sorted(schedule.ops) == list(range(problem.count))
    assert schedule.lower_bound_bytes <= schedule.peak_bytes == problem.peak(schedule.ops)
    assert schedule.peak_bytes <= problem.peak(range(problem.count))


def test_a_branch_is_finished_before_the_next_begins() -> None:
    # Input 100 B; two branches of 1000 B that shrink to 10 B each; their sum 10 B.
    graph = branches()
    assert int(buffer_liveness(graph).live_bytes().max()) == 2100
    schedule = best_schedule(problem_of(graph))
    check_schedule(graph, schedule.ops)
    assert schedule.peak_bytes == int(buffer_liveness(graph, schedule.ops).live_bytes().max()) == 1110
    assert schedule.status == "optimal"


def test_an_output_of_the_graph_is_live_until_the_end_though_no_op_reads_it() -> None:
    builder = GraphBuilder("early output")
    x = builder.input("x", (4,), BYTE)
    early, wide, late = (
        builder.tensor(name, (size,), BYTE) for name, size in (("a", 100), ("b", 50), ("c", 1))
    )
    builder.op("repeat", [x], [early])
    builder.op("repeat", [x], [wide])
    builder.op("max", [wide], [late])
    builder.outputs += [early, late]
    schedule = best_schedule(problem_of(builder.freeze()))
    # The 100 B are written last, with the input and the other output; before that, 4 + 50 + 1 B are live.
    assert (schedule.ops, schedule.peak_bytes, schedule.status) == ((1, 2, 0), 4 + 1 + 100, "optimal")


def test_an_order_that_reads_before_it_makes_is_refused() -> None:
    graph = branches()
    with pytest.raises(InvalidPlan, match="before"):
        check_schedule(graph, [2, 0, 1, 3, 4])
    with pytest.raises(InvalidPlan, match="each of them once"):
        check_schedule(graph, [0, 0, 1, 2, 3])


@pytest.mark.slow
def test_known_answers_are_reproduced_and_no_bound_exceeds_one(shared: Path) -> None:
    folder = shared / "planner"
    proven = 0
    for known in known_answers(folder):
        problem = read(folder / "graphs" / f"{known.name}.txt")
        assert problem.peak(range(problem.count)) == known.file_order_peak
        hard = known.name in HARD | HARD_RANDOM or not known.solved
        schedule = best_schedule(problem, time_limit=0.5 if hard else 60)
        assert problem.peak(schedule.ops) == schedule.peak_bytes
        assert schedule.lower_bound_bytes <= known.best <= schedule.peak_bytes
        if not hard:
            assert (schedule.status, schedule.peak_bytes) == ("optimal", known.best), known.name
        proven += schedule.status == "optimal" and not known.name.startswith("rand_")
    assert proven >= NETWORK_LIKE - len(HARD) == 33


@pytest.mark.alone
@pytest.mark.extras
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("swiftnet_vww_uint8", 351_232, 301_056),
        ("swiftnet_vww_int8conv", 351_232, 301_056),
        ("mp_hand_recrop", 1_572_864, 1_310_720),
    ],
)
def test_real_networks_reach_their_least_peak(name: str, before: int, after: int, shared: Path) -> None:
    graph = sizeup.load(shared / "models" / f"{name}.tflite")
    assert int(buffer_liveness(graph).live_bytes().max()) == before
    with undisturbed() as taken:
        schedule = best_schedule(problem_of(graph))
    assert taken.seconds < 2
    assert (schedule.peak_bytes, schedule.status) == (after, "optimal")
    assert int(buffer_liveness(graph, schedule.ops).live_bytes().max()) == after


@pytest.mark.alone
@pytest.mark.parametrize("skip", [1, 4], ids=["chain", "with skips"])
def test_twenty_thousand_operators_take_seconds(skip: int) -> None:
    count = 20_000
    inputs = tuple(tuple(sorted({op - 1, op - skip} & set(range(op)))) for op in range(count))
    sizes = tuple(100 + op % 7 for op in range(count))
    outputs = tuple((op,) for op in range(count))
    problem = ScheduleProblem(sizes, outputs, inputs, tuple(op == count - 1 for op in range(count)))
    with undisturbed() as taken:
        schedule = best_schedule(problem)
    assert schedule.status == "optimal"
    assert taken.seconds < 10


@pytest.mark.slow
def test_time_is_kept_and_the_bound_proven_so_far_is_reported(shared: Path) -> None:
    problem = read(shared / "planner" / "graphs" / "rand_n400_w16.txt")
    bounds: list[tuple[int, int]] = []
    started = time.monotonic()
    schedule = best_schedule(problem, time_limit=2, progress=lambda low, high: bounds.append((low, high)))
    assert time.monotonic() - started < 8
    assert schedule.status == "feasible"
    assert bounds == sorted(bounds)
    assert all(low <= schedule.lower_bound_bytes < schedule.peak_bytes <= high for low, high in bounds)


@pytest.mark.extras
def test_state_is_written_and_read_in_the_given_order(shared: Path) -> None:
    graph = sizeup.load(shared / "models" / "pmw_alexa.tflite")
    order = best_schedule(problem_of(graph)).ops
    stateful = ("variable", "read_variable", "assign_variable", "call_once")
    kept = [index for index in order if graph.ops[index].kind in stateful]
    assert len(kept) > 10
    assert kept == sorted(kept)


# x (5 B) to a (3 B) and b (1 B), a to c and b to d (9 B each): c exists with a and b, or with a and x. An op
# alone needs at most 12 B. Within 12 B, the search starts before the first op, and gets no further than after
# the first two, in either order.
TWO_STATES = ScheduleProblem(
    (5, 3, 1, 9, 9), ((1,), (2,), (3,), (4,)), ((0,), (0,), (1,), (2,)), (False,) * 5, initial=(0,)
)


@pytest.mark.parametrize(("most", "bound", "states"), [(None, 13, 2), (1, 12, 1)])
def test_the_search_counts_its_states_and_stops_at_a_limit(most: int | None, bound: int, states: int) -> None:
    schedule = best_schedule(TWO_STATES, max_states=most)
    assert (schedule.peak_bytes, schedule.lower_bound_bytes, schedule.states) == (13, bound, states)


def test_the_search_reports_and_looks_at_the_clock_after_some_states(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_CLOCK_EVERY", "_REPORT_EVERY"):
        monkeypatch.setattr(f"sizeup.memory.schedule.{name}", 1)
    bounds: list[tuple[int, int]] = []
    best_schedule(TWO_STATES, progress=lambda low, high: bounds.append((low, high)))
    assert bounds == [(12, 13), (12, 13)]
    late = best_schedule(TWO_STATES, time_limit=-1)
    assert (late.peak_bytes, late.lower_bound_bytes, late.states) == (13, 12, 0)
