"""Weights of a module as content-free tensors, made once for all operators that read them."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from sizeup.formats.torch.holders import Holders

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class FakeWeights:
    """Replaces the weights among the arguments of an operator by what torch itself would make of them.

    Torch looks up the result of an operator that it has seen before, which takes a third of the time of
    computing it, but only if all tensors among the arguments are content-free already.
    """

    def __init__(self, mode: FakeTensorMode, holders: Holders) -> None:
        self._mode = mode
        self._holders = holders
        self._made: dict[int, tuple[torch.Tensor, FakeTensor]] = {}  # by the id of the weight

    def within(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, unchanged if none is content-free: torch computes small constants with numbers."""
        if not any(type(each) is FakeTensor for each in args):
            return args
        return tuple(self._fake(each) if type(each) in _PLAIN else each for each in args)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        made = self._made.get(id(tensor))
        if made is not None:
            return made[1]
        if not self._holders.is_fixed(tensor):
            return tensor
        fake = self._mode.fake_tensor_converter.from_real_tensor(self._mode, tensor)
        self._made[id(tensor)] = (tensor, fake)
        return fake
