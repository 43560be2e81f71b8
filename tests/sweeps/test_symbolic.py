"""Models with symbolic dimensions: a batch that was not given, sizes that a spec binds, and older stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper
from pyarrow import compute, parquet

import sizeup
from sizeup.api import sweep as api
from sizeup.errors import SizeupError
from sizeup.render.console import sweep as swept
from sizeup.sweeps import read_spec
from sweeps.generated import write_models
from sweeps.tables import rows_of, table_of

SPEC: dict[str, Any] = {"models": ["*.onnx"], "targets": ["rpi5/ort"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_symbolic(path: Path, *inputs: tuple[str, list[str | int | None]]) -> None:
    """The sum of products of each input with 8 x 5 weights; names and None in shapes have no size."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs]
    outputs = [helper.make_tensor_value_info(f"{name}y", TensorProto.FLOAT, None) for name, _ in inputs]
    weights = [numpy_helper.from_array(np.ones((8, 5), np.float32), "w")]
    nodes = [helper.make_node("MatMul", [name, "w"], [f"{name}y"]) for name, _ in inputs]
    onnx.save(helper.make_model(helper.make_graph(nodes, "symbolic", values, outputs, weights)), path)


def test_a_symbolic_batch_is_one_unless_a_batch_is_given(folder: Path) -> None:
    write_symbolic(folder / "named.onnx", ("x", ["batch", 8]))
    write_symbolic(folder / "other.onnx", ("x", ["N", 3, 8]), ("z", ["N", 8]))
    write_symbolic(folder / "nameless.onnx", ("x", [None, 8]))
    write_symbolic(folder / "fixed.onnx", ("x", [4, 8]))
    done = sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert (done.rows, done.errors, done.caveats) == (4, 0, 3)
    results = {row["model"]: (row["macs"], row["batch"], row["caveat"]) for row in rows_of(folder / "out")}
    assert results == {
        "named.onnx": (40, None, "no batch given: batch set to 1"),
        "other.onnx": (4 * 40, None, "no batch given: N set to 1"),
        "nameless.onnx": (40, None, "no batch given: x.0 set to 1"),
        "fixed.onnx": (4 * 40, None, None),
    }
    batches = [2, 3, 5, 7]  # many enough for closed forms
    for some in (batches, batches[:1]):
        done = sizeup.sweep(
            {**SPEC, "exclude": ["fixed.onnx"], "batch": some}, folder / f"{len(some)}", in_process=True
        )
        assert (done.errors, done.caveats) == (0, 0)
        got = {(row["model"], row["batch"]): row["macs"] for row in rows_of(folder / f"{len(some)}")}
        for batch in some:
            assert [got[name, batch] for name in ("named.onnx", "other.onnx", "nameless.onnx")] == [
                batch * 40,
                batch * 160,
                batch * 40,
            ]


@pytest.mark.parametrize("batches", [[], [3], [2, 3, 5, 7]])  # without a batch, read for each, closed forms
@pytest.mark.parametrize("name", ["N", "batch"])
def test_a_size_that_is_computed_from_the_batch_follows_it(
    folder: Path, name: str, batches: list[int]
) -> None:
    write_symbolic(folder / "twice.onnx", ("x", [name, 8]), ("z", [f"2*{name}", 8]))
    sizeup.sweep({**SPEC, "batch": batches} if batches else SPEC, folder / "out", in_process=True)
    results = {row["batch"]: row["macs"] for row in rows_of(folder / "out")}
    requested: list[int | None] = [*batches] or [None]
    assert results == {batch: 3 * (batch or 1) * 40 for batch in requested}


def test_a_batch_is_not_guessed_from_an_expression_alone(folder: Path) -> None:
    write_symbolic(folder / "twice.onnx", ("z", ["2*N", 8]))
    write_symbolic(folder / "hyphen.onnx", ("z", ["batch-size", 8]))
    sizeup.sweep({**SPEC, "batch": [3]}, folder / "out", in_process=True)
    results = {row["model"]: (row["macs"], bool(row["error"])) for row in rows_of(folder / "out")}
    assert results == {"twice.onnx": (None, True), "hyphen.onnx": (120, False)}


def test_other_symbolic_dimensions_are_bound_in_the_spec(folder: Path) -> None:
    write_symbolic(folder / "text.onnx", ("ids", ["batch", "seq", 8]), ("mask", ["batch", "past seq", 8]))
    write_symbolic(folder / "first.onnx", ("x", ["seq", 2, 8]))
    write_symbolic(folder / "fixed.onnx", ("x", [4, 8]))
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    rows = {row["model"]: row for row in rows_of(folder / "out")}
    assert rows["text.onnx"]["error_kind"] == rows["first.onnx"]["error_kind"] == "UnboundDimension"
    assert rows["text.onnx"]["error"] == (
        "text.onnx: dimensions without a size: seq (ids axis 1); past seq (mask axis 1). "
        'Set them in the spec, as in bind = { seq = 128, "past seq" = 128 }'
    )
    bound = {**SPEC, "bind": {"seq": 16, "past seq": 2}}
    done = sizeup.sweep(bound, folder / "out", in_process=True)
    assert (done.rows, done.errors, done.existing) == (3, 0, 0)  # other keys, though no file changed
    results = [row for row in rows_of(folder / "out") if row["bind"]]
    assert {(row["model"], row["macs"], row["caveat"]) for row in results} == {
        ("text.onnx", 18 * 40, "no batch given: batch set to 1"),
        ("first.onnx", 32 * 40, None),
        ("fixed.onnx", 4 * 40, None),
    }
    assert {row["bind"] for row in results} == {'{"past seq":2,"seq":16}'}
    assert sizeup.sweep(bound, folder / "out", in_process=True).rows == 0
    assert (
        sizeup.sweep({**SPEC, "bind": {"seq": 17, "past seq": 2}}, folder / "out", in_process=True).rows == 3
    )
    several = {**bound, "batch": [3]}
    sizeup.sweep(several, folder / "batched", in_process=True)
    macs = {row["model"]: (row["macs"], row["error_kind"]) for row in rows_of(folder / "batched")}
    assert macs["text.onnx"] == (3 * 18 * 40, None)
    assert macs["fixed.onnx"] == (None, "LoadError")


def test_a_wrong_binding_is_refused() -> None:
    for bind, words in (
        ({"seq": 0}, "top level: bind: 'seq' is 0, not a size such as 128"),
        ({"seq": "128"}, "'seq' is '128', not a size"),
        ({"seq": True}, "'seq' is True, not a size"),
        ([{"seq": 1}], "bind"),
    ):
        with pytest.raises(SizeupError, match=words):
            read_spec({**SPEC, "bind": bind})
    with pytest.raises(SizeupError, match="batch is given twice"):
        read_spec({**SPEC, "bind": {"batch": 2}, "batch": [1]})
    with pytest.raises(SizeupError, match="bind without targets"):
        read_spec({"models": ["*.onnx"], "bind": {"seq": 2}, "points": [{"target": "rpi5/ort"}]})
    points = [{"target": "rpi5/ort", "bind": {"seq": size}} for size in (1, 2)]
    point_set = read_spec({"models": ["*.onnx"], "points": points}).point_set
    assert len({point_set.key("model", point) for point in point_set.points}) == 2


def test_a_batch_that_is_also_bound_is_an_error(folder: Path) -> None:
    write_symbolic(folder / "m.onnx", ("x", ["N", 8]))
    write_symbolic(folder / "boxes.onnx", ("x", ["batch", 8]), ("boxes", ["N", 8]))
    done = sizeup.sweep({**SPEC, "batch": [1, 8], "bind": {"N": 4}}, folder / "out", in_process=True)
    assert (done.rows, done.errors) == (4, 2)
    rows = [(row["model"], row["batch"], row["macs"], row["error"]) for row in rows_of(folder / "out")]
    message = "m.onnx: batch and bind both set dimension N (x axis 0); give one"
    assert sorted(rows, key=str) == [
        ("boxes.onnx", 1, (1 + 4) * 40, None),
        ("boxes.onnx", 8, (8 + 4) * 40, None),
        ("m.onnx", 1, None, message),
        ("m.onnx", 8, None, message),
    ]
    write_symbolic(folder / "m.onnx", ("x", ["batch", 8]))
    spec = {**SPEC, "models": ["m.onnx"], "batch": [8], "bind": {"x.0": 4}}
    assert sizeup.sweep(spec, folder / "place", in_process=True).errors == 1
    assert "dimension batch (x axis 0)" in rows_of(folder / "place")[0]["error"]


def test_different_sizes_of_one_dimension_are_an_error(folder: Path) -> None:
    write_symbolic(folder / "m.onnx", ("ids", [1, "past_len", 8]), ("mask", [1, "past_len", 8]))
    for number, (settings, words) in enumerate(
        (
            ({"bind": {"past_len": 64, "ids.1": 8}}, "ids.1 = 8 in bind, past_len = 64 in bind"),
            ({"bind": {"ids.1": 8, "mask.1": 16}}, "ids.1 = 8 in bind, mask.1 = 16 in bind"),
            (
                {"shapes": {"past_len": 64}, "bind": {"ids.1": 8}},
                "past_len = 64 in shapes, ids.1 = 8 in bind",
            ),
        )
    ):
        sizeup.sweep({**SPEC, **settings}, folder / f"{number}", in_process=True)
        (row,) = rows_of(folder / f"{number}")
        place = "mask" if "mask" in words else "ids"
        expected = f"m.onnx: different sizes for dimension past_len ({place} axis 1): {words}; give one"
        assert (row["error"], row["macs"]) == (expected, None)
    sizeup.sweep({**SPEC, "bind": {"past_len": 8, "ids.1": 8}}, folder / "equal", in_process=True)
    (row,) = rows_of(folder / "equal")
    assert (row["macs"], row["error"]) == (2 * 8 * 40, None)


@pytest.mark.parametrize("in_process", [True, False])
def test_a_name_that_no_model_has_is_reported(folder: Path, in_process: bool) -> None:
    write_symbolic(folder / "a.onnx", ("ids", [1, "past_len", 8]))
    write_symbolic(folder / "b.onnx", ("x", ["batch", 8]))
    spec = {**SPEC, "bind": {"pastlen": 64, "ids.1": 8}}
    done = sizeup.sweep(spec, folder / "out", in_process=in_process, workers=1)
    assert (done.rows, done.errors, done.unknown_bind) == (2, 0, ("pastlen",))
    line = "bind: no model has a dimension 'pastlen'"
    assert line in swept.text(done).splitlines()
    assert sizeup.sweep(spec, folder / "out", in_process=True).unknown_bind == ()  # nothing evaluated
    write_symbolic(folder / "c.onnx", ("x", ["batch", "pastlen", 8]))
    assert sizeup.sweep(spec, folder / "out", in_process=True).unknown_bind == ("ids.1",)
    assert sizeup.sweep(spec, folder / "all", in_process=True).unknown_bind == ()


def test_rows_of_an_older_store_have_nulls_in_new_columns(folder: Path) -> None:
    write_models(folder, 4)
    (folder / "bad.onnx").write_text("no model")
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    before = table_of(folder / "out")
    for shard in (folder / "out" / "shards").rglob("*.parquet"):
        parquet.write_table(parquet.read_table(shard).drop_columns(["bind", "caveat"]), shard)
    write_symbolic(folder / "new.onnx", ("x", ["batch", 8]))
    done = sizeup.sweep(SPEC, folder / "out", in_process=True, retry_errors=True)
    assert (done.rows, done.errors, done.existing) == (2, 1, 2)
    assert api.compact(folder / "out") == 4
    after = table_of(folder / "out")
    assert after.filter(compute.is_in(after["key"], before["key"])) == before
    assert pa.compute.sum(compute.is_valid(after["caveat"])).as_py() == 1
