"""The sandbox, attacked from within: files, network, processes."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sizeup.errors import SizeupError
from sizeup.workers import Supervisor
from sizeup.workers.sandbox import VARIABLE, confinement

landlockpy = pytest.importorskip("landlockpy")
if not landlockpy.supported():
    pytest.skip("this kernel has no Landlock", allow_module_level=True)


@pytest.fixture
def inside(tmp_path: Path) -> Callable[[Callable[[], Any]], Any]:
    """Calls a function in a worker that may read `model` and write `scratch` of the temporary folder."""
    for name in ("model", "scratch", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)

    def call(function: Callable[[], Any]) -> Any:
        confine = confinement([tmp_path / "model"], tmp_path / "scratch")
        assert confine is not None
        with Supervisor(forks=True, confine=confine) as supervisor:
            return supervisor.call(lambda _: _outcome(function), seconds=60)

    return call


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except OSError as error:
        return "denied" if error.errno in (errno.EACCES, errno.EPERM, errno.EXDEV) else str(error)


def test_model_is_read_and_scratch_is_written(inside: Callable[..., Any], tmp_path: Path) -> None:
    assert inside(lambda: (tmp_path / "model" / "file").read_text()) == "model"
    assert inside(lambda: (tmp_path / "scratch" / "new").write_text("1")) == 1
    assert (tmp_path / "scratch" / "new").read_text() == "1"


@pytest.mark.parametrize(
    "attack",
    [
        lambda folder: (folder / "other" / "file").read_text(),
        lambda folder: [*(folder / "other").iterdir()],
        lambda folder: [*folder.iterdir()],
        lambda folder: (folder / "model" / "file").write_text("changed"),
        lambda folder: (folder / "model" / "new").write_text("x"),
        lambda folder: (folder / "model" / "file").unlink(),
        lambda folder: (folder / "other" / "file").rename(folder / "scratch" / "mine"),
        lambda folder: os.link(folder / "other" / "file", folder / "scratch" / "mine"),
        lambda folder: (folder / "model" / "link").symlink_to(folder),
        lambda folder: os.truncate(folder / "model" / "file", 0),
        lambda folder: os.mkfifo(folder / "other" / "fifo"),
        lambda folder: [*Path.home().iterdir()],
        lambda folder: Path("/etc/hosts").write_text("x"),
        lambda folder: Path("/usr/bin/new").write_text("x"),
        lambda folder: (Path(sys.prefix) / "new").write_text("x"),
        lambda folder: socket.create_connection(("127.0.0.1", 9), timeout=5),
        lambda folder: os.kill(os.getppid(), 0),
        lambda folder: subprocess.run(["cat", folder / "other" / "file"], check=True),
    ],
)
def test_attacks_are_denied(
    attack: Callable[[Path], Any], inside: Callable[..., Any], tmp_path: Path
) -> None:
    def outcome() -> Any:
        try:
            return attack(tmp_path)
        except subprocess.CalledProcessError:
            raise PermissionError(errno.EACCES, "denied") from None

    assert inside(lambda: repr(outcome())) == "denied"
    assert (tmp_path / "model" / "file").read_text() == "model"
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        ["model", "scratch", "other", "file", "file", "file"]
    )


def test_link_in_the_model_folder_leads_nowhere(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "model" / "link").symlink_to(tmp_path / "other" / "file")
    assert inside(lambda: (tmp_path / "model" / "link").read_text()) == "denied"


def test_subprocesses_and_libraries_work(inside: Callable[..., Any]) -> None:
    command = [sys.executable, "-c", "import numpy, socket; print(numpy.ones(2).sum())"]
    assert inside(lambda: subprocess.run(command, capture_output=True, text=True).stdout) == "2.0\n"


@pytest.mark.parametrize(("mode", "is_off"), [("off", True), ("", False), ("required", False)])
def test_environment_decides(
    mode: str, is_off: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, mode)
    assert (confinement([], tmp_path) is None) is is_off


def test_unknown_mode_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "on")
    with pytest.raises(SizeupError, match="SIZEUP_SANDBOX=on is not one of auto, required, off"):
        confinement([], tmp_path)


def test_required_sandbox_that_is_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert confinement([], tmp_path) is None
    monkeypatch.setenv(VARIABLE, "required")
    with pytest.raises(SizeupError, match=r"SIZEUP_SANDBOX=required, but .*sizeup\[sandbox\]"):
        confinement([], tmp_path)
