"""Frames per second of pipelined accelerators are a throughput, never a latency."""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path

import pytest
from rich.console import Console

import sizeup
from networks import three_convolutions
from sizeup.errors import TargetWarning
from sizeup.render.console.report import render
from sizeup.targets import BUILT_IN, Catalog

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MACS = 884_736 + 294_912 + 2_097_152


def test_a_calibration_on_throughputs_gives_inferences_per_second_and_no_latency() -> None:
    report = sizeup.analyze(three_convolutions(), target="hailo-15l", precision="int8")
    estimate = report.latency
    assert estimate is not None
    assert (estimate.basis, estimate.low, estimate.high) == ("roofline", None, None)
    assert estimate.standing is not None
    assert estimate.standing.by_precision["int8"] == "data sheet only"
    fit = tomllib.loads((BUILT_IN / "fits" / "hailo.toml").read_text("utf-8"))["fit"][0]
    pooled, moved = fit["rates"]["pooled"], estimate.work.traffic.sum()
    seconds = fit["rates"]["run"] + pooled["mac"] * MACS + pooled["byte"] * moved
    pipelined = estimate.pipelined
    assert pipelined is not None
    assert pipelined.inferences_per_second == pytest.approx(1 / seconds)
    slowest, fastest = (1 / (seconds * math.exp(fit["band"][side])) for side in ("high", "low"))
    assert (pipelined.low, pipelined.high) == pytest.approx((slowest, fastest))
    assert report.to_dict()["latency"]["pipelined"]["inferences_per_second"] == pytest.approx(1 / seconds)
    buffer = io.StringIO()
    render(report, Console(file=buffer, width=100, color_system=None))
    assert f"pipelined    {1 / seconds:,.3g} inferences/s (90 % interval" in buffer.getvalue()
    assert "latency      at least" in buffer.getvalue()


def test_other_targets_and_dtypes_have_no_pipelined_throughput() -> None:
    assert sizeup.estimate(three_convolutions(), "rpi5/ncnn").pipelined is None
    assert sizeup.estimate(three_convolutions(), "hailo-15l", precision="int4").pipelined is None


def test_a_throughput_is_no_calibration_of_latency() -> None:
    catalog = Catalog((BUILT_IN,))
    target = catalog.target("hailo-15l/hailort")
    assert catalog.calibration(target) is None
    calibration = catalog.calibration(target, "throughput")
    assert calibration is not None
    assert calibration.quantity == "throughput"
    assert catalog.calibration(catalog.target("rpi5/ncnn"), "throughput") is None


def test_an_unknown_quantity_is_rejected(tmp_path: Path) -> None:
    text = (BUILT_IN / "fits" / "hailo.toml").read_text("utf-8").replace('"throughput"', '"frames"')
    (tmp_path / "own.toml").write_text(text, "utf-8")
    catalog = Catalog((tmp_path, BUILT_IN))
    with pytest.warns(TargetWarning, match="quantity is 'frames'; known: latency, throughput"):
        catalog.calibrations()
