"""Guards: conditions on symbolic dimensions under which a closed form is valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sizeup.symbolic.decisions import Relation, current_source
from sizeup.symbolic.expression import Atom, Expression, Number, simplify, terms_of

Bounds: TypeAlias = dict[str, tuple[int, int]]  # smallest and largest size of each symbolic dimension
_MOST = 2**40  # no dimension is larger


@dataclass(frozen=True, slots=True)
class Guard:
    """An expression that is 0, is not 0 or is not negative; or several guards joined."""

    relation: Literal["==", "!=", ">=", "and", "or"]
    expression: Number = 0
    parts: tuple[Guard, ...] = ()

    def certain(self, bounds: Bounds) -> bool | None:
        """True if it holds everywhere within the bounds, False if nowhere, None if undetermined."""
        if self.parts:
            answers = [part.certain(bounds) for part in self.parts]
            decisive = self.relation == "or"
            if decisive in answers:
                return decisive
            return None if None in answers else not decisive
        low, high = bounds_of(self.expression, bounds)
        if self.relation == ">=":
            return True if low >= 0 else False if high < 0 else None
        never_zero, always_zero = low > 0 or high < 0, low == high == 0
        if not never_zero and not always_zero:
            return None
        return always_zero if self.relation == "==" else never_zero

    @property
    def is_always_true(self) -> bool:
        """Whether it holds at all sizes."""
        return self.certain(dict.fromkeys(self.names(), (1, _MOST))) is True

    def negated(self) -> Guard:
        """The negation of the guard."""
        if self.parts:
            relation: Literal["and", "or"] = "or" if self.relation == "and" else "and"
            return Guard(relation, parts=tuple(part.negated() for part in self.parts))
        if self.relation == ">=":
            return Guard(">=", -self.expression - 1)
        return Guard("!=" if self.relation == "==" else "==", self.expression)

    def names(self) -> set[str]:
        """The symbolic dimensions that it depends on."""
        own = self.expression.names() if isinstance(self.expression, Expression) else set[str]()
        return own.union(*(part.names() for part in self.parts))

    def __str__(self) -> str:
        if self.parts:
            return f" {self.relation} ".join(f"({part})" for part in self.parts)
        terms = terms_of(self.expression)
        left = simplify({m: c for m, c in terms.items() if m and c > 0})
        right = simplify({m: -c for m, c in terms.items() if m and c < 0})
        constant = terms.get((), 0)
        if constant > 0 and not isinstance(left, Expression):
            return f"{right} {'<=' if self.relation == '>=' else self.relation} {constant}"
        return f"{left} {self.relation} {right - constant}"


def bounds_of(number: Number, sizes: Bounds) -> tuple[int, int]:
    """An interval that contains all values of a number within the bounds of its sizes."""
    low = high = 0
    for monomial, coefficient in terms_of(number).items():
        interval = (coefficient, coefficient)
        for atom in monomial:
            interval = _product(interval, _bounds_of_atom(atom, sizes))
        low, high = low + interval[0], high + interval[1]
    return low, high


def _bounds_of_atom(atom: Atom, sizes: Bounds) -> tuple[int, int]:
    if atom.kind == "size":
        return sizes[atom.name]
    left, right = bounds_of(atom.left or 0, sizes), bounds_of(atom.right or 0, sizes)
    if atom.kind == "max":
        return max(left[0], right[0]), max(left[1], right[1])
    if atom.kind == "min":
        return min(left[0], right[0]), min(left[1], right[1])
    if right[0] <= 0:  # only the magnitude of such a quotient is bounded, by that of the dividend
        most = max(abs(left[0]), abs(left[1]))
        return -most, most
    ends = [top // bottom for top in left for bottom in right]
    return min(ends), max(ends)


def _product(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    ends = [a * b for a in left for b in right]
    return min(ends), max(ends)


def value_at(number: Number, sizes: Mapping[str, int]) -> int:
    """The value at one point."""
    if not isinstance(number, Expression):
        return number
    total = 0
    for monomial, coefficient in number.terms.items():
        for atom in monomial:
            coefficient *= _atom_at(atom, sizes)
        total += coefficient
    return total


def _atom_at(atom: Atom, sizes: Mapping[str, int]) -> int:
    if atom.kind == "size":
        return sizes[atom.name]
    left, right = value_at(atom.left or 0, sizes), value_at(atom.right or 0, sizes)
    if atom.kind == "//":
        return left // right
    return max(left, right) if atom.kind == "max" else min(left, right)


class Assumptions:
    """A listener that decides comparisons by an example and records its answers as guards."""

    def __init__(self, example: Mapping[str, int]) -> None:
        self.example = dict(example)
        self.guard_sources: dict[Guard, str] = {}  # the part of the model that first needed each guard

    @property
    def guards(self) -> tuple[Guard, ...]:
        """All answers in order, without duplicates."""
        return tuple(self.guard_sources)

    def __call__(self, expression: Expression, relation: Relation) -> bool:
        """Whether `expression relation 0` holds at the example."""
        guard = Guard(relation, expression)
        value = value_at(expression, self.example)
        answer = value == 0 if relation == "==" else value >= 0
        decided = guard if answer else guard.negated()
        if not decided.is_always_true:
            self.guard_sources.setdefault(decided, current_source())
        return answer
