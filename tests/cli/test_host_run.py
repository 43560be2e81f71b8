"""One inference on the host in `sizeup check`: its outcomes, its limits, and when there is none."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

import sizeup
from cli.running import Run
from formats.tflite.factory import File, options
from micro_kernels import Case, Value
from sizeup.backends.tflm import host_run, support
from sizeup.runtimes import inference
from sizeup.runtimes.inference import Inference, infer_once
from sizeup.runtimes.process import Library

pytestmark = pytest.mark.extras

RAN = "one inference ran on the host (TFLite Micro, reference kernels)"
RELU = Case("RELU", [Value((1, 8))], [Value((1, 8))])
TARGET = ("-d", "stm32f746/tflm")
# The interpreter refuses it, as its options are missing.
NO_BLOCK = Case("DEPTH_TO_SPACE", [Value((1, 4, 4, 16))], [Value((1, 8, 8, 4))])
# Dies of an assertion while it allocates tensors, and of a missing operand during inference.
ABORTS = Case("SOFTMAX", [Value((1, 10), "INT8")], [Value((1, 10), "INT8", scale=1 / 256, zero=-128)])
SEGFAULTS = Case("LOGICAL_AND", [Value((1, 32), "BOOL")], [Value((1, 32), "BOOL")])


@pytest.fixture
def _no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that miss what the interpreter refuses."""
    monkeypatch.setattr(support, "COMMON", ())
    monkeypatch.setattr(support, "RULES", {})


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    yield
    assert not list(_children())


def _children() -> Iterator[str]:
    """The command lines of this process's subprocesses that are workers, zombies included."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if parent == os.getpid() and (not command or "sizeup.workers" in command):
            yield command or "zombie"


def _write(folder: Path, model: Case | File, name: str = "model.tflite") -> Path:
    path = folder / name
    path.write_bytes(model.pack())
    return path


def _endless_loop() -> File:
    """A loop that adds 0 until the sum is 3."""
    file = File()
    count, counted = file.main.tensor("count", (1,), "INT32"), file.main.tensor("counted", (1,), "INT32")
    loop = options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    file.main.op("WHILE", [count], [counted], loop)
    file.main.ends([count], [counted])
    condition = file.subgraph("condition")
    number, limit = (
        condition.tensor("number", (1,), "INT32"),
        condition.tensor("limit", (1,), "INT32", np.array([3], np.int32)),
    )
    goes_on = condition.tensor("goes on", (1,), "BOOL")
    condition.op("LESS", [number, limit], [goes_on])
    condition.ends([number], [goes_on])
    body = file.subgraph("body")
    number, zero = (
        body.tensor("number", (1,), "INT32"),
        body.tensor("zero", (1,), "INT32", np.array([0], np.int32)),
    )
    same = body.tensor("same", (1,), "INT32")
    body.op("ADD", [number, zero], [same], options("AddOptions"))
    body.ends([number], [same])
    return file


def test_a_file_that_runs_says_so_in_text_and_json(run: Run, tmp_path: Path) -> None:
    path = _write(tmp_path, RELU)
    ended = run("check", path, *TARGET)
    assert ended.code == 0
    assert ended.out.splitlines()[:2] == [
        "YES: model (tflite) fits on stm32f746/tflm",
        f"  host run     {RAN}",
    ]
    content = json.loads(run("check", path, *TARGET, "--json").out)
    runtime = "TFLite Micro, reference kernels"
    assert content["host_run"] == {"runtime": runtime, "outcome": "ran", "reason": None}


@pytest.mark.usefixtures("_no_rules")
def test_a_file_that_the_interpreter_refuses_does_not_fit(run: Run, tmp_path: Path) -> None:
    path = _write(tmp_path, NO_BLOCK)
    assert run("check", path, *TARGET, "--no-run").out.startswith("YES: ")
    ended = run("check", path, *TARGET)
    assert ended.code == 1
    text = " ".join(ended.out.split())
    assert text.startswith(
        "NO: model (tflite) cannot run on stm32f746/tflm unsupported TFLite Micro's interpreter refuses"
        " this file on the host: "
    )
    assert "Node DEPTH_TO_SPACE (number 0) failed to prepare with status 1" in text
    assert "Remed" not in ended.out
    content = json.loads(run("check", path, *TARGET, "--json").out)
    assert (content["fits"], content["host_run"]["outcome"]) == (False, "refused")
    assert content["host_run"]["reason"] in content["unsupported_reason"]


def test_what_the_rules_miss_is_refused_by_the_interpreter(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path, Case("NEG", [Value((2, 9), "INT8")], [Value((2, 9), "INT8")]))
    assert "takes float32, not int8" in " ".join(run("check", path, *TARGET).out.split())
    monkeypatch.delitem(support.RULES, "NEG")
    assert run("check", path, *TARGET, "--no-run").out.startswith("YES: ")
    ended = run("check", path, *TARGET)
    assert ended.code == 1
    assert "Node NEG (number 0) failed to invoke" in " ".join(ended.out.split())


@pytest.mark.usefixtures("_no_rules")
@pytest.mark.parametrize(("case", "signal"), [(ABORTS, "SIGABRT"), (SEGFAULTS, "SIGSEGV")])
def test_a_crash_is_undetermined(run: Run, tmp_path: Path, case: Case, signal: str) -> None:
    path = _write(tmp_path, case)
    assert run("check", path, *TARGET, "--no-run").code == 0
    ended = run("check", path, *TARGET)
    assert ended.code == 3
    assert ended.out.startswith("UNDETERMINED: model (tflite)")
    reason = f"TFLite Micro crashed ({signal}) on the host"
    assert f"  host run     {reason}; --no-run skips it" in ended.out
    junit = tmp_path / "check.xml"
    content = json.loads(run("check", path, *TARGET, "--json", "--junit", junit).out)
    assert (content["fits"], content["host_run"]["reason"]) == (None, reason)
    (error,) = ElementTree.parse(junit).getroot().iter("error")
    assert (error.get("message") or "").startswith(reason)
    assert reason in run("check", path, *TARGET, "--github").out.partition("::warning")[2]
    # What does not fit anyway does not fit.
    assert run("check", path, *TARGET, "--ram", "64B", "--run").code == 1


def test_a_timeout_is_undetermined(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path, _endless_loop())
    assert run("check", path, *TARGET, "--no-run").code == 0
    monkeypatch.setattr(host_run, "infer_once", functools.partial(infer_once, seconds=1.5))
    ended = run("check", path, *TARGET)
    assert ended.code == 3
    assert "TFLite Micro took longer than 1.5 s on the host" in " ".join(ended.out.split())


def test_too_much_memory_is_undetermined(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Value((1, 1 << 26))  # 256 MiB, as much as the arena
    path = _write(tmp_path, Case("RELU", [large], [large]))
    ended = run("check", path, *TARGET, "--ram", "8GiB")
    assert ended.code == 3
    assert "TFLite Micro needs an arena above 256 MiB on the host" in " ".join(ended.out.split())
    # The arena itself is more than the worker may have.
    path = _write(tmp_path, RELU, "small.tflite")
    monkeypatch.setattr(host_run, "infer_once", functools.partial(infer_once, memory_bytes=1 << 27))
    monkeypatch.setattr(inference, "_cache", {})
    text = " ".join(run("check", path, *TARGET).out.split())
    assert "TFLite Micro takes more than 128 MiB on the host" in text


def test_nothing_runs_with_no_run_or_if_the_verdict_is_no(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []

    def infer(file: Path) -> Inference:
        started.append(file)
        return Inference("ran")

    path = _write(tmp_path, RELU)
    monkeypatch.setattr(host_run, "infer_once", infer)
    assert json.loads(run("check", path, *TARGET, "--no-run", "--json").out)["host_run"] is None
    assert run("check", path, *TARGET, "--ram", "64B").code == 1
    # Without remedies, files are only read.
    assert run("check", path, *TARGET, "--no-remedies").code == 0
    assert sizeup.check(path, "stm32f746/tflm", run=False).host_run is None
    assert not started
    assert RAN in run("check", path, *TARGET, "--no-remedies", "--run").out
    assert run("check", path, *TARGET, "--ram", "64B", "--run").code == 1
    assert started == [path, path]


@pytest.mark.usefixtures("_no_rules")
def test_a_budget_runs_nothing_without_run(run: Run, tmp_path: Path) -> None:
    _write(tmp_path, NO_BLOCK)
    budget = tmp_path / "budgets.toml"
    budget.write_text('[[budget]]\nmodels = ["*.tflite"]\ntarget = "stm32f746/tflm"\nram = "64KiB"\n')
    plain = run("check", "--budget", budget)
    assert (plain.code, "host" in plain.out) == (0, False)
    ended = run("check", "--budget", budget, "--run")
    assert ended.code == 1
    assert "refuses this file on the host" in " ".join(ended.out.split())


def test_models_that_cannot_run_on_the_host_say_why_with_run(run: Run, tmp_path: Path) -> None:
    path = _write(tmp_path, RELU)
    reasons = {
        ("-d", "rpi5/litert"): "only for targets of TFLite Micro",
        ("-d", "ethos-u55-128/tflm-ethos-u"): "only for targets of TFLite Micro",
        (*TARGET, "--precision", "int8"): "the file has another precision",
    }
    for arguments, reason in reasons.items():
        assert f"  host run     not run: {reason}\n" in run("check", path, *arguments, "--run").out
        assert "host run" not in run("check", path, *arguments).out
    assert sizeup.check(path, "stm32f746/tflm", inputs={"in0": (1, 8)}).host_run is None
    report = sizeup.analyze(path, target="stm32f746/tflm")
    assert sizeup.check(report).host_run is None
    skipped = sizeup.check(report, run=True).host_run
    assert skipped is not None
    assert skipped.reason == "only .tflite files at their own shapes run on the host"


@pytest.mark.usefixtures("_no_rules")
def test_without_the_interpreter_only_run_is_an_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path, NO_BLOCK)
    absent = Library("TFLite Micro", "no_such_module", "tflite-micro", "measure")
    monkeypatch.setattr(host_run, "interpreter", lambda: absent)
    assert (run("check", path, *TARGET).code, "host" in run("check", path, *TARGET).out) == (0, False)
    ended = run("check", path, *TARGET, "--run")
    assert ended.code == 2
    assert ended.err.endswith(
        "running a model in TFLite Micro needs tflite-micro: pip install 'sizeup[measure]'\n"
    )


def test_a_failure_with_inputs_of_0_alone_is_a_caveat(run: Run, tmp_path: Path) -> None:
    numbers = Value((1, 8))
    path = _write(tmp_path, Case("FLOOR_DIV", [numbers, numbers], [numbers]))
    ended = run("check", path, *TARGET)
    assert ended.code == 0
    assert "caveat inference fails with inputs of 0, not of 1: Division by 0;" in " ".join(ended.out.split())
    assert RAN in ended.out


def test_a_failure_that_depends_on_inputs_is_undetermined(run: Run, tmp_path: Path) -> None:
    # Inputs of 0 and of 1 are below the zero point: they are negative numbers.
    case = Case("RSQRT", [Value((1, 8), "INT8", zero=10)], [Value((1, 8), "INT8", zero=-128)])
    ended = run("check", _write(tmp_path, case), *TARGET)
    assert ended.code == 3
    assert "inference fails with inputs of 0 and of 1" in " ".join(ended.out.split())
    # Constant indices do not depend on inputs.
    index = Value((1,), "INT32", np.array([9], np.int32))
    case = Case("GATHER", [Value((4, 2)), index], [Value((1, 2))], options("GatherOptions"))
    assert run("check", _write(tmp_path, case), *TARGET, "--run").code == 1


def test_what_only_reference_kernels_refuse_is_a_caveat(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bias = np.array([1, 1 << 20] * 4, np.int32)  # read as int64, which the reference kernels do not take
    inputs = [
        Value((1, 4, 4, 8), "INT16"),
        Value((1, 3, 3, 8), "INT8", bytes(72), 8, axis=3),
        Value((8,), "INT32", bias),
    ]
    settings = options("DepthwiseConv2DOptions", strideH=1, strideW=1, padding=0, depthMultiplier=1)
    path = _write(tmp_path, Case("DEPTHWISE_CONV_2D", inputs, [Value((1, 4, 4, 8), "INT16")], settings))
    refused = Inference("refused", "words", "DEPTHWISE_CONV_2D")
    monkeypatch.setattr(host_run, "infer_once", lambda _: refused)
    assert run("check", path, *TARGET).code == 1
    ended = run("check", path, "-d", "stm32f746/tflm-cmsis-nn")
    assert ended.code == 0
    caveat = "the reference kernels on the host refuse this file, cmsis-nn kernels take it: words"
    assert caveat in " ".join(ended.out.split())
    other = Inference("refused", "words", "CONV_2D")
    monkeypatch.setattr(host_run, "infer_once", lambda _: other)
    assert run("check", path, "-d", "stm32f746/tflm-cmsis-nn").code == 1


def test_messages_are_short_and_without_control_characters(tmp_path: Path) -> None:
    file = File()
    data, result = file.main.tensor("x", (1, 8)), file.main.tensor("y", (1, 8))
    file.main.op("\x1b[31m" + "name" * 200, [data], [result])
    file.main.ends([data], [result])
    outcome = infer_once(_write(tmp_path, file))
    assert outcome.outcome == "refused"
    assert outcome.reason.isprintable()
    assert 20 < len(outcome.reason) <= 300


def test_a_second_check_of_a_file_starts_no_worker(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "_cache", {})
    assert RAN in run("check", _write(tmp_path, RELU), *TARGET).out
    monkeypatch.setattr(inference, "Supervisor", None)
    assert RAN in run("check", _write(tmp_path, RELU, "copy.tflite"), *TARGET).out


def test_the_interpreter_is_loaded_only_in_the_worker(tmp_path: Path) -> None:
    path = _write(tmp_path, RELU)
    code = (
        "import sys\nfrom sizeup.cli import main\n"
        f"try: main(['check', {str(path)!r}, '-d', 'stm32f746/tflm'])\n"
        "except SystemExit: print('tflite_micro' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert RAN in ended.stdout
    assert ended.stdout.endswith("\nFalse\n")
