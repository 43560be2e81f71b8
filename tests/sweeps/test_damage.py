"""Files of a store that others cut off or put in its place: named by questions, made anew by the sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.sweeps import Store, compact
from sweeps.generated import write_models
from sweeps.tables import rows_of, table_of

SPEC: dict[str, Any] = {
    "models": ["nets/*"],
    "targets": ["rpi5/ort", "stm32f746/tflm"],
    "precisions": ["stored", "int8"],
}
TOML = 'models = ["nets/*"]\ntargets = ["rpi5/ort", "stm32f746/tflm"]\nprecisions = ["stored", "int8"]\n'
CUTS: dict[str, Callable[[int], int]] = {
    "nothing": lambda _: 0,
    "four bytes": lambda _: 4,
    "half": lambda size: size // 2,
    "last byte": lambda size: size - 1,
}
cut_at = pytest.mark.parametrize("length", CUTS.values(), ids=CUTS.keys())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three models, swept into `out`, in a folder that is the current one."""
    write_models(tmp_path / "nets", 3)
    monkeypatch.chdir(tmp_path)
    sizeup.sweep(SPEC, tmp_path / "out", in_process=True)
    return tmp_path


def cut(path: str, length: Callable[[int], int]) -> Path:
    """Truncate a file, as an interrupted copy does."""
    file = Path(path)
    content = file.read_bytes()
    file.write_bytes(content[: length(len(content))])
    return file


@cut_at
def test_a_shard_that_was_cut_off_is_evaluated_anew(folder: Path, length: Callable[[int], int]) -> None:
    before = table_of(folder / "out")
    shards = Store(folder / "out").paths()
    shard = cut(shards[1], length)
    done = sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert (done.existing, done.rows, done.corrupt_shards, done.corrupt_shard) == (2, 4, 1, str(shard))
    assert table_of(folder / "out") == before
    assert Store(folder / "out").paths() == shards
    again = sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert (again.existing, again.rows, again.corrupt_shards) == (3, 0, 0)


@cut_at
def test_questions_and_sorting_name_a_shard_that_was_cut_off(
    folder: Path, length: Callable[[int], int]
) -> None:
    shard = cut(Store(folder / "out").paths()[1], length)
    message = rf"{shard.name}: damaged \(truncated, or not a Parquet file\)"
    with pytest.raises(SizeupError, match=message):
        compact(Store(folder / "out"))
    for sql in (None, "SELECT count(*) FROM points"):
        with pytest.raises(SizeupError, match=message):
            sizeup.query(folder / "out", sql)


def test_a_shard_that_no_sweep_plans_any_more_is_said_to_stay(folder: Path) -> None:
    first = sorted((folder / "nets").iterdir())[0]
    before = Store(folder / "out").paths()
    first.rename(first.with_stem("other"))
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    planned = folder / "planned"
    sizeup.sweep(SPEC, planned, in_process=True)
    (stray,) = {Path(each).name for each in before} - {Path(each).name for each in Store(planned).paths()}
    shard = cut(next(each for each in before if each.endswith(stray)), CUTS["half"])
    for _ in range(2):  # its sweep mends nothing
        with pytest.raises(
            SizeupError, match=r"run the sweep again .*, or remove it if the sweep no longer has its model"
        ):
            sizeup.query(folder / "out")
        sizeup.sweep(SPEC, folder / "out", in_process=True)
    shard.unlink()
    assert sizeup.query(folder / "out").rows


@pytest.mark.parametrize("options", [{}, {"devices": "rpi5"}, {"view": "fastest"}])
@cut_at
def test_questions_name_a_sorted_file_that_was_cut_off_and_sorting_mends_it(
    folder: Path, length: Callable[[int], int], options: dict[str, Any]
) -> None:
    compact(Store(folder / "out"))
    whole = table_of(folder / "out")
    files = Store(folder / "out").paths()
    part = cut(files[-1], length)
    with pytest.raises(SizeupError, match=rf"{part.name}: damaged .*recreate it with .* --compact"):
        assert sizeup.query(folder / "out", **options).rows
    assert compact(Store(folder / "out")) == 12
    assert table_of(folder / "out") == whole


def test_the_command_line_tells_in_one_line(folder: Path) -> None:
    (folder / "sweep.toml").write_text(TOML)
    shards = Store(folder / "out").paths()
    for path in shards[:2]:
        cut(path, CUTS["half"])
    answer = run_command("query", "out")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert Path(shards[0]).name in answer.stderr
    assert "1 other file too" in answer.stderr
    sorted_ = run_command("sweep", "-o", "out", "--compact")
    assert (sorted_.returncode, sorted_.stdout) == (2, "")
    assert [len(each.stderr.splitlines()) for each in (answer, sorted_)] == [1, 1]
    again = run_command("sweep", "sweep.toml", "-o", "out", "--json")
    assert again.returncode == 0
    message = [line for line in again.stderr.splitlines() if "could not be read" in line]
    assert len(message) == 1
    assert message[0].startswith("out/shards/")
    assert message[0].endswith(".parquet and 1 other file could not be read and were replaced")
    assert run_command("query", "out").returncode == 0


def test_a_damaged_shard_of_other_questions_is_replaced_by_one_of_these(folder: Path) -> None:
    """Nothing that cannot be read is left, and no row is there twice, in the sorted table neither."""
    compact(Store(folder / "out"))
    cut(str(folder / "out" / Store(folder / "out").shards()[0]), CUTS["half"])
    fewer = {**SPEC, "targets": ["rpi5/ort"], "precisions": ["stored"]}
    done = sizeup.sweep(fewer, folder / "out", in_process=True)
    assert (done.rows, done.corrupt_shards) == (1, 1)
    rows = rows_of(folder / "out")
    assert len(rows) == len({row["key"] for row in rows}) == 2 * 4 + 1
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 3
    sizeup.sweep(SPEC, folder / "fresh", in_process=True)
    assert table_of(folder / "out") == table_of(folder / "fresh")


def test_a_table_of_something_else_among_the_shards_of_a_model_is_replaced(folder: Path) -> None:
    store = Store(folder / "out")
    model = store.shards()[0].rpartition("/")[2].partition("-")[0]
    foreign = Path(store.storage.path(store.shard(model, "f" * 16)))
    parquet.write_table(pa.table({"color": ["red"]}), foreign)
    mine = foreign.with_suffix(".parquet.bak")
    mine.write_text("a note next to it")
    more = {**SPEC, "targets": [*SPEC["targets"], "esp32-s3"]}
    assert sizeup.sweep(more, folder / "out", in_process=True).corrupt_shards == 1
    assert not foreign.exists()
    assert mine.exists()


def test_shards_in_memory_are_looked_at_too(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    address = "memory://damage/one"
    system = fsspec.filesystem("memory")
    try:
        sizeup.sweep(SPEC, address, in_process=True)
        shard = Store(address).shards()[0]
        for content in (b"", b"PAR1", system.cat_file(f"/damage/one/{shard}")[:-1]):
            system.pipe_file(f"/damage/one/{shard}", content)
            assert sizeup.sweep(SPEC, address, in_process=True).corrupt_shards == 1
        assert table_of(address) == table_of(folder / "out")
    finally:
        system.rm("/damage", recursive=True)
