"""Sizes without a value while a model runs: torch's symbols under our names, and what it assumed of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, statically_known_true

from sizeup.formats.torch.sympy_numbers import Translator
from sizeup.symbolic import Guard, NotClosed, Number


class NamedSizes(ShapeEnv):
    """Free dimensions of one run. Each has a name and an example, by which torch decides what it must."""

    def __init__(self, example: Mapping[str, int], seconds: float) -> None:
        # Sizes that happen to be equal stay apart, and 1 is a size like any other.
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.example = dict(example)
        self.where = "the model"  # what runs now
        self._seconds, self._deadline = seconds, time.process_time() + seconds
        self._origins: list[str] = []  # who asked, one entry a guard
        self.by_name = {name: self._symbol(name, size) for name, size in example.items()}
        self.translator = Translator({each.node.expr: name for name, each in self.by_name.items()})

    def _symbol(self, name: str, size: int) -> Any:
        # All of torch's compiler comes with it.
        from torch._dynamo.source import ConstantSource

        source = ConstantSource(name)
        symbol = self.create_symbol(
            size, source, DimDynamic.DYNAMIC, constraint_dim=None, do_not_specialize_zero_one=True
        )
        return self.create_symintnode(symbol, hint=size, source=source)

    def attribute(self, where: str, then: str) -> None:
        """Whatever was asked since the last call was asked by this part of the model; another one follows."""
        self.where = then
        if time.process_time() > self._deadline:
            raise NotClosed(f"its closed form takes more than {self._seconds:g} s to find")
        self._origins += [where] * (len(self.guards) - len(self._origins))

    def conditions(self) -> dict[Guard, str]:
        """All that torch decided by the example, and who asked first."""
        self.attribute(self.where, self.where)
        found: dict[Guard, str] = {}
        for guard, where in zip(self.guards, self._origins, strict=True):
            if not self.translator.knows(guard.expr):
                raise NotClosed(f"the condition {guard.expr} depends on data")
            condition = self.translator.condition(guard.expr)
            if condition is not None and not condition.is_always:
                found.setdefault(condition, where)
        return found


def plain(value: Any) -> Any:
    """Torch's symbolic sizes as our expressions, in lists and tuples too; None where data decides one."""
    if isinstance(value, torch.SymInt):
        return number_of(value)
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return [plain(each) for each in value] if isinstance(value, list) else value


def number_of(size: Any) -> Number | None:
    """One symbolic size; None where it depends on data."""
    environment = size.node.shape_env
    if not isinstance(environment, NamedSizes) or not environment.translator.knows(size.node.expr):
        return None
    return environment.translator.number(size.node.expr)


def padded(data: torch.Tensor, borders: Sequence[Any], mode: str = "constant", value: Any = None) -> Any:
    """What padding makes where the width of a border is free, which torch's own kernel refuses."""
    if mode != "constant" or not any(isinstance(each, torch.SymInt) for each in borders):
        return NotImplemented
    shape: list[Any] = list(data.shape)
    for place in range(len(borders) // 2):
        shape[-1 - place] += borders[2 * place] + borders[2 * place + 1]
    return torch.empty(shape, dtype=data.dtype, device=data.device, memory_format=suggest_memory_format(data))


# Operators whose kernels want sizes with values, though what they make is plain.
STAND_INS: dict[str, Callable[..., Any]] = {"aten.pad": padded, "aten.constant_pad_nd": padded}


@contextmanager
def any_kernel() -> Iterator[None]:
    """Let torch choose the kernel of a convolution without making that choice a condition.

    It asks for the size of the batch among others. What comes out is the same for every kernel, except
    that some keep channels last where they find them so: there the question stays a condition.
    """
    asked = torch._C._select_conv_backend

    def choose(data: Any, weight: Any, *rest: Any, **named: Any) -> Any:
        environment = next(
            (each.node.shape_env for each in data.shape if isinstance(each, torch.SymInt)), None
        )
        if environment is None or not (_lies_row_by_row(data) and _lies_row_by_row(weight)):
            return asked(data, weight, *rest, **named)
        with environment.suppress_guards():
            return asked(data, weight, *rest, **named)

    torch._C._select_conv_backend = choose
    try:
        yield
    finally:
        torch._C._select_conv_backend = asked


def _lies_row_by_row(tensor: torch.Tensor) -> bool:
    """Whether its numbers lie row by row at every size, which asks nothing of the sizes."""
    step: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if not statically_known_true(stride == step):
            return False
        step = step * size
    return True
