"""The least peak of any order, and the proof that none is lower."""

from __future__ import annotations

import time
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings

import sizeup
from memory.memory_graphs import branches, random_problem
from memory.planner_graphs import known_answers, read
from sizeup.errors import InvalidPlan
from sizeup.memory import check_order, lifetimes
from sizeup.memory.schedule import best_order
from sizeup.memory.schedule_problem import Problem, problem_of, static_bound

# Wide random graphs on which minutes of search prove nothing more, and three networks that take it
# longer than a test should: benchmarks/ordering.py runs them all.
HARD = {"hrnet_w18_nostem", "randwire_ws48_1stage", "randwire_ws64_1stage"}
HARD_RANDOM = {"rand_n100_w16", "rand_n150_w8", "rand_n75_w16"}
NETWORK_LIKE = 36


def _brute_force(problem: Problem) -> int:
    """The least peak over all orders that are possible; shares no code with the search."""
    maker = {buffer: op for op, made in enumerate(problem.makes) for buffer in made}
    least: int | None = None
    for order in permutations(range(problem.count)):
        place = {op: step for step, op in enumerate(order)}
        if any(
            buffer in maker and place[maker[buffer]] > place[op]
            for op, buffers in enumerate(problem.reads)
            for buffer in buffers
        ):
            continue
        peak = 0
        for step in range(problem.count):
            in_use = 0
            for buffer, size in enumerate(problem.sizes):
                first = place[maker[buffer]] if buffer in maker else 0
                uses = [place[op] for op, reads in enumerate(problem.reads) if buffer in reads]
                last = problem.count - 1 if problem.stays[buffer] else max([first, *uses])
                in_use += size if first <= step <= last else 0
            peak = max(peak, in_use)
        least = peak if least is None else min(least, peak)
    assert least is not None
    return least


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(random_problem(most_ops=6))
def test_search_agrees_with_brute_force(problem: Problem) -> None:
    found = best_order(problem)
    assert found.status == "optimal"
    assert found.peak_bytes == _brute_force(problem)
    assert problem.peak(found.order) == found.peak_bytes
    assert static_bound(problem) <= found.peak_bytes


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(random_problem(most_ops=30))
def test_every_order_is_valid_and_every_bound_holds(problem: Problem) -> None:
    found = best_order(problem, time_limit=2)
    assert sorted(found.order) == list(range(problem.count))
    assert found.lower_bound_bytes <= found.peak_bytes == problem.peak(found.order)
    assert found.peak_bytes <= problem.peak(range(problem.count))


def test_a_branch_is_finished_before_the_next_begins() -> None:
    # Input 100 B; two branches of 1000 B that shrink to 10 B each; their sum 10 B.
    graph = branches()
    assert int(lifetimes(graph).live_bytes().max()) == 2100
    found = best_order(problem_of(graph))
    check_order(graph, found.order)
    assert found.peak_bytes == int(lifetimes(graph, found.order).live_bytes().max()) == 1110
    assert found.status == "optimal"


def test_an_order_that_reads_before_it_makes_is_refused() -> None:
    graph = branches()
    with pytest.raises(InvalidPlan, match="before"):
        check_order(graph, [2, 0, 1, 3, 4])
    with pytest.raises(InvalidPlan, match="each of them once"):
        check_order(graph, [0, 0, 1, 2, 3])


@pytest.mark.slow
def test_known_answers_are_reproduced_and_no_bound_exceeds_one(shared: Path) -> None:
    folder = shared / "planner"
    proven = 0
    for known in known_answers(folder):
        problem = read(folder / "graphs" / f"{known.name}.txt")
        assert problem.peak(range(problem.count)) == known.given
        hard = known.name in HARD | HARD_RANDOM or not known.solved
        found = best_order(problem, time_limit=0.5 if hard else 60)
        assert problem.peak(found.order) == found.peak_bytes
        assert found.lower_bound_bytes <= known.best <= found.peak_bytes
        if not hard:
            assert (found.status, found.peak_bytes) == ("optimal", known.best), known.name
        proven += found.status == "optimal" and not known.name.startswith("rand_")
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
    assert int(lifetimes(graph).live_bytes().max()) == before
    started = time.process_time()
    found = best_order(problem_of(graph))
    assert time.process_time() - started < 2
    assert (found.peak_bytes, found.status) == (after, "optimal")
    assert int(lifetimes(graph, found.order).live_bytes().max()) == after


@pytest.mark.alone
@pytest.mark.parametrize("skip", [1, 4], ids=["chain", "with skips"])
def test_twenty_thousand_operators_take_seconds(skip: int) -> None:
    count = 20_000
    reads = tuple(tuple(sorted({op - 1, op - skip} & set(range(op)))) for op in range(count))
    sizes = tuple(100 + op % 7 for op in range(count))
    makes = tuple((op,) for op in range(count))
    problem = Problem(sizes, makes, reads, tuple(op == count - 1 for op in range(count)))
    started = time.process_time()
    found = best_order(problem)
    assert found.status == "optimal"
    assert time.process_time() - started < 10


def test_time_is_kept_and_the_bound_proven_so_far_is_told(shared: Path) -> None:
    problem = read(shared / "planner" / "graphs" / "rand_n400_w16.txt")
    told: list[tuple[int, int]] = []
    started = time.monotonic()
    found = best_order(problem, time_limit=2, progress=lambda low, high: told.append((low, high)))
    assert time.monotonic() - started < 8
    assert found.status == "feasible"
    assert told == sorted(told)
    assert all(low <= found.lower_bound_bytes < found.peak_bytes <= high for low, high in told)


@pytest.mark.extras
def test_state_is_written_and_read_in_the_given_order(shared: Path) -> None:
    graph = sizeup.load(shared / "models" / "pmw_alexa.tflite")
    order = best_order(problem_of(graph)).order
    stateful = ("variable", "read_variable", "assign_variable", "call_once")
    kept = [index for index in order if graph.ops[index].kind in stateful]
    assert len(kept) > 10
    assert kept == sorted(kept)
