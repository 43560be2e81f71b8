"""Eval mode by default, training mode on request: hand counts, notes, and flags that are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import sizeup
from torch_allocator import allocated_peak

EVAL_NOTE = "the module was in training mode and was recorded in eval mode"
TRAIN_NOTE = "recorded in training mode"


class Network(nn.Module):
    """A convolution, a batch norm and a dropout, and a head that only training runs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8 * 8, 10, bias=False)
        self.auxiliary = nn.Linear(8 * 8, 5, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.dropout(self.norm(self.conv(x))).mean(1).flatten(1)
        return (self.head(y), self.auxiliary(y)) if self.training else (self.head(y),)


SHAPE = (2, 3, 8, 8)
CONV = 2 * 4 * 8 * 8 * 3  # batch x output channels x pixels x input channels
HEAD, AUXILIARY = 2 * 64 * 10, 2 * 64 * 5
ELEMENTS = 2 * 4 * 8 * 8


def _kinds(report: sizeup.Report) -> list[str]:
    return [row.op_kind for row in report.ops]


@pytest.mark.parametrize("training", [False, True])
def test_eval_mode_is_recorded_whatever_the_mode_of_the_module(training: bool) -> None:
    module = Network().train(training)
    report = sizeup.analyze(module, inputs=(SHAPE,))
    assert report.cost.total_macs == CONV + HEAD
    rows = {row.op_kind: row for row in report.ops}
    assert rows["batch_norm"].elementwise_ops == 2 * ELEMENTS  # the folded scale and shift
    assert "draw" not in rows
    assert any(EVAL_NOTE in note for note in report.notes) == training
    assert all(each.training == training for each in module.modules())


@pytest.mark.parametrize("training", [False, True])
def test_a_training_forward_runs_statistics_a_mask_and_the_auxiliary_head(training: bool) -> None:
    module = Network().train(training)
    means = module.norm.running_mean
    report = sizeup.analyze(module, inputs=(SHAPE,), train=True)
    assert report.cost.total_macs == CONV + HEAD + AUXILIARY
    rows = {row.op_kind: row for row in report.ops}
    # Per element: 1 for the mean, 2 for the variance, 2 to normalize, a scale and a shift.
    assert rows["batch_norm_training"].elementwise_ops == 7 * ELEMENTS
    # The mask is drawn, divided by 1 - p, and multiplied by.
    assert [kind for kind in _kinds(report) if kind in ("draw", "div", "mul")] == ["draw", "div", "mul"]
    assert rows["div"].elementwise_ops == rows["mul"].elementwise_ops == ELEMENTS
    assert rows["draw"].written_bytes == 4 * ELEMENTS
    assert [note for note in report.notes if TRAIN_NOTE in note]
    assert all(each.training == training for each in module.modules())
    assert module.norm.running_mean is means
    assert module.norm.num_batches_tracked is not None
    assert int(module.norm.num_batches_tracked) == 0


def test_the_memory_of_a_mask_is_that_of_the_allocator() -> None:
    module, x = nn.Sequential(nn.Tanh(), nn.Dropout(0.5), nn.Tanh()), torch.ones(1000)
    usage = sizeup.analyze(module, inputs=(x,), train=True).memory.usage
    assert usage.peak_bytes == pytest.approx(allocated_peak(module, x), abs=64)
    # The input, what the first layer computes, the mask and the product.
    assert usage.peak_bytes == 4 * 4000


def test_frozen_submodules_stay_frozen_in_training_mode() -> None:
    module = Network().train()
    module.norm.eval()
    report = sizeup.analyze(module, inputs=(SHAPE,), train=True)
    assert "batch_norm" in _kinds(report)
    assert "batch_norm_training" not in _kinds(report)
    assert "draw" in _kinds(report)
    assert (module.training, module.norm.training) == (True, False)


def test_a_module_that_does_not_read_its_mode_has_no_note() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LSTM(4, 4))
    assert module.training
    assert sizeup.analyze(module, inputs=((3, 4),)).notes == ()


def test_a_function_that_reads_the_mode_has_a_note() -> None:
    class Functional(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.dropout(x, 0.5, self.training)

    report = sizeup.analyze(Functional(), inputs=((3, 4),))
    assert any(EVAL_NOTE in note for note in report.notes)
    assert _kinds(report) == ["identity"]


class Overriding(nn.Module):
    """Merges weights when its mode changes, as adapters do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def train(self, mode: bool = True) -> Overriding:
        self.weight.data *= -1
        super().train(mode)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight if self.training else x


@pytest.mark.parametrize("train", [False, True])
def test_setting_the_mode_runs_no_code_of_the_module(train: bool) -> None:
    module = Overriding()
    report = sizeup.analyze(module, inputs=((2, 4),), train=train)
    assert report.cost.total_macs == (2 * 4 * 4 if train else 0)
    assert torch.equal(module.weight, torch.ones(4, 4))


@pytest.mark.parametrize("name", ["dropout", "dropout_", "feature", "alpha", "feature alpha"])
def test_every_dropout_draws_a_mask_in_training_mode_only(name: str) -> None:
    module: nn.Module = {
        "dropout": nn.Dropout(0.5),
        "dropout_": nn.Dropout(0.5, inplace=True),
        "feature": nn.Dropout2d(0.5),
        "alpha": nn.AlphaDropout(0.5),
        "feature alpha": nn.FeatureAlphaDropout(0.5),
    }[name]
    module = nn.Sequential(nn.ReLU(), module)
    assert "draw" not in _kinds(sizeup.analyze(module, inputs=((2, 3, 4, 4),)))
    report = sizeup.analyze(module, inputs=((2, 3, 4, 4),), train=True)
    # One draw per element, or per channel of each sample.
    drawn = 6 if name.startswith("feature") else 96
    assert next(row for row in report.ops if row.op_kind == "draw").written_bytes == 4 * drawn


def test_training_mode_reaches_all_functions_that_load() -> None:
    module = Network().eval()
    expected = CONV + HEAD + AUXILIARY
    assert sizeup.count(module, inputs=(SHAPE,), train=True).total_macs == expected
    assert sizeup.analyze(sizeup.load(module, (SHAPE,), train=True)).cost.total_macs == expected
    symbolic = sizeup.count(module, inputs=(SHAPE,), train=True, free={"batch": (0, 0)})
    assert symbolic.at(batch=6).macs == 3 * expected
    forms = sizeup.explain(module, inputs=(SHAPE,), train=True, free={"batch": (0, 0)})
    assert forms is not None
    explanation = sizeup.explain(module, "auxiliary", inputs=(SHAPE,), train=True)
    assert explanation is not None


def test_a_zoo_model_by_name_is_trained_on_request() -> None:
    plain = sizeup.load("torchvision:googlenet")
    training = sizeup.load("torchvision:googlenet", train=True)
    assert {op.kind for op in training.ops} >= {"batch_norm_training", "draw"}
    assert not {op.kind for op in plain.ops} & {"batch_norm_training", "draw"}
    # Two auxiliary classifiers: 1x1 convolutions on 4x4 to 128 channels, 2048 -> 1024 and 1024 -> 1000.
    heads = (512 + 528) * 128 * 16 + 2 * (2048 * 1024 + 1024 * 1000)
    assert sizeup.count(training).total_macs - sizeup.count(plain).total_macs == heads


def test_sources_without_training_mode_are_refused(tmp_path: Path) -> None:
    program = torch.export.export(nn.Linear(4, 4).eval(), (torch.zeros(1, 4),))
    torch.export.save(program, tmp_path / "model.pt2")
    graph = sizeup.load(program)
    for source in (program, tmp_path / "model.pt2", str(tmp_path / "model.onnx"), b"....TFL3", graph):
        with pytest.raises(sizeup.LoadError, match=r"no training mode: --train \(train=True\) needs"):
            sizeup.analyze(source, train=True)
    with pytest.raises(sizeup.LoadError, match="no training mode"):
        sizeup.load(program, train=True, free=True)
