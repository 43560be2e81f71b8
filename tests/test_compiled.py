"""The kernels that we predict for compiled PyTorch, against the code that Inductor writes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch._inductor import utils as inductor
from torch.nn import functional

import sizeup
from sizeup import targets
from sizeup.fusion import kernels

# What operators are called in the names that Inductor gives to its kernels.
WORDS = {
    "_native_batch_norm_legit_no_training": "batch_norm",
    "native_layer_norm": "layer_norm",
    **{each: each for each in ("silu", "mean", "relu", "mul", "sigmoid", "add", "gelu")},
}


class Squeeze(nn.Module):
    """Convolutions with norms, a gate from the mean of every channel, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.Conv2d(32, 32, 1, bias=False)
        self.down, self.up = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)
        self.norm, self.second = nn.BatchNorm2d(32), nn.BatchNorm2d(32)

    def forward(self, x: Any) -> Any:
        x = functional.silu(self.norm(self.first(x)))
        gate = self.up(functional.relu(self.down(x.mean((2, 3), keepdim=True)))).sigmoid()
        return functional.relu(self.second(self.last(x * gate)) + x)


class Block(nn.Module):
    """A block of a transformer, and the norm after it."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(3))
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        heads = self.qkv(self.norms[0](x)).reshape(batch, tokens, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads.unbind(0)).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        x = x + self.down(functional.gelu(self.up(self.norms[1](x))))
        return self.norms[2](x)


def written_by_inductor(module: Any, shape: tuple[int, ...]) -> Counter[frozenset[str]]:
    torch._dynamo.reset()
    # Code that was compiled before, and lies in a cache, is not told again.
    with torch.no_grad(), inductor.fresh_cache():
        code = "\n".join(inductor.get_code(torch.compile(module), torch.zeros(shape)))
    found: Counter[frozenset[str]] = Counter()
    for name in re.findall(r"^ +cpp_fused_(\w+)_\d+\(", code, re.MULTILINE):
        parts = frozenset(kind for word, kind in WORDS.items() if re.search(rf"(^|_){word}(_|$)", name))
        found[parts] += bool(parts)  # a kernel without any of them changes how a picture lies in memory
    return +found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what torch warns of while it compiles is its own
@pytest.mark.parametrize(("make", "shape"), [(Squeeze, (2, 3, 32, 32)), (Block, (2, 50, 64))])
def test_nests_of_loops_hold_the_operators_that_inductor_puts_into_them(
    make: Any, shape: tuple[int, ...]
) -> None:
    module = make().eval()
    graph = sizeup.load(module, inputs=(shape,))
    fuses = targets.runtime("torch-inductor").fusions
    assert fuses is not None
    groups = ([graph.ops[index].kind for index in ops] for ops in kernels(graph, fuses))
    loops = Counter(frozenset(kinds) for kinds in groups if not {"conv", "matmul", "attention"} & set(kinds))
    assert loops == written_by_inductor(module, shape)
