"""Resolve the symbolic dimensions of a program's inputs from input shapes and bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import torch

from sizeup.errors import CorruptModel, LoadError, SymbolicDimension, UnboundDimension
from sizeup.formats.torch.inputs import is_shape, plain_shape
from sizeup.formats.torch.size_expressions import SizeExpression


class UserInput(NamedTuple):
    """A user input: a tensor with sizes, or a plain value, which may be a size itself."""

    name: str
    sizes: tuple[int | SizeExpression, ...] | None
    dtype: torch.dtype | None = None
    value: Any = None

    @property
    def all_sizes(self) -> tuple[int | SizeExpression, ...]:
        """The tensor's dimensions, or the size if the input is one."""
        if self.sizes is not None:
            return self.sizes
        return (self.value,) if isinstance(self.value, SizeExpression) else ()

    def dimension_name(self, axis: int) -> str:
        """Return the name of a dimension in `bind`."""
        return f"{self.name}.{axis}" if self.sizes is not None else self.name


class BoundSizes:
    """The sizes of every input and every symbol. Raises LoadError if they conflict or some are missing."""

    def __init__(self, user_inputs: Sequence[UserInput], inputs: Any, bind: Mapping[str, int]) -> None:
        self.symbols: dict[str, Any] = {}
        self._bind = bind
        names = [user_input.name for user_input in user_inputs]
        if len(set(names)) < len(names):
            raise CorruptModel(f"two inputs have one name: {', '.join(map(repr, names))}")
        self._shapes = _requested_shapes(
            [user_input.name for user_input in user_inputs if user_input.sizes is not None], inputs
        )
        for user_input in user_inputs:
            self._check_rank(user_input)
            self._bind_symbols(user_input)
        for user_input in user_inputs:
            self._solve_symbols(user_input)
        self._fixed = {user_input.name: self._resolved_sizes(user_input) for user_input in user_inputs}
        self._check_names(user_inputs)

    def sizes_of(self, user_input: UserInput, symbols: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """Return the sizes of an input, evaluated with `symbols` if these are passed."""
        if symbols is None:
            return tuple(self._fixed[user_input.name])
        return tuple(
            expression.evaluate(symbols) if _is_known(expression, symbols) else size
            for expression, size in zip(user_input.all_sizes, self._fixed[user_input.name], strict=True)
        )

    def _check_rank(self, user_input: UserInput) -> None:
        shape = self._shapes.get(user_input.name)
        if shape is not None and len(shape) != len(user_input.all_sizes):
            raise LoadError(
                f"input {user_input.name!r} has {len(user_input.all_sizes)} dimensions, not {len(shape)}"
            )

    def _requested_sizes(self, user_input: UserInput, axis: int) -> set[int]:
        """Return the sizes that shapes and bindings request for one dimension."""
        size = user_input.all_sizes[axis]
        keys = [user_input.dimension_name(axis), size.text if isinstance(size, SizeExpression) else ""]
        bound = {self._bind[key] for key in keys if key in self._bind}
        return bound | ({self._shapes[user_input.name][axis]} if user_input.name in self._shapes else set())

    def _bind_symbols(self, user_input: UserInput) -> None:
        for axis, size in enumerate(user_input.all_sizes):
            if isinstance(size, SizeExpression) and size.is_symbol:
                known = {self.symbols[size.text]} if size.text in self.symbols else set()
                requested = self._requested_sizes(user_input, axis) | known
                _check_consistent(user_input, axis, requested)
                if requested:
                    self.symbols[size.text] = requested.pop()

    def _solve_symbols(self, user_input: UserInput) -> None:
        """Solve linear expressions of one symbol, such as s0 + 1 = 9."""
        for axis, size in enumerate(user_input.all_sizes):
            requested = self._requested_sizes(user_input, axis)
            if isinstance(size, int) or len(requested) != 1 or len(size.symbols) != 1:
                continue
            symbol, (value,) = next(iter(size.symbols)), requested
            start, slope = size.evaluate({symbol: 1}), size.evaluate({symbol: 2}) - size.evaluate({symbol: 1})
            solution = 1 + (value - start) // slope if slope else 0
            if symbol not in self.symbols and solution > 0 and size.evaluate({symbol: solution}) == value:
                self.symbols[symbol] = solution

    def _resolved_sizes(self, user_input: UserInput) -> list[int | None]:
        sizes: list[int | None] = []
        for axis, size in enumerate(user_input.all_sizes):
            requested = self._requested_sizes(user_input, axis)
            if not isinstance(size, SizeExpression):
                requested.add(size)
            elif _is_known(size, self.symbols):
                requested.add(size.evaluate(self.symbols))
            _check_consistent(user_input, axis, requested)
            sizes.append(requested.pop() if requested else None)
        return sizes

    def _check_names(self, user_inputs: Sequence[UserInput]) -> None:
        dimensions = [
            (user_input, axis, size)
            for user_input in user_inputs
            for axis, size in enumerate(user_input.all_sizes)
        ]
        known = {user_input.dimension_name(axis) for user_input, axis, _ in dimensions}
        known |= {size.text for _, _, size in dimensions if isinstance(size, SizeExpression)}
        unbound = [
            (
                SymbolicDimension(
                    user_input.dimension_name(axis), user_input.name, axis, len(user_input.sizes or ())
                ),
                size,
            )
            for user_input, axis, size in dimensions
            if self._fixed[user_input.name][axis] is None and isinstance(size, SizeExpression)
        ]
        missing = [f"{dimension.name} (symbol {size.text})" for dimension, size in unbound]
        unknown = sorted(set(self._bind) - known)
        if unknown:
            example = f"; bind each, for example --bind {unbound[0][0].name}=1" if missing else ""
            raise LoadError(
                f"no dimension named {', '.join(unknown)};"
                f" unbound dimensions: {', '.join(missing) or 'none'}{example}"
            )
        if missing:
            message = (
                f"unbound symbolic dimensions: {', '.join(missing)};"
                f" bind each, for example --bind {unbound[0][0].name}=1"
            )
            raise UnboundDimension(message, tuple(dimension for dimension, _ in unbound))


def _is_known(size: int | SizeExpression, symbols: Mapping[str, Any]) -> TypeGuard[SizeExpression]:
    return isinstance(size, SizeExpression) and size.symbols <= symbols.keys()


def _check_consistent(user_input: UserInput, axis: int, requested: set[int]) -> None:
    if len(requested) > 1:
        sizes = " and ".join(map(str, sorted(requested)))
        raise LoadError(f"input {user_input.name!r}, axis {axis}: conflicting sizes {sizes}")
    if any(size < 0 for size in requested):
        raise LoadError(f"input {user_input.name!r}, axis {axis}: negative size {min(requested)}")


def _requested_shapes(names: list[str], inputs: Any) -> dict[str, tuple[int, ...]]:
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
