"""Branches, loops, data-dependent routing, and gradients inside forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

import sizeup
from sizeup.graph import Graph

ROWS, WIDTH = 4, 8
PRODUCT = ROWS * WIDTH * WIDTH


class Branch(nn.Module):
    """Two layers if the sum is positive, otherwise one (or two)."""

    def __init__(self, even: bool) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.second = nn.Linear(WIDTH, WIDTH, bias=False)
        self.even = even

    def both(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(x))
        return result

    def one(self, x: Tensor) -> Tensor:
        result: Tensor = self.first(x)
        return result

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x.sum() > 0, self.both, self.both if self.even else self.one, (x,))
        return result


class Steps(nn.Module):
    """One product per row of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        def combine(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            following = self.step(carry) + row
            return following, following.clone()

        result: Tensor = scan(combine, x[0].clone(), x)[1]
        return result


class Repeat(Steps):
    """A loop whose trip count depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        def more(count: Tensor, y: Tensor) -> Tensor:
            return count < 5

        def step(count: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return count + 1, self.step(y)

        start = (torch.zeros((), dtype=torch.int64), x)
        result: Tensor = torch.while_loop(more, step, start)[1]  # type: ignore[no-untyped-call]
        return result


def _doors(module: nn.Module) -> list[Graph]:
    module.requires_grad_(False)
    x = torch.zeros(ROWS, WIDTH)
    return [sizeup.load(module, inputs=(x,)), sizeup.load(torch.export.export(module, (x,)))]


def test_branches_of_equal_cost_are_known() -> None:
    for graph in _doors(Branch(even=True)):
        cost = sizeup.count(graph)
        assert (cost.total_macs, bool(cost.known.all())) == (2 * PRODUCT, True)


def test_branches_of_unequal_cost_show_the_costliest_as_unknown() -> None:
    for graph in _doors(Branch(even=False)):
        cost = sizeup.count(graph)
        assert cost.total_macs == 2 * PRODUCT
        assert any("the branch depends on data" in reason for reason in cost.reasons.values())


def test_a_scan_counts_its_body_once_a_step() -> None:
    for graph in _doors(Steps()):
        cost = sizeup.count(graph)
        assert (cost.total_macs, cost.total_params) == (ROWS * WIDTH * WIDTH, WIDTH * WIDTH)
        assert cost.known.all()


def test_a_loop_that_data_ends_is_unknown() -> None:
    for graph in _doors(Repeat()):
        cost = sizeup.count(graph)
        assert any("the trip count depends on data" in reason for reason in cost.reasons.values())


class Routed(nn.Module):
    """Python branches on tensor values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[x.sum(1) >= 0]
        result: Tensor = self.layer(chosen) if float(chosen.sum()) >= 0 else chosen
        return result


def test_a_model_that_reads_its_numbers_is_run_with_them_and_says_so() -> None:
    graph = sizeup.load(Routed(), inputs=(torch.ones(ROWS, WIDTH),))
    assert sizeup.count(graph).total_macs == PRODUCT
    assert any("real data" in note for note in graph.notes)


def test_without_numbers_such_a_model_is_refused() -> None:
    with torch.device("meta"):
        module = Routed()
    with pytest.raises(sizeup.LoadError, match="cannot be traced without weights"):
        sizeup.load(module, inputs=((ROWS, WIDTH),))


class Slope(nn.Module):
    """Computes a gradient in forward, which inference mode forbids."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.layer(x).sum(), x)
        return slope


def test_a_gradient_inside_the_forward_is_recorded_too() -> None:
    # The product, and the product with the transposed weight that its gradient is.
    assert sizeup.count(Slope(), inputs=((ROWS, WIDTH),)).total_macs == 2 * PRODUCT
