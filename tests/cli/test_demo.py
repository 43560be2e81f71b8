"""The tour: its commands run for real on the model that ships with the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from cli.running import Run
from sample_model import sample_model
from sizeup.cli.demo import SAMPLE

pytestmark = pytest.mark.extras


def test_the_tour_goes_from_no_to_yes(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a tour"
    ended = run("demo", "-o", str(folder))
    assert ended.code == 0, ended.err
    verdicts = [line.split(":")[0] for line in ended.out.splitlines() if line.startswith(("NO:", "YES:"))]
    assert verdicts == ["NO", "YES"]
    before, after = (
        sizeup.check(folder / name, target="nrf52832") for name in ("sample.tflite", "smaller.tflite")
    )
    assert (before.fits, after.fits) == (False, True)
    page = (folder / "report.html").read_text("utf-8")
    assert "nrf52832" in page
    assert "smaller" in page


def test_every_command_that_is_shown_can_be_typed(run: Run, tmp_path: Path) -> None:
    ended = run("demo", "-o", str(tmp_path / "tour"))
    shown = [line.removeprefix("$ sizeup ") for line in ended.out.splitlines() if line.startswith("$ sizeup")]
    assert [command.split()[0] for command in shown] == ["analyze", "check", "optimize", "check", "analyze"]
    again = run(*shown[1].split(), "--json")
    assert again.code == 1
    assert json.loads(again.out)["fits"] is False


def test_a_folder_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    ended = run("demo", "-o", str(tmp_path / "file" / "tour"))
    assert ended.code == 2
    assert "cannot be written" in ended.err
    assert "use -o DIR" in ended.err


def test_the_sample_is_what_its_tool_writes() -> None:
    assert SAMPLE.read_bytes() == sample_model()
