"""A mapping of layers to precisions in every analysis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from precision.test_assign import block
from sizeup.errors import SizeupError
from sizeup.mixed_precision import sizes


def test_a_mapping_changes_bytes_memory_and_rows() -> None:
    report = sizeup.analyze(block(), precision={"one": "int8"})
    assert report.totals.weight_bytes == 96 + 288
    assert report.memory.usage.peak_bytes == 1536
    assert [row.precision for row in report.ops] == ["int8", "fp32", "fp32", "fp32"]
    assert {row.op_kind: row.macs for row in report.by_precision()} == {"int8": 8 * 128, "fp32": 8 * 128}
    assert any("1 at int8, 1 unchanged" in note for note in report.notes)


def test_a_mapping_may_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps({"*": "int8", "two": "fp16"}), "utf-8")
    for precision in (path, str(path)):
        assert sizeup.analyze(block(), precision=precision).ops[0].precision == "int8"
    assert sizeup.plan(block(), precision=path).plan_bytes < sizeup.plan(block()).plan_bytes


def test_latency_follows_the_mapping() -> None:
    whole = sizeup.estimate(block(), "rpi5/ort")
    mixed = sizeup.estimate(block(), "rpi5/ort", precision={"*": "int8"})
    assert mixed.work.names == ("conv_1x1.int8",)  # which takes the sum in
    assert mixed.seconds < whole.seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "a precision map is a JSON object"),
        ('{"one": 8}', "a precision map is a JSON object"),
        ("{", "not a precision map"),
        ('{"one": "int9"}', "unknown precision 'int9'"),
        (
            '{"three": "int8"}',
            r"mixed.json: no layer matches the precision map: 'three'.*; sizeup analyze MODEL",
        ),
    ],
)
def test_what_is_wrong_with_a_mapping_is_told(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mixed.json"
    path.write_text(text, "utf-8")
    with pytest.raises(SizeupError, match=message):
        sizeup.analyze(block(), precision=path)


def test_names_that_match_nothing_become_a_note() -> None:
    report = sizeup.analyze(block(), precision={"one": "int8", "tow": "int8"})
    assert any("'tow' (nearest:" in note and "two" in note for note in report.notes)


def test_types_that_fit_by_every_measure() -> None:
    all_sizes = sizes(block(), 300)
    # 128 numbers in, 128 out: 512 bytes at float32, 256 at float16, 128 at int8.
    assert [each.bytes for each in all_sizes] == [(512, 256, 128, 64, 32)] * 2
    assert [each.fitting_precisions for each in all_sizes] == [("fp16", "int8", "int4", "int2")] * 2
    assert [each.bytes[0] for each in sizes(block(), 300, measure="sum")] == [1024, 1024]
    # While the second runs, its input waits for the sum and is the only other value.
    assert [each.bytes[2] for each in sizes(block(), 300, measure="working set")] == [256, 256]
    # One layer at int8: its result is converted for the second one and the sum.
    assert sizes(block(), 300, measure="peak")[0].bytes == (1536, 1536, 1536, 1536, 1536)
    assert sizes(block(), 10)[0].fitting_dtypes == ()
    with pytest.raises(SizeupError, match="unknown measure 'weight'"):
        sizes(block(), 1, measure="weight")
