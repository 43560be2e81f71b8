"""What a release rests on: workflows, owner, classifiers, citation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import release
from conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def loaded(path: Path) -> Any:
    yaml = pytest.importorskip(
        "yaml", reason="workflows are YAML; the dependency group 'automation' brings PyYAML"
    )
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A checkout that may be released as v1.2.0."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests" / "written_by" / "1.2.0").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nversion = "1.2.0"\n[project.urls]\nRepository = "https://github.com/acme/sizeup"\n'
    )
    (tmp_path / "README.md").write_text("uses: acme/sizeup@v1\n")
    (tmp_path / "docs" / "checking.md").write_text("uses: acme/sizeup@v1\n")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n")
    return tmp_path


def test_a_checkout_with_an_owner_and_a_dated_section_may_be_released(ready: Path) -> None:
    assert list(release.problems(ready, "v1.2.0")) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "problem"),
    [
        ("pyproject.toml", "acme", "OWNER", r"replace OWNER in \[project.urls\]"),
        ("docs/checking.md", "acme", "OWNER", "docs/checking.md: replace OWNER"),
        ("pyproject.toml", "1.2.0", "1.3.0", "tag v1.2.0 is not v1.3.0"),
        ("CHANGELOG.md", " - 2027-01-31", "", "no section"),
    ],
)
def test_a_release_is_refused(ready: Path, file: str, before: str, after: str, problem: str) -> None:
    path = ready / file
    path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")
    assert re.search(problem, "\n".join(release.problems(ready, "v1.2.0")))


def test_a_release_without_the_files_that_it_writes_is_refused(ready: Path) -> None:
    (ready / "tests" / "written_by" / "1.2.0").rmdir()
    assert list(release.problems(ready, "v1.2.0")) == [
        "tests/written_by/1.2.0 does not exist: run python tools/written_by.py"
    ]


def test_no_other_owner_is_named_anywhere() -> None:
    (owner,) = {url.split("/")[3] for url in PROJECT["urls"].values()}
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / ".github").rglob("*"),
        ROOT / "CITATION.cff",
    ]
    text = "\n".join(path.read_text("utf-8") for path in pages if path.is_file())
    assert set(re.findall(r"(?:github\.com/|uses: )([\w.-]+)/sizeup\b", text)) == {owner}


def test_the_release_workflow_checks_the_tag_before_anything_is_built() -> None:
    jobs = loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert commands[0] == 'python tools/release.py "$GITHUB_REF_NAME"'
    order = {name: job.get("needs") for name, job in jobs.items()}
    assert order == {"build": None, "test": "build", "attest": "test", "publish": "attest", "page": "publish"}


def test_pypi_trusts_the_publishing_job_alone_and_needs_no_secret() -> None:
    path = ROOT / ".github" / "workflows" / "release.yml"
    jobs = loaded(path)["jobs"]
    assert jobs["publish"]["environment"] == "pypi"
    rights = {name: job["permissions"] for name, job in jobs.items()}
    assert {name for name, each in rights.items() if each.get("id-token") == "write"} == {"attest", "publish"}
    assert {name for name, each in rights.items() if each.get("contents") == "write"} == {"page"}
    assert "secrets." not in path.read_text("utf-8")


def test_workflows_may_only_read_unless_a_job_says_otherwise() -> None:
    assert len(WORKFLOWS) >= 3
    assert {path.name: loaded(path)["permissions"] for path in WORKFLOWS} == {
        path.name: {} if path.name == "release.yml" else {"contents": "read"} for path in WORKFLOWS
    }


def test_workflows_use_actions_by_commit_with_the_version_beside_it() -> None:
    for path in WORKFLOWS:
        for line in path.read_text("utf-8").splitlines():
            if "uses:" in line:
                assert re.search(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.extras
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-actions", [ROOT / "action.yml"]),
        ("dependabot", [ROOT / ".github" / "dependabot.yml"]),
    ],
)
def test_workflows_follow_the_schemas_of_github(schema: str, files: list[Path]) -> None:
    pytest.importorskip("check_jsonschema", reason="the dependency group 'automation' brings it")
    options = ["--builtin-schema", f"vendor.{schema}", *map(str, files)]
    command = [sys.executable, "-m", "check_jsonschema", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.extras
def test_zizmor_finds_no_weakness_in_workflows() -> None:
    program = Path(sys.executable).with_name("zizmor")
    if not program.exists():
        pytest.skip("zizmor is not installed; the dependency group 'automation' brings it")
    command = [str(program), "--offline", "--no-progress", "--quiet", ".github", "action.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_run_on_every_system_and_python_of_the_classifiers() -> None:
    matrix = loaded(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["wheel"]["strategy"]["matrix"]
    named = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    assert matrix["python"] == named
    assert {each.split("-")[0] for each in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_commands_of_workflows_name_folders_that_exist() -> None:
    text = "\n".join(path.read_text("utf-8") for path in WORKFLOWS)
    assert [
        path for path in re.findall(r"\b(?:tests|tools)/[\w/.]+", text) if not (ROOT / path).exists()
    ] == []


def test_issue_forms_ask_for_something() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert len(forms) == 3
    for path in forms:
        form = loaded(path)
        assert form["name"]
        assert form["description"]
        assert any(each.get("validations", {}).get("required") for each in form["body"])


def test_the_citation_agrees_with_the_metadata() -> None:
    citation = loaded(ROOT / "CITATION.cff")
    assert citation["title"] == PROJECT["name"]
    assert " AND ".join(citation["license"]) == PROJECT["license"]
    assert [each["name"] for each in citation["authors"]] == [each["name"] for each in PROJECT["authors"]]
    assert citation["keywords"] == PROJECT["keywords"]
