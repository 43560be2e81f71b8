from __future__ import annotations

import csv
import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import sizeup
from blessed import assert_golden
from networks import chain, looping, three_convolutions, tied_embedding, with_unknown
from sizeup.errors import MissingLibrary, SizeupError
from sizeup.graph import Graph, GraphBuilder
from sizeup.render.data.report import csv_lines, json_lines

SCHEMA: dict[str, Any] = json.loads((files("sizeup.render.data") / "schema.json").read_text())

GRAPHS = [
    three_convolutions(),
    with_unknown(),
    tied_embedding(),
    looping(3),
    looping(None),
    GraphBuilder("empty").freeze(),
]


def named(graph: Graph) -> str:
    return graph.name


def test_schema_is_itself_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("graph", GRAPHS, ids=named)
@pytest.mark.parametrize("precision", [None, "int8"])
def test_output_keeps_to_the_schema(graph: Graph, precision: str | None) -> None:
    jsonschema.validate(sizeup.analyze(graph, precision=precision).to_dict(), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("ops", 1, "macs"), 0),
        (("ops", 1, "reason"), None),
        (("ops", 0, "macs"), None),
        (("totals", "flops"), 1.5),
        (("memory",), {}),
        (("schema_version",), 1),
    ],
)
def test_schema_refuses_what_breaks_the_contract(path: tuple[str | int, ...], value: Any) -> None:
    data: Any = sizeup.analyze(with_unknown()).to_dict()
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


def test_keys_are_those_of_the_contract() -> None:
    data = sizeup.analyze(three_convolutions()).to_dict()
    assert {"schema_version", "tool", "model", "coverage", "totals", "memory", "latency", "ops"} <= set(data)
    assert set(data["model"]) >= {"name", "format", "sha256", "inputs", "outputs"}
    names = (
        "index name op_kind scope input_shapes output_shapes precision macs params read_bytes written_bytes"
        " intensity live_bytes ms bound_by known"
    )
    assert set(data["ops"][0]) >= set(names.split())
    assert data["model"]["inputs"] == [{"name": "x", "shape": [1, 3, 64, 64], "dtype": "float32"}]
    assert data["totals"]["macs"] == 3_276_800
    assert data["ops"][0]["input_shapes"] == [[1, 3, 64, 64], [32, 3, 3, 3]]


def test_unknown_is_null_in_rows_and_named_in_coverage() -> None:
    data = sizeup.analyze(with_unknown()).to_dict()
    assert data["ops"][1]["macs"] is None
    assert data["ops"][1]["known"] is False
    assert data["coverage"]["known_ops"] == 1
    assert {"op_kind": "mylib.fancy", "count": 1, "reason": "no cost rule for mylib.fancy"} in data[
        "coverage"
    ]["unknown"]
    assert "unavailable" in data["memory"]
    assert "unavailable" in data["latency"]


@pytest.mark.parametrize("graph", GRAPHS, ids=named)
def test_json_text_is_the_same_data(graph: Graph) -> None:
    report = sizeup.analyze(graph)
    assert json.loads("".join(json_lines(report))) == report.to_dict()


def test_json_of_a_large_graph_is_one_line_an_operator() -> None:
    lines = "".join(json_lines(sizeup.analyze(chain(1000)))).splitlines()
    assert sum('"index"' in line for line in lines) == 1000


def test_json_report_is_kept() -> None:
    text = "".join(json_lines(sizeup.analyze(with_unknown(), precision="int8")))
    assert_golden("with_unknown.json", text.replace(sizeup.__version__, "VERSION"))


def test_csv_has_a_line_an_operator_and_nothing_where_unknown() -> None:
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(sizeup.analyze(with_unknown()))))))
    assert [row["macs"] for row in rows] == ["884736", "", ""]
    assert [row["known"] for row in rows] == ["true", "false", "false"]
    assert rows[0]["input_shapes"] == "1x3x64x64;32x3x3x3"
    assert rows[2]["output_shapes"] == "?"


def test_csv_report_is_kept() -> None:
    assert_golden("with_unknown.csv", "".join(csv_lines(sizeup.analyze(with_unknown()))))


def test_csv_of_a_model_without_operators_still_has_its_names() -> None:
    assert "".join(csv_lines(sizeup.analyze(GraphBuilder().freeze()))).startswith("index,name,op_kind,")


@pytest.mark.parametrize("suffix", [".json", ".csv", ".md", ".JSON"])
def test_suffix_chooses_the_format_of_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    sizeup.analyze(three_convolutions()).save(path)
    start = {".json": "{", ".csv": "index,", ".md": "## three\\_convolutions"}[suffix.lower()]
    assert path.read_text(encoding="utf-8").startswith(start)


def test_unknown_suffix_is_refused_with_those_that_work(tmp_path: Path) -> None:
    with pytest.raises(SizeupError, match=r"report\.xlsx: .*\.json, \.csv, \.md"):
        sizeup.analyze(three_convolutions()).save(tmp_path / "report.xlsx")


def test_file_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    report = sizeup.analyze(three_convolutions())
    with pytest.raises(SizeupError, match=": no such folder"):
        report.save(tmp_path / "nowhere" / "report.json")
    (tmp_path / "report.json").mkdir()
    with pytest.raises(SizeupError, match="cannot be written"):
        report.save(tmp_path / "report.json")


def test_data_frame_has_missing_values_where_unknown() -> None:
    pytest.importorskip("pandas")
    frame = sizeup.analyze(with_unknown()).to_pandas()
    assert frame["macs"].sum() == 884_736
    assert frame["macs"].isna().tolist() == [False, True, True]
    assert frame["known"].tolist() == [True, False, False]
    assert str(frame["macs"].dtype) == "Int64"


def test_data_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingLibrary, match=r"sizeup\[frames\]"):
        sizeup.analyze(with_unknown()).to_pandas()
