"""`sizeup sweep` as its users meet it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sizeup.cli import main, terminal
from sizeup.sweeps import Progress

pytest.importorskip("pyarrow")
pytest.importorskip("onnx")
pytest.importorskip("ai_edge_litert")

pytestmark = pytest.mark.extras


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from sweeps.generated import write_models

    write_models(tmp_path / "nets", 2)
    (tmp_path / "nets" / "bad.onnx").write_text("no model")
    (tmp_path / "sweep.toml").write_text('models = ["nets/*"]\ntargets = ["rpi5/ort"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def test_a_sweep_says_what_it_did(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 models at 1 point each, in processes of this machine, in ")
    assert lines[1] == "3 rows written to out, 1 of them errors"
    assert lines[2].startswith("  CorruptModel: 1 row, such as nets/bad.onnx: ")
    assert lines[3] == "to retry errors: --retry-errors"
    assert lines[4:] == ["$ sizeup query out"]


def test_a_sweep_that_is_stopped_says_that_it_can_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "stop.py").write_text(
        "def all():\n    yield 'nets/00000.tflite'\n    raise KeyboardInterrupt\n"
    )
    (folder / "sweep.toml").write_text('generate = "stop:all"\ntargets = ["rpi5/litert"]\n')
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process") == 130
    assert capsys.readouterr().err.endswith("the same command goes on from there\n")


def test_json_is_alone_on_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process", "--json", "--strict") == 3
    told = json.loads(capsys.readouterr().out)
    assert told["schema_version"] == 1
    assert (told["sweep"]["models"], told["sweep"]["rows"], told["sweep"]["errors"]) == (3, 3, 1)
    assert told["sweep"]["kinds"] == {"CorruptModel": 1}


def test_what_is_there_can_be_sorted_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process") == 0
    assert ended("sweep", "-o", "out", "--compact") == 0
    assert capsys.readouterr().out.endswith("3 rows of out sorted by device, precision and model\n")
    assert (folder / "out" / "table" / "current.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sweep", "sweep.toml"], "name a folder for the results"),
        (["sweep", "-o", "out"], "name a .toml file"),
        (["sweep", "absent.toml", "-o", "out"], "absent.toml: cannot be read"),
        (["sweep", "sweep.toml", "-o", "out", "--memory", "much"], "'much' is not a size"),
        (["sweep", "sweep.toml", "-o", "out", "--engine", "spark"], "no engine is called 'spark'"),
        (["sweep", "-o", "empty", "--compact"], "no rows of a sweep are there"),
    ],
)
def test_what_is_wrong_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert ended(*arguments) == 2
    assert said in capsys.readouterr().err


def test_progress_tells_done_failed_elapsed_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.sweeping("a sweep") as show:
        show(Progress(10, 2000, 0, 0, 5.0))  # too soon for another line
        show(Progress(1030, 2000, 3, 30, 250.0, 242.4))
        show(Progress(1031, None, 3, 0, 261.0))
    lines = [re.sub(r"[\d:]+ elapsed", "TIME elapsed", line) for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "1,030 of 2,000 models, 30 already there, 3 with errors, TIME elapsed, 4 models/s, 4:02 left",
        "1,031 models, 3 with errors, TIME elapsed, 3.95 models/s",
    ]


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="this system does not say when a process began"
)
def test_the_time_of_a_sweep_is_that_of_its_process(folder: Path) -> None:
    arguments = ["sweep", "sweep.toml", "-o", "out", "--in-process", "--json"]
    code = f"import time; time.sleep(1.5); from sizeup.cli import main; main({arguments})"
    before = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout)["sweep"]["seconds"]
    assert 1.5 < seconds < time.monotonic() - before + 0.02  # a process is said to begin to a hundredth
