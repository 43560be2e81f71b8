"""What a store answers when models, targets or the program have changed since, and what pruning removes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.sweeps import Store, compact
from sizeup.sweeps.compact import Pruned
from sizeup.sweeps.store import NEWEST
from sweeps.generated import write_models
from sweeps.tables import rows_of, table_of

SPEC: dict[str, Any] = {
    "models": ["nets/*"],
    "targets": ["rpi5/ort", "stm32f746/tflm"],
    "precisions": ["stored", "int8"],
}
FIRST = "nets/00000.tflite"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four models, swept into `out`, in a folder that is the current one."""
    write_models(tmp_path / "nets", 4)
    monkeypatch.chdir(tmp_path)
    sizeup.sweep(SPEC, tmp_path / "out", in_process=True)
    return tmp_path


def change(folder: Path, content: str = "nets/00002.tflite") -> bytes:
    """Put another model in the place of the first; its content before."""
    before = (folder / FIRST).read_bytes()
    (folder / FIRST).write_bytes((folder / content).read_bytes())
    return before


def query_rows(folder: Path | str, sql: str = "SELECT * FROM points") -> list[dict[str, Any]]:
    answer = sizeup.query(folder, sql)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def keys(rows: list[dict[str, Any]]) -> set[str]:
    return {row["key"] for row in rows}


@pytest.mark.parametrize("is_sorted", [False, True])
def test_questions_are_answered_for_models_as_they_are_now(folder: Path, is_sorted: bool) -> None:
    change(folder)
    sizeup.sweep(SPEC, folder / "out", in_process=True, compact=is_sorted)
    sizeup.sweep(SPEC, folder / "fresh", in_process=True)
    assert len(rows_of(folder / "out")) == 20
    assert keys(query_rows(folder / "out")) == keys(rows_of(folder / "fresh"))
    assert keys(query_rows(folder / "out", "SELECT * FROM all_rows")) == keys(rows_of(folder / "out"))
    assert {row["points"] for row in query_rows(folder / "out", "SELECT * FROM summary")} == {4}
    regressions = sizeup.query(folder / "out", view="regressions", against=folder / "fresh")
    assert regressions.rows == ()


def test_a_model_that_is_as_it_was_again_counts_as_it_is(folder: Path) -> None:
    """The latest sweep counts, not the latest write."""
    first = table_of(folder / "out")
    before = change(folder)
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    (folder / FIRST).write_bytes(before)
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 0
    assert keys(query_rows(folder / "out")) == set(first["key"].to_pylist())
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert keys(query_rows(folder / "out")) == set(first["key"].to_pylist())


def test_models_that_were_not_swept_again_stay(folder: Path) -> None:
    change(folder)
    others = {**SPEC, "models": ["nets/00001.onnx"]}
    sizeup.sweep(others, folder / "out", in_process=True)
    assert keys(query_rows(folder / "out")) == keys(rows_of(folder / "out"))


def test_two_models_of_one_name_in_one_sweep_both_count(folder: Path) -> None:
    code = 'def all():\n    for name in ("00000", "00002"):\n        yield "same", f"nets/{name}.tflite"\n'
    (folder / "two_of_a_name.py").write_text(code)
    spec = {"generate": "two_of_a_name:all", "targets": ["rpi5/ort"]}
    for _ in range(2):
        sizeup.sweep(spec, folder / "twins", in_process=True)
        assert len(query_rows(folder / "twins")) == 2


def test_points_are_those_of_the_latest_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the older answer is there, that one stays."""
    older = rows_of(folder / "out")
    monkeypatch.setattr("sizeup.sweeps.points.version", lambda _: "99.0")
    fewer = {**SPEC, "precisions": ["int8"]}
    assert sizeup.sweep(fewer, folder / "out", in_process=True).rows == 8
    rows = query_rows(folder / "out")
    assert len(rows) == 16
    assert {row["version"] for row in rows if row["precision"] == "int8"} == {"99.0"}
    assert {row["version"] for row in rows if row["precision"] == "stored"} == {older[0]["version"]}
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    sizeup.sweep(SPEC, folder / "out", in_process=True)  # the older program again
    assert keys(query_rows(folder / "out")) == keys(older)


def test_a_store_from_before_is_answered_as_it_was(folder: Path) -> None:
    change(folder)
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    (folder / "out" / NEWEST).unlink()
    assert len(query_rows(folder / "out")) == 20
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert len(query_rows(folder / "out")) == 20  # earlier contents are unknown


def test_a_note_that_was_cut_off_is_named_and_made_anew(folder: Path) -> None:
    (folder / "out" / NEWEST).write_bytes(b"PAR1")
    with pytest.raises(sizeup.SizeupError, match=r"newest\.parquet: damaged"):
        query_rows(folder / "out")
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert len(query_rows(folder / "out")) == 16


@pytest.mark.parametrize("is_sorted", [False, True])
def test_pruning_leaves_what_a_fresh_sweep_would_write(folder: Path, is_sorted: bool) -> None:
    """A changed model, one that is gone, and a target and a precision that are asked for no more."""
    if is_sorted:
        compact(Store(folder / "out"))
    change(folder)
    (folder / "nets" / "00003.onnx").unlink()
    fewer = {**SPEC, "precisions": ["int8"]}
    done = sizeup.sweep(fewer, folder / "out", in_process=True, prune=True)
    assert done.pruned == Pruned(
        2, 12, 4, {FIRST: 4, "nets/00001.onnx": 2, "nets/00002.tflite": 2, "nets/00003.onnx": 4}
    )
    sizeup.sweep(fewer, folder / "fresh", in_process=True)
    assert table_of(folder / "out") == table_of(folder / "fresh")
    assert keys(query_rows(folder / "out")) == keys(rows_of(folder / "fresh"))
    again = sizeup.sweep(fewer, folder / "out", in_process=True, prune=True)
    assert again.rows == 0
    assert again.pruned == Pruned(0, 0, 0, {})


def test_pruning_touches_no_file_of_others(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "out", in_process=True, compact=True)
    shard = Store(folder / "out").shards()[0]
    mine = [
        folder / "out" / "notes.txt",
        folder / "out" / "shards" / "mine.parquet",
        (folder / "out" / shard).with_name("my-table.parquet"),
        (folder / "out" / shard).with_suffix(".parquet.bak"),
        folder / "out" / "table" / "my.parquet",
    ]
    for path in mine:
        path.write_bytes(b"mine")
    logs = sorted((folder / "out" / "log").iterdir())
    done = sizeup.sweep({**SPEC, "models": [FIRST]}, folder / "out", in_process=True, prune=True)
    assert done.pruned is not None
    assert done.pruned.rows == 12
    assert [path.read_bytes() for path in mine] == [b"mine"] * 5
    assert set(logs) < set((folder / "out" / "log").iterdir())
    left = {path for path in (folder / "out").rglob("*.parquet") if path.is_file()} - set(mine)
    assert len(left) == 2  # the shard of the one model, and the manifest


def test_who_plans_nothing_removes_nothing(folder: Path) -> None:
    (folder / "nothing.py").write_text("def all():\n    return iter(())\n")
    before = table_of(folder / "out")
    spec = {"generate": "nothing:all", "targets": ["rpi5/ort"]}
    assert sizeup.sweep(spec, folder / "out", prune=True).pruned is None
    with pytest.raises(sizeup.SizeupError, match="no file matches"):
        sizeup.sweep({**SPEC, "models": ["gone/*"]}, folder / "out", prune=True)
    assert table_of(folder / "out") == before


def test_the_command_line_says_what_it_removes(folder: Path) -> None:
    change(folder)
    (folder / "sweep.toml").write_text('models = ["nets/*0.tflite"]\ntargets = ["rpi5/ort"]\n')
    command = [sys.executable, "-m", "sizeup", "sweep", "sweep.toml", "-o", "out", "--prune"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [
        "1 row written to out, 0 of them errors",
        "16 rows removed that this spec does not plan, and 4 files",
        *(f"  nets/0000{index}: 4 rows" for index in ("0.tflite", "1.onnx", "2.tflite", "3.onnx")),
        "$ sizeup query out",
    ]
