"""Tensors that an operator reads without producer or content: its scratch memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from formats.tflite.factory import File, options
from micro_interpreter import measure
from sizeup.memory import buffer_liveness, problem_of

VELA = "models/tflm_person_detect_vela.tflite"


def test_what_a_compiled_operator_works_in_counts(shared: Path) -> None:
    """Input 96 x 96, output 2, and twice 74,464 that the compiler asks for."""
    report = sizeup.analyze(shared / VELA)
    assert report.memory.peak_bytes == 9_216 + 2 + 2 * 74_464
    assert any("'_split_1_scratch'" in note and "ethos-u" in note for note in report.notes)
    assert report.memory.arena is not None
    assert report.memory.arena.head_bytes == 74_464  # the file's own plan, in which they share bytes


def test_no_plan_is_proven_to_be_the_best_where_bytes_may_be_shared(shared: Path) -> None:
    plan = sizeup.plan(shared / VELA)
    assert plan.status == "feasible"
    assert plan.lower_bound_bytes == 74_464


def network() -> bytes:
    """Two operators; the second also reads a tensor without content, 400 bytes."""
    file = File()
    graph = file.main
    data, between, output = (graph.tensor(name, (1, 8)) for name in ("given", "between", "made"))
    scratch = graph.tensor("scratch", (100,))
    graph.op("RELU", [data], [between])
    graph.op("ADD", [between, scratch], [output], options("AddOptions"))
    graph.ends([data], [output])
    return file.pack()


def test_it_is_there_from_the_start_to_the_last_operator_that_reads_it() -> None:
    graph = sizeup.load(network())
    assert buffer_liveness(graph).live_bytes().tolist() == [32 + 32 + 400, 32 + 400 + 32]
    problem = problem_of(graph)
    assert problem.initial_bytes == 32 + 400
    assert problem.peak([0, 1]) == 464


@pytest.mark.extras
def test_tflite_micro_plans_it_with_the_tensors() -> None:
    """Not as a state, which would be in the tail."""
    file = File()
    graph = file.main
    data, output, lost = (graph.tensor(name, (1, 8)) for name in ("given", "made", "lost"))
    graph.op("ADD", [data, lost], [output], options("AddOptions"))
    graph.ends([data], [output])
    content = file.pack()
    measured, arena = measure([content])[0], sizeup.analyze(sizeup.load(content)).memory.arena
    assert measured.failure == ""
    assert arena is not None
    assert (arena.head_bytes, arena.tail_bytes_64) == (measured.head, measured.tail) == (96, measured.tail)


def test_a_state_stays_in_the_tail(shared: Path) -> None:
    graph = sizeup.load(shared / "models/tflm_mnist_lstm_int8.tflite")
    assert not any(tensor.data is not None and tensor.data.role == "scratch" for tensor in graph.tensors)
