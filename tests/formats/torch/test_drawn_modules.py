"""PyTorch modules with random settings: shapes compared with torch, MACs counted by loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import sizeup

EACH = 8
Nests: TypeAlias = Sequence[Sequence[int]]


class Drawn(NamedTuple):
    """A module, its inputs, its loop nests, and whether torch's FLOP counter supports it."""

    module: nn.Module
    inputs: tuple[Tensor, ...]
    sides: Callable[[Tensor], Nests]  # loop nests with one MAC per innermost step
    is_seen: bool = True


class Called(nn.Module):
    """A function as a module, with the modules that it calls."""

    def __init__(self, function: Callable[..., Any], *inner: nn.Module) -> None:
        super().__init__()
        self.function, self.inner = function, nn.ModuleList(inner)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*self.inner, *inputs)


Draw: TypeAlias = Callable[[Random], Drawn]


def many(random: Random, count: int, most: int, least: int = 1) -> list[int]:
    return [random.randint(least, most) for _ in range(count)]


def ones(*sides: int) -> Tensor:
    return torch.ones(sides)


def convolution(random: Random) -> Drawn:
    rank, groups, inner, outer = many(random, 4, 3)
    kernel, gaps, strides = many(random, rank, 3), many(random, rank, 2), many(random, rank, 3)
    padding: Any = many(random, rank, 2, 0)
    if random.random() < 0.2:
        padding, strides = "same", [1] * rank
    layer = getattr(nn, f"Conv{rank}d")(
        groups * inner, groups * outer, kernel, strides, padding, gaps, groups,
        padding_mode=random.choice(["zeros", "zeros", "circular", "replicate"]),
    )  # fmt: skip
    batch = [2] if random.random() < 0.8 else []
    data = ones(*batch, groups * inner, *many(random, rank, 9, 6))
    return Drawn(layer, (data,), lambda output: [(*output.shape, inner, *kernel)])


def transposed(random: Random) -> Drawn:
    rank, groups, inner, outer = many(random, 4, 3)
    kernel, gaps, strides = many(random, rank, 3), many(random, rank, 2), many(random, rank, 3)
    added = [random.randint(0, max(pair) - 1) for pair in zip(strides, gaps, strict=True)]
    layer = getattr(nn, f"ConvTranspose{rank}d")(
        groups * inner, groups * outer, kernel, strides, 0, added, groups, True, gaps
    )
    data = ones(2, groups * inner, *many(random, rank, 6, 4))
    return Drawn(layer, (data,), lambda _output: [(*data.shape, outer, *kernel)])


def pool(random: Random) -> Drawn:
    rank, kind = random.randint(1, 3), random.choice(["Max", "Avg"])
    kernel, strides = many(random, rank, 4), many(random, rank, 4)
    pads, ceil = [random.randint(0, side // 2) for side in kernel], random.random() < 0.7
    layer = getattr(nn, f"{kind}Pool{rank}d")(kernel, strides, pads, ceil_mode=ceil)
    return Drawn(layer, (ones(2, 3, *many(random, rank, 12, 7)),), lambda _output: [])


def columns(random: Random) -> Drawn:
    kernel, strides, gaps = (tuple(many(random, 2, most)) for most in (3, 2, 2))
    unfolded = nn.Unfold(kernel, gaps, 1, strides)
    data = ones(2, 3, 8, 9)
    if random.random() < 0.5:
        return Drawn(unfolded, (data,), lambda _output: [])
    return Drawn(nn.Fold((8, 9), kernel, gaps, 1, strides), (unfolded(data),), lambda _output: [])


def interpolated(random: Random) -> Drawn:
    scales = tuple(random.choice([0.5, 0.9, 1.1, 2.3, random.uniform(0.4, 3)]) for _ in range(2))
    held: dict[str, Any] = {"mode": random.choice(["nearest", "bilinear", "bicubic", "area"])}
    if random.random() < 0.5:
        held["size"] = tuple(many(random, 2, 20))
    else:
        held["scale_factor"] = scales
        held["recompute_scale_factor"] = random.random() < 0.5 or None
    data = ones(1, 2, *many(random, 2, 20, 3))
    return Drawn(Called(lambda x: functional.interpolate(x, **held)), (data,), lambda _output: [])


def equation(random: Random) -> Drawn:
    sizes = dict(zip("abcde", many(random, 5, 4), strict=True))
    first, second = (random.sample("abcde", random.randint(1, 3)) for _ in range(2))
    both = list(dict.fromkeys(first + second))
    result = random.sample(both, random.randint(0, len(both)))
    text = f"{''.join(first)},{''.join(second)}->{''.join(result)}"
    # Axes of one operand that are not in the result are summed before the product.
    kept = [each for each in both if each in result or (each in first and each in second)]
    inputs = tuple(ones(*(sizes[each] for each in term)) for term in (first, second))
    sides = tuple(sizes[each] for each in kept)
    # Without a contraction torch multiplies elementwise, which its counter ignores.
    return Drawn(Called(lambda x, y: torch.einsum(text, x, y)), inputs, lambda _output: [sides], False)


def attention(random: Random) -> Drawn:
    batch, length, keys, size, wide, shared, times = many(random, 7, 4)
    heads = shared * times
    inputs = (
        ones(batch, heads, length, size),
        ones(batch, shared, keys, size),
        ones(batch, shared, keys, wide),
    )

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=times > 1)

    return Drawn(Called(call), inputs, lambda _output: [(batch, heads, length, keys, size + wide)])


def recurrent(random: Random) -> Drawn:
    kind, gates = random.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    features, hidden, layers, steps, batch = many(random, 5, 4)
    both, narrow = random.random() < 0.5, 0
    if kind == "LSTM" and hidden > 1 and random.random() < 0.5:
        narrow = random.randint(1, hidden - 1)
    held = {"proj_size": narrow} if narrow else {}
    layer = getattr(nn, kind)(features, hidden, layers, bidirectional=both, **held)
    ways, out = 1 + both, narrow or hidden
    sides: list[tuple[int, ...]] = []
    for depth in range(layers):
        read = features if depth == 0 else out * ways
        sides += [(ways, steps, batch, gates, hidden, read + out), (ways, steps, batch, narrow, hidden)]
    return Drawn(layer, (ones(steps, batch, features),), lambda _output: sides, False)


def packed(random: Random) -> Drawn:
    features, hidden, steps, batch = many(random, 4, 4, 2)
    lengths = [steps, *sorted((random.randint(1, steps) for _ in range(batch - 1)), reverse=True)]

    def call(layer: nn.LSTM, data: Tensor) -> Tensor:
        rows = nn.utils.rnn.pack_padded_sequence(data, torch.tensor(lengths))
        output: Tensor = nn.utils.rnn.pad_packed_sequence(layer(rows)[0])[0]
        return output

    module = Called(call, nn.LSTM(features, hidden))
    sides = (sum(lengths), 4, hidden, features + hidden)
    return Drawn(module, (ones(steps, batch, features),), lambda _output: [sides], False)


def heads(random: Random) -> Drawn:
    count, length, keys, batch = many(random, 4, 4)
    width = 2 * count * random.randint(1, 3)
    own, kind, wide = random.random() < 0.5, *many(random, 2, 5)
    held: dict[str, Any] = {} if own else {"kdim": kind, "vdim": wide}
    more = random.random() < 0.3
    layer = nn.MultiheadAttention(width, count, add_zero_attn=more, batch_first=True, **held).eval()
    if own:
        keys, kind, wide = length, width, width
    inputs = [ones(batch, length, width)]
    if not own:
        inputs += [ones(batch, keys, kind), ones(batch, keys, wide)]
    module = Called(lambda layer, *x: layer(*(x * 3 if own else x), need_weights=False)[0], layer)
    sides = [(batch, length, width, 2 * width), (batch, keys, width, kind + wide)]
    sides.append((batch, length, keys + more, 2 * width))
    # torch's counter ignores fused self-attention.
    return Drawn(module, tuple(inputs), lambda _output: sides, not own)


KINDS: dict[str, Draw] = {
    each.__name__: each
    for each in (
        convolution,
        transposed,
        pool,
        columns,
        interpolated,
        equation,
        attention,
        recurrent,
        packed,
        heads,
    )
}


def _by_loops(nests: Nests) -> int:
    total = 0
    for nest in nests:
        for _ in product(*map(range, nest)):
            total += 1
    return total


# torch warns that a projected LSTM runs without oneDNN.
@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@pytest.mark.parametrize("name", KINDS)
def test_shapes_and_products_are_those_of_torch(name: str) -> None:
    for seed in range(EACH):
        module, inputs, sides, is_seen = KINDS[name](Random(f"{name} {seed}"))
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            output = torch.utils._pytree.tree_leaves(module.eval()(*inputs))
        cost = sizeup.count(module, inputs=inputs)
        assert cost.known.all(), cost.reasons
        assert [cost.graph.tensors[each].shape for each in cost.graph.outputs] == [m.shape for m in output]
        assert cost.total_macs == _by_loops(sides(output[0])), (seed, module)
        if is_seen:
            assert 2 * cost.total_macs == counter.get_total_flops(), (seed, module)
