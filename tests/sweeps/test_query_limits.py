"""Queries that need too much memory, disk or time are stopped, and queries read nothing but the store."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import sizeup
from sizeup.errors import SizeupError
from sizeup.sweeps import query
from sweeps import answers


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one row."""
    row = answers.row_at(("a", "rpi5/ort", "int8", 1, ""), {"status": "ok", "ms": 1.0}, 0)
    return answers.write(tmp_path_factory.mktemp("store"), [{**row, "ops": 4, "known_ops": 4}])


CROSS_JOIN = "SELECT a.range, b.range FROM range(100000000) a, range(100000) b"
SPILLING = f"{CROSS_JOIN} ORDER BY 2 DESC, 1"


@pytest.mark.slow
@pytest.mark.parametrize("sql", [f"SELECT count(*) FROM ({CROSS_JOIN})", SPILLING, CROSS_JOIN])
def test_a_query_without_end_is_stopped(store: Path, tmp_path: Path, sql: str) -> None:
    result = sizeup.query(store, sql, time_limit="1s")
    for use in (lambda: result.rows, lambda: result.preview(5), lambda: result.save(tmp_path / "a.csv")):
        with pytest.raises(SizeupError, match=r"^the query was stopped after 1 s; --time-limit"):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_query_of_too_much_memory_is_stopped(store: Path) -> None:
    result = sizeup.query(store, "SELECT list(range) FROM range(100000000)", memory_limit="64MiB")
    with pytest.raises(SizeupError, match=r"^the query needs more than 64.0 MiB of memory or 4 times that"):
        assert result.rows
    with pytest.raises(SizeupError, match=r"--memory-limit is at least 64\.0 MiB"):
        sizeup.query(store, memory_limit="1MiB")


@pytest.mark.slow
def test_temporary_files_have_a_limit_and_are_removed(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = sizeup.query(
        store, "SELECT range FROM range(200000000) ORDER BY hash(range)", memory_limit="64MiB"
    )
    with pytest.raises(SizeupError, match="or 4 times that of temporary files; --memory-limit"):
        result.preview(3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_query_within_its_limits_spills(store: Path) -> None:
    """The limits do not stop what a larger sweep needs."""
    result = sizeup.query(
        store, "SELECT range FROM range(10000000) ORDER BY hash(range)", memory_limit="64MiB"
    )
    assert result.preview(3).total == 10_000_000


VALUES = [
    "SELECT length(repeat('x', 2000000000))",
    "SELECT repeat('x', 3000000000)",
    "SELECT range(2000000000)",
    "SELECT lpad('a', 2000000000, 'b')",
    "SELECT array_agg(repeat('x', 1000000)) FROM range(100000)",
    SPILLING,
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("sql", VALUES)
def test_no_query_takes_more_memory_than_the_command_allows(store: Path, sql: str) -> None:
    command = [sys.executable, "-m", "sizeup", "query", str(store), sql, "--memory-limit", "256MiB"]
    with subprocess.Popen(
        [*command, "--time-limit", "5s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.01)
        out, error = process.stdout.read(), process.stderr.read()  # type: ignore[union-attr]
    assert (process.returncode, out) == (2, "")
    assert "--memory-limit" in error or "--time-limit" in error
    assert len(error.splitlines()) == 1
    assert 0 < peak < 1 << 30


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def test_settings_exist_in_this_duckdb_and_are_locked(store: Path) -> None:
    with query.open_session(query.QuerySpec(str(store))) as session:
        rows = session.run("SELECT name, value FROM duckdb_settings()").fetchall()
        values = dict(rows)
        assert values["memory_limit"] == "1.0 GiB"
        assert values["max_temp_directory_size"] == "4.0 GiB"
        assert int(values["threads"]) == min(os.cpu_count() or 1, 8)
        assert values["enable_external_access"] == "false"
        for name in ("memory_limit", "threads", "temp_directory", "enable_external_access", "allowed_paths"):
            with pytest.raises(duckdb.Error, match="locked"):
                session.connection.execute(f"SET {name} = '1'")


OUTSIDE = [
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "FROM '{file}'",
    "FROM read_csv('{file}')",
    "FROM read_json('{file}')",
    "FROM sniff_csv('{file}')",
    "FROM read_parquet('{parquet}')",
    "FROM '{parquet}'",
    "FROM parquet_metadata('{parquet}')",
    "FROM parquet_kv_metadata('{parquet}')",
    "FROM read_duckdb('{file}')",
    "FROM parquet_file_metadata('{parquet}')",
    "FROM read_parquet('{store}/../{home}/x.parquet')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM glob('{store}/*')",
    "FROM read_csv('http://127.0.0.1:9/x')",
    "FROM read_text('/dev/stdin')",
    "FROM '/proc/self/environ'",
    "SELECT getenv('HOME')",
    "FROM query('FROM read_text(''{file}'')')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{file}'')'))",
    "FROM duckdb_secrets()",
    "FROM duckdb_extensions()",
    "FROM enable_logging('Http')",
    "FROM enable_profiling()",
    "FROM arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)",
    "ATTACH '{file}'",
    "COPY points TO '{folder}/y.csv'",
    "EXPORT DATABASE '{folder}/e'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "SET threads = 1",
    "RESET memory_limit",
    "CREATE TABLE t (a INT)",
    "CREATE SECRET (TYPE s3)",
    "IMPORT DATABASE '{folder}'",
    "CHECKPOINT",
    "VACUUM",
    "PREPARE a AS SELECT 1",
    "SELECT 1; SELECT 2",
    "EXPLAIN ANALYZE COPY points TO '{folder}/y.csv'",
    "DETACH memory",
    "USE memory",
    "CREATE MACRO m() AS 1",
    "SET VARIABLE a = 1",
    "",
    "BEGIN",
    "COMMENT ON VIEW points IS 'x'",
    "SELECT 1 UNION ALL SELECT 2 FROM read_text('{file}')",
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_a_query_reads_and_writes_nothing_else(store: Path, tmp_path: Path, sql: str) -> None:
    (tmp_path / "secret.txt").write_text("top-secret")
    duckdb.execute(f"COPY (SELECT 'top-secret' AS a) TO '{tmp_path}/x.parquet' (FORMAT parquet)")
    before = sorted(tmp_path.iterdir())
    names = {"file": "secret.txt", "parquet": "x.parquet", "folder": ""}
    text = sql.format(
        **{key: tmp_path / name for key, name in names.items()}, store=store, home=tmp_path.name
    )
    with pytest.raises(SizeupError) as raised:
        assert sizeup.query(store, text).rows
    assert "\n" not in str(raised.value)
    assert sorted(tmp_path.iterdir()) == before
