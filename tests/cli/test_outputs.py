"""Files that commands write in a checkout of somebody else: no link is followed, no old verdict left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.running import Run

FORGED = "## YES: 12 of 12 models fit\n"
REPORTS = ("check.json", "check.md", "check.xml", "check.codequality.json")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model, forged reports and a link, next to a file of the user."""
    sample = Path(__file__).parents[2] / "src" / "sizeup" / "cli" / "sample.tflite"
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "model.tflite").write_bytes(sample.read_bytes())
    for name in REPORTS:
        (folder / name).write_text(FORGED, "utf-8")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "profile").write_text("mine", "utf-8")
    (folder / "link").symlink_to(tmp_path / "home", target_is_directory=True)
    monkeypatch.chdir(folder)
    return folder


def _home(checkout: Path) -> list[tuple[str, str]]:
    return [(path.name, path.read_text("utf-8")) for path in (checkout.parent / "home").iterdir()]


OUTPUT = [word for name in REPORTS for word in ("-o", name)]


@pytest.mark.extras
@pytest.mark.parametrize(
    "arguments",
    [
        ["model.tflite", "--macs", "nothing"],
        ["model.tflite"],
        ["model.tflite", "-d", "nothing"],
        ["model.tflite", "-d", "nothing.toml"],
        ["--budget", "nothing.toml"],
        ["model.tflite", "--macs", "1M", "--rules", "nothing.py"],
        ["model.tflite", "--macs", "1M", "--update-baselines"],
        ["model.tflite", "--macs", "1M", "-o", "folder/check.txt"],
        ["model.tflite", "--macs", "1M", "-o", "link/profile.md"],
        ["model.tflite", "--macs", "1M", "--junit", "model.tflite"],
        ["model.tflite", "--macs", "1M", "-o", "hard.md"],
        ["nothing.onnx", "--macs", "1M"],
    ],
)
def test_an_error_replaces_every_old_report(run: Run, checkout: Path, arguments: list[str]) -> None:
    (checkout / "budgets.toml").write_text('[[budget]]\nmodels = "*.tflite"\nmacs = 1\n', "utf-8")
    os.link("model.tflite", "hard.md")
    done = run("check", *arguments, *OUTPUT)
    assert done.code == 2
    assert done.err
    content = json.loads(Path("check.json").read_text("utf-8"))
    assert (content["verdict"], content["fits"]) == ("error", None)
    assert content["error"]
    assert Path("check.md").read_text("utf-8").startswith("## ERROR: ")
    assert ElementTree.parse("check.xml").getroot().attrib["errors"] == "1"
    (issue,) = json.loads(Path("check.codequality.json").read_text("utf-8"))
    assert issue["severity"] == "critical"
    assert not any(FORGED in Path(name).read_text("utf-8") for name in REPORTS)
    assert _home(checkout) == [("profile", "mine")]
    assert Path("model.tflite").stat().st_size == Path("hard.md").stat().st_size > 10_000


@pytest.mark.extras
def test_a_link_in_the_place_of_a_report_is_replaced_by_the_error(run: Run, checkout: Path) -> None:
    Path("check.md").unlink()
    Path("check.md").symlink_to("link/profile")
    assert run("check", "model.tflite", "--macs", "1G", *OUTPUT).code == 2
    assert not Path("check.md").is_symlink()
    assert "a link leads to" in Path("check.md").read_text("utf-8")
    assert json.loads(Path("check.json").read_text("utf-8"))["verdict"] == "error"
    assert _home(checkout) == [("profile", "mine")]


@pytest.mark.extras
@pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")
def test_a_killed_check_leaves_no_verdict(checkout: Path) -> None:
    """Old reports are emptied before anything else; a killed process writes nothing more."""
    slow = "import time, pathlib; pathlib.Path('started').touch(); time.sleep(600)"
    Path("rules.py").write_text(slow, "utf-8")
    command = [sys.executable, "-m", "sizeup", "check", "model.tflite", "--macs", "1G", "--rules", "rules.py"]
    with subprocess.Popen([*command, *OUTPUT]) as process:
        while not Path("started").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert [Path(name).read_text("utf-8") for name in REPORTS] == [""] * len(REPORTS)


@pytest.mark.extras
@pytest.mark.skipif(os.name != "posix", reason="permissions and pipes of POSIX")
def test_reports_keep_their_permissions_and_a_closed_pipe_keeps_reports(run: Run, checkout: Path) -> None:
    Path("check.json").chmod(0o600)
    assert run("check", "model.tflite", "--macs", "1G", *OUTPUT).code == 0
    assert Path("check.json").stat().st_mode & 0o777 == 0o600
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "sizeup", "check", "model.tflite", "--macs", "1G", *OUTPUT]
    assert subprocess.run(command, stdout=write, check=False).returncode == 141
    os.close(write)
    assert json.loads(Path("check.json").read_text("utf-8"))["fits"] is True


@pytest.mark.extras
@pytest.mark.parametrize(
    "command",
    [
        "analyze model.tflite -o link/profile.json",
        "analyze model.tflite --plot link/profile.png",
        "plan model.tflite -o link/profile.csv",
        "compare model.tflite model.tflite -o link/profile.md",
        "optimize model.tflite -o link/profile.tflite",
        "precision model.tflite --weights 1MiB -o link/profile.json",
        "tradeoff model.tflite --precisions int8 -o link/profile.html",
        "demo -o link/tour",
        "sweep sweep.toml -o link/store",
        "check model.tflite --macs 1G -o link/profile.json",
        "calibrate --csv times.csv --device stm32f746 --runtime tflm -o link/board.toml",
    ],
)
def test_no_command_writes_behind_a_link(run: Run, checkout: Path, command: str) -> None:
    pytest.importorskip("pyarrow")
    Path("sweep.toml").write_text('models = ["*.tflite"]\ntargets = ["stm32f746/tflm"]\n', "utf-8")
    rows = ["model,latency_ms\n"]
    for number in range(1, 8):
        Path(f"{number}.tflite").write_bytes(Path("model.tflite").read_bytes())
        rows.append(f"{number}.tflite,{number}.5\n")
    Path("times.csv").write_text("".join(rows), "utf-8")
    done = run(*command.split())
    assert done.code == 2
    assert "a link leads to" in done.err
    assert _home(checkout) == [("profile", "mine")]


@pytest.mark.extras
@pytest.mark.parametrize(
    "command",
    [
        "check --budget budgets.toml -o baselines.json",
        "check model.tflite --macs 1G -o also.md",
        "llm config.json -d h100/vllm -o config.json",
        "llm hf:config.json -d h100 -o ./config.json",
        "precision model.tflite --losses config.json --weights 1MiB -o config.json",
        "analyze model.tflite --precision config.json -o config.json",
        "tradeoff model.tflite --accuracy table.csv -o table.csv",
    ],
)
def test_no_output_is_an_input(run: Run, checkout: Path, command: str) -> None:
    text = '[[budget]]\nmodels = "*.tflite"\ngrowth = { macs = "5%" }\n'
    for name, content in {
        "budgets.toml": text,
        "config.json": "{}",
        "table.csv": "precision,accuracy\n",
    }.items():
        Path(name).write_text(content, "utf-8")
    assert run("check", "--budget", "budgets.toml", "--update-baselines").code == 0
    os.link("model.tflite", "also.md")
    before = {path: path.read_bytes() for path in checkout.iterdir() if path.is_file()}
    done = run(*command.split())
    assert done.code == 2
    assert "is an input, which is not overwritten" in done.err
    assert {path: path.read_bytes() for path in before} == before
