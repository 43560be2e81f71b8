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
    assert lines[0].startswith("3 models at 1 point each, in local processes, in ")
    assert lines[1] == "3 rows written to out, 1 of them errors"
    assert lines[2].startswith("  CorruptModel: 1 row, for example nets/bad.onnx: ")
    assert lines[3] == "--retry-errors evaluates them again"
    assert lines[4:] == ["$ sizeup query out"]


def test_a_sweep_that_is_stopped_says_that_it_can_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "stop.py").write_text(
        "def all():\n    yield 'nets/00000.tflite'\n    raise KeyboardInterrupt\n"
    )
    (folder / "sweep.toml").write_text('generate = "stop:all"\ntargets = ["rpi5/litert"]\n')
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process") == 130
    assert capsys.readouterr().err.endswith("run the same command again to resume\n")


def test_json_is_alone_on_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process", "--json", "--strict") == 3
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema_version"] == 2
    assert (printed["sweep"]["models"], printed["sweep"]["rows"], printed["sweep"]["errors"]) == (3, 3, 1)
    assert printed["sweep"]["error_types"] == {"CorruptModel": 1}


def test_what_is_there_can_be_sorted_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("sweep", "sweep.toml", "-o", "out", "--in-process") == 0
    assert ended("sweep", "-o", "out", "--compact") == 0
    assert capsys.readouterr().out.endswith("sorted 3 rows of out by device, precision and model\n")
    assert (folder / "out" / "table" / "current.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "sweep.toml"], "missing -o DIR\nExample: sizeup sweep registry.toml -o results"),
        (["sweep", "-o", "out"], "missing SPEC.toml\nExample: sizeup sweep"),
        (["sweep", "absent.toml", "-o", "out"], "absent.toml: no such file"),
        (
            ["sweep", "sweep.toml", "-o", "out", "--memory", "much"],
            "--memory much: not a size; use e.g. 320KiB",
        ),
        (["sweep", "sweep.toml", "-o", "out", "--engine", "spark"], "unknown engine 'spark'"),
        (["sweep", "-o", "empty", "--compact"], "no sweep results found"),
    ],
)
def test_errors_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert ended(*arguments) == 2
    assert message in capsys.readouterr().err


def test_progress_tells_done_failed_elapsed_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.sweeping("a sweep") as show:
        show(Progress(10, 2000, 0, 0, 5.0))  # too soon for another line
        show(Progress(1030, 2000, 3, 30, 250.0, 242.4))
        show(Progress(1031, None, 3, 0, 261.0))
    lines = [re.sub(r"[\d:]+ elapsed", "TIME elapsed", line) for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "1,030 of 2,000 models, 30 already stored, 3 with errors, TIME elapsed, 4 models/s, 4:02 left",
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
    assert 1.5 < seconds < time.monotonic() - before + 0.02  # start times have a resolution of 10 ms


def test_brackets_in_names_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("net[torch].onnx").write_bytes(b"broken")
    Path("spec.toml").write_text('models = ["net[[]torch].onnx"]\ntargets = ["rpi5/ort"]\n', "utf-8")
    assert ended("sweep", "spec.toml", "-o", "out[1]", "--in-process") == 0
    assert "net[torch].onnx" in capsys.readouterr().out
    assert ended("sweep", "-o", "out[1]", "--compact") == 0
    assert "rows of out[1] by device" in capsys.readouterr().out


def test_a_store_is_written_into_a_folder_that_exists(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As analyze, optimize and query do; a typing error created folders."""
    assert ended("sweep", "sweep.toml", "-o", "nowhere/out", "--in-process") == 2
    assert f"nowhere/out: no such folder {folder / 'nowhere'}" in capsys.readouterr().err
    assert not (folder / "nowhere").exists()
