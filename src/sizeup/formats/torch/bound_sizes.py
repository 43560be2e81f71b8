"""Sizes for the symbolic dimensions of a program's inputs, from shapes and bindings that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import torch

from sizeup.errors import LoadError, SymbolicDimension, UnboundDimension
from sizeup.formats.torch.inputs import is_shape, plain_shape
from sizeup.formats.torch.size_expressions import SizeExpression


class UserInput(NamedTuple):
    """An input that the caller gives: a tensor with sizes, or a plain value, which may be a size itself."""

    name: str
    sizes: tuple[int | SizeExpression, ...] | None
    dtype: torch.dtype | None = None
    value: Any = None

    @property
    def all_sizes(self) -> tuple[int | SizeExpression, ...]:
        """Its dimensions, or the size that it is."""
        if self.sizes is not None:
            return self.sizes
        return (self.value,) if isinstance(self.value, SizeExpression) else ()

    def place(self, axis: int) -> str:
        """What a dimension is called in a binding."""
        return f"{self.name}.{axis}" if self.sizes is not None else self.name


class BoundSizes:
    """The sizes of every input and every symbol; raises if they contradict each other or some are missing."""

    def __init__(self, user_inputs: Sequence[UserInput], inputs: Any, bind: Mapping[str, int]) -> None:
        self.symbols: dict[str, Any] = {}
        self._bind = bind
        self._given = _given_shapes([each.name for each in user_inputs if each.sizes is not None], inputs)
        for each in user_inputs:
            self._check_rank(each)
            self._take_symbols(each)
        for each in user_inputs:
            self._solve_symbols(each)
        self._fixed = {each.name: self._all(each) for each in user_inputs}
        self._check_names(user_inputs)

    def of(self, given: UserInput, symbols: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """The sizes of an input; with other `symbols`, by its expressions of them."""
        if symbols is None:
            return tuple(self._fixed[given.name])
        return tuple(
            each.evaluate(symbols) if _is_known(each, symbols) else size
            for each, size in zip(given.all_sizes, self._fixed[given.name], strict=True)
        )

    def _check_rank(self, each: UserInput) -> None:
        given = self._given.get(each.name)
        if given is not None and len(given) != len(each.all_sizes):
            raise LoadError(
                f"input {each.name!r} has {len(each.all_sizes)} dimensions; {len(given)} were given"
            )

    def _wanted(self, each: UserInput, axis: int) -> set[int]:
        """What the caller says of one dimension."""
        size = each.all_sizes[axis]
        keys = [each.place(axis), size.text if isinstance(size, SizeExpression) else ""]
        wanted = {self._bind[key] for key in keys if key in self._bind}
        return wanted | ({self._given[each.name][axis]} if each.name in self._given else set())

    def _take_symbols(self, each: UserInput) -> None:
        for axis, size in enumerate(each.all_sizes):
            if isinstance(size, SizeExpression) and size.is_symbol:
                known = {self.symbols[size.text]} if size.text in self.symbols else set()
                wanted = self._wanted(each, axis) | known
                _check_one(each, axis, wanted)
                if wanted:
                    self.symbols[size.text] = wanted.pop()

    def _solve_symbols(self, each: UserInput) -> None:
        """A size that is given fixes the symbol of a linear expression: s0 + 1 = 9."""
        for axis, size in enumerate(each.all_sizes):
            wanted = self._wanted(each, axis)
            if isinstance(size, int) or len(wanted) != 1 or len(size.symbols) != 1:
                continue
            symbol, (value,) = next(iter(size.symbols)), wanted
            start, slope = size.evaluate({symbol: 1}), size.evaluate({symbol: 2}) - size.evaluate({symbol: 1})
            solution = 1 + (value - start) // slope if slope else 0
            if symbol not in self.symbols and solution > 0 and size.evaluate({symbol: solution}) == value:
                self.symbols[symbol] = solution

    def _all(self, each: UserInput) -> list[int | None]:
        sizes: list[int | None] = []
        for axis, size in enumerate(each.all_sizes):
            wanted = self._wanted(each, axis)
            if not isinstance(size, SizeExpression):
                wanted.add(size)
            elif _is_known(size, self.symbols):
                wanted.add(size.evaluate(self.symbols))
            _check_one(each, axis, wanted)
            sizes.append(wanted.pop() if wanted else None)
        return sizes

    def _check_names(self, user_inputs: Sequence[UserInput]) -> None:
        places = [(each, axis, size) for each in user_inputs for axis, size in enumerate(each.all_sizes)]
        known = {each.place(axis) for each, axis, _ in places}
        known |= {size.text for _, _, size in places if isinstance(size, SizeExpression)}
        unbound = [
            (SymbolicDimension(each.place(axis), each.name, axis, len(each.sizes or ())), size)
            for each, axis, size in places
            if self._fixed[each.name][axis] is None and isinstance(size, SizeExpression)
        ]
        missing = [f"{dimension.name} (symbol {size.text})" for dimension, size in unbound]
        unknown = sorted(set(self._bind) - known)
        if unknown:
            raise LoadError(
                f"no dimension is called {', '.join(unknown)};"
                f" unbound ones are {', '.join(missing) or 'none'}"
            )
        if missing:
            words = (
                f"symbolic dimensions: {', '.join(missing)}; bind each, as in --bind {unbound[0][0].name}=1"
            )
            raise UnboundDimension(words, tuple(dimension for dimension, _ in unbound))


def _is_known(size: int | SizeExpression, symbols: Mapping[str, Any]) -> TypeGuard[SizeExpression]:
    return isinstance(size, SizeExpression) and size.symbols <= symbols.keys()


def _check_one(each: UserInput, axis: int, wanted: set[int]) -> None:
    if len(wanted) > 1:
        sizes = " and ".join(map(str, sorted(wanted)))
        raise LoadError(f"input {each.name!r} at axis {axis}: {sizes} at once; the program allows one size")
    if any(size < 0 for size in wanted):
        raise LoadError(f"input {each.name!r} at axis {axis} has the negative size {min(wanted)}")


def _given_shapes(names: list[str], inputs: Any) -> dict[str, tuple[int, ...]]:
    if inputs is None:
        return {}
    if isinstance(inputs, torch.Tensor) or is_shape(inputs):
        inputs = (inputs,)
    pairs = inputs.items() if isinstance(inputs, Mapping) else zip(names, inputs, strict=False)
    shapes = {}
    for name, value in pairs:
        if name not in names:
            raise LoadError(f"the program has no input {name!r}; its inputs are {', '.join(names)}")
        shapes[name] = plain_shape(value)
    return shapes
