"""Stores that strangers wrote: names that lead out of their folder, and files of the wrong kind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.sweeps import Store, compact
from sweeps import answers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the file system has links and pipes")

SECRET = "top-secret-model"
SPEC = {"models": ["torchvision:resnet18"], "targets": ["rpi5/ort"]}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sorted store `out`, and another one with a secret."""
    home = tmp_path_factory.mktemp("stores")
    rows = [
        answers.row_at((name, "rpi5/ort", "int8", 1, ""), {"status": "ok", "ms": 1.0}, number)
        for number, name in enumerate(("a", "b", SECRET))
    ]
    for store, part in (("out", rows[:2]), ("private", rows[2:])):
        answers.write(home / store, [{**row, "ops": 4, "known_ops": 4} for row in part])
        compact(Store(home / store))
    return home


@pytest.fixture
def folder(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the stores in the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stores, tmp_path, dirs_exist_ok=True)
    return tmp_path


def check_refused() -> None:
    """A query is refused in one line, which shows no secret."""
    for words in (("query", "out"), ("query", "out", "SELECT * FROM points")):
        ended = run_command(*words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert len(ended.stderr.splitlines()) == 1
        assert SECRET not in ended.stderr


@pytest.mark.parametrize(
    "content",
    [
        '{"generation": "../../private/table/NAME"}',
        '{"generation": "../private"}',
        '{"generation": "/etc"}',
        '{"generation": ".."}',
        '{"generation": ""}',
        '{"generation": "*"}',
        '{"generation": "NAME\\n"}',
        '{"generation": 5}',
        '{"generation": null}',
        '{"generation": ["NAME"]}',
        '{"rows": 1}',
        "[",
        "5",
        '"a"',
        "[1]",
        "",
        "\xff",
        '{"generation": "NAME',
        "[" * 10_000,
        '{"generation": ' + "9" * 5_000 + "}",
    ],
)
def test_the_current_table_is_named_by_digits_alone(folder: Path, content: str) -> None:
    name = next(path.name for path in (folder / "private" / "table").iterdir() if path.is_dir())
    (folder / "out" / "table" / "current.json").write_text(content.replace("NAME", name), "latin-1")
    check_refused()
    assert compact(Store(folder / "out")) == 2  # as the message says
    assert len(sizeup.query(folder / "out", "SELECT * FROM points").rows) == 2


def _shard(store: Path) -> Path:
    return next(store.joinpath("shards").rglob("*.parquet"))


def _generation(store: Path) -> Path:
    return next(path for path in store.joinpath("table").iterdir() if path.is_dir())


def _swapped(old: Path, new: Path | str) -> None:
    old.rename(old.with_name("moved"))
    old.symlink_to(new)


LINKS: dict[str, Callable[[Path], Any]] = {
    "a shard": lambda home: _swapped(_shard(home / "out"), _shard(home / "private")),
    "all shards": lambda home: _swapped(home / "out" / "shards", home / "private" / "shards"),
    "a folder of shards": lambda home: _swapped(
        _shard(home / "out").parent,
        os.path.relpath(_shard(home / "private").parent, _shard(home / "out").parents[1]),
    ),
    "the sorted tables": lambda home: _swapped(home / "out" / "table", home / "private" / "table"),
    "the current table": lambda home: _swapped(_generation(home / "out"), _generation(home / "private")),
    "a sorted file": lambda home: _swapped(
        next(_generation(home / "out").rglob("*.parquet")),
        next(_generation(home / "private").rglob("*.parquet")),
    ),
    "its name": lambda home: _swapped(
        home / "out" / "table" / "current.json", home / "private" / "table" / "current.json"
    ),
    "a device": lambda home: _swapped(home / "out" / "table" / "current.json", "/dev/zero"),
    "the manifest": lambda home: (home / "out" / "newest.parquet").symlink_to(_shard(home / "private")),
}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_links_that_lead_out_are_refused(folder: Path, link: Callable[[Path], Any]) -> None:
    link(folder)
    check_refused()


@pytest.mark.parametrize("name", [".lock", "log", "shards", "table/current.json", "newest.parquet"])
def test_a_sweep_writes_nothing_through_links(folder: Path, name: str) -> None:
    outside = folder / "outside"
    if name in ("log", "shards"):
        outside.mkdir()
    else:
        outside.write_text("kept")
    place = folder / "out" / name
    if place.exists():
        place.rename(folder / "old")
    place.symlink_to(outside)
    for write in (lambda: sizeup.sweep(SPEC, folder / "out", in_process=True), lambda: compact(Store("out"))):
        with suppress(SizeupError):
            write()
    assert list(outside.iterdir()) == [] if outside.is_dir() else outside.read_text() == "kept"


def test_pipes_are_no_shards(folder: Path) -> None:
    (folder / "out" / "table" / "current.json").unlink()
    os.mkfifo(_shard(folder / "out").with_name(f"{'0' * 32}-{'1' * 16}.parquet"))
    assert len(sizeup.query(folder / "out", "SELECT * FROM points").rows) == 2
    (folder / "out" / ".lock").unlink(missing_ok=True)
    os.mkfifo(folder / "out" / ".lock")
    with pytest.raises(SizeupError, match="cannot be written to: not a regular file"):
        compact(Store(folder / "out"))


@pytest.mark.parametrize(
    "evaluations", ["5", "[1]", "[[1, 2, 3]]", '[["a", "b"]]', "{", '{"a": 1}', "[" * 9_000]
)
def test_a_manifest_of_another_form_is_damaged(folder: Path, evaluations: str) -> None:
    schema = pa.schema([("model", pa.string()), ("model_hash", pa.string()), ("changed", pa.bool_())])
    table = pa.Table.from_pylist([], schema.with_metadata({"sizeup.answers": evaluations}))
    parquet.write_table(table, folder / "out" / "newest.parquet")
    check_refused()


@pytest.mark.parametrize("column", ["model", "changed"])
def test_a_manifest_with_other_columns_is_damaged(folder: Path, column: str) -> None:
    table = pa.table({"model": ["a"], "model_hash": ["b"], "changed": [True]})
    other = table.set_column(table.column_names.index(column), column, [[5]])
    parquet.write_table(other, folder / "out" / "newest.parquet")
    check_refused()


def test_a_file_with_more_rows_than_fit_in_it_is_damaged(folder: Path) -> None:
    rows = 20_000_000
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["a"])
    batch = pa.table({"model": names, "model_hash": names, "changed": [True] * 1000})
    path = folder / "out" / "newest.parquet"
    with parquet.ParquetWriter(path, batch.schema, compression="zstd") as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(pa.concat_tables([batch] * 1000).unify_dictionaries())
    assert path.stat().st_size < 1 << 20
    with pytest.raises(SizeupError, match="more rows than fit in its size"):
        sizeup.query(folder / "out")


def test_what_sizeup_writes_is_read_again(folder: Path) -> None:
    """Names with any characters: they are parts of the names of sorted files."""
    rows = [
        answers.row_at((f"m{index}", f"{name}/ort", "int8", 1, ""), {"status": "ok", "ms": 1.0}, index)
        for index, name in enumerate(("a b", "a*b", "a[1]", "é", "..", "'", "a/../b", "%2e"))
    ]
    answers.write(folder / "odd", [{**row, "ops": 4, "known_ops": 4} for row in rows], shards=3)
    assert compact(Store(folder / "odd")) == len(rows)
    assert len(sizeup.query(folder / "odd", "SELECT * FROM points").rows) == len(rows)
    assert all("/table/" in path for path in Store(folder / "odd").paths())
    assert json.loads((folder / "odd" / "table" / "current.json").read_text())["rows"] == len(rows)
