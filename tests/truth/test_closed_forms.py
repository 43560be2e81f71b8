"""Closed forms that were worked out by hand, and a million points of one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sizeup
from conftest import ROOT
from sizeup.symbolic import SymbolicGraph

pytestmark = pytest.mark.extras

POINTS = [(1, 224, 224), (3, 225, 257), (5, 97, 640), (2, 512, 384), (7, 65, 1023)]


@pytest.fixture(scope="module")
def resnet50() -> SymbolicGraph:
    return sizeup.load("torchvision:resnet50", free=["batch", "height", "width"])


def _resnet50_by_hand(batch: int, height: int, width: int) -> int:
    """Every stage halves the picture, rounding up: its products, then those of the classifier."""
    stages = {2: 147, 4: 3840, 8: 20480, 16: 116736, 32: 225280}
    total = sum(
        macs * ((height - 1) // step + 1) * ((width - 1) // step + 1) for step, macs in stages.items()
    )
    return 64 * batch * (total + 32000)


def test_resnet50_is_the_form_worked_out_by_hand(resnet50: SymbolicGraph) -> None:
    cost = sizeup.count(resnet50)
    for batch, height, width in POINTS:
        expected = _resnet50_by_hand(batch, height, width)
        assert cost.at(batch=batch, height=height, width=width).macs == expected
    columns = dict(zip(("batch", "height", "width"), np.array(POINTS).T, strict=True))
    assert cost.at(**columns).macs.tolist() == [_resnet50_by_hand(*point) for point in POINTS]


def test_the_printed_formulas_are_python_and_have_the_counted_values(resnet50: SymbolicGraph) -> None:
    forms = sizeup.explain(resnet50)
    formulas = dict(forms.totals)
    assert formulas["MACs"].startswith("64 * batch * (147 * ")
    assert dict(forms.validity)["valid for"]
    for batch, height, width in POINTS:
        sizes = {"batch": batch, "height": height, "width": width}
        counted = sizeup.count("torchvision:resnet50", inputs=((batch, 3, height, width),))
        moved = counted.bytes_at()
        assert eval(formulas["MACs"], {}, sizes) == counted.total_macs
        assert eval(formulas["elementwise"], {}, sizes) == counted.total_elementwise
        assert eval(formulas["read bytes"], {}, sizes) == int(moved.read.sum())
        assert eval(formulas["written bytes"], {}, sizes) == int(moved.written.sum())
        assert sum(eval(op.macs, {}, sizes) for op in forms.ops) == counted.total_macs
    assert int(formulas["parameters"]) == 25_557_032


def test_bert_base_is_the_form_worked_out_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "bert.json"
    path.write_text(json.dumps({"model_type": "bert"}))
    cost = sizeup.count(f"hf:{path}", free=["batch", "seq"])
    batch, length = np.array([1, 3, 8, 5, 2])[:, None], np.array([1, 2, 77, 128, 512])
    expected = batch * (18432 * length**2 + 84934656 * length + 589824)
    assert (cost.at(batch=batch, seq=length).macs == expected).all()


@pytest.mark.alone
def test_a_million_points_of_resnet50_are_counted_in_a_second_and_timed_in_a_minute() -> None:
    command = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / "free_points.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert float(seconds["MACs of a million points"]) < 1.0, done.stdout
    assert float(seconds["all totals of a million points"]) < 1.0, done.stdout
    for target in ("i7-12700h/torch-inductor", "rpi5/ort"):
        assert float(seconds[f"latency of a million points on {target}"]) < 60, done.stdout
    assert float(seconds["MB that latency adds, the points' own columns included"]) < 500, done.stdout
