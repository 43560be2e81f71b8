"""What the tests of all recipes share: the lines that users copy, choices at random, and a small network."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType, precision
from sizeup.graph import Graph
from sizeup.mixed_precision import layers

Array: TypeAlias = np.ndarray[Any, Any]
PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"


def from_the_page(name: str) -> dict[str, Any]:
    """What the block of docs/recipes.md defines that has this function: users copy it as it is."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (block,) = [each for each in blocks if f"\ndef {name}(" in each]
    defined: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), defined)
    return defined


def mixture(graph: Graph, seed: int, names: Sequence[str]) -> dict[int, DType]:
    """A type for every layer at random, of those that its kernel has."""
    generator = random.Random(seed)
    able = {
        "DEPTHWISE_CONV_2D": {"fp32", "fp16", "int8"},
        "CONV_2D": {"fp32", "fp16", "int8", "int4"},
    }
    return {
        layer.op: precision(
            generator.choice([each for each in names if each in able.get(graph.ops[layer.op].source, names)])
        )
        for layer in layers(graph)
    }


def relative_error(exact: Array, rounded: Array) -> float:
    """The root of the mean squared difference, by that of the exact numbers."""
    return float(np.sqrt(np.mean((rounded - exact) ** 2) / np.mean(exact**2)))


def network() -> Any:
    """A small network with a residual sum, pooling and two linear layers."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv2d(3, 8, 3, padding=1)
            self.two = nn.Conv2d(8, 8, 3, padding=1)
            self.three = nn.Conv2d(8, 16, 3, stride=2)
            self.pool = nn.MaxPool2d(2)
            self.head = nn.Linear(16, 12)
            self.last = nn.Linear(12, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.one(x))
            x = torch.relu(x + self.two(x))
            x = self.pool(torch.relu(self.three(x))).mean((2, 3))
            made: torch.Tensor = self.last(torch.relu(self.head(x)))
            return made

    torch.manual_seed(0)
    return Network().eval()
