"""Loops, branches, transforms of functions, and routing by data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.func import functional_call, jvp, stack_module_state, vmap
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from hand_written.case import Function, case, weight


def square(width: int) -> nn.Module:
    return nn.Linear(width, width, bias=False)


def runge_kutta(m: Any, x: Tensor) -> Any:
    """Three steps of four evaluations."""
    for _ in range(3):
        k1 = m.field(x)
        k2 = m.field(x + k1 / 2)
        k3 = m.field(x + k2 / 2)
        x = x + (k1 + 2 * k2 + 2 * k3 + m.field(x + k3)) / 6
    return x


def branch(m: Any, x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: m.one(y), lambda y: m.other(y), (x,))


def scanned(m: Any, x: Tensor) -> Any:
    def combine(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        following = m.step(carry) + row
        return following, following.clone()

    return scan(combine, x[0].clone(), x)[1]


def repeated(m: Any, x: Tensor) -> Any:
    def more(count: Tensor, y: Tensor) -> Tensor:
        return count < 5

    def step(count: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return count + 1, m.step(y)

    start = (torch.zeros((), dtype=torch.int64), x)
    return torch.while_loop(more, step, start)[1]  # type: ignore[no-untyped-call]


def ensemble(m: Any, x: Tensor) -> Any:
    """Three layers with stacked weights, mapped over one input."""
    parameters, buffers = stack_module_state(list(m.layers))

    def one(state: Any, other: Any, data: Tensor) -> Any:
        return functional_call(m.layers[0], (state, other), (data,))

    return vmap(one, in_dims=(0, 0, None))(parameters, buffers, x)


def tangent(m: Any, x: Tensor, v: Tensor) -> Any:
    return jvp(lambda y: torch.tanh(m.layer(y)), (x,), (v,))


def called(m: Any, x: Tensor) -> Any:
    return functional_call(m.layer, {"weight": m.layer.weight * 2}, (x,))


def in_two_parts(m: Any, x: Tensor) -> Any:
    return checkpoint_sequential(m.layers, 2, x, use_reentrant=False)  # type: ignore[no-untyped-call]


def all_experts(m: Any, x: Tensor) -> Any:
    """Every expert sees every token, and a gate weighs them."""
    outputs = torch.stack([expert(x) for expert in m.experts], -1)
    return (outputs * m.gate(x).softmax(-1)[:, None]).sum(-1)


def routed(m: Any, x: Tensor) -> Any:
    """The best 2 of 4 experts per token; tokens are gathered by their expert."""
    scores, chosen = m.gate(x).topk(2)
    result = torch.zeros_like(x)
    for index, expert in enumerate(m.experts):
        rows, place = torch.where(chosen == index)
        result.index_add_(0, rows, expert(x[rows]) * scores[rows, place, None])
    return result


def with_capacity(m: Any, x: Tensor) -> Any:
    """Switch routing: 4 experts take 3 tokens each, by einsum with a dispatch tensor."""
    chosen = functional.one_hot(m.gate(x).argmax(-1), 4).float()
    slots = functional.one_hot((chosen.cumsum(0) * chosen).sum(-1).long().clamp(max=2), 3).float()
    dispatch = chosen[:, :, None] * slots[:, None]
    taken = torch.einsum("tes,td->esd", dispatch, x)
    return torch.einsum("tes,esd->td", dispatch, torch.bmm(taken, m.experts))


def positive_rows(m: Any, x: Tensor) -> Any:
    return m.layer(x[x.sum(1) > 0])


def early_exit(m: Any, x: Tensor) -> Any:
    """Stops after the first layer whose output is large."""
    for layer in m.layers:
        x = layer(x)
        if float(x.abs().max()) < 1:
            break
    return x


def sinkhorn(m: Any, a: Tensor, b: Tensor) -> Any:
    kernel = torch.exp(-a @ b.T)
    u = torch.ones(4)
    for _ in range(6):
        u = 1 / (kernel @ (1 / (kernel.T @ u)))
    return u


def accumulated(m: Any, x: Tensor) -> Any:
    """Writes rows of a buffer in place."""
    result = x.new_zeros(4, 5)
    for index in range(4):
        result[index] = m.layer(x[index])
    return result


TOKENS = torch.eye(6, 4)
EXPERTS = {"gate": nn.Linear(4, 4, bias=False), "experts": nn.ModuleList([square(4) for _ in range(4)])}

CASES = [
    case("Runge-Kutta", lambda: Function(runge_kutta, field=square(4)), (2, 4), macs=12 * 32, params=16),
    case(
        "one layer ten times",
        lambda: Function(lambda m, x: [x := m.layer(x) for _ in range(10)][-1], layer=square(3)),
        (2, 3),
        macs=10 * 18,
        params=9,
    ),
    case(
        "branches of equal cost",
        lambda: Function(branch, one=square(4), other=square(4)).requires_grad_(False),
        torch.zeros(3, 4),
        macs=48,
        params=32,
    ),
    case(
        "branches of unequal cost",
        lambda: Function(branch, one=square(4), other=nn.Sequential(square(4), square(4))).requires_grad_(
            False
        ),
        torch.zeros(3, 4),
        macs=96,  # the costlier one
        params=48,
        unknown="higher_order.cond",
    ),
    case(
        "scan",
        lambda: Function(scanned, step=square(5)).requires_grad_(False),
        torch.zeros(7, 5),
        macs=7 * 25,
        params=25,
    ),
    case(
        "loop that data ends",
        lambda: Function(repeated, step=square(5)).requires_grad_(False),
        torch.zeros(2, 5),
        macs=50,  # one iteration
        params=25,
        unknown="higher_order.while_loop",
    ),
    case(
        "mapped over a batch",
        lambda: Function(lambda m, x: vmap(lambda row: m.weight @ row)(x), weight=weight(3, 4)),
        (6, 4),
        macs=6 * 12,
        params=12,
    ),
    case(
        "mapped over kernels",
        lambda: Function(
            lambda m, x: vmap(lambda kernel: functional.conv1d(x, kernel))(m.kernels),
            kernels=weight(3, 2, 4, 3),
        ),
        (1, 4, 10),
        macs=3 * 2 * 8 * 3 * 4,
        params=72,
    ),
    case(
        "ensemble with stacked weights",
        lambda: Function(ensemble, layers=nn.ModuleList([nn.Linear(4, 2, bias=False) for _ in range(3)])),
        (5, 4),
        macs=3 * 5 * 8,
        params=24,
    ),
    case(
        "forward derivative",
        lambda: Function(tangent, layer=square(4)),
        (3, 4),
        (3, 4),
        # The value, its tangent, and a product with the tangent of the weight: torch writes out its zeros.
        macs=3 * 48,
        params=16,
    ),
    case("called with other weights", lambda: Function(called, layer=square(4)), (3, 4), macs=48, params=16),
    case(
        "checkpoint",
        lambda: Function(lambda m, x: checkpoint(m.layer, x, use_reentrant=False), layer=square(4)),
        (3, 4),
        macs=48,  # recomputation belongs to training
        params=16,
    ),
    case(
        "checkpoints of a sequence",
        lambda: Function(
            in_two_parts,
            layers=nn.Sequential(*[square(3) for _ in range(4)]),
        ),
        (2, 3),
        macs=4 * 18,
        params=36,
    ),
    case(
        "experts that all run", lambda: Function(all_experts, **EXPERTS), (6, 4), macs=5 * 6 * 16, params=80
    ),
    case(
        "experts by routing",
        lambda: Function(routed, **EXPERTS),
        TOKENS,
        macs=6 * 16 + 2 * 6 * 16,  # the gate; two experts per token, whichever they are
        params=80,
    ),
    case(
        "experts with a capacity",
        lambda: Function(with_capacity, gate=nn.Linear(5, 4, bias=False), experts=weight(4, 5, 5)),
        (6, 5),
        # The gate; to 4 x 3 slots, the experts, and back.
        macs=6 * 20 + 6 * 12 * 5 + 4 * 3 * 25 + 6 * 12 * 5,
        params=20 + 100,
    ),
    case(
        "rows chosen by a mask",
        lambda: Function(positive_rows, layer=square(4)),
        TOKENS,
        macs=4 * 16,  # 4 of 6 rows have a positive sum
        params=16,
    ),
    case(
        "rows chosen by a mask, without values",
        lambda: Function(positive_rows, layer=square(4)),
        (6, 4),
        macs=0,
        params=16,
        unknown="aten.index aten.linear",
    ),
    case(
        "early exit",
        lambda: Function(early_exit, layers=nn.ModuleList([square(4) for _ in range(3)])),
        torch.zeros(2, 4),
        macs=32,  # zeros leave after the first layer
        params=48,
    ),
    case("Sinkhorn iterations", lambda: Function(sinkhorn), (4, 3), (5, 3), macs=60 + 6 * 2 * 20),
    case(
        "rows written in place",
        lambda: Function(accumulated, layer=nn.Linear(3, 5, bias=False)),
        (4, 3),
        macs=4 * 15,
        params=15,
    ),
    case(
        "sequence of submodules chosen by index",
        lambda: Function(
            lambda m, x: m.layers[1](m.layers[0](x)), layers=nn.ModuleList([square(3), square(3), square(3)])
        ),
        (2, 3),
        macs=36,
        params=27,  # the third is never used, but stored
    ),
    case(
        "nested containers as inputs",
        lambda: Function(lambda m, batch: m.layer(batch["x"][0]) + batch["y"], layer=square(3)),
        {"x": [torch.zeros(2, 3)], "y": torch.zeros(2, 3)},
        macs=18,
        params=9,
    ),
]
