"""Amounts in the outputs of a check: one number per limit, and `?` for a size that is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sizeup.backends import MemoryPart
from sizeup.checks.limits import Contribution, Limit
from sizeup.render.console.check import cells, details, over
from sizeup.render.vocabulary import contributions_text, part_text
from sizeup.results.check import Check
from sizeup.units import quantity, size


def find_all(data: Any, key: str) -> list[Any]:
    """The values of a key anywhere in JSON."""
    if isinstance(data, list):
        return [value for item in data for value in find_all(item, key)]
    if not isinstance(data, dict):
        return []
    here = [data[key]] if key in data else []
    return here + [value for item in data.values() for value in find_all(item, key)]


def latency(maximum: float) -> Limit:
    """A lower bound of 1.52 ms and an expectation of 1.87 ms, without an upper bound."""
    return Limit("latency", "seconds", maximum, 1.52e-3, None, 1.87e-3, unknown=("a reason",))


def test_a_lower_bound_is_the_same_in_the_sentence_and_in_the_table() -> None:
    row = cells(latency(1e-3))
    assert over(latency(1e-3)).startswith("latency: at least 1.52 ms, 520 µs (52 %) more than the 1 ms")
    assert (row.need, row.headroom, row.mark) == ("at least 1.52 ms", "-520 µs (-52 %)", "over")


def test_an_undetermined_row_does_not_read_as_exceeded() -> None:
    row = cells(latency(1.7e-3))
    assert (row.need, row.headroom, row.mark) == ("at least 1.52 ms", "180 µs (11 %)", "?")


@pytest.mark.parametrize(
    ("need", "row"),
    [
        (98, ("98 B", "192 to 256 B", "94 B (49 %)", "ok")),
        (215, ("215 B", "192 to 256 B", "-23 B (-12 %)", "?")),
        (371, ("371 B", "256 B", "-115 B (-45 %)", "over")),
    ],
)
def test_the_headroom_is_what_the_reserve_leaves(need: int, row: tuple[str, ...]) -> None:
    """Of 256 B, other software may take 64 B."""
    assert cells(Limit("ram", "bytes", 256, need, need, reserve=64))[1:] == row


@pytest.mark.parametrize(
    ("low", "high", "expected", "need"),
    [(1, None, 2, 1), (1, 3, 2, 2), (1, 3, None, 3), (None, None, 2, 2), (None, None, None, None)],
)
def test_the_amount_to_show(
    low: float | None, high: float | None, expected: float | None, need: float | None
) -> None:
    assert Limit("latency", "seconds", 5, low, high, expected).need == need


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (MemoryPart("arena", 16_384, 16_400, ""), "arena 16.0 KiB"),
        (MemoryPart("arena", 16_384, 17_000, ""), "arena 16.0 KiB to 16.6 KiB"),
        (MemoryPart("arena", 16_384, None, ""), "arena at least 16.0 KiB"),
        (MemoryPart("scratch", 0, None, ""), "scratch ?"),
        (MemoryPart("scratch", 0, 512, ""), "scratch up to 512 B"),
    ],
)
def test_both_ends_of_a_part_are_printed_if_they_differ(part: MemoryPart, text: str) -> None:
    assert part_text(part) == text


def lines(*limits: Limit) -> list[tuple[str, str]]:
    """The details of a check of a .tflite file."""
    check = Check("m.tflite", "m", "tflite", limits=limits)
    return [(finding.label, finding.text) for finding in details(check)]


@pytest.mark.parametrize(
    ("high", "text"), [(70_368, "arena 70,368 B"), (70_400, "arena up to 70,400 B"), (None, "")]
)
def test_the_arena_is_printed_in_bytes_because_firmware_needs_them(high: int | None, text: str) -> None:
    """Rounded to 68.7 KiB, it would be 20 B too small."""
    assert 68.7 * 1024 < 70_368
    parts = (MemoryPart("arena", 70_368, high, "needed by AllocateTensors"),)
    ram = Limit("ram", "bytes", 65_536, 70_368, high, parts=parts)
    assert lines(ram) == ([("RAM", text)] if text else [])


def test_an_arena_without_a_target_is_printed_in_bytes_once() -> None:
    arena = Limit("arena", "bytes", 61_440, 70_368, 70_368)
    ram = Limit("ram", "bytes", 65_536, 70_368, 70_368, parts=(MemoryPart("arena", 70_368, 70_368, ""),))
    assert lines(arena) == [("arena", "70,368 B")]
    assert lines(ram, arena) == [("RAM", "arena 70,368 B")]


def test_an_unknown_size_is_not_zero() -> None:
    assert contributions_text((Contribution("b", 800), Contribution("y", None)), size) == "b 800 B, y ?"


def test_a_factor_has_no_exponent() -> None:
    limit = Limit("ram", "bytes", 18, 70_335, 70_335, source="--ram")
    assert over(limit) == "RAM: 68.7 KiB, 3,908 times the 18 B of --ram"  # 70,335 / 18 = 3,907.5
    assert quantity("share", 12.34) == "+1,234 %"
    assert quantity("share", -0.0123) == "-1.23 %"


def test_the_size_of_a_tensor_that_depends_on_data_is_unknown_in_every_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx")
    from sizeup.cli import main

    value, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    node = onnx.helper.make_node("NonMaxSuppression", ["b", "s"], ["y"])
    inputs = [value("b", kinds.FLOAT, (1, 50, 4)), value("s", kinds.FLOAT, (1, 3, 50))]
    graph = onnx.helper.make_graph([node], "boxes", inputs, [value("y", kinds.INT64, ("n", 3))])
    path = tmp_path / "boxes.onnx"
    opset = onnx.helper.make_opsetid("", 16)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    argv = ["check", str(path), "-d", "stm32f746", "--no-remedies"]
    with pytest.raises(SystemExit):
        main(argv)
    # 50 boxes of 4 numbers and 3 x 50 scores, of 4 bytes each.
    assert "live at peak b 800 B, s 600 B, y ?" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*argv, "--json"])
    (tensors,) = find_all(json.loads(capsys.readouterr().out), "peak_tensors")
    assert tensors[-1] == {"name": "y", "bytes": None}
