"""The store: local and elsewhere, compaction, files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

import sizeup
from sizeup.errors import SizeupError
from sizeup.files import UNFINISHED
from sizeup.sweeps import Store, compact
from sizeup.sweeps.schema import FIELDS, NAMES, arrow_schema, batch_of, batches_of
from sizeup.sweeps.storage import LocalStorage
from sizeup.sweeps.store import SHARDS
from sweeps.generated import write_models
from sweeps.tables import rows_of, table_of, unfinished

SPEC: dict[str, Any] = {
    "models": ["nets/*"],
    "targets": ["rpi5/ort", "rpi5/litert-xnnpack", "stm32f746/tflm"],
    "precisions": ["stored", "int8"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    write_models(folder / "nets", 5)
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def swept(folder: Path) -> Path:
    """A store that no test changes."""
    before = Path.cwd()
    os.chdir(folder)
    sizeup.sweep(SPEC, folder / "swept", in_process=True)
    os.chdir(before)
    return folder / "swept"


@pytest.fixture
def memory() -> Iterator[str]:
    address = "memory://sweeps/one"
    yield address
    fsspec.filesystem("memory").rm("/sweeps", recursive=True)


def test_a_store_in_memory_holds_the_same_table(swept: Path, memory: str) -> None:
    """In this process, because that memory is this process's own."""
    done = sizeup.sweep(SPEC, memory, in_process=True)
    assert done.rows == 30
    assert table_of(memory) == table_of(swept)
    assert sizeup.sweep(SPEC, memory, in_process=True).rows == 0
    assert compact(Store(memory)) == 30
    assert table_of(memory) == table_of(swept)
    names = [path.removeprefix("/sweeps/one/") for path in fsspec.filesystem("memory").find("/sweeps/one")]
    assert {name.partition("/")[0] for name in names} == {"shards", "table", "log", "newest.parquet"}


def test_processes_write_to_an_address_of_files(swept: Path, tmp_path: Path) -> None:
    sizeup.sweep(SPEC, f"file://{tmp_path}/out")
    assert table_of(tmp_path / "out") == table_of(swept)


def test_an_address_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SizeupError, match="nothing://here"):
        Store("nothing://here")
    (tmp_path / "file").write_text("")
    with pytest.raises(SizeupError, match="a file; give a folder"):
        Store(tmp_path / "file")


def test_compaction_keeps_every_row_once_and_sorts_them(swept: Path, tmp_path: Path) -> None:
    sizeup.sweep(SPEC, tmp_path / "out", in_process=True, compact=True)
    store = Store(tmp_path / "out")
    parts = store.parts()
    folders = {"/".join(part.split("/")[2:4]) for part in parts}
    assert folders == {
        f"device={device}/precision={precision}"
        for device in ("rpi5", "stm32f746")
        for precision in ("stored", "int8")
    }
    assert table_of(tmp_path / "out") == table_of(swept)
    for part in parts:
        models = next(store.read([part]))["model"].to_pylist()
        assert models == sorted(models)


def test_rows_that_come_after_compaction_are_seen_beside_it(tmp_path: Path) -> None:
    fewer = {**SPEC, "models": ["nets/00000.tflite", "nets/00001.onnx"]}
    sizeup.sweep(fewer, tmp_path / "out", in_process=True, compact=True)
    sizeup.sweep(SPEC, tmp_path / "out", in_process=True)
    assert len({part.partition("/")[0] for part in Store(tmp_path / "out").parts()}) == 2
    sizeup.sweep(SPEC, tmp_path / "fresh", in_process=True)
    assert table_of(tmp_path / "out") == table_of(tmp_path / "fresh")
    assert compact(Store(tmp_path / "out")) == 30
    assert {part.partition("/")[0] for part in Store(tmp_path / "out").parts()} == {"table"}
    assert len(list((tmp_path / "out" / "table").iterdir())) == 2  # the older generation is gone
    assert table_of(tmp_path / "out") == table_of(tmp_path / "fresh")


def test_a_key_that_two_files_hold_is_kept_once(swept: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    rows = rows_of(swept)
    for digest, part in (("a" * 16, rows), ("b" * 16, rows[:7])):
        by_model = {
            row["model_hash"]: [r for r in part if r["model_hash"] == row["model_hash"]] for row in part
        }
        for model_hash, some in by_model.items():
            store.write(store.shard(model_hash, digest), batches_of(some))
    assert compact(store) == len(rows)
    assert table_of(tmp_path / "out") == table_of(swept)


def test_an_empty_store_cannot_be_compacted(tmp_path: Path) -> None:
    with pytest.raises(SizeupError, match="no sweep results found"):
        compact(Store(tmp_path))


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Any]:
        yield batch_of({"key": ["one"]}, 1)
        raise RuntimeError("in the middle")

    store = Store(tmp_path)
    with pytest.raises(RuntimeError, match="in the middle"):
        store.write(store.shard("ab" * 16, "0" * 16), broken())
    assert store.shards() == []
    assert unfinished(tmp_path) == []


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = store.shard("ab" * 16, "0" * 16)
    seen = []

    def slowly() -> Iterator[Any]:
        for index in range(5):
            seen.append((store.has(name), store.shards(), len(unfinished(tmp_path))))
            yield batch_of({"key": [str(index)]}, 1)

    assert store.write(name, slowly()) == 5
    assert seen == [(False, [], 1)] * 5
    assert store.shards() == [name]
    assert unfinished(tmp_path) == []


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "shards" / "ab" / f"something.parquet.1{UNFINISHED}"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    assert Store(tmp_path).storage.clean() == 1
    assert unfinished(tmp_path) == []


def test_a_table_that_others_put_beside_the_shards_is_not_counted(tmp_path: Path) -> None:
    sizeup.sweep(SPEC, tmp_path, in_process=True)
    before = sizeup.query(tmp_path, "SELECT count(*) FROM points").rows
    parquet.write_table(pa.table({"key": ["mine"], "model": [None]}), tmp_path / "shards" / "mine.parquet")
    assert sizeup.query(tmp_path, "SELECT count(*) FROM points").rows == before
    assert compact(Store(tmp_path)) == before[0][0]


def test_a_folder_that_cannot_be_written_to_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SizeupError, match="cannot be written to: Not a directory"):
        sizeup.sweep(SPEC, tmp_path / "file" / "out", in_process=True)


@pytest.mark.parametrize("name", ["", "lock", "log", "rows"])
def test_a_sweep_writes_and_removes_nothing_behind_a_link(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The working directory may be a checkout with a store of somebody else."""
    write_models(tmp_path / "checkout" / "nets", 1)
    monkeypatch.chdir(tmp_path / "checkout")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    store = Path("store")
    if name:
        store.mkdir()
        links = {"lock": ".lock", "log": "log", "rows": SHARDS}
        (store / links[name]).symlink_to(outside / "file" if name == "lock" else outside)
    else:
        store.symlink_to(outside)
    with pytest.raises(SizeupError, match=r"a link (leads to|that leads out)"):
        sizeup.sweep(SPEC, "store", in_process=True)
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("file", "kept")]
    if name == "rows":
        with pytest.raises(SizeupError, match="a link that leads out"):
            LocalStorage(store).remove(f"{SHARDS}/file")
        assert (outside / "file").exists()


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    sizeup.sweep(SPEC, tmp_path, in_process=True)
    shard = Path(Store(tmp_path).paths()[0])
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(SizeupError, match=shard.name):
        table_of(tmp_path)


def test_every_column_has_a_type_and_a_meaning(swept: Path) -> None:
    assert arrow_schema().names == list(NAMES)
    assert len(set(NAMES)) == len(NAMES)
    assert [field.name for field in FIELDS if len(field.meaning) < 8] == []
    for path in Store(swept).paths():
        assert parquet.read_schema(path).equals(arrow_schema())


def test_the_page_tells_every_column() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "sweeping.md").read_text("utf-8")
    for field in FIELDS:
        assert f"| `{field.name}` | {field.type} | {field.meaning} |" in page


def test_duckdb_reads_the_files(swept: Path) -> None:
    paths = Store(swept).paths()
    question = f"select device, count(*) from read_parquet({paths}) group by 1 order by 1"
    result = duckdb.connect().execute(question).fetchall()
    assert result == [("rpi5", 20), ("stm32f746", 10)]


def test_a_number_beyond_64_bits_is_null_not_wrong() -> None:
    batch = batch_of({"key": ["a", "b"], "macs": [2**63, 5]}, 2)
    assert batch.column("macs").to_pylist() == [None, 5]
    assert batch.column("params") == pa.nulls(2, pa.int64())
