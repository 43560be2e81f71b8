"""Changed files that a pull request names: they are paths, whatever their names look like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.running import Run

pytestmark = pytest.mark.extras

BUDGET = '[[budget]]\nmodels = {models}\nmacs = "5 M"\n'
EVIL = "from pathlib import Path\nPath('imported').touch()\n"


@pytest.fixture
def folder(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder: a model, and a module that leaves a file behind when it is imported."""
    pytest.importorskip("ai_edge_litert")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "blobs" / "a.tflite").write_bytes((shared / "models" / "tflm_hello_int8.tflite").read_bytes())
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


def _check(run: Run, models: str, *changed: str) -> tuple[int, str]:
    Path("budgets.toml").write_text(BUDGET.format(models=models), "utf-8")
    done = run("check", "--budget", "budgets.toml", "--changed", "--", *changed)
    return done.code, done.out + done.err


@pytest.mark.parametrize("name", ["evil:gone.onnx", "evil:make", "evil:GONE.PT2"])
@pytest.mark.parametrize("models", ['"*"', '["*", "evil:make"]'])
def test_a_deleted_file_is_never_imported(run: Run, folder: Path, name: str, models: str) -> None:
    code, text = _check(run, models, name)
    assert code == 2
    assert "no such file" in text
    if name.lower().endswith((".onnx", ".pt2")):  # also without --changed
        assert "no such file" in run("check", name, "--macs", "1M").err
    assert not (folder / "imported").exists()


def test_a_link_that_leads_nowhere_is_a_missing_file(run: Run, folder: Path) -> None:
    (folder / "evil:make").symlink_to("nowhere")
    for command in (["check", "evil:make", "--macs", "1M"], ["analyze", "evil:make"]):
        done = run(*command)
        assert done.code == 2
        assert "evil:make: no such file" in done.err
    assert not (folder / "imported").exists()


def test_the_target_of_a_linked_model_is_a_changed_model(run: Run, folder: Path) -> None:
    (folder / "models" / "m.tflite").symlink_to("../blobs/a.tflite")
    code, text = _check(run, '"models/*.tflite"', "blobs/a.tflite")
    assert (code, "YES" in text, "skipped" in text) == (0, True, False), text
    (folder / "blobs" / "a.tflite").write_bytes(b"\0\0\0\0TFL3")
    code, text = _check(run, '"models/*.tflite"', "blobs/a.tflite")
    assert code == 2, text
    (folder / "blobs" / "a.tflite").unlink()
    for models in ('"models/*.tflite"', '"models/m.tflite"'):
        code, text = _check(run, models, "blobs/a.tflite")
        assert code == 2, text
        assert "models/m.tflite: no such file" in text


def test_a_loop_of_links_is_a_missing_file(run: Run, folder: Path) -> None:
    (folder / "models" / "m.tflite").symlink_to("m.tflite")
    code, text = _check(run, '"models/*.tflite"', "models/m.tflite")
    assert code == 2, text
    assert "m.tflite" in text
    assert "Traceback" not in text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("name", ["z.onnx", "z.tflite", "z.pt2", "z.bin", "hf:z.json"])
def test_pipes_and_devices_are_not_opened(run: Run, folder: Path, name: str) -> None:
    if name.startswith("hf:"):
        pytest.importorskip("transformers")
    path = folder / name.removeprefix("hf:")
    for is_device in (True, False):
        if is_device:
            path.symlink_to("/dev/zero")
        else:
            os.mkfifo(path)
        for command in (["check", name, "--macs", "1M"], ["analyze", name]):
            done = run(*command)
            assert done.code == 2
            assert done.err.strip().endswith(f"{name}: not a regular file")
        path.unlink()
