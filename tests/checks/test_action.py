"""The GitHub Action: the steps of action.yml as they stand there, run by bash as the runner does."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import action
from checks.automation import LARGE, SMALL, run, write_programs, write_repository
from conftest import ROOT

pytestmark = [pytest.mark.extras, pytest.mark.slow]
yaml = pytest.importorskip("yaml")


@dataclass
class Runner:
    """A checkout, and the files and variables that GitHub's runner gives to a step."""

    workspace: Path
    temporary: Path
    programs: Path
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    def step(self, name: str, further: dict[str, str], **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run one step of the Action with inputs filled in."""
        (step,) = (each for each in _action()["runs"]["steps"] if each.get("name") == name)
        source = {key: each["default"] for key, each in _action()["inputs"].items()} | inputs
        variables = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: source[match[1]], text)
            for key, text in step["env"].items()
        }
        files = {
            "GITHUB_STEP_SUMMARY": self.temporary / "summary",
            "GITHUB_OUTPUT": self.temporary / "output",
        }
        for path in files.values():
            path.write_text("", "utf-8")
        known = {"GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(self.temporary)}
        known |= {key: str(path) for key, path in files.items()}
        known |= {"GITHUB_BASE_REF": "", "GITHUB_EVENT_PATH": ""}  # these tests may run for a pull request
        script = self.temporary / "step.sh"
        script.write_text(step["run"], "utf-8")
        command = [step["shell"], "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
        done = run(command, self.workspace, self.programs, **{**known, **variables, **further})
        lines = files["GITHUB_OUTPUT"].read_text("utf-8").splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)
        self.summary = files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        return done

    def check(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the step that checks."""
        return self.step("Check", {}, **inputs)

    def limits(self) -> dict[str, dict[str, bool | None]]:
        """Model files, and whether each limit is kept, from the JSON output of the step."""
        content = json.loads(Path(self.outputs["json"]).read_text("utf-8"))
        checks = content.get("checks", [content])
        return {
            each["model"]["source"]: {limit["name"]: limit["fits"] for limit in each["limits"]}
            for each in checks
        }


@pytest.fixture
def runner(shared: Path, tmp_path: Path) -> Runner:
    (tmp_path / "temporary").mkdir()
    repository = write_repository(tmp_path / "workspace", shared)
    return Runner(repository, tmp_path / "temporary", write_programs(tmp_path / "bin"))


@dataclass
class PullRequest:
    """A pull request on the checkout of a runner."""

    runner: Runner

    def check(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the step that checks, with the event of the pull request."""
        event = {"pull_request": {"base": {"sha": self.git("rev-parse", "refs/heads/main")}}}
        path = self.runner.temporary / "event.json"
        path.write_text(json.dumps(event), "utf-8")
        return self.runner.step(
            "Check", {"GITHUB_BASE_REF": "main", "GITHUB_EVENT_PATH": str(path)}, **inputs
        )

    def git(self, *arguments: str) -> str:
        """Run git in the checkout."""
        person = ["-c", "user.name=author", "-c", "user.email=author"]
        command = ["git", *person, *arguments]
        done = subprocess.run(command, cwd=self.runner.workspace, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "models")


@pytest.fixture
def pull_request(runner: Runner) -> PullRequest:
    """A checkout of a branch whose base has a budget that one of the models exceeds."""
    request = PullRequest(runner)
    request.git("init", "--quiet", "--initial-branch=main")
    request.commit()
    request.git("checkout", "--quiet", "-b", "change")
    return request


def _action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


def test_the_action_pins_what_it_uses_and_puts_no_input_into_a_command() -> None:
    content = _action()
    assert content["runs"]["using"] == "composite"
    assert {"verdict", "json", "markdown", "junit"} == set(content["outputs"])
    assert all(each["description"] for each in (*content["inputs"].values(), *content["outputs"].values()))
    for step in content["runs"]["steps"]:
        if "uses" in step:
            # By the digest of a commit: a tag may be moved.
            assert re.fullmatch(r"actions/(setup-python|cache)@[0-9a-f]{40}", step["uses"])
        else:
            assert step["shell"] == "bash"
            assert "${{" not in step["run"]


def test_every_model_of_several_lines_is_checked(runner: Runner) -> None:
    done = runner.check(model=f"{SMALL}\n{LARGE}\n", args="--macs 1M --no-remedies")
    assert done.returncode == 1, done.stderr
    assert "::error file=models/mlperf_kws_int8.tflite" in done.stdout
    assert runner.outputs["verdict"] == "no"
    assert len(runner.limits()) == 2
    assert runner.summary.startswith("## NO: 1 of 2 models fits, 1 does not")


def test_every_limit_of_several_lines_is_judged(runner: Runner) -> None:
    done = runner.check(model=LARGE, args="--macs '100 M'\n--params 10\n--no-remedies\n")
    assert done.returncode == 1, done.stderr
    assert runner.limits() == {LARGE: {"macs": True, "params": False}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("--macs 1M\n\n--params=3\r\n", ["--macs", "1M", "--params=3"]),
        ("--macs 1M \\\n  --params 3", ["--macs", "1M", "--params", "3"]),
        ("""--ram '1 M' --flash "2 M" a\\ b ''""", ["--ram", "1 M", "--flash", "2 M", "a b", ""]),
        ("$HOME `id` $(id) *.x ~ # ; |", ["$HOME", "`id`", "$(id)", "*.x", "~", "#", ";", "|"]),
    ],
)
def test_options_are_quoted_as_in_a_shell_and_not_evaluated(text: str, words: list[str]) -> None:
    assert action.options(text) == words


def test_patterns_name_files_in_folders_at_any_depth(runner: Runner) -> None:
    (runner.workspace / "models" / "deep" / "er").mkdir(parents=True)
    shutil.copy(runner.workspace / LARGE, runner.workspace / "models" / "deep" / "er" / "copy.tflite")
    assert action.models("models/*.tflite models/tflm*", runner.workspace) == [LARGE, SMALL]
    assert runner.check(model="models/**/*.tflite", args="--macs 1M --no-remedies").returncode == 1
    assert set(runner.limits()) == {SMALL, LARGE, "models/deep/er/copy.tflite"}


def test_names_may_start_with_a_dash_and_have_spaces_and_quotes(runner: Runner) -> None:
    names = ["--macs.tflite", "a b.tflite", 'it\'s "so".tflite', "-o [x].tflite"]
    for name in names:
        shutil.copy(runner.workspace / SMALL, runner.workspace / name)
    done = runner.check(model="\n".join(names), args="--macs 1M --no-remedies")
    assert done.returncode == 0, done.stderr
    assert set(runner.limits()) == set(names)
    assert set(action.models("*.tflite", runner.workspace)) == set(names)
    one_line = "--macs.tflite 'a b.tflite' a\\b.onnx timm:resnet18"
    assert action.models(one_line, runner.workspace) == [*names[:2], "a\\b.onnx", "timm:resnet18"]


def test_outputs_name_the_reports(runner: Runner) -> None:
    done = runner.check(budget="budgets.toml")
    assert done.returncode == 1, done.stderr
    assert set(runner.outputs) == {"verdict", "json", "markdown", "junit"}
    assert Path(runner.outputs["markdown"]).read_text("utf-8") == runner.summary
    assert "| MACs (models/\\*.tflite) | 2.66 M | 1.00 M |" in runner.summary
    assert ElementTree.parse(runner.outputs["junit"]).getroot().attrib["failures"] == "1"
    assert runner.check(model=LARGE, target="stm32f746/tflm").returncode == 0
    assert runner.outputs["verdict"] == "yes"
    assert (
        runner.check(model=LARGE, target="rpi5/litert", args="--latency 0.3ms --no-remedies").returncode == 3
    )
    assert runner.outputs["verdict"] == "undetermined"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"model": "missing.tflite"}, "no such file"),
        ({"model": SMALL, "args": "--macs nothing"}, "nothing"),
        ({"model": f"{SMALL}\nmissing/*.onnx"}, "::error title=sizeup check::model: no file matches"),
        ({"args": "--macs '1M"}, "args: No closing quotation"),
    ],
)
def test_what_cannot_be_checked_is_an_error_and_no_verdict(
    runner: Runner, inputs: dict[str, str], words: str
) -> None:
    done = runner.check(**{"model": SMALL, "args": "--macs 1M", **inputs})
    assert done.returncode == 2, done.stdout
    assert words in done.stdout + done.stderr
    assert runner.outputs["verdict"] == "error"


def test_nothing_in_an_input_or_a_checkout_is_executed(runner: Runner) -> None:
    command = "$(touch pwned) `touch pwned`; touch pwned"
    assert runner.check(model=f"{command}\n", target=command, budget=command, args=command).returncode == 2
    for module in ("shlex", "sizeup", "typer"):
        (runner.workspace / f"{module}.py").write_text("import os; os.mkdir('pwned')")
    assert runner.check(model=SMALL, args="--macs 1M --no-remedies").returncode == 0
    assert not (runner.workspace / "pwned").exists()


def test_a_folder_that_links_to_itself_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "one.onnx").write_text("")
    for name in "abc":
        (tmp_path / name).symlink_to(tmp_path, target_is_directory=True)
    assert action.models("**/*.onnx", tmp_path) == ["one.onnx"]
    assert action.models(f"{tmp_path}/**/*.onnx", Path("/")) == [f"{tmp_path}/one.onnx"]


def test_the_cache_of_pip_belongs_to_the_inputs(runner: Runner) -> None:
    done = runner.step("Locate the pip cache", {"PIP_CACHE_DIR": str(runner.temporary / "cache")})
    assert done.returncode == 0, done.stderr
    assert runner.outputs["folder"] == str(runner.temporary / "cache")
    key = runner.outputs["key"]
    assert runner.step("Locate the pip cache", {}, extras="onnx").returncode == 0
    assert runner.outputs["key"] != key


LOCK = ROOT / "tools" / "action_constraints.txt"


def locked() -> dict[str, str]:
    """The versions of all packages that the Action may install."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text("utf-8"), re.MULTILINE))


def test_everything_that_the_action_installs_is_locked_to_the_tested_version() -> None:
    text = LOCK.read_text("utf-8")
    entries = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    for entry in entries:
        assert re.fullmatch(
            r"[a-z0-9-]+==\S+( ; [^\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", entry
        ), entry
    assert len(entries) == len(locked())
    assert "://" not in text
    tested = (ROOT / "constraints.txt").read_text("utf-8")
    pins = re.findall(r"(?m)^([\w.-]+)==(\S+)$", tested)
    names = {str(canonicalize_name(name)): version for name, version in pins}
    shared = locked().keys() & names.keys()
    assert len(shared) > 50
    assert {name: locked()[name] for name in shared} == {name: names[name] for name in shared}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    needed = [Requirement(each) for each in action.requirements("all", project)]
    assert {"hatchling", "numpy", "onnxruntime", "ai-edge-litert", "torch", "ray"} <= {
        each.name for each in needed
    }
    for each in needed:
        assert each.name == "tomli" or each.specifier.contains(locked()[each.name], prereleases=True), each


def test_extras_that_do_not_exist_are_an_error(runner: Runner) -> None:
    done = runner.step("Install sizeup", {}, extras="onnx,no-such")
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=sizeup check::extras: 'no-such' is unknown; known: torch, ")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment, if packages can be downloaded."""
    try:
        socket.create_connection(("pypi.org", 443), timeout=10).close()
    except OSError:
        pytest.skip("no connection to the package index")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


def _install(environment: Path, root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin" / "python"), "-I", str(root / "tools" / "action.py"), "install"]
    variables = {**os.environ, "SIZEUP_EXTRAS": ""}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the versions are locked for Python 3.11 or newer")
def test_the_action_installs_locked_versions_by_their_hashes(environment: Path, tmp_path: Path) -> None:
    """A changed hash stands for a file that was replaced in the index."""
    root = tmp_path / "action"
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    text = LOCK.read_text("utf-8")
    entry = re.search(r"^mdurl==.*\n(?:    --hash.*\n)+", text, re.MULTILINE)
    assert entry is not None
    replaced = re.sub("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", entry[0])
    (root / LOCK.relative_to(ROOT)).write_text(text.replace(entry[0], replaced), "utf-8")
    done = _install(environment, root)
    assert done.returncode == 1
    assert "mdurl" in done.stderr
    assert "HASHES" in done.stderr
    assert not (environment / "bin" / "sizeup").exists()
    (root / LOCK.relative_to(ROOT)).write_text(text, "utf-8")
    done = _install(environment, root)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [environment / "bin" / "python", "-I", "-m", "pip", "list", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    installed = {str(canonicalize_name(each["name"])): each["version"] for each in json.loads(listed.stdout)}
    own = installed.pop("sizeup")
    installed.pop("setuptools", None)  # which Python 3.11 puts into an environment
    assert installed == {name: locked()[name] for name in installed}
    assert {"pip", "numpy", "typer", "hatchling"} <= installed.keys()
    version = subprocess.run(
        [environment / "bin" / "sizeup", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout == f"sizeup {own}\n"


def test_a_pull_request_is_judged_by_the_policy_of_its_base(
    pull_request: PullRequest, runner: Runner
) -> None:
    budget = runner.workspace / "budgets.toml"
    budget.write_text(budget.read_text("utf-8").replace("1 M", "9 M"), "utf-8")
    pull_request.commit()
    done = pull_request.check(budget="budgets.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "EDITED: this change edits the policy in budgets.toml" in done.stdout
    assert "macs: '1 M' -> '9 M'" in runner.summary.replace("\\", "").replace("&gt;", ">")
    assert pull_request.check(budget="budgets.toml", policy="tree").returncode == 0
    assert runner.check(budget="budgets.toml").returncode == 0  # for a push


def test_a_base_that_was_not_fetched_is_an_error_with_the_setting(
    pull_request: PullRequest, runner: Runner, tmp_path: Path
) -> None:
    (runner.workspace / "other").touch()
    pull_request.commit()
    event = {"pull_request": {"base": {"sha": pull_request.git("rev-parse", "main")}}}
    clone = tmp_path / "clone"
    pull_request.git("clone", "--quiet", "--depth=1", runner.workspace.as_uri(), str(clone))
    (runner.temporary / "event.json").write_text(json.dumps(event), "utf-8")
    shallow = Runner(clone, runner.temporary, runner.programs)
    variables = {"GITHUB_BASE_REF": "main", "GITHUB_EVENT_PATH": str(runner.temporary / "event.json")}
    done = shallow.step("Check", variables, budget="budgets.toml")
    assert done.returncode == 2
    assert "set fetch-depth: 0 for actions/checkout" in done.stdout
    done = shallow.step("Check", variables, model=SMALL, args="--macs 1M --no-remedies")
    assert done.returncode == 0, done.stdout + done.stderr  # nothing is read from the base


def test_the_first_budget_file_is_that_of_the_change(pull_request: PullRequest, runner: Runner) -> None:
    (runner.workspace / "budgets.toml").rename(runner.workspace / "new.toml")
    pull_request.commit()
    done = pull_request.check(budget="new.toml")
    assert done.returncode == 1
    assert "::notice title=sizeup check::new.toml is not in the base of the pull request" in done.stdout


def test_a_device_file_is_that_of_the_base(pull_request: PullRequest, runner: Runner) -> None:
    device = '[[device]]\nname = "ours"\nlike = "stm32f401"\ntitle = "{}"\n'
    (runner.workspace / "ours.toml").write_text(device.format("Ours"), "utf-8")
    pull_request.commit()
    pull_request.git("branch", "--force", "main", "HEAD")
    (runner.workspace / "ours.toml").write_text(device.format("Theirs"), "utf-8")
    done = pull_request.check(model=LARGE, target="ours.toml/tflm", args="--no-remedies --no-run")
    assert "(Ours)" in done.stdout, done.stdout + done.stderr


def test_a_model_that_is_named_like_a_pattern_does_not_hide_the_others(runner: Runner) -> None:
    pattern = "models/*.tflite"
    (runner.workspace / pattern).write_bytes((runner.workspace / SMALL).read_bytes())
    done = runner.check(model=pattern, args="--macs 1M --no-remedies")
    assert done.returncode == 1, done.stdout + done.stderr
    assert set(runner.limits()) == {pattern, SMALL, LARGE}
    done = runner.check(model="models/[m]*.tflite", args="--macs 1M --no-remedies")
    assert done.returncode == 1, done.stdout + done.stderr
    (runner.workspace / SMALL).rename(runner.workspace / "models/[x].tflite")
    assert runner.check(model="models/[x].tflite", args="--macs 1M --no-remedies").returncode == 0
    content = json.loads(Path(runner.outputs["json"]).read_text("utf-8"))
    assert content["model"]["source"] == "models/[x].tflite"


def test_another_link_at_the_base_is_no_error(pull_request: PullRequest, runner: Runner) -> None:
    (runner.workspace / ".first").symlink_to("models")
    pull_request.commit()
    pull_request.git("branch", "--force", "main", "HEAD")
    assert pull_request.check(budget="budgets.toml").returncode == 1
    assert len(runner.limits()) == 2


@pytest.mark.parametrize("link", ["budgets.toml", "policy"])
def test_a_link_at_the_base_is_an_error(link: str, pull_request: PullRequest, runner: Runner) -> None:
    """Without one, the budget file would be that of the change."""
    file = runner.workspace / "budgets.toml"
    if link == "policy":
        (runner.workspace / "policy").symlink_to(".")
        budget = "policy/budgets.toml"
    else:
        file.rename(runner.workspace / "real.toml")
        file.symlink_to("real.toml")
        budget = "budgets.toml"
    pull_request.commit()
    pull_request.git("branch", "--force", "main", "HEAD")
    done = pull_request.check(budget=budget)
    assert done.returncode == 2
    assert f"{link} is a link in the base of the pull request" in done.stdout
    assert runner.outputs == {"verdict": "error"}


def test_a_base_without_its_contents_is_an_error(
    pull_request: PullRequest, runner: Runner, tmp_path: Path
) -> None:
    (runner.workspace / "budgets.toml").write_text("", "utf-8")  # what the change has instead
    pull_request.commit()
    pull_request.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    source = runner.workspace.as_uri()
    pull_request.git("clone", "--quiet", "--filter=blob:none", "--branch=change", source, str(clone))
    runner.workspace.rename(tmp_path / "away")  # as if no credentials were left to fetch with
    runner.workspace = clone
    partial = PullRequest(runner)
    partial.git("branch", "main", "origin/main")
    done = partial.check(budget="budgets.toml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "budgets.toml: cannot be read from the base; set fetch-depth: 0 without a filter" in done.stdout
