"""Files that released versions wrote, read by today's code.

`written_by/VERSION` holds the JSON and Parquet files that a version wrote for the sample model of the
package, and the JSON Schemas that it shipped. Each release adds a folder (`tools/written_by.py`); none is
changed afterwards.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

import sizeup
from written_by import ANALYZED, BUDGETS, CHECKED, FOLDER, SCHEMAS, write

VERSIONS = sorted(path for path in FOLDER.iterdir() if path.is_dir())


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def written(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    with as_file(files("sizeup.cli") / "sample.tflite") as path:
        return Path(shutil.copy(path, tmp_path))


def loaded(path: Any) -> Any:
    return json.loads(path.read_text("utf-8"))


def losses(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Keys that a schema promised and another one does not, and values whose type changed."""
    if not isinstance(before, dict):
        return
    if before.get("type") != after.get("type"):
        yield f"{place}: type {before.get('type')} became {after.get('type')}"
    for name in set(before.get("required", ())) - set(after.get("required", ())):
        yield f"{place}/{name}: no longer required"
    for group in ("properties", "$defs"):
        for name, each in before.get(group, {}).items():
            if name in after.get(group, {}):
                yield from losses(each, after[group][name], f"{place}/{name}")
            else:
                yield f"{place}/{name}: removed"
    if "items" in before:
        yield from losses(before["items"], after.get("items", {}), f"{place}[]")


def keys(content: Any, place: str = "") -> Iterator[str]:
    """Paths of all keys; those of the elements of a list are one."""
    if isinstance(content, dict):
        for name, each in content.items():
            yield f"{place}/{name}"
            yield from keys(each, f"{place}/{name}")
    elif isinstance(content, list):
        for each in content:
            yield from keys(each, f"{place}[]")


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_only_grow_within_a_version_of_the_schema(written: Path, name: str) -> None:
    before, after = loaded(written / name), loaded(files(SCHEMAS[name]) / name)
    version = "schema_version"
    assert before["properties"].keys() >= {version, "tool"}
    if before["properties"][version] == after["properties"][version]:
        assert list(losses(before, after)) == []


@pytest.mark.parametrize(
    ("change", "loss"),
    [
        (lambda schema: schema["properties"].pop("b"), "/b: removed"),
        (lambda schema: schema["required"].remove("a"), "/a: no longer required"),
        (
            lambda schema: schema["properties"]["b"]["items"].update(type="string"),
            "/b[]: type integer became string",
        ),
        (lambda schema: schema["properties"].update(c={"type": "null"}), None),
    ],
)
def test_a_loss_in_a_schema_is_found(change: Any, loss: str | None) -> None:
    text = json.dumps(
        {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "null"}, "b": {"type": "array", "items": {"type": "integer"}}},
        }
    )
    after = json.loads(text)
    change(after)
    assert list(losses(json.loads(text), after)) == ([loss] if loss else [])


def test_reports_are_valid_by_the_schema_of_today(written: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the dependency group 'test' brings it")
    schema, report = loaded(files("sizeup.render.data") / "schema.json"), loaded(written / "analyze.json")
    if report["schema_version"] == schema["properties"]["schema_version"]["const"]:
        jsonschema.validate(report, schema)


@pytest.mark.extras
def test_outputs_of_today_have_all_keys_of_then(written: Path, sample: Path) -> None:
    today = {
        "analyze.json": sizeup.analyze(sample, target=ANALYZED),
        "plan.json": sizeup.plan(sample),
        "check.json": sizeup.check(sample, target=CHECKED, run=False, remedies=False),
    }
    for name, result in today.items():
        before, after = loaded(written / name), result.to_dict()
        if before["schema_version"] == after["schema_version"]:
            assert set(keys(before)) - set(keys(after)) == set(), name


@pytest.mark.extras
def test_precision_maps_are_read(written: Path, sample: Path) -> None:
    layers = loaded(written / "map.json")
    report = sizeup.analyze(sample, precision=written / "map.json")
    assert f"{len(layers)} at int8" in " ".join(report.notes)
    assert "match nothing" not in " ".join(report.notes)


@pytest.mark.extras
def test_baselines_are_read_and_growth_is_judged_by_them(written: Path, sample: Path) -> None:
    content = loaded(written / "baselines.json")
    budgets = sample.with_name("budgets.toml")
    budgets.write_text(BUDGETS, "utf-8")
    for factor, fits in ((1, True), (0.5, False)):
        for line in content["models"]:
            line["macs"] = int(line["macs"] * factor)
        sample.with_name("baselines.json").write_text(json.dumps(content), "utf-8")
        (check,) = sizeup.check_budgets(budgets)
        assert (check.fits, check.no_baseline_reason) == (fits, "")


def test_stores_of_sweeps_are_read(written: Path, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sweep' brings it")
    store = shutil.copytree(written / "store", tmp_path / "store")
    answer = sizeup.query(store, "select target, precision, macs, fits from points order by all")
    assert [row[:2] for row in answer.rows] == [
        (target, precision)
        for target in ("rpi5/litert", "stm32f746/tflm-cmsis-nn")
        for precision in ("int8", "stored")
    ]
    assert {row[2:] for row in answer.rows} == {(1_539_440, True)}


def test_columns_of_sweeps_are_only_added(written: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'sweep' brings it")
    from sizeup.sweeps.schema import arrow_schema

    (shard,) = (written / "store").glob("shards/*/*/*.parquet")
    before, after = parquet.read_schema(shard), arrow_schema()
    assert [field.name for field in before if field.name not in after.names] == []
    assert [field.name for field in before if after.field(field.name).type != field.type] == []


@pytest.mark.extras
def test_a_release_keeps_the_same_files(written: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra 'sweep' brings it")
    write(tmp_path / "today")
    before, after = (
        {path.relative_to(folder).as_posix().partition("shards/")[0] for path in folder.rglob("*.*")}
        for folder in (written, tmp_path / "today")
    )
    assert before == after
    assert set(keys(loaded(tmp_path / "today" / "analyze.json"))) >= set(
        keys(loaded(written / "analyze.json"))
    )
