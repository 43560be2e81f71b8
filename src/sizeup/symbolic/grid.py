"""Expressions and guards at many points at once: exact or refused, never wrapped around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import SizeupError
from sizeup.symbolic.expression import Atom, Expression, Monomial, Number, terms_of
from sizeup.symbolic.guards import Bounds, Guard, bounds_of

Values: TypeAlias = np.ndarray[Any, Any]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Sizes: TypeAlias = Mapping[str, Any]  # of every symbolic dimension: an integer or an array

_LARGEST = 2**62
# Points per chunk, few enough for the processor's caches.
_CHUNK = 1 << 14


def points_of(names: tuple[str, ...], sizes: Sizes) -> tuple[dict[str, Values], tuple[int, ...]]:
    """One flat column of integers per symbolic dimension, and the shape they were given in."""
    for name in sizes:
        if name not in names:
            known = ", ".join(names) or "none"
            raise SizeupError(f"no free dimension is called {name!r}; there are: {known}")
    missing = [name for name in names if name not in sizes]
    if missing:
        raise SizeupError(f"sizes are missing: {', '.join(missing)}")
    arrays = {name: _whole(name, sizes[name]) for name in names}
    try:
        shape = np.broadcast_shapes(*(each.shape for each in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {each.shape}" for name, each in arrays.items())
        raise SizeupError(f"the sizes do not fit each other: {shapes}") from error
    return {name: np.broadcast_to(each, shape).ravel() for name, each in arrays.items()}, shape


def _whole(name: str, sizes: Any) -> Values:
    try:
        array = np.asarray(sizes)
    except ValueError as error:
        raise SizeupError(
            f"{name}: sizes are whole numbers, or arrays of them whose rows are alike"
        ) from error
    if not array.size:
        return array.astype(np.int64)
    # Python ints, from a column of a table or too large for another dtype.
    is_python = array.dtype == object and all(type(each) is int for each in array.ravel().tolist())
    if array.dtype.kind not in "iu" and not is_python:
        raise SizeupError(f"{name}: sizes are whole numbers, not {array.dtype}")
    if int(array.min()) < 1 or int(array.max()) >= _LARGEST:
        raise SizeupError(f"{name}: sizes are at least 1, and below 2^62")
    return array.astype(np.int64)


class Grid:
    """Points, and the values of expressions at them; common subexpressions are computed once."""

    def __init__(self, columns: Mapping[str, Values]) -> None:
        self._columns = dict(columns)
        self.points = len(next(iter(columns.values()))) if columns else 1
        self._bounds = {
            name: (int(each.min()), int(each.max())) for name, each in columns.items() if each.size
        }

    def take(self, places: Values) -> Grid:
        """A grid of some of the points."""
        return Grid({name: each[places] for name, each in self._columns.items()})

    def point(self, place: int) -> dict[str, int]:
        """One point, as ints."""
        return {name: int(each[place]) for name, each in self._columns.items()}

    def values(self, numbers: list[Number]) -> list[Values]:
        """A column per number: int64 if every intermediate value fits, else Python ints."""
        results, undefined = self._values(numbers)
        if undefined.any():
            place = self.point(int(undefined.argmax()))
            raise SizeupError(f"a closed form divides by 0 at {place}")
        return results

    def _values(self, numbers: list[Number]) -> tuple[list[Values], Flags]:
        """The columns, and the points at which one of them divides by 0."""
        known: Bounds = dict(self._bounds)
        kinds = [np.int64 if _magnitude(each, known) < _LARGEST else object for each in numbers]
        results: list[Values] = [np.empty(self.points, kind) for kind in kinds]
        undefined = np.zeros(self.points, np.bool_)
        for chunk, columns in self._chunks():
            for kind in dict.fromkeys(kinds):
                evaluator = _Evaluator({name: each.astype(kind) for name, each in columns.items()})
                for result, number, own in zip(results, numbers, kinds, strict=True):
                    if own is kind:
                        result[chunk] = evaluator.value(number)
                undefined[chunk] |= evaluator.undefined
        return results, undefined

    def holds(self, guards: tuple[Guard, ...]) -> Flags:
        """The points at which all guards hold; a guard that divides by 0 does not."""
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
            parts = [self._met(each) for each in guard.parts]
            joined = np.logical_and if guard.relation == "and" else np.logical_or
            return np.asarray(joined.reduce(parts), np.bool_)
        (values,), undefined = self._values([guard.expression])
        compared = {"==": values == 0, "!=": values != 0, ">=": values >= 0}[guard.relation]
        return np.asarray(compared, np.bool_) & ~undefined

    def _chunks(self) -> Iterator[tuple[slice, dict[str, Values]]]:
        for start in range(0, self.points, _CHUNK):
            chunk = slice(start, min(start + _CHUNK, self.points))
            yield chunk, {name: each[chunk] for name, each in self._columns.items()}


class _Evaluator:
    """Values at a few points; expressions and prefixes of products are cached."""

    def __init__(self, columns: Mapping[str, Values]) -> None:
        self._columns = columns
        self.undefined: Any = False  # where something was divided by 0, which then counts as 1
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
            inside = max((_magnitude(each, known) for each in (atom.left, atom.right) if each), default=0)
            low, high = bounds_of(Expression({(atom,): 1}), known)
            # Dividends must fit too; a factor of 0 does not make the others smaller.
            product *= max(1, abs(low), abs(high))
            if inside >= _LARGEST:
                return inside
        total += product
    return total
