"""Analysis does not modify a model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sizeup
from cases import L, TiedEmbedding


class Caching(nn.Module):
    """Sets attributes, updates statistics and keeps results while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 8)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.last: Tensor | None = None
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last = self.linear(self.norm(x))
        self.extra = self.last
        self.register_buffer("seen", self.last)
        result: Tensor = self.frozen(self.last)
        return result


def _state(module: nn.Module) -> dict[str, Any]:
    """Return all observable state: values, storages, ids, flags, hooks, attributes."""
    return {
        "values": {name: value.clone() for name, value in module.state_dict().items()},
        "storages": {name: value.data_ptr() for name, value in module.state_dict().items()},
        "objects": [(name, id(value)) for name, value in module.named_parameters(remove_duplicate=False)],
        "grads": [(name, value.requires_grad, value.grad) for name, value in module.named_parameters()],
        "training": [each.training for each in module.modules()],
        "attributes": [sorted(vars(each)) for each in module.modules()],
        "hooks": [
            (len(each._forward_hooks), len(each._forward_pre_hooks), len(each._backward_hooks))
            for each in module.modules()
        ],
        "global hooks": (
            len(nn.modules.module._global_forward_hooks),
            len(nn.modules.module._global_forward_pre_hooks),
        ),
    }


def _assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    values, others = before.pop("values"), after.pop("values")
    assert values.keys() == others.keys()
    assert all(torch.equal(value, others[name]) for name, value in values.items())
    assert before == after


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_model_that_changes_itself_is_left_as_it_was(training: bool) -> None:
    module = Caching().train(training)
    before = _state(module)
    sizeup.analyze(module, inputs=(torch.zeros(4, 8),))
    _assert_same(before, _state(module))
    assert module.last is None


def test_tied_weights_stay_tied() -> None:
    module = TiedEmbedding()
    before = _state(module)
    sizeup.analyze(module, inputs=(torch.zeros(1, L, dtype=torch.int64),))
    _assert_same(before, _state(module))
    assert module.out.weight is module.embedding.weight


def test_a_model_that_fails_is_left_as_it_was() -> None:
    module = Caching()
    before = _state(module)
    with pytest.raises(sizeup.LoadError, match="check the inputs"):
        sizeup.analyze(module, inputs=(torch.zeros(4, 9),))
    _assert_same(before, _state(module))


def test_the_random_state_is_not_consumed() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    sizeup.analyze(module, inputs=(torch.zeros(4, 8),))
    assert torch.equal(torch.rand(3), expected)


def test_gradient_mode_and_inputs_are_left_alone() -> None:
    module, data = nn.Linear(8, 8), torch.ones(4, 8, requires_grad=True)
    sizeup.analyze(module, inputs=(data,))
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert data.requires_grad
    module(data).sum().backward()
    assert data.grad is not None


class Reading(Caching):
    """The same, and it reads a tensor value."""

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        return result + 1 if float(x.sum()) > 0 else result


def test_a_run_with_real_numbers_leaves_the_model_as_it_was() -> None:
    module = Reading().train()
    before = _state(module)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    report = sizeup.analyze(module, inputs=(torch.ones(4, 8),))
    assert any("real data" in note for note in report.notes)
    assert torch.equal(torch.rand(3), expected)
    _assert_same(before, _state(module))
