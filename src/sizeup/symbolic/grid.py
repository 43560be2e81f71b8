"""Exact values of expressions and guards at many points at once, without integer overflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import SizeupError
from sizeup.symbolic.expression import Atom, Expression, Monomial, Number, terms_of
from sizeup.symbolic.guards import Bounds, Guard, bounds_of

Values: TypeAlias = np.ndarray[Any, Any]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Sizes: TypeAlias = Mapping[str, Any]  # of each symbolic dimension: an integer or an array

_LARGEST = 2**62
# Points per chunk, few enough for the processor's caches.
_CHUNK = 1 << 14


def points_of(names: tuple[str, ...], sizes: Sizes) -> tuple[dict[str, Values], tuple[int, ...]]:
    """One flat column of integers per symbolic dimension, and the shape of the sizes."""
    for name in sizes:
        if name not in names:
            known = ", ".join(names) or "none"
            raise SizeupError(f"unknown symbolic dimension {name!r}; known: {known}")
    missing = [name for name in names if name not in sizes]
    if missing:
        raise SizeupError(f"sizes are missing: {', '.join(missing)}")
    arrays = {name: _whole(name, sizes[name]) for name in names}
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise SizeupError(f"the shapes of the sizes do not broadcast: {shapes}") from error
    return {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}, shape


def _whole(name: str, sizes: Any) -> Values:
    try:
        array = np.asarray(sizes)
    except ValueError as error:
        raise SizeupError(
            f"{name}: sizes are integers, or arrays of integers with rows of equal length"
        ) from error
    if not array.size:
        return array.astype(np.int64)
    # Python ints, from a column of a table or too large for another dtype.
    is_python = array.dtype == object and all(type(item) is int for item in array.ravel().tolist())
    if array.dtype.kind not in "iu" and not is_python:
        raise SizeupError(f"{name}: sizes are integers, not {array.dtype}")
    if int(array.min()) < 1 or int(array.max()) >= _LARGEST:
        raise SizeupError(f"{name}: sizes must be at least 1 and below 2^62")
    return array.astype(np.int64)


class Grid:
    """Points, and the values of expressions at them; common subexpressions are computed once."""

    def __init__(self, columns: Mapping[str, Values]) -> None:
        self._columns = dict(columns)
        self.points = len(next(iter(columns.values()))) if columns else 1
        self._bounds = {
            name: (int(column.min()), int(column.max())) for name, column in columns.items() if column.size
        }

    def take(self, indices: Values) -> Grid:
        """A grid of some of the points."""
        return Grid({name: column[indices] for name, column in self._columns.items()})

    def point(self, index: int) -> dict[str, int]:
        """One point, as ints."""
        return {name: int(column[index]) for name, column in self._columns.items()}

    def values(self, numbers: list[Number]) -> list[Values]:
        """A column per number: int64 if every intermediate value fits, else Python ints."""
        results, undefined = self._values(numbers)
        if undefined.any():
            point = self.point(int(undefined.argmax()))
            raise SizeupError(f"a closed form divides by 0 at {point}")
        return results

    def _values(self, numbers: list[Number]) -> tuple[list[Values], Flags]:
        """The columns, and the points at which one of them divides by 0."""
        known: Bounds = dict(self._bounds)
        types = [np.int64 if _magnitude(number, known) < _LARGEST else object for number in numbers]
        results: list[Values] = [np.empty(self.points, dtype) for dtype in types]
        undefined = np.zeros(self.points, np.bool_)
        for chunk, columns in self._chunks():
            for dtype in dict.fromkeys(types):
                evaluator = _Evaluator({name: column.astype(dtype) for name, column in columns.items()})
                for result, number, own in zip(results, numbers, types, strict=True):
                    if own is dtype:
                        result[chunk] = evaluator.value(number)
                undefined[chunk] |= evaluator.undefined
        return results, undefined

    def holds(self, guards: tuple[Guard, ...]) -> Flags:
        """Whether all guards hold at each point; a guard that divides by 0 does not."""
        met = np.ones(self.points, np.bool_)
        if not self.points:
            return met
        for guard in guards:
            certain = guard.certain(self._bounds)
            if certain is False:
                met[:] = False
            elif certain is None:
                met &= self._met(guard)
        return met

    def _met(self, guard: Guard) -> Flags:
        if guard.parts:
            parts = [self._met(part) for part in guard.parts]
            combine = np.logical_and if guard.relation == "and" else np.logical_or
            return np.asarray(combine.reduce(parts), np.bool_)
        (values,), undefined = self._values([guard.expression])
        compared = {"==": values == 0, "!=": values != 0, ">=": values >= 0}[guard.relation]
        return np.asarray(compared, np.bool_) & ~undefined

    def _chunks(self) -> Iterator[tuple[slice, dict[str, Values]]]:
        for start in range(0, self.points, _CHUNK):
            chunk = slice(start, min(start + _CHUNK, self.points))
            yield chunk, {name: column[chunk] for name, column in self._columns.items()}


class _Evaluator:
    """Values at a few points; expressions and prefixes of products are cached."""

    def __init__(self, columns: Mapping[str, Values]) -> None:
        self._columns = columns
        self.undefined: Any = False  # points with a division by 0, which is evaluated as division by 1
        self._products: dict[Monomial, Values] = {}
        self._values: dict[Expression, Any] = {}

    def value(self, number: Number) -> Any:
        if not isinstance(number, Expression):
            return number
        value = self._values.get(number)
        if value is None:
            value = 0
            for monomial, coefficient in number.terms.items():
                value = value + (self._product(monomial) * coefficient if monomial else coefficient)
            self._values[number] = value
        return value

    def _product(self, monomial: Monomial) -> Values:
        product = self._products.get(monomial)
        if product is None:
            last = self._atom(monomial[-1])
            product = last if len(monomial) == 1 else self._product(monomial[:-1]) * last
            self._products[monomial] = product
        return product

    def _atom(self, atom: Atom) -> Values:
        if atom.kind == "size":
            return self._columns[atom.name]
        left, right = self.value(atom.left or 0), self.value(atom.right or 0)
        if atom.kind == "//" and np.any(right == 0):
            self.undefined = self.undefined | np.asarray(right == 0, np.bool_)
            right = np.where(right == 0, 1, right)
        operation: Any = {"//": np.floor_divide, "max": np.maximum, "min": np.minimum}[atom.kind]
        return np.asarray(operation(left, right))


def _magnitude(number: Number, known: Bounds) -> int:
    """A bound on every intermediate sum and product, in any order of evaluation."""
    total = 0
    for monomial, coefficient in terms_of(number).items():
        product = abs(coefficient)
        for atom in monomial:
            inside = max((_magnitude(part, known) for part in (atom.left, atom.right) if part), default=0)
            low, high = bounds_of(Expression({(atom,): 1}), known)
            # Dividends must fit too; a factor of 0 does not make the others smaller.
            product *= max(1, abs(low), abs(high))
            if inside >= _LARGEST:
                return inside
        total += product
    return total
