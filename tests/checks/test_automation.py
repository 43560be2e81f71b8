"""The GitHub Action and the pre-commit hook: their very commands, run in a shell."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

pytestmark = pytest.mark.extras
yaml = pytest.importorskip("yaml")


@pytest.fixture
def workspace(shared: Path, tmp_path: Path) -> Path:
    """A repository with two models and budgets, one of which one model exceeds."""
    (tmp_path / "models").mkdir()
    for name in ("mlperf_kws_int8.tflite", "tflm_hello_int8.tflite"):
        shutil.copy(shared / "models" / name, tmp_path / "models" / name)
    budget = '[[budget]]\nmodels = "models/*.tflite"\nmacs = "1 M"\nparams = "100 k"\n'
    (tmp_path / "budgets.toml").write_text(budget, "utf-8")
    # `sizeup` on the path, as an installed wheel would put it there.
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "sizeup"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sizeup "$@"\n', "utf-8")
    script.chmod(0o755)
    return tmp_path


def _run(command: list[str], workspace: Path, **further: str) -> subprocess.CompletedProcess[str]:
    path = f"{workspace / 'bin'}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "GITHUB_STEP_SUMMARY": str(workspace / "summary.md")}
    environment = {**os.environ, **own, **further}
    return subprocess.run(
        command, cwd=workspace, env=environment, capture_output=True, text=True, check=False
    )


def _action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


def _run_action(workspace: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """The step that checks, with its inputs filled in as the runner does."""
    action = _action()
    inputs = {name: each["default"] for name, each in action["inputs"].items()} | given
    step = action["runs"]["steps"][-1]
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: inputs[match[1]], text)
        for name, text in step["env"].items()
    }
    assert step["shell"] == "bash"
    # The runner's own options: a step ends at the first command that fails, unless it says otherwise.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return _run(command, workspace, **variables)


def test_the_action_is_one_that_github_takes() -> None:
    action = _action()
    assert action["runs"]["using"] == "composite"
    assert {"model", "target", "budget", "args"} <= set(action["inputs"])
    for each in action["inputs"].values():
        assert each["description"]
    for step in action["runs"]["steps"]:
        if "uses" in step:
            # By the digest of a commit: a tag may be moved.
            assert re.fullmatch(r"actions/setup-python@[0-9a-f]{40}", step["uses"])
        else:
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "inputs reach a shell as variables only"


def test_the_action_fails_on_a_budget_and_writes_a_summary(workspace: Path) -> None:
    done = _run_action(workspace, budget="budgets.toml")
    assert done.returncode == 1, done.stderr
    assert "::error file=" in done.stdout
    assert "mlperf_kws_int8" in done.stdout
    summary = (workspace / "summary.md").read_text("utf-8")
    assert summary.startswith("## NO: 1 of 2 models fit, 1 does not")
    assert "| MACs (models/*.tflite) | 2.66 M | 1.00 M |" in summary


def test_the_action_passes_what_fits(workspace: Path) -> None:
    done = _run_action(workspace, model="models/mlperf_kws_int8.tflite", target="stm32f746/tflm")
    assert done.returncode == 0, done.stderr
    assert not re.search("^::(error|warning|notice) ", done.stdout, re.MULTILINE)
    assert (workspace / "summary.md").read_text("utf-8").startswith("## YES:")


def test_the_action_passes_options_and_several_models_on(workspace: Path) -> None:
    models = "models/mlperf_kws_int8.tflite models/tflm_hello_int8.tflite"
    done = _run_action(workspace, model=models, args="--macs 100M --params 100k")
    assert done.returncode == 0, done.stderr
    assert "YES: 2 of 2 models fit" in done.stdout


def test_the_action_tells_bad_input_from_a_failed_check(workspace: Path) -> None:
    done = _run_action(workspace, model="models/missing.tflite", target="stm32f746")
    assert done.returncode == 2
    assert "no such file" in done.stderr
    assert _run_action(workspace, model="$(touch pwned) `touch pwned`", target="stm32f746").returncode == 2
    assert not (workspace / "pwned").exists()


def _hook() -> Any:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    return hook


def test_the_hook_checks_the_files_that_it_is_given(workspace: Path) -> None:
    hook = _hook()
    for files, code in {
        ("models/tflm_hello_int8.tflite",): 0,
        ("models/mlperf_kws_int8.tflite", "models/tflm_hello_int8.tflite"): 1,
    }.items():
        assert all(re.search(hook["files"], name) for name in files)
        command = [*shlex.split(hook["entry"]), *files]
        done = _run(command, workspace)
        assert done.returncode == code, done.stdout + done.stderr
    assert not re.search(hook["files"], "models/readme.md")


@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="pre-commit is not installed")
def test_pre_commit_itself_takes_the_hook() -> None:
    done = subprocess.run(
        ["pre-commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
