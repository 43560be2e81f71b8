"""A module that a worker can import: its folder is on the path of the tests, which workers receive."""

from __future__ import annotations

import time

import torch


class Sleeps(torch.nn.Module):
    """Takes a known time, whatever the machine."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, torch._subclasses.FakeTensor):
            time.sleep(0.05)
        return x + 1
