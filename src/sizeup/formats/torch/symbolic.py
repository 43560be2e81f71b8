"""Sizes without a value while a model runs: torch's symbols under our names, and what it assumed of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, statically_known_true

from sizeup.formats.torch.sympy_numbers import NotClosed, Translator
from sizeup.graph import Condition, Number


class NamedSizes(ShapeEnv):
    """Free dimensions of one run. Each has a name and an example, by which torch decides what it must."""

    def __init__(self, example: Mapping[str, int]) -> None:
        # Sizes that happen to be equal stay apart, and 1 is a size like any other.
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.example = dict(example)
        self.where = "the model"  # what runs now
        self._origins: list[str] = []  # who asked, one entry a guard
        self._sizes = {name: self._symbol(name, size) for name, size in example.items()}
        self.translator = Translator({each.node.expr: name for name, each in self._sizes.items()})

    def _symbol(self, name: str, size: int) -> Any:
        # All of torch's compiler comes with it.
        from torch._dynamo.source import ConstantSource

        source = ConstantSource(name)
        symbol = self.create_symbol(
            size, source, DimDynamic.DYNAMIC, constraint_dim=None, do_not_specialize_zero_one=True
        )
        return self.create_symintnode(symbol, hint=size, source=source)

    def size(self, name: str) -> Any:
        """The free dimension of that name, as torch computes with it."""
        return self._sizes[name]

    def attribute(self, where: str, then: str) -> None:
        """Whatever was asked since the last call was asked by this part of the model; another one follows."""
        self.where = then
        self._origins += [where] * (len(self.guards) - len(self._origins))

    def conditions(self) -> dict[Condition, str]:
        """All that torch decided by the example, and who asked first."""
        self.attribute(self.where, self.where)
        found: dict[Condition, str] = {}
        for guard, where in zip(self.guards, self._origins, strict=True):
            if not self.translator.knows(guard.expr):
                raise NotClosed(f"the condition {guard.expr} depends on data")
            condition = self.translator.condition(guard.expr)
            if condition is not None:
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
