"""sizeup.check: the verdict, its limits, and every way to keep it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import sizeup
from sizeup.dtypes import DTYPES
from sizeup.errors import SizeupError, UnboundDimension

pytestmark = pytest.mark.extras


@pytest.fixture
def keywords(shared: Path) -> Path:
    return shared / "models" / "mlperf_kws_int8.tflite"


def test_a_check_is_frozen_and_says_yes(keywords: Path) -> None:
    result = sizeup.check(keywords, "stm32f746/tflm")
    assert result.fits is True
    assert [each.name for each in result.limits] == ["ram", "flash"]
    assert repr(result) == "<mlperf_kws_int8 on stm32f746/tflm: fits; 2 of 2 limits met>"
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.model = ""  # type: ignore[misc]


def test_one_byte_decides(keywords: Path) -> None:
    needed = sizeup.analyze(keywords).memory.arena
    assert needed is not None
    exact = needed.arena_bytes_32
    assert exact is not None
    answers = [
        sizeup.check(keywords, "stm32f746/tflm", ram=size, remedies=False).fits for size in (exact, exact - 1)
    ]
    assert answers == [True, False]
    alone = [sizeup.check(keywords, arena=size, remedies=False).fits for size in (exact, exact - 1)]
    assert alone == [True, False]


@pytest.mark.parametrize(("name", "figure"), [("macs", 2_656_768), ("params", 22_604)])
def test_counts_turn_at_what_was_counted(name: str, figure: int, keywords: Path) -> None:
    report = sizeup.analyze(keywords)
    assert getattr(report.totals, name) == figure
    assert sizeup.check(keywords, **{name: figure}).fits is True  # type: ignore[arg-type]
    assert sizeup.check(keywords, **{name: figure - 1}).fits is False  # type: ignore[arg-type]


def test_a_latency_limit_within_the_interval_is_undetermined_without_expected(keywords: Path) -> None:
    timed = sizeup.estimate(keywords, "rpi5/litert")
    assert timed.low is not None
    assert timed.high is not None

    def answer(seconds: float, expected: bool = False) -> bool | None:
        return sizeup.check(keywords, "rpi5/litert", latency=seconds, expected=expected, remedies=False).fits

    assert answer(timed.high) is True
    assert answer(timed.low * 0.999) is False
    assert answer(timed.seconds) is None
    assert answer(timed.seconds, expected=True) is True
    assert answer(timed.seconds * 0.999, expected=True) is False


def test_energy_is_judged_by_its_range(keywords: Path) -> None:
    result = sizeup.check(keywords, "rpi5/litert", energy="1 J", remedies=False).limits[-1]
    assert (result.name, result.fits) == ("energy", True)
    assert sizeup.check(keywords, "rpi5/litert", energy="1 nJ", remedies=False).fits is False


def test_a_target_whose_power_is_not_known_leaves_energy_open(keywords: Path) -> None:
    result = sizeup.check(keywords, "stm32f401/tflm", energy="1 J", remedies=False)
    assert result.fits is None
    assert result.limits[-1].unknown


def test_uncounted_operators_leave_macs_open_and_strict_leaves_all_open() -> None:
    builder = sizeup.GraphBuilder(name="odd")
    x = builder.input("x", (1, 8), DTYPES["float32"])
    y = builder.tensor("y", (1, 8), DTYPES["float32"])
    builder.op("mylib.fancy", [x], [y], name="fancy")
    builder.outputs.append(y)
    graph = builder.freeze()
    assert sizeup.check(graph, macs="1 M").fits is None
    assert sizeup.check(graph, params=0).fits is True
    assert sizeup.check(graph, params=0, strict=True).fits is None


def test_free_dimensions_must_be_bound(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "free", [value], [output])
    path = tmp_path / "free.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    with pytest.raises(UnboundDimension, match="batch"):
        sizeup.check(path, "rpi5")
    assert sizeup.check(path, "rpi5/ort", bind={"batch": 2}).fits is True


def test_a_check_of_nothing_is_refused(keywords: Path) -> None:
    with pytest.raises(SizeupError, match="nothing to check: give a target"):
        sizeup.check(keywords)
    with pytest.raises(SizeupError, match="--ram needs a target"):
        sizeup.check(keywords, ram="64 KiB")
    with pytest.raises(SizeupError, match="not a size"):
        sizeup.check(keywords, "stm32f746", ram="64 kbit")


def test_a_precision_map_is_checked_like_a_converted_file(shared: Path) -> None:
    path = shared / "models" / "mlperf_resnet8_fp32.tflite"
    whole, mixed, narrow = (
        sizeup.check(path, "stm32h743/tflm", precision=each, remedies=False)
        for each in (None, {"*": "int8"}, "int8")
    )
    needs = [[limit.need for limit in each.limits] for each in (whole, mixed, narrow)]
    assert needs[1] == needs[2]
    assert (needs[0][0] or 0) > 3 * (needs[1][0] or 0)


def test_everything_can_be_kept(keywords: Path, tmp_path: Path) -> None:
    result = sizeup.check(keywords, "stm32f746/tflm", macs=1000)
    for ending in ("json", "md", "xml"):
        result.save(tmp_path / f"check.{ending}")
    kept = json.loads((tmp_path / "check.json").read_text("utf-8"))
    assert kept == json.loads(json.dumps(result.to_dict()))
    assert kept["fits"] is False
    assert kept["limits"][2]["headroom"] == 1000 - 2_656_768
    # Its memory fits: what it exceeds is the limit that was given.
    heading = "## NO: mlperf\\_kws\\_int8 (tflite) is over its limits on stm32f746/tflm\n"
    assert (tmp_path / "check.md").read_text("utf-8").startswith(heading)
    assert ElementTree.parse(tmp_path / "check.xml").getroot().attrib["failures"] == "1"
    with pytest.raises(SizeupError, match=r"a check is written as \.json"):
        result.save(tmp_path / "check.pdf")


def test_a_notebook_shows_the_verdict_as_well_formed_html(keywords: Path) -> None:
    result = sizeup.check(keywords, "stm32f746/tflm", macs=1000)
    page = result._repr_html_()
    assert "NO: mlperf_kws_int8" in page
    # Tags that are closed in order, and nothing of a name that would be one.
    root = ElementTree.fromstring(f"<div>{page.replace('<br>', '<br/>')}</div>")
    assert [cell.text for cell in root.iter("td")][:2] == ["RAM (STM32F746NG)", "22.2 KiB"]
