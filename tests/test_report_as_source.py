"""A report of `analyze` in place of a model: nothing is loaded or recorded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sizeup
from sizeup import formats


class Net(torch.nn.Module):
    """One convolution and one fully connected layer; counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8 * 16 * 16, 10)
        self.runs = [0]

    def forward(self, x: Any) -> Any:
        self.runs[0] += 1
        return self.head(self.conv(x).flatten(1))


SHAPE = (1, 3, 16, 16)
MACS = 16 * 16 * 8 * 3 * 9 + 8 * 16 * 16 * 10


@pytest.fixture
def module() -> Net:
    return Net().eval()


@pytest.fixture
def report(module: Net, monkeypatch: pytest.MonkeyPatch) -> sizeup.Report:
    """A report, after which no model can be loaded."""
    report = sizeup.analyze(module, inputs=(SHAPE,))

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a model was loaded again")

    monkeypatch.setattr(formats, "load", refuse)
    monkeypatch.setattr(formats, "load_symbolic", refuse)
    return report


def test_check_of_a_report_is_that_of_its_model(module: Net) -> None:
    limits: dict[str, Any] = {"ram": "64 KiB", "flash": "1 MiB", "macs": "1 M"}
    report = sizeup.analyze(module, inputs=(SHAPE,))
    before = module.runs[0]
    of_report = sizeup.check(report, "stm32f746", **limits, remedies=False)
    assert module.runs[0] == before
    of_model = sizeup.check(module, "stm32f746", inputs=(SHAPE,), **limits, remedies=False)
    assert of_report == of_model
    assert of_report.limits[-1].need == MACS


def test_estimate_of_a_report_is_that_of_its_model(module: Net) -> None:
    report = sizeup.analyze(module, inputs=(SHAPE,))
    of_model = sizeup.estimate(module, "rpi5/ort", (SHAPE,))
    of_report = sizeup.estimate(report, "rpi5/ort")
    assert of_report.seconds == of_model.seconds
    assert (of_report.low, of_report.high) == (of_model.low, of_model.high)


def test_the_target_and_the_precision_of_a_report_apply_unless_others_are_given(module: Net) -> None:
    report = sizeup.analyze(module, inputs=(SHAPE,), precision="int8", target="rpi5/ort")
    assert report.latency is not None
    assert sizeup.estimate(report).seconds == report.latency.seconds
    check = sizeup.check(report, remedies=False)
    assert check.target == "rpi5/ort"
    weights = (8 * 3 * 9 + 8 * 16 * 16 * 10) + 4 * (8 + 10)  # int8, biases 32 bits
    assert check.limits[0].parts[0].low_bytes == weights
    wider = sizeup.check(report, "rpi4/ort", precision=torch.float32, remedies=False)
    assert wider.target == "rpi4/ort"
    assert wider.limits[0].parts[0].low_bytes == 4 * (weights - 4 * (8 + 10)) + 4 * (8 + 10)


def test_a_report_at_a_precision_map_is_checked_and_changed(module: Net) -> None:
    report = sizeup.analyze(module, inputs=(SHAPE,), precision={"conv": torch.int8})
    mapped = sizeup.check(report, flash="1 MiB", remedies=False)
    direct = sizeup.check(module, inputs=(SHAPE,), precision={"conv": "int8"}, flash="1 MiB", remedies=False)
    assert mapped.limits == direct.limits
    plain = sizeup.analyze(report, precision="fp32")
    assert plain.totals.weight_bytes == 4 * (8 * 3 * 9 + 8 + 8 * 16 * 16 * 10 + 10)


def test_other_verbs_take_a_report(report: sizeup.Report) -> None:
    assert sizeup.load(report) is report.graph
    assert sizeup.count(report) is report.cost
    assert sizeup.analyze(report, target="rpi5/ort").latency is not None
    assert sizeup.explain(report, "conv").lines
    assert sizeup.plan(report).plan_bytes == 4 * (3 * 16 * 16 + 8 * 16 * 16)  # input and conv
    assert sizeup.utilization(report, "rpi5", latency_ms=1.0).target.device.name == "rpi5"
    assert sizeup.precision.fits(report, "64 KiB").layers
    assert sizeup.compare(report, report).to_dict()["macs"]["difference"] == 0
    assert sizeup.check(report, ram="1 KiB", target="rpi5/ort").fits is False  # searches for remedies


@pytest.mark.parametrize(
    "option",
    [{"inputs": (SHAPE,)}, {"kwargs": {"x": SHAPE}}, {"bind": {"batch": 8}}],
    ids=lambda each: next(iter(each)),
)
@pytest.mark.parametrize("verb", ["check", "estimate", "analyze", "plan", "count", "explain"])
def test_an_option_that_needs_the_model_is_refused(
    verb: str, option: dict[str, Any], report: sizeup.Report
) -> None:
    arguments = {"check": ("rpi5",), "estimate": ("rpi5",), "explain": ("conv",)}.get(verb, ())
    name = next(iter(option))
    expected = (
        rf"^{name}= does not apply to a report: it is for x 1x3x16x16; pass the model instead of its report,"
        rf" or analyze it again with {name}=$"
    )
    with pytest.raises(sizeup.SizeupError, match=expected):
        getattr(sizeup, verb)(report, *arguments, **option)


def test_closed_forms_need_the_model(report: sizeup.Report) -> None:
    with pytest.raises(sizeup.SizeupError, match=r"^free= does not apply to a report"):
        sizeup.explain(report, free=["batch"])


def test_verbs_that_run_a_model_refuse_its_report(report: sizeup.Report) -> None:
    data = np.zeros((2, *SHAPE[1:]), np.float32)
    with pytest.raises(sizeup.SizeupError, match=r"^measure runs the model: pass the model itself"):
        sizeup.measure(report)
    with pytest.raises(sizeup.SizeupError, match=r"^measuring sensitivity runs the model"):
        sizeup.precision.sensitivity(report, data)
    with pytest.raises(sizeup.SizeupError, match=r"^measuring accuracy runs the model"):
        sizeup.precision.tradeoff(report, data=data)


def test_the_report_on_a_file_keeps_its_size(shared: Path) -> None:
    file = shared / "models" / "mlperf_kws_int8.tflite"
    report = sizeup.analyze(file)
    of_report = sizeup.check(report, "stm32f746/tflm", remedies=False)
    assert of_report == sizeup.check(file, "stm32f746/tflm", remedies=False)
    assert of_report.limits[1].parts[0].low_bytes == file.stat().st_size
