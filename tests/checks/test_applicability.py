"""A model that does not fit its target says so before any latency, which is not applicable."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

import sizeup
from cli.running import run_command
from sizeup.dtypes import DTYPES
from sizeup.graph import Constant, GraphBuilder

FLOAT = DTYPES["float32"]
NOTE = "not applicable: the model does not fit"
NOT_APPLICABLE = "not applicable: the target cannot run or hold the model"
SHORT = "needs 1.00 GiB RAM, has 512 MiB"  # 16,384 x 16,384 weights of 4 B, and two vectors of 64 KiB
TARGET = "rpi-zero-2w/ncnn"


def product(side: int) -> sizeup.Graph:
    """One product of a vector and a square matrix."""
    builder = GraphBuilder("product", "onnx")
    x = builder.input("x", (1, side), FLOAT)
    weight = builder.tensor("w", (side, side), FLOAT, Constant("parameter"))
    y = builder.tensor("y", (1, side), FLOAT)
    builder.op("matmul", [x, weight], [y], {"contracted": [1]}, name="product")
    builder.outputs.append(y)
    return builder.freeze()


LARGE, SMALL = product(1 << 14), product(1 << 8)


def test_an_estimate_of_a_model_that_does_not_fit_is_not_applicable() -> None:
    estimate = sizeup.estimate(LARGE, TARGET)
    assert not estimate.is_applicable
    assert estimate.notes[0] == f"{NOTE} ({SHORT})"
    assert repr(estimate).endswith(", not applicable: does not fit>")
    fitting = sizeup.estimate(SMALL, TARGET)
    assert fitting.is_applicable
    assert not any("fit" in note for note in fitting.notes)


def test_a_lower_precision_that_fits_is_applicable() -> None:
    assert sizeup.estimate(LARGE, TARGET, precision="int8").is_applicable


def test_a_report_states_first_that_it_does_not_fit() -> None:
    report = sizeup.analyze(LARGE, target=TARGET)
    assert report.latency is not None
    assert not report.latency.is_applicable
    lines = repr(report).splitlines()
    assert lines[1] == f"  does not fit on Raspberry Pi Zero 2 W: {SHORT}"
    assert [line for line in lines if line.endswith(f"; {NOT_APPLICABLE}")]
    data = report.to_dict()
    assert data["notes"][0] == f"does not fit on Raspberry Pi Zero 2 W: {SHORT}"
    assert data["latency"]["notes"][0] == f"{NOTE} ({SHORT})"
    again = sizeup.analyze(report)
    assert again.to_dict()["latency"]["notes"].count(f"{NOTE} ({SHORT})") == 1


def test_a_report_that_fits_states_nothing() -> None:
    report = sizeup.analyze(SMALL, target=TARGET)
    assert "fit" not in repr(report)
    assert report.to_dict()["notes"] == []


def test_pages_mark_the_latency(tmp_path: Path) -> None:
    report = sizeup.analyze(LARGE, target=TARGET)
    report.save(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.index(f"Does not fit on Raspberry Pi Zero 2 W: {SHORT}") < page.index(NOT_APPLICABLE)
    report.save(tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text("utf-8")
    assert text.index("fit verdict") < text.index("MACs") < text.index(NOT_APPLICABLE)


def test_a_check_marks_latency_and_energy() -> None:
    check = sizeup.check(LARGE, TARGET, latency="3000 s", remedies=False)
    ram, latency = check.limits
    assert (ram.fits, latency.fits) == (False, True)
    assert (ram.is_applicable, latency.is_applicable) == (True, False)
    assert check.fits is False
    limits = check.to_dict()["limits"]
    assert limits[1]["assumptions"] == ["latency as if the model fit in memory"]
    fitting = sizeup.check(SMALL, TARGET, latency="3000 s", remedies=False)
    assert all(limit.is_applicable for limit in fitting.limits)


def test_junit_skips_a_latency_that_is_not_applicable(tmp_path: Path) -> None:
    sizeup.check(LARGE, TARGET, latency="1 ns", remedies=False).save(tmp_path / "check.xml")
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "check.xml").iter("testcase")}
    assert cases["RAM"].find("failure") is not None
    skipped = cases["latency"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == NOT_APPLICABLE


@pytest.mark.extras
def test_the_command_line_states_it_first() -> None:
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    done = run_command("analyze", "torchvision:vgg16", "-d", TARGET, "--top", "1")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    text = " ".join(done.stdout.split())
    assert lines[1].startswith("  fit verdict  does not fit on Raspberry Pi Zero 2 W: needs ")
    assert "has 512 MiB" in text
    assert f"on {TARGET}, 4 threads; {NOT_APPLICABLE}" in text
    done = run_command("check", "torchvision:vgg16", "-d", TARGET, "--latency", "3000s", "--no-remedies")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == f"NO: vgg16 (torch) does not fit on {TARGET}"
    assert lines[1].startswith("  over         RAM: ")
    (row,) = (line for line in lines if line.endswith("  latency"))
    assert "  n/a  " in row
    done = run_command("analyze", "torchvision:vgg16", "-d", TARGET, "--json")
    assert json.loads(done.stdout)["notes"][0].startswith("does not fit on Raspberry Pi Zero 2 W: needs ")
