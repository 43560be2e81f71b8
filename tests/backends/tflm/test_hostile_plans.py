"""Memory plans in files that let the interpreter compute something else: none may lead to a YES."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

from ai_edge_litert import schema_py_generated as schema
from tflite_micro import runtime
from typer.testing import CliRunner

import sizeup
from formats.tflite.factory import File, options, quantized
from micro_interpreter import measure
from sizeup.backends.tflm import arena
from sizeup.cli import app
from sizeup.runtimes.inference import infer_once

pytestmark = pytest.mark.extras

TARGET = "stm32f746/tflm"
SIZE = 4 * 64  # bytes of a tensor


def network(seed: int = 0) -> File:
    """Elementwise operators that read tensors made long before."""
    random, file = np.random.default_rng(seed), File()
    tensors = [file.main.tensor("t0", (64,))]
    for number in range(1, 7):
        tensors.append(file.main.tensor(f"t{number}", (64,)))
        if number % 2:
            file.main.op("LOGISTIC", [tensors[-2]], [tensors[-1]])
        else:
            other = tensors[int(random.integers(number - 1))]
            file.main.op("ADD", [tensors[-2], other], [tensors[-1]], options("AddOptions"))
    file.main.ends(tensors[:1], tensors[-1:])
    return file


def planned(file: File, *plans: Sequence[int], header: Sequence[int] | None = None) -> File:
    """The file with those plans, in that order."""
    file.model.metadata = []
    for offsets in plans:
        entry = schema.MetadataT()
        entry.name = "OfflineMemoryAllocation"
        numbers = [*([1, 1, len(offsets)] if header is None else header), *offsets]
        entry.buffer = file.buffer(np.array(numbers, np.int32)) if numbers else 0
        file.model.metadata.append(entry)
    return file


def outputs(content: bytes, samples: int = 3) -> list[bytes]:
    """What the interpreter computes for random inputs."""
    interpreter = runtime.Interpreter.from_bytes(content)
    results, random = [], np.random.default_rng(1)
    for _ in range(samples):
        details = interpreter.get_input_details(0)
        numbers = random.normal(size=details["shape"]) * (30 if details["dtype"] == np.int8 else 1)
        interpreter.set_input(numbers.astype(details["dtype"]), 0)
        interpreter.invoke()
        results.append(interpreter.get_output(0).tobytes())
    return results


def saved(file: File, folder: Path, name: str = "model") -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(file.pack())
    return path


def answer(path: Path, **options: Any) -> sizeup.Check:
    return sizeup.check(path, TARGET, remedies=False, **options)


def test_a_plan_that_puts_everything_at_one_offset_is_believed_nowhere(tmp_path: Path) -> None:
    plain, path = saved(network(), tmp_path), saved(planned(network(), [0] * 7), tmp_path, "planned")
    assert outputs(plain.read_bytes()) != outputs(path.read_bytes())
    reason = "the memory plan in the file lets live tensors overlap: 't0' and 't1'"
    assert answer(plain, run=False).fits is True
    check = answer(path, run=False)
    assert check.fits is False
    assert reason in str(check.unsupported_reason)
    assert sizeup.check(path, arena=4 * SIZE, remedies=False).fits is None
    report = sizeup.analyze(path)
    assert (report.memory.arena, report.memory.unsupported_reason) == (None, reason)
    assert sizeup.plan(path).unsupported_reason == reason
    totals = {total.name: total for total in sizeup.compare(plain, path).totals}
    assert totals["arena_head_bytes"].b is None
    written = tmp_path / "written.tflite"
    optimization = sizeup.optimize(path, written, plan=False)
    assert any(reason in note for note in optimization.notes)
    assert outputs(written.read_bytes()) == outputs(plain.read_bytes())


def test_the_verbs_say_so(tmp_path: Path) -> None:
    plain, path = saved(network(), tmp_path), saved(planned(network(), [0] * 7), tmp_path, "planned")
    for words in (["analyze", path], ["plan", path], ["compare", plain, path], ["check", path, "-d", TARGET]):
        shown = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})
        assert "lets live tensors overlap: 't0' and 't1'" in " ".join(shown.stdout.split()), words[0]


@pytest.mark.parametrize("seed", range(16))
def test_a_plan_with_a_yes_computes_what_the_file_computes_without_it(seed: int, tmp_path: Path) -> None:
    """Random plans with a few offsets: those that pass are no others than those that compute the same."""
    random = np.random.default_rng(seed)
    offsets = (SIZE // 2 * random.integers(0, 5, 7)).tolist()
    if seed % 2:
        offsets[int(random.integers(7))] = -1
    if seed % 4 == 0:  # apart, but for one pair
        offsets = [SIZE * number for number in range(7)]
        offsets[int(random.integers(7))] = SIZE * int(random.integers(7))
    path = saved(planned(network(seed), offsets), tmp_path)
    is_equal = outputs(path.read_bytes()) == outputs(network(seed).pack())
    if answer(path, run=False).fits:
        assert is_equal
    assert infer_once(path).outcome == ("ran" if is_equal else "differs")


def test_some_random_plans_pass() -> None:
    """The test above is not about refusals alone."""
    for offsets in ([SIZE * number for number in range(7)], [SIZE * (number % 5) for number in range(7)]):
        assert arena(network(1).load(), offsets=offsets, overlap=True).head_bytes <= 7 * SIZE


def test_the_host_run_finds_what_the_rules_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(planned(network(), [0] * 7), tmp_path)
    monkeypatch.setattr(sys.modules["sizeup.backends.tflm.arena"], "check_plan", lambda *_: None)
    check = answer(path, run=True)
    assert check.fits is False
    assert "differ from those without the memory plan" in str(check.unsupported_reason)


def test_of_several_plans_the_last_one_counts(tmp_path: Path) -> None:
    """As in the interpreter: all must have one offset per tensor."""
    apart = [SIZE * (number % 4) * 2 for number in range(7)]
    wrong = saved(planned(network(), apart, [0] * 7), tmp_path)
    assert outputs(wrong.read_bytes()) == outputs(planned(network(), [0] * 7).pack())
    assert answer(wrong).fits is False
    right = planned(network(), [-1] * 7, apart)
    head = arena(right.load(), offsets=right.load().offsets).head_bytes
    assert head == measure([right.pack()])[0].head
    other = planned(network(), [0] * 6, apart)
    assert "offline buffer offsets" in measure([other.pack()])[0].failure
    assert answer(saved(other, tmp_path), run=False).fits is False


@pytest.mark.parametrize("header", [[1, 1, 8], [1, 1, 70_000], [1, 1, -1], [1, 1, 6], [1]])
def test_a_plan_that_declares_other_tensors_than_it_has_is_refused(header: list[int], tmp_path: Path) -> None:
    path = saved(planned(network(), [-1] * 7 if len(header) > 1 else [], header=header), tmp_path)
    assert answer(path, run=False).fits is False


def test_a_plan_without_content_is_refused(tmp_path: Path) -> None:
    file = planned(network(), [-1] * 7)
    file.model.metadata[0].buffer = 0
    assert "ended with -11" in measure([file.pack()])[0].failure
    assert answer(saved(file, tmp_path), run=False).fits is False


@pytest.mark.parametrize(("offset", "fits"), [(1, False), (2, False), (4, True)])
def test_elements_are_aligned(offset: int, fits: bool, tmp_path: Path) -> None:
    """Cores for microcontrollers fault where the host does not."""
    apart = [1024 * number + offset for number in range(7)]
    assert answer(saved(planned(network(), apart), tmp_path)).fits is fits


@pytest.mark.parametrize("offset", [2**31 - 16, 2**30])
def test_a_plan_that_ends_beyond_the_memory_does_not_fit(offset: int, tmp_path: Path) -> None:
    path = saved(planned(network(), [-1] * 6 + [offset]), tmp_path)
    assert answer(path, run=False).fits is False


def _with_state() -> File:
    """One SVDF, whose state outlives a run, and negations before and after it."""
    file = File()
    graph, scale = file.main, quantized([0.5])
    given = graph.tensor("given", (2, 3), "INT8", quantization=scale)
    data = graph.tensor("in", (2, 3), "INT8", quantization=scale)
    features = graph.tensor("features", (8, 3), "INT8", np.ones(24, np.int8), quantization=scale)
    times = graph.tensor("times", (8, 5), "INT16", np.full(40, 99, np.int16), quantization=scale)
    bias = graph.tensor("bias", (4,), "INT32", np.zeros(4, np.int32), quantization=quantized([0.25]))
    state = graph.tensor("state", (2, 40), "INT16", isVariable=True, quantization=scale)
    result = graph.tensor("out", (2, 4), "INT8", quantization=scale)
    graph.op("RELU", [given], [data])
    graph.op("SVDF", [data, features, times, bias, state], [result], options("SVDFOptions", rank=2))
    graph.ends([given], [result])
    return file


@pytest.mark.parametrize(("offset", "fits"), [(512, True), (0, False)])
def test_a_variable_shares_its_bytes_with_nothing(offset: int, fits: bool, tmp_path: Path) -> None:
    """The input is read before the variable is: apart for the planner, which knows one inference only."""
    path = saved(planned(_with_state(), [0, 256, -1, -1, -1, offset, 272]), tmp_path)
    assert (outputs(path.read_bytes()) == outputs(_with_state().pack())) is fits
    assert answer(path, run=False).fits is fits


def test_leftovers_of_a_converter_may_share_bytes(tmp_path: Path) -> None:
    file = network()
    for number in range(3):
        file.main.tensor(f"leftover{number}", (64,))
    apart = [SIZE * number for number in range(7)]
    assert answer(saved(planned(file, [*apart, 0, 0, 0]), tmp_path), run=True).fits is True
