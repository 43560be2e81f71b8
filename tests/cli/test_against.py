"""`sizeup check --against REV`: models are compared with their files at another git revision."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from checks.automation import run as run_program
from checks.automation import write_programs
from checks.products import save_product
from cli.running import Run
from conftest import ROOT
from sizeup.render.markdown import MARKER

pytestmark = [pytest.mark.extras, pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")]

_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def _git(folder: Path, *arguments: str) -> None:
    """Git as a fresh machine has it, whatever the user's settings are."""
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment = {**os.environ, **dict.fromkeys(names, "author"), **settings}
    subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "models")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models at a commit that is tagged `before`, and other ones in the work tree."""
    folder = tmp_path / "repository"
    folder.mkdir()
    _git(folder, "init", "--quiet")
    for name in ("grown", "same", "gone", "shrunk"):
        save_product(folder / "models" / f"{name}.onnx", 20)
    text = '[[budget]]\nmodels = "models/*.onnx"\ngrowth = { macs = "5%" }\n'
    (folder / "budgets.toml").write_text(text, "utf-8")
    _commit(folder)
    _git(folder, "tag", "before")
    save_product(folder / "models" / "grown.onnx", 21)
    save_product(folder / "models" / "shrunk.onnx", 10)
    save_product(folder / "models" / "added.onnx", 30)
    (folder / "models" / "gone.onnx").unlink()
    monkeypatch.chdir(folder)
    return folder


def _head() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True, text=True)
    return done.stdout[:12]


def _checks(out: str) -> dict[str, Any]:
    return {Path(each["model"]["source"]).stem: each for each in json.loads(out)["checks"]}


def test_growth_is_judged_since_the_revision(run: Run, repository: Path) -> None:
    before = subprocess.run(["git", "status", "--porcelain"], capture_output=True, check=True).stdout
    ended = run("check", "--budget", "budgets.toml", "--against", "before", "--json")
    assert ended.code == 1
    checks = _checks(ended.out)
    assert {name: (each["verdict"], each["no_baseline_reason"]) for name, each in checks.items()} == {
        "added": ("undetermined", "not in before"),
        "gone": ("removed", None),
        "grown": ("does not fit", None),
        "same": ("fits", None),
        "shrunk": ("fits", None),
    }
    assert checks["grown"]["limits"][0]["growth"] == {"unit": "count", "before": 400, "now": 441}
    assert {each["name"]: (each["before"], each["now"]) for each in checks["shrunk"]["changes"]} == {
        "macs": (400, 100),
        "params": (400, 100),
        "weights": (1600, 400),
        "peak": (160, 80),
    }
    assert checks["same"]["changes"] == []
    after = subprocess.run(["git", "status", "--porcelain"], capture_output=True, check=True).stdout
    assert after == before


def test_text_says_what_changed_and_what_is_new_or_gone(run: Run, repository: Path) -> None:
    ended = run("check", "--budget", "budgets.toml", "--against", "HEAD")
    first = ended.out.splitlines()[0]
    assert first == (
        "NO: 2 of 4 models fit, 1 does not (models/grown.onnx), 1 undetermined, 1 new, 1 removed"
    )
    text = " ".join(ended.out.split())
    assert "growth of MACs: +10.2 %, 400 -> 441, allowed: 5 %" in text
    assert f"since HEAD ({_head()}) MACs 400 -> 100 (-75 %), parameters 400 -> 100 (-75 %)" in text
    assert "REMOVED: models/gone.onnx was removed removed models/gone.onnx exists in HEAD, not" in text
    assert f"since HEAD ({_head()}) no change" in text
    assert "can be lowered" not in text  # there is no baseline to lower


def test_a_space_follows_the_name_of_a_revision_however_long_it_is(run: Run, repository: Path) -> None:
    for name in ("origin/main", "release/2026-11-with-a-long-name"):
        _git(repository, "tag", name, "before")
        lines = run("check", "--budget", "budgets.toml", "--against", name).out.splitlines()
        since = f"  since {name} ({_head()})"
        assert f"{since} no change" in lines
        assert any(line.startswith(f"{since} MACs 400 -> 100") for line in lines)
        assert max(len(line) for line in lines if "since" in line) <= 100


def test_models_without_budgets_are_compared_too(run: Run, repository: Path) -> None:
    arguments = ("check", "models/grown.onnx", "models/gone.onnx", "--macs", "1M", "--against", "before")
    ended = run(*arguments, "--json")
    assert ended.code == 0
    checks = _checks(ended.out)
    assert [each["now"] for each in checks["grown"]["changes"] if each["name"] == "macs"] == [441]
    assert checks["gone"]["verdict"] == "removed"


def test_external_data_of_the_revision_is_read(run: Run, repository: Path) -> None:
    path = repository / "models" / "outside.onnx"
    save_product(path, 20, external="data/weights.bin")
    _commit(repository)
    save_product(path, 10, external="data/weights.bin")
    ended = run("check", path, "--macs", "1M", "--against", "HEAD", "--json")
    assert [(each["before"], each["now"]) for each in json.loads(ended.out)["changes"]][:2] == [
        (400, 100),
        (400, 100),
    ]


def test_a_pointer_of_git_lfs_is_an_error_until_its_object_is_fetched(run: Run, repository: Path) -> None:
    path = repository / "models" / "same.onnx"
    save_product(path, 19)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    path.write_text(_POINTER.format(digest, len(content)), "utf-8")
    _commit(repository)
    path.write_bytes(content)
    ended = run("check", "models/same.onnx", "--macs", "1M", "--against", "HEAD", "--json")
    assert (ended.code, json.loads(ended.out)["changes"]) == (
        0,
        [],
    )  # the pointer is that of the same content
    save_product(path, 20)
    ended = run("check", "--budget", "budgets.toml", "--against", "HEAD", "--json")
    assert ended.code == 1
    checks = _checks(ended.out)
    assert [name for name, each in checks.items() if each["error"]] == ["same"]
    assert "is a Git LFS pointer" in checks["same"]["error"]
    assert "run: git lfs fetch origin " in checks["same"]["error"]
    # As `git lfs fetch` stores it.
    stored = repository / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    stored.parent.mkdir(parents=True)
    for wrong in (content + b"\0", None):
        stored.unlink(missing_ok=True)
        if wrong is None:
            stored.symlink_to(path)
        else:
            stored.write_bytes(wrong)
        checks = _checks(run("check", "--budget", "budgets.toml", "--against", "HEAD", "--json").out)
        assert "Git LFS" in checks["same"]["error"]
    stored.unlink()
    stored.write_bytes(content)
    fetched = _checks(run("check", "--budget", "budgets.toml", "--against", "HEAD", "--json").out)
    assert fetched["same"]["error"] is None
    assert fetched["same"]["changes"][0] == {"name": "macs", "unit": "count", "before": 361, "now": 400}


def test_a_model_that_could_not_be_read_then_is_new(run: Run, repository: Path) -> None:
    save_product(repository / "models" / "mended.onnx", 8)
    good = (repository / "models" / "mended.onnx").read_bytes()
    (repository / "models" / "mended.onnx").write_bytes(b"garbage")
    _commit(repository)
    (repository / "models" / "mended.onnx").write_bytes(good)
    checks = _checks(run("check", "--budget", "budgets.toml", "--against", "HEAD", "--json").out)
    assert checks["mended"]["fits"] is None
    assert checks["mended"]["no_baseline_reason"].startswith("not readable at HEAD (")


def test_submodules_and_files_elsewhere_are_errors_of_those_models(
    run: Run, repository: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    _git(library, "init", "--quiet")
    save_product(library / "net.onnx", 8)
    _commit(library)
    _git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "zoo")
    (repository / "models" / "link.onnx").symlink_to("same.onnx")
    _commit(repository)
    models = ("zoo/net.onnx", str(library / "net.onnx"), "models/link.onnx", "models/same.onnx")
    ended = run("check", *models, "--macs", "1M", "--against", "HEAD", "--json")
    assert ended.code == 1
    errors = [each["error"] or "" for each in json.loads(ended.out)["checks"]]
    words = ("inside the submodule 'zoo'", "outside the git repository", "a symbolic link at HEAD", "")
    assert all(word in error for word, error in zip(words, errors, strict=True))
    assert errors[-1] == ""


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("--output=x", "is not a git revision"),
        ("-x", "is not a git revision"),
        ("", "is not a git revision"),
        ("nonesuch", "is not a commit of"),
        ("HEAD:models", "is not a commit of"),
        ("HEAD; touch pwned", "is not a commit of"),
    ],
)
def test_what_is_no_revision_is_refused(revision: str, words: str, run: Run, repository: Path) -> None:
    ended = run("check", "--budget", "budgets.toml", f"--against={revision}")
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert not (repository / "pwned").exists()


def test_a_folder_outside_any_repository_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    save_product(tmp_path / "a.onnx", 8)
    ended = run("check", "a.onnx", "--macs", "1M", "--against", "HEAD")
    assert ended.code == 2
    assert "not a git repository" in ended.err


def test_baselines_are_not_updated_from_another_revision(run: Run, repository: Path) -> None:
    for arguments in (
        ["--budget", "budgets.toml", "--against", "HEAD"],
        ["models/same.onnx", "--macs", "1M"],
    ):
        ended = run("check", *arguments, "--update-baselines")
        assert ended.code == 2
        assert "needs --budget, and cannot be combined with --against" in ended.err


def test_the_examples_of_the_documentation_write_what_their_jobs_keep(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a checkout whose author put links and a forged report where a job might write."""
    yaml = pytest.importorskip("yaml")
    page = (ROOT / "docs" / "checking.md").read_text("utf-8")
    blocks = [yaml.safe_load(text) for text in re.findall("```yaml\n(.*?)```", page, re.DOTALL)]
    jobs = [each["jobs"]["models"] for each in blocks if "jobs" in each]
    (github,) = (
        each for each in jobs if any("sizeup check" in step.get("run", "") for step in each["steps"])
    )
    (gitlab,) = (each["models"] for each in blocks if "models" in each)
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path / "runner"))
    (tmp_path / "runner").mkdir()
    (tmp_path / "home").mkdir()
    for name in ("check.md", "check.json", "check.xml", "sizeup", "reports", "json.py"):
        (repository / name).symlink_to(tmp_path / "home")
    _git(repository, "fetch", "--quiet", ".", "HEAD")
    scripts = [[step["run"] for step in github["steps"] if "run" in step], gitlab["script"]]
    reports = tmp_path / "runner" / "sizeup"
    kept = [
        [reports / name for name in ("check.md", "check.json", "check.xml")],
        [repository / name for name in ("reports/check.md", *gitlab["artifacts"]["reports"].values())],
    ]
    programs = write_programs(tmp_path / "bin")
    for script, files in zip(scripts, kept, strict=True):
        for text in script:
            if re.match("mkdir|rm|sizeup", text):
                done = run_program(["bash", "-e", "-c", text], repository, programs)
                assert done.returncode == (1 if "sizeup check" in text else 0)  # one of the models grew
        assert all(file.stat().st_size for file in files)
        assert files[0].read_text("utf-8").startswith("## NO: ")
    assert list((tmp_path / "home").iterdir()) == []
    for script in [*scripts, gitlab["after_script"]]:
        for text in script:
            subprocess.run(["bash", "-n", "-c", text], check=True)
            assert "<!--" not in text or MARKER in text
            assert "python -c" not in text  # which imports modules of the checkout


def test_the_note_of_the_example_is_that_of_its_own_user(tmp_path: Path) -> None:
    """Others may write a note with the same mark, and edit it later."""
    yaml = pytest.importorskip("yaml")
    page = (ROOT / "docs" / "checking.md").read_text("utf-8")
    blocks = [yaml.safe_load(text) for text in re.findall("```yaml\n(.*?)```", page, re.DOTALL)]
    (script,) = next(each["models"]["after_script"] for each in blocks if "models" in each)
    programs = write_programs(tmp_path / "bin")
    for others, expected in ((["", MARKER], "--request POST"), ([MARKER, ""], "--request PUT")):
        notes = [{"id": 10 + at, "author": {"id": 7 + at}, "body": body} for at, body in enumerate(others)]
        (tmp_path / "answer").write_text(f"{json.dumps({'id': 7})}{json.dumps(notes)}", "utf-8")
        (programs / "curl").write_text('#!/bin/sh\necho "$@" >> log\ncat answer\n', "utf-8")
        (programs / "curl").chmod(0o755)
        names = ("CI_API_V4_URL", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "NOTES_TOKEN")
        done = run_program(["bash", "-e", "-c", script], tmp_path, programs, **dict.fromkeys(names, "x"))
        assert done.returncode == 0, done.stderr
        last = (tmp_path / "log").read_text("utf-8").splitlines()[-1]
        assert expected in last
        assert last.endswith("notes/10") == ("PUT" in expected)


def test_examples_name_releases_and_commits_and_no_branch() -> None:
    """A branch may be another program tomorrow."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    version = re.search(r'^version = "(.*)"', project, re.MULTILINE)
    assert version is not None
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.y*ml"), *ROOT.glob(".*.yaml")]
    used = 0
    for path in pages:
        for line in path.read_text("utf-8").splitlines():
            match = re.search(r"^\s*(?:- )?(?:uses|rev): *(\S+)(.*)", line)
            if match is not None and path.name != "CHANGELOG.md":
                used += 1
                own = (f"OWNER/sizeup@v{version[1]}", f"v{version[1]}")
                by_commit = re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", match[1])
                assert match[1] in own or (by_commit and re.fullmatch(r" # v\d+\.\d+\.\d+", match[2])), line
            assert "sizeup@main" not in line
            for pinned in re.findall(r"pip install '?sizeup\S*==([\d.]+)", line):
                assert pinned == version[1]
    assert used >= 7


def test_a_partial_clone_fetches_nothing(
    run: Run, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commit(repository)
    _git(repository, "config", "uploadpack.allowFilter", "true")
    _git(tmp_path, "clone", "--quiet", "--filter=blob:none", repository.as_uri(), "clone")
    mark = tmp_path / "fetched"
    _git(tmp_path / "clone", "config", "remote.origin.uploadpack", f"touch {mark}; git-upload-pack")
    monkeypatch.chdir(tmp_path / "clone")
    done = run("check", "models/grown.onnx", "--macs", "1M", "--against", "before")
    assert done.code in (0, 1, 2)
    assert not mark.exists()
