"""Limits of time and memory per model: one that exceeds them leaves the verdicts of the others intact."""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.running import Run, run_command
from sizeup.api.check_each import check_each
from sizeup.api.limits import BUDGET_LIMITS, NO_LIMITS, WorkLimits, _move
from sizeup.checks.limits import Limit
from sizeup.errors import SizeupError
from sizeup.results.check import Check, Checks
from sizeup.workers.forked import CAN_FORK

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="workers are forked on Linux alone")
LIMITS = WorkLimits(20, 1 << 30)


def check_one(model: str) -> Iterator[Check]:
    """A check whose model is the name of what it does."""
    if model == "slow":
        time.sleep(600)
    if model == "large":
        bytearray(8 << 30)
    if model == "crash":
        faulthandler.disable()  # pytest's
        os.abort()
    if model == "wrong":
        raise SizeupError("wrong: cannot be read")
    yield Check(model, model, limits=(Limit("macs", "count", 10.0, 5.0, 5.0 if model == "fits" else None),))


def test_each_model_has_its_own_end() -> None:
    models = ["fits", "large", "crash", "wrong", "unknown", "fits"]
    checks = Checks(tuple(check_each(models, check_one, None, None, LIMITS)))
    assert [check.status for check in checks] == [
        "fits",
        "undetermined",
        "error",
        "error",
        "undetermined",
        "fits",
    ]
    assert checks[0].limits[0].need == 5
    assert checks[1].limits[0].unknown == (
        "reading and checking it takes more than 1.00 GiB; raise --memory-limit",
    )
    assert checks[2].error == "crash: the worker crashed (SIGABRT)"
    assert checks[3].error == "wrong: cannot be read"
    (slow,) = check_each(["slow"], check_one, None, None, WorkLimits(0.5))
    assert (slow.status, slow.limits[0].name) == ("undetermined", "time limit")


def test_answer_of_a_worker_is_that_of_this_process() -> None:
    models = ["fits", "wrong", "unknown"]
    assert [*check_each(models, check_one, None, None, LIMITS)] == [
        *check_each(models, check_one, None, None, NO_LIMITS)
    ]


def test_limits_that_a_system_cannot_enforce_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sizeup.api.limits.CAN_FORK", False)
    NO_LIMITS.require_worker()
    with pytest.raises(SizeupError, match="need Linux"):
        LIMITS.require_worker()


@pytest.fixture
def gate(tmp_path: Path, shared: Path) -> Path:
    """A folder with a budget, two models, and a third whose reading takes long."""
    pytest.importorskip("ai_edge_litert")
    names = {"a": "mlperf_kws_int8", "z": "mlperf_ad01_int8", "slow": "tflm_person_detect_vela"}
    for name, model in names.items():
        shutil.copy(shared / "models" / f"{model}.tflite", tmp_path / f"{name}.tflite")
    (tmp_path / "rules.py").write_text(
        "import sizeup, time\n"
        "@sizeup.op_rule('ethos-u', tflite=('ethos-u',))\n"
        "def compiled(call):\n"
        '    """Never ends."""\n'
        "    time.sleep(600)\n"
    )
    (tmp_path / "budgets.toml").write_text('[[budget]]\nmodels = "*.tflite"\nmacs = "5 M"\n')
    return tmp_path


@pytest.mark.slow
@pytest.mark.extras
def test_other_verdicts_are_intact_in_all_outputs(gate: Path) -> None:
    outputs = [gate / f"check.{suffix}" for suffix in ("json", "md", "xml", "codequality.json")]
    # In a subprocess: a cost rule can be defined once per process.
    ended = run_command(
        "check", "--budget", gate / "budgets.toml", "--time-limit", "8", "--rules", gate / "rules.py",
        *(word for path in outputs for word in ("-o", path)), TERM="dumb",
    )  # fmt: skip
    assert ended.returncode == 3
    assert "UNDETERMINED: 2 of 3 models fit, 1 undetermined" in ended.stdout
    assert "took longer than 8 s" in ended.stdout
    data, markdown, junit, quality = (path.read_text() for path in outputs)
    verdicts = {Path(check["model"]["source"]).name: check["verdict"] for check in json.loads(data)["checks"]}
    assert verdicts == {"a.tflite": "fits", "slow.tflite": "undetermined", "z.tflite": "fits"}
    macs = {check["model"]["name"]: check["limits"][0]["need"] for check in json.loads(data)["checks"]}
    assert macs["a"] == 2_656_768
    assert "UNDETERMINED: 2 of 3 models fit" in markdown
    assert "took longer than 8 s" in markdown
    suites = ElementTree.fromstring(junit).findall("testsuite")
    assert [len(suite.findall(".//failure") + suite.findall(".//error")) for suite in suites] == [0, 1, 0]
    assert [entry["location"]["path"] for entry in json.loads(quality)] == [str(gate / "slow.tflite")]


@pytest.mark.slow
@pytest.mark.extras
def test_limited_check_equals_the_unlimited_one(gate: Path, run: Run) -> None:
    (gate / "slow.tflite").unlink()
    command = ["check", *sorted(gate.glob("*.tflite")), "-d", "stm32f446/tflm", "--ram", "20KiB"]
    limited = run(*command, "--time-limit", "100", "--memory-limit", "4GiB", "--json")
    free = run(*command, "--json")
    assert limited.code == free.code == 1
    assert json.loads(limited.out) == json.loads(free.out)


@pytest.mark.extras
def test_budget_has_limits_by_default(gate: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WorkLimits(300, 4 << 30) == BUDGET_LIMITS
    (gate / "slow.tflite").unlink()
    budget = ("check", "--budget", gate / "budgets.toml")
    monkeypatch.setattr("sizeup.api.limits.BUDGET_LIMITS", WorkLimits(0.1))
    with monkeypatch.context() as patch:  # a forked worker has it too
        patch.setattr("sizeup.workers.plain_data.encode", lambda _: time.sleep(60))
        assert run(*budget).code == 3
    assert run(*budget, "--time-limit", "0").code == 0


@pytest.mark.slow
@pytest.mark.extras
def test_command_ends_at_the_limit(gate: Path, run: Run) -> None:
    command = ("analyze", gate / "slow.tflite", "--rules", gate / "rules.py", "-o", gate / "report.html")
    ended = run(*command, "--time-limit", "6")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "sizeup: undetermined: it took longer than 6 s; raise --time-limit\n"
    assert not (gate / "report.html").exists()


@pytest.mark.parametrize(
    "verb", ["analyze", "check", "compare", "explain", "optimize", "plan", "precision", "tradeoff"]
)
def test_commands_have_limits(verb: str, run: Run) -> None:
    text = run(verb, "--help").out
    assert "--time-limit" in text
    assert "--memory-limit" in text


@pytest.mark.extras
def test_commands_are_unchanged_within_the_limit(gate: Path, run: Run) -> None:
    command = ("analyze", gate / "a.tflite", "-o", gate / "a.json")
    free = run(*command)
    content = (gate / "a.json").read_bytes()
    limited = run(*command, "--time-limit", "100", "--memory-limit", "2GiB")
    assert limited == free
    assert (gate / "a.json").read_bytes() == content
    missing = run("analyze", gate / "none.tflite", "--time-limit", "100")
    assert (missing.code, missing.err.count("no such file")) == (2, 1)
    wrong = run("analyze", gate / "a.tflite", "--depth", "2", "--by", "op", "--time-limit", "100")
    assert (wrong.code, "--depth" in wrong.err) == (2, True)


def test_limits_are_read_from_text(run: Run) -> None:
    assert "4GiB" in run("check", "--help").out
    wrong = run("analyze", "model.onnx", "--memory-limit", "16")
    assert wrong.code == 2
    assert "--memory-limit" in wrong.err
    both = run("check", "--budget", "b.toml", "--update-baselines", "--time-limit", "5")
    assert (both.code, "--update-baselines" in both.err) == (2, True)


@pytest.mark.extras
def test_outputs_of_a_confined_command_are_moved(
    gate: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("landlockpy")
    monkeypatch.setenv("SIZEUP_SANDBOX", "required")
    monkeypatch.chdir(gate)
    limits = ("--time-limit", "100")
    ended = run("analyze", "a.tflite", "-o", "new.html", "-o", "new.json", "--plot", "memory.png", *limits)
    assert (ended.code, ended.err.count("written")) == (0, 3)
    (gate / "z.tflite").chmod(0o600)
    ended = run("optimize", "z.tflite", "-o", "less.tflite", *limits)
    assert ended.code == 0, ended.err
    assert (gate / "less.tflite").stat().st_mode & 0o777 == 0o600
    assert "outputs are identical" in ended.out or "equal" in ended.out, ended.out
    assert run("analyze", "less.tflite").code == 0
    refused = run("analyze", "a.tflite", "-o", "none/new.json", *limits)
    assert (refused.code, "none" in refused.err) == (2, True)
    assert json.loads((gate / "new.json").read_text())["totals"]["macs"] == 2_656_768
    assert not [*gate.glob(".*")]


def test_worker_may_not_name_other_outputs(tmp_path: Path) -> None:
    (tmp_path / "content").write_text("content")
    typed = {tmp_path / "out" / "report.html"}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "Makefile").write_text("all:")
    (tmp_path / "link").symlink_to(tmp_path / "out" / "Makefile")

    def move(content: str, output: Path) -> None:
        _move(tmp_path / content, output, tmp_path, typed)

    move("content", tmp_path / "out" / "report.html")
    move("content", tmp_path / "out" / "weights.bin")
    assert (tmp_path / "out" / "weights.bin").read_text() == "content"
    for content, output in [
        ("content", tmp_path / "out" / "Makefile"),
        ("content", tmp_path / "other"),
        ("link", tmp_path / "out" / "report.html"),
        ("out/Makefile", tmp_path / "out" / "report.html"),
    ]:
        with pytest.raises(SizeupError, match="the worker may not write it"):
            move(content, output)
