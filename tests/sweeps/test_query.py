"""Questions to sweeps: every view against plain Python, and SQL that means harm."""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sizeup
from sizeup.errors import SizeupError
from sizeup.sweeps.query import QuerySpec, Session, open_session
from sweeps import answers
from sweeps.answers import MATCH, Row

pytestmark = pytest.mark.extras

_often = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def query_rows(folder: Path, *args: Any, **kwargs: Any) -> list[Row]:
    result = sizeup.query(folder, *args, **kwargs)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def query_many(folder: Path, *questions: dict[str, Any]) -> list[list[Row]]:
    """The answers to several questions without opening the store for each."""
    results = []
    with open_session(QuerySpec(str(folder), sql="fits fastest unknown errors summary misfits")) as session:
        for question in questions:
            one = Session(session.connection, session.views, QuerySpec(str(folder), **question))
            result = one.run(one.statement)
            names = [each[0] for each in result.description]
            results.append([dict(zip(names, row, strict=True)) for row in result.fetchall()])
    return results


def columns_of(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@_often
@given(answers.tables(most=50), st.integers(1, 4), st.integers(1, 3))
def test_every_view_says_what_comparing_all_rows_says(rows: list[Row], shards: int, top: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = answers.write(Path(name), rows, shards)
        views = ("fits", "misfits", "unknown", "errors", "summary")
        fastest, first, *result = query_many(
            folder,
            {"view": "fastest", "top": top},
            {"view": "fits", "top": top},
            *({"view": view} for view in views),
        )
    fits, misfits, unknown, errors, summary = result
    order = ("target", "precision", "batch", "rank", "model", "shapes")
    assert columns_of(fastest, *order) == answers.fastest(rows, top)
    assert columns_of(fits, *MATCH) == columns_of(answers.fitting(rows), *MATCH)
    groups = Counter(columns_of(fits, "target", "precision", "batch"))
    assert Counter(columns_of(first, "target", "precision", "batch")) == {
        group: min(count, top) for group, count in groups.items()
    }
    too_large = [row for row in rows if row["status"] == "ok" and row["fits"] is False]
    assert Counter(columns_of(misfits, *MATCH)) == Counter(columns_of(too_large, *MATCH))
    by_place = dict(zip(columns_of(rows, *MATCH), (row["key"] for row in rows), strict=True))
    lacking = [set(row["missing"].split(", ")) for row in unknown]
    assert dict(
        zip((by_place[place] for place in columns_of(unknown, *MATCH)), lacking, strict=True)
    ) == answers.unknown(rows)
    counted = dict(
        zip(
            columns_of(errors, "model", "error_kind", "error"), (row["points"] for row in errors), strict=True
        )
    )
    assert counted == answers.failed(rows)
    counts = ("models", "points", "errors", "fit", "too_large", "fit_unknown", "timed")
    by_key = dict(zip(columns_of(summary, "target", "precision"), columns_of(summary, *counts), strict=True))
    assert by_key == answers.summary(rows)


@_often
@given(
    answers.tables(least=20, most=60),
    st.sampled_from(["ms", "weight_bytes", "peak_bytes"]),
    st.sampled_from(["weight_bytes", "max:params", "max:macs", "ms"]),
)
def test_a_front_holds_what_no_other_point_beats(rows: list[Row], first: str, second: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = answers.write(Path(name), rows)
        result = query_rows(folder, view="pareto", axes=f"{first},{second}")
    signs = (1, -1 if second.startswith("max:") else 1)
    expected = answers.front(rows, first, second.removeprefix("max:"), signs)
    names = ("device", "runtime", "model", "precision", "batch", "shapes")
    by_key = {row["key"]: tuple(row[name] for name in names) for row in rows}
    assert Counter(tuple(row[name] for name in names) for row in result) == Counter(
        by_key[key] for key in expected
    )


@_often
@given(answers.tables(least=10), answers.tables(least=10))
def test_regressions_are_what_became_worse(now: list[Row], before: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as name:
        new = answers.write(Path(name) / "now", now)
        old = answers.write(Path(name) / "before", before)
        result = query_rows(new, view="regressions", against=old)
    counts = {tuple(row[name] for name in MATCH): set(row["worse"].split(", ")) for row in result}
    assert counts == answers.regressions(now, before)
    assert len(result) == len(counts)


@_often
@given(
    answers.tables(least=5), st.sampled_from(["rpi5", "stm32f746/tflm"]), st.sampled_from([1.0, 2.25, 4.0])
)
def test_options_filter_the_points_first(rows: list[Row], device: str, under: float) -> None:
    mine = [row for row in rows if device in (row["device"], row["target"])]
    fast = [row for row in mine if row["ms"] is not None and row["ms"] <= under]
    with tempfile.TemporaryDirectory() as name:
        folder = answers.write(Path(name), rows)
        if not mine:
            with pytest.raises(SizeupError, match="no points for device or target"):
                sizeup.query(folder, devices=device)
            return
        result = query_rows(folder, "SELECT key FROM points", devices=device, under=under / 1e3)
        assert {row["key"] for row in result} == {row["key"] for row in fast}
        ranked = query_rows(folder, view="fastest", top=100, devices=[device], under=f"{under} ms")
        assert len(ranked) == len(answers.fastest(fast, 100))


def point(model: str = "a", target: str = "rpi5/ort", number: int = 0, **figures: Any) -> Row:
    usual = {
        "status": "ok",
        "fits": True,
        "ops": 4,
        "known_ops": 4,
        "ms": 2.0,
        "weight_bytes": 10,
        "params": 5,
    }
    return answers.row_at((model, target, "int8", None, ""), {**usual, **figures}, number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small sweep: three models, of which one is too large for a device, and one failed."""
    rows = [
        point("a", ms=2.0, weight_bytes=10, number=1),
        point("b", ms=1.0, weight_bytes=90, number=2),
        point("c", status="error", error_kind="crash", number=3),
        point("a", "stm32f746/tflm", fits=False, number=4),
        point("b", "stm32f746/tflm", fits=None, ms=None, number=5),
    ]
    return answers.write(tmp_path / "sweep", rows, 2)


def test_what_is_not_known_never_comes_first(tmp_path: Path) -> None:
    rows = [
        point("slow and certain", ms=8.5, number=1),
        point("fast, may not fit", ms=1.0, fits=None, number=2),
        point("fast, not all counted", ms=0.5, known_ops=3, number=3),
        point("no latency", ms=None, number=4),
        point("too large", ms=0.1, fits=False, number=5),
    ]
    folder = answers.write(tmp_path, rows)
    ranked = [row["model"] for row in query_rows(folder, view="fastest", top=9)]
    assert ranked == ["slow and certain", "fast, may not fit", "fast, not all counted"]
    fronts = {row["model"] for row in query_rows(folder, view="pareto")}
    assert "slow and certain" in fronts


def test_a_joined_table_gives_points_more_columns(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "accuracy.csv"
    table.write_text("model,accuracy\na,0.9\nb,nan\nz,0.99\n", "utf-8")
    result = query_rows(
        folder, "SELECT model, accuracy FROM points WHERE device = 'rpi5' ORDER BY model", join=table
    )
    assert [(row["model"], row["accuracy"]) for row in result] == [("a", 0.9), ("b", None), ("c", None)]
    # Accuracy becomes an axis of the front, to be maximized; points without it are not in the front.
    assert [row["model"] for row in query_rows(folder, view="pareto", join=table)] == ["a"]
    assert "accuracy" in sizeup.query(folder, view="pareto", join=table).columns
    assert query_rows(folder, "FROM accuracy ORDER BY model", join=table)[0] == {
        "model": "a",
        "accuracy": 0.9,
    }


@pytest.mark.parametrize("name", ["points", "Fits", "considered", "before"])
def test_a_joined_table_may_be_called_as_a_view_is(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.csv").write_text("model,accuracy\na,0.5\n", "utf-8")
    sql = "SELECT DISTINCT accuracy FROM points, (SELECT count(*) FROM fits) WHERE model = 'a'"
    assert query_rows(folder, sql, join=tmp_path / f"{name}.csv") == [{"accuracy": 0.5}]


def test_names_of_digits_are_names(tmp_path: Path) -> None:
    folder = answers.write(tmp_path / "s", [point("007", number=1), point("7", number=2)])
    table = tmp_path / "accuracy.csv"
    table.write_text("model,accuracy\n007,0.5\n7,0.25\n", "utf-8")
    result = query_rows(folder, "SELECT model, accuracy FROM points ORDER BY model", join=table)
    assert [(row["model"], row["accuracy"]) for row in result] == [("007", 0.5), ("7", 0.25)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model,accuracy\na,1\na,2\n", "more than one row for model a"),
        ("model,ms\na,1\n", "column 'ms' exists in points already"),
        ("model,MS\na,1\n", "column 'MS' exists in points already"),
        ("name,accuracy\na,1\n", "no key column; it needs one of model, target"),
    ],
)
def test_a_table_that_cannot_be_joined_is_refused(
    folder: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "t.csv").write_text(content, "utf-8")
    with pytest.raises(SizeupError, match=message):
        sizeup.query(folder, join=tmp_path / "t.csv")


HOSTILE = [
    "COPY (SELECT 1) TO '{outside}'",
    "COPY (SELECT 1) TO '{inside}'",
    "COPY points TO '{outside}' (FORMAT parquet)",
    "EXPORT DATABASE '{outside}'",
    "ATTACH '{outside}' AS other",
    "ATTACH '{inside}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_paths = ['/']",
    "RESET lock_configuration",
    "PRAGMA enable_external_access = true",
    "CREATE TABLE other AS SELECT 1",
    "CREATE OR REPLACE VIEW points AS SELECT 1",
    "DROP VIEW points",
    "INSERT INTO points VALUES (1)",
    "DELETE FROM stored_points",
    "CALL enable_logging(storage = 'file', storage_path = '{outside}')",
    "SELECT 1; COPY (SELECT 1) TO '{outside}'",
    "COPY (SELECT 1) TO '{outside}'; SELECT 1",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_text('{shard}/../../../../secret.csv')",
    "SELECT * FROM glob('{above}/*')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{outside}''')",
    "WITH x AS (INSERT INTO points VALUES (1)) SELECT 1",
    "SELECT * FROM hidden",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{outside}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{inside}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{shard}' (FORMAT csv, USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{shard}' (FORMAT csv, USE_TMP_FILE false)",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_sql_can_neither_write_nor_look_elsewhere(folder: Path, tmp_path: Path, sql: str) -> None:
    hidden = [{"a": 1}]  # a variable of Python, which DuckDB would find by its name
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\n", "utf-8")
    shard = next(folder.rglob("*.parquet"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    names = {"outside": tmp_path / "new", "inside": folder / "new", "secret": secret, "shard": shard}
    text = sql.format(**names, above=tmp_path)
    with pytest.raises(SizeupError):
        assert "hunter2" not in str(sizeup.query(folder, text).rows)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert hidden


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT modle FROM points", ('"modle" not found', "nearest: model", '"DESCRIBE points" lists all')),
        ("SELECT qwert FROM points", ('"qwert" not found', "points has key, model, ")),
        ("SELECT * FROM fastest WHERE plaec = 1", ('"plaec" not found', "fastest has target, precision")),
        ("SELECT * FROM pionts", ("unknown table 'pionts'; known: points, before, summary",)),
        ("SELEC 1", ("syntax error", "SELEC")),
        ("SELECT 1; SELECT 2", ("give one SELECT statement; this SQL has 2 statements",)),
        ("DROP VIEW points", ("queries are read-only: give one SELECT, not DROP",)),
    ],
)
def test_a_mistake_is_reported_in_one_line(folder: Path, sql: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(SizeupError) as raised:
        sizeup.query(folder, sql)
    for part in parts:
        assert part in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "fastst"}, "unknown view 'fastst'; nearest: fastest, fits; known: summary"),
        ({"view": "regresions"}, "'regresions'; nearest: regressions; known: .*, regressions$"),
        ({"view": "regressions"}, "give the earlier one with --against"),
        ({"view": "errors", "under": "20 ms"}, "a view with latencies, which errors does not have"),
        ({"view": "fits", "sql": "SELECT 1"}, "give a view or SQL, not both"),
        ({"devices": "rpi6"}, "no points for device or target 'rpi6'; nearest: rpi5"),
        ({"precisions": "int9"}, "no points at precision 'int9'; nearest: int8"),
        ({"axes": "ms,model"}, "column 'model' is not numeric"),
        ({"axes": "ms"}, "'ms' does not name two columns"),
        ({"under": "20 miles"}, "--under 20 miles: not a time; use e.g. 20ms"),
        ({"top": 0}, "top is 0; give a number of rows from 1 up"),
    ],
)
def test_options_that_cannot_be_met_say_why(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeupError, match=message.replace("(", r"\(")):
        sizeup.query(folder, **options)


def test_a_latency_without_an_upper_end_is_not_certain(tmp_path: Path) -> None:
    """9.0 ms has no interval; it ranks after a slower point whose latency has one."""
    rows = [point("unbounded", ms=9.0, number=1), point("bounded", ms=11.0, number=2)]
    folder = answers.write(tmp_path / "out", rows)
    for view in ("fits", "fastest"):
        result = sizeup.query(folder, view=view, top=2)
        names = [
            (row[result.columns.index("model")], row[result.columns.index("certain")]) for row in result.rows
        ]
        assert names == [("bounded", True), ("unbounded", False)]


def test_sweeps_in_which_a_point_is_there_twice_are_not_compared(tmp_path: Path) -> None:
    once = answers.write(tmp_path / "once", [point("a")])
    twice = answers.write(tmp_path / "twice", [point("a", number=1), point("a", number=2)])
    for now, before in ((once, twice), (twice, once)):
        with pytest.raises(
            SizeupError, match="several rows for a on rpi5/ort, from different models of that name"
        ):
            sizeup.query(now, view="regressions", against=before)


def test_a_folder_without_a_sweep_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SizeupError, match="no sweep results found"):
        sizeup.query(tmp_path)
    broken = tmp_path / "shards" / "00" / "x.parquet"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(SizeupError, match=str(tmp_path)):
        sizeup.query(tmp_path)


def test_folders_may_have_any_name(tmp_path: Path) -> None:
    for name in ("with 'quotes'", "st[a]rs*?", 'say "so"'):
        folder = answers.write(tmp_path / name, [point()])
        assert [row["model"] for row in query_rows(folder, "SELECT model FROM points")] == ["a"]


def test_a_store_at_an_address_is_queried_in_the_same_way() -> None:
    import fsspec

    address = "memory://sizeup/sweep"
    try:
        answers.write(address, [point("a"), point("b", number=2)])  # type: ignore[arg-type] # an address
        assert [row["model"] for row in query_rows(address, view="fits")] == ["a", "b"]  # type: ignore[arg-type]
    finally:
        fsspec.filesystem("memory").rm("/sizeup", recursive=True)


def test_answers_are_files_that_others_read(folder: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    answer = sizeup.query(folder, "SELECT model, ms, fits FROM points ORDER BY key")
    rows = [("a", 2.0, True), ("b", 1.0, True), ("c", None, None), ("a", 2.0, False), ("b", None, None)]
    assert list(answer.rows) == rows
    for ending in ("csv", "parquet", "json"):
        answer.save(tmp_path / f"answer.{ending}")
    with (tmp_path / "answer.csv").open(newline="") as file:
        read = list(csv.reader(file))
    assert read[:3] == [["model", "ms", "fits"], ["a", "2", "true"], ["b", "1", "true"]]
    assert read[3] == ["c", "", ""]
    assert [
        tuple(row.values()) for row in parquet.read_table(tmp_path / "answer.parquet").to_pylist()
    ] == rows
    data = json.loads((tmp_path / "answer.json").read_text("utf-8"))
    assert (data["schema_version"], data["columns"]) == (2, ["model", "ms", "fits"])
    assert [tuple(row.values()) for row in data["rows"]] == rows
    assert data == json.loads(json.dumps(answer.to_dict()))
    assert answer.to_arrow().num_rows == len(rows)
    frame = sizeup.query(folder, "SELECT params, fits FROM points ORDER BY key").to_pandas()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "boolean"]


def test_an_answer_without_rows_is_an_answer(folder: Path, tmp_path: Path) -> None:
    answer = sizeup.query(folder, "SELECT model, ms FROM points WHERE false")
    assert answer.rows == ()
    for ending in ("csv", "parquet", "json"):
        answer.save(tmp_path / f"none.{ending}")
    assert (tmp_path / "none.csv").read_text("utf-8").strip() == '"model","ms"'
    assert json.loads((tmp_path / "none.json").read_text("utf-8"))["rows"] == []


def test_a_compacted_store_answers_as_its_shards_did(folder: Path) -> None:
    from sizeup.sweeps import Store, compact

    before = {
        view: sizeup.query(folder, view=view, top=9).rows for view in ("fits", "fastest", "pareto", "errors")
    }
    compact(Store(folder))
    assert {view: sizeup.query(folder, view=view, top=9).rows for view in before} == before
    assert len(sizeup.query(folder, "FROM points").rows) == 5


def test_what_is_longer_than_memory_goes_through_it(tmp_path: Path) -> None:
    """Three million rows are written piece by piece: this process grows by far less than they take."""
    import resource

    folder = answers.write(tmp_path / "s", [point()])
    sizeup.query(folder, "SELECT 1 AS one").save(tmp_path / "warm.parquet")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sql = "SELECT range AS number, md5(range::VARCHAR) AS text FROM range(3000000), points"
    sizeup.query(folder, sql).save(tmp_path / "long.parquet")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert (tmp_path / "long.parquet").stat().st_size > 60e6
    assert grown < 60e6
