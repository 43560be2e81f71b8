"""A hand-written module with the counts that docs/counting.md gives it, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn


class Case(NamedTuple):
    """A module, its inputs, and its counts."""

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    macs: int
    params: int
    weight_bytes: int
    unknown: frozenset[str]  # sources of operators whose cost is unknown


def case(
    name: str,
    make: Callable[[], nn.Module],
    *inputs: Any,
    macs: int,
    params: int = 0,
    weight_bytes: int | None = None,
    unknown: str = "",
) -> Case:
    """A case with weights of 4 bytes each unless stated; inputs are shapes or tensors."""
    size = 4 * params if weight_bytes is None else weight_bytes
    return Case(name, make, inputs, macs, params, size, frozenset(unknown.split()))


class Function(nn.Module):
    """A function of the module and its inputs; members are submodules, parameters and buffers."""

    def __init__(self, function: Callable[..., Any], **members: Any) -> None:
        super().__init__()
        self.function = function
        for name, member in members.items():
            if isinstance(member, torch.Tensor) and not isinstance(member, nn.Parameter):
                self.register_buffer(name, member)
            else:
                setattr(self, name, member)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def weight(*shape: int, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    """A parameter of zeros."""
    return nn.Parameter(torch.zeros(shape, dtype=dtype), requires_grad=False)
