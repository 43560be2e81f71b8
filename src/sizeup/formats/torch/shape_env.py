"""Symbolic dimensions of a trace: torch symbols with our names, and the guards that torch added."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, statically_known_true

from sizeup.formats.torch.sympy_translation import Translator
from sizeup.symbolic import Guard, NoClosedForm, Number


class NamedShapeEnv(ShapeEnv):
    """Symbolic dimensions of one trace. torch resolves guards with the example size of each."""

    def __init__(self, example: Mapping[str, int], seconds: float) -> None:
        # Equal sizes stay separate symbols, and 0 and 1 are not specialized.
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.example = dict(example)
        self.location = "the model"  # the op or code that runs now
        self._seconds, self._deadline = seconds, time.process_time() + seconds
        self._origins: list[str] = []  # location of each guard
        self.by_name = {name: self._symbol(name, size) for name, size in example.items()}
        self.translator = Translator({symbol.node.expr: name for name, symbol in self.by_name.items()})

    def _symbol(self, name: str, size: int) -> Any:
        # Imports all of torch's compiler.
        from torch._dynamo.source import ConstantSource

        source = ConstantSource(name)
        symbol = self.create_symbol(
            size, source, DimDynamic.DYNAMIC, constraint_dim=None, do_not_specialize_zero_one=True
        )
        return self.create_symintnode(symbol, hint=size, source=source)

    def attribute(self, location: str, following: str) -> None:
        """Attribute the guards since the last call to `location`; `following` runs next."""
        self.location = following
        if time.process_time() > self._deadline:
            raise NoClosedForm(f"finding its closed form takes more than {self._seconds:g} s")
        self._origins += [location] * (len(self.guards) - len(self._origins))

    def named_guards(self) -> dict[Guard, str]:
        """Return the guards that torch added, each with the location that added it first."""
        self.attribute(self.location, self.location)
        guards: dict[Guard, str] = {}
        for torch_guard, origin in zip(self.guards, self._origins, strict=True):
            if not self.translator.is_closed(torch_guard.expr):
                raise NoClosedForm(f"the guard {torch_guard.expr} depends on data")
            guard = self.translator.guard(torch_guard.expr)
            if guard is not None and not guard.is_always_true:
                guards.setdefault(guard, origin)
        return guards


def to_expressions(value: Any) -> Any:
    """Convert torch's symbolic sizes, also in lists and tuples, to expressions; None if data-dependent."""
    if isinstance(value, torch.SymInt):
        return to_number(value)
    if isinstance(value, tuple):
        return tuple(map(to_expressions, value))
    return [to_expressions(item) for item in value] if isinstance(value, list) else value


def to_number(size: Any) -> Number | None:
    """Convert one symbolic size; None if it depends on data."""
    environment = size.node.shape_env
    if not isinstance(environment, NamedShapeEnv) or not environment.translator.is_closed(size.node.expr):
        return None
    return environment.translator.number(size.node.expr)


def pad_symbolic(
    data: torch.Tensor, borders: Sequence[Any], mode: str = "constant", value: Any = None
) -> Any:
    """Return the result of padding by symbolic widths, which torch's meta kernel rejects."""
    if mode != "constant" or not any(isinstance(border, torch.SymInt) for border in borders):
        return NotImplemented
    shape: list[Any] = list(data.shape)
    for axis in range(len(borders) // 2):
        shape[-1 - axis] += borders[2 * axis] + borders[2 * axis + 1]
    return torch.empty(shape, dtype=data.dtype, device=data.device, memory_format=suggest_memory_format(data))


# Meta kernels for operators whose own ones require fixed sizes.
SYMBOLIC_META_KERNELS: dict[str, Callable[..., Any]] = {
    "aten.pad": pad_symbolic,
    "aten.constant_pad_nd": pad_symbolic,
}


@contextmanager
def unguarded_conv_backend() -> Iterator[None]:
    """Select the backend of a convolution without adding guards on the batch size.

    The result has the same shape for every backend. Only the memory format can differ, and only if an input
    is not contiguous: then the guards are kept.
    """
    select = torch._C._select_conv_backend

    def choose(data: Any, weight: Any, *rest: Any, **named: Any) -> Any:
        environment = next(
            (size.node.shape_env for size in data.shape if isinstance(size, torch.SymInt)), None
        )
        if environment is None or not (_is_contiguous(data) and _is_contiguous(weight)):
            return select(data, weight, *rest, **named)
        with environment.suppress_guards():
            return select(data, weight, *rest, **named)

    torch._C._select_conv_backend = choose
    try:
        yield
    finally:
        torch._C._select_conv_backend = select


def _is_contiguous(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is contiguous at every size, without adding guards."""
    step: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if not statically_known_true(stride == step):
            return False
        step = step * size
    return True
