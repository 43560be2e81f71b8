"""The pre-commit hook, run by pre-commit itself in a git repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.automation import BUDGET, LARGE, SMALL, run, write_programs, write_repository
from conftest import ROOT

pytestmark = [pytest.mark.extras, pytest.mark.slow]
yaml = pytest.importorskip("yaml")
pytest.importorskip("pre_commit")

Commit = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def repository(shared: Path, tmp_path: Path) -> Path:
    """Models that stay within their budget, and one that no budget names, all committed."""
    folder = write_repository(tmp_path / "repository", shared)
    (folder / "budgets.toml").write_text(BUDGET.replace('"1 M"', '"5 M"'), "utf-8")
    (folder / "other.tflite").write_bytes((folder / LARGE).read_bytes())
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    # The hook as it is published, except that the sizeup under test takes the place of a fresh environment.
    hook |= {"language": "system"}
    del hook["additional_dependencies"]
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    return folder


@pytest.fixture
def commit(repository: Path, tmp_path: Path) -> Commit:
    """Stages everything, runs pre-commit on the staged files, and commits them."""
    programs = write_programs(tmp_path / "bin")
    # No user configuration, and nothing outside the test's folder.
    known = {"PRE_COMMIT_HOME": str(tmp_path / "home"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    for role in ("AUTHOR", "COMMITTER"):
        known |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org"}

    def staged(is_hooked: bool = True) -> subprocess.CompletedProcess[str]:
        assert run(["git", "add", "-A"], repository, programs, **known).returncode == 0
        pre_commit = [sys.executable, "-m", "pre_commit", "run", "--verbose"]
        done = run(pre_commit if is_hooked else ["true"], repository, programs, **known)
        assert run(["git", "commit", "-qm", "x"], repository, programs, **known).returncode == 0
        return done

    assert run(["git", "init", "-q"], repository, programs, **known).returncode == 0
    staged(is_hooked=False)
    return staged


def _touch(path: Path) -> None:
    """Another file with the same model: bytes after the end of a TFLite file mean nothing."""
    path.write_bytes(path.read_bytes() + b"\0")


def test_a_changed_model_is_checked_alone_and_one_without_a_budget_is_skipped(
    repository: Path, commit: Commit
) -> None:
    _touch(repository / SMALL)
    _touch(repository / "other.tflite")
    done = commit()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "YES: tflm_hello_int8" in done.stdout
    assert "mlperf_kws_int8" not in done.stdout
    assert "other.tflite: skipped, not named by any budget in budgets.toml" in done.stdout
    _touch(repository / "other.tflite")
    (repository / "unrelated.json").write_text("{}")
    done = commit()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "YES" not in done.stdout


def test_a_changed_budget_is_checked_against_all_models(repository: Path, commit: Commit) -> None:
    (repository / "budgets.toml").write_text(BUDGET, "utf-8")
    done = commit()
    assert done.returncode == 1
    assert "NO: 1 of 2 models fits, 1 does not" in done.stdout


def test_a_changed_baseline_is_checked_against_all_models(repository: Path, commit: Commit) -> None:
    budget = BUDGET.replace('"1 M"', '"5 M"') + 'growth = { macs = "5%" }\n'
    (repository / "budgets.toml").write_text(budget, "utf-8")
    update = ["check", "--budget", "budgets.toml", "--update-baselines"]
    done = run([sys.executable, "-m", "sizeup", *update], repository, repository)
    assert done.returncode == 0, done.stderr
    commit(is_hooked=False)
    baselines = repository / "baselines.json"
    lowered = baselines.read_text("utf-8").replace('"macs": 2656768', '"macs": 2000000')
    assert "2000000" in lowered
    baselines.write_text(lowered, "utf-8")
    done = commit()
    assert done.returncode == 1, done.stdout
    assert "NO: 1 of 2 models fits, 1 does not" in done.stdout


def test_pre_commit_accepts_the_manifest() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
