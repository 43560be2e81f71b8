"""Recurrent layers: steps x batch x elements of all weight matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hand_written.case import Function, case, weight


def stepwise(m: Any, x: Tensor) -> Any:
    """A cell in a Python loop over the first axis."""
    state = m.cell(x[0])
    for step in x[1:]:
        state = m.cell(step, state)
    return state[0] if isinstance(state, tuple) else state


def conv_lstm(m: Any, x: Tensor) -> Any:
    hidden = cell = x.new_zeros(1, 2, 6, 6)
    for frame in x.unbind(1):
        i, f, o, g = m.gates(torch.cat([frame, hidden], 1)).chunk(4, 1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
    return hidden


def simple_unit(m: Any, x: Tensor) -> Any:
    """Gates depend on the input only, so their product is one for all steps."""
    value, forget = m.gates(x).chunk(2, -1)
    state = torch.zeros_like(value[:, 0])
    for t in range(x.shape[1]):
        gate = forget[:, t].sigmoid()
        state = gate * state + (1 - gate) * value[:, t]
    return state


def selective_scan(m: Any, x: Tensor) -> Any:
    """A state of 3 per channel, with input-dependent B, C and step size."""
    b, c, step = m.inner(x).split((3, 3, 4), -1)
    state = x.new_zeros(2, 4, 3)
    outputs = []
    for t in range(x.shape[1]):
        decay = torch.exp(step[:, t, :, None] * m.a)
        state = decay * state + (step[:, t] * x[:, t])[..., None] * b[:, t, None]
        outputs.append((state @ c[:, t, :, None]).squeeze(-1))
    return torch.stack(outputs, 1)


def delta_rule(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """A matrix memory that each step reads twice and writes by an outer product."""
    memory = q.new_zeros(4, 5)
    outputs = []
    for t in range(q.shape[0]):
        error = v[t] - k[t] @ memory
        memory = memory + torch.outer(k[t], error)
        outputs.append(q[t] @ memory)
    return torch.stack(outputs)


def mixed_in_time(m: Any, x: Tensor) -> Any:
    """RWKV: each token is mixed with the one before, then three projections and a decaying sum."""
    before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    mixed = m.share * x + (1 - m.share) * before
    r, k, v = m.r(mixed).sigmoid(), m.k(mixed).exp(), m.v(mixed)
    return m.out(r * (k * v).cumsum(1) / k.cumsum(1))


def diagonal_scan(m: Any, x: Tensor) -> Any:
    state = x.new_zeros(6)
    for row in x:
        state = m.a * state + m.b @ row
    result: Tensor = m.c @ state
    return result


CASES = [
    case(
        "two-way LSTM of two layers",
        lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        (5, 2, 3),
        # Per direction: 16 x (3 + 4), then 16 x (8 + 4) with both directions as input.
        macs=5 * 2 * 2 * (16 * 7 + 16 * 12),
        params=2 * (16 * 7 + 32) + 2 * (16 * 12 + 32),
    ),
    case(
        "LSTM with a projection",
        lambda: nn.LSTM(4, 8, proj_size=3, bias=False),
        (6, 1, 4),
        macs=6 * (32 * 4 + 32 * 3 + 3 * 8),
        params=32 * 4 + 32 * 3 + 24,
    ),
    case("LSTM, unbatched", lambda: nn.LSTM(3, 5, bias=False), (7, 3), macs=7 * 20 * 8, params=20 * 8),
    case(
        "two-way GRU, batch first",
        lambda: nn.GRU(5, 3, bidirectional=True, batch_first=True),
        (2, 4, 5),
        macs=2 * 4 * 2 * 9 * 8,
        params=2 * (9 * 8 + 18),
    ),
    case(
        "GRU of three layers",
        lambda: nn.GRU(2, 4, num_layers=3, bias=False),
        (3, 1, 2),
        macs=3 * 12 * (6 + 8 + 8),
        params=12 * (6 + 8 + 8),
    ),
    case(
        "RNN with ReLU",
        lambda: nn.RNN(6, 5, nonlinearity="relu", bias=False),
        (4, 3, 6),
        macs=4 * 3 * 5 * 11,
        params=55,
    ),
    case(
        "LSTM cell in a loop",
        lambda: Function(stepwise, cell=nn.LSTMCell(4, 6)),
        (5, 2, 4),
        macs=5 * 2 * 24 * 10,
        params=24 * 10 + 48,
    ),
    case(
        "GRU cell in a loop",
        lambda: Function(stepwise, cell=nn.GRUCell(4, 6, bias=False)),
        (3, 2, 4),
        macs=3 * 2 * 18 * 10,
        params=180,
    ),
    case(
        "RNN cell in a loop",
        lambda: Function(stepwise, cell=nn.RNNCell(3, 3, bias=False)),
        (4, 1, 3),
        macs=4 * 18,
        params=18,
    ),
    case(
        "convolutional LSTM",
        lambda: Function(conv_lstm, gates=nn.Conv2d(3, 8, 3, padding=1, bias=False)),
        (1, 4, 1, 6, 6),
        macs=4 * 8 * 36 * 27,  # one channel of input and two of state
        params=8 * 27,
    ),
    case(
        "gates from the input alone",
        lambda: Function(simple_unit, gates=nn.Linear(4, 10, bias=False)),
        (2, 6, 4),
        macs=2 * 6 * 4 * 10,
        params=40,
    ),
    case(
        "selective state space",
        lambda: Function(selective_scan, inner=nn.Linear(4, 10, bias=False), a=weight(4, 3)),
        (2, 5, 4),
        # The projection, and per step 4 channels x 3 states read by C; the update is elementwise.
        macs=2 * 5 * 40 + 5 * 2 * 4 * 3,
        params=40 + 12,
    ),
    case(
        "diagonal state space",
        lambda: Function(diagonal_scan, a=weight(6), b=weight(6, 3), c=weight(2, 6)),
        (8, 3),
        macs=8 * 18 + 12,
        params=6 + 18 + 12,
    ),
    case(
        "delta rule",
        lambda: Function(delta_rule),
        *[(3, 4), (3, 4), (3, 5)],
        macs=3 * 2 * 4 * 5,  # the outer product has none
    ),
    case(
        "mixing in time",
        lambda: Function(
            mixed_in_time,
            share=weight(4),
            **{name: nn.Linear(4, 4, bias=False) for name in ("r", "k", "v", "out")},
        ),
        (1, 7, 4),
        macs=4 * 7 * 16,
        params=4 + 4 * 16,
    ),
]
