"""Expressions as readable text that is valid Python: common factors first, products kept together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from sizeup.symbolic.expression import (
    Atom,
    Expression,
    Monomial,
    Number,
    common_factor,
    largest,
    powers,
    quotient,
    simplify,
    smallest,
    sum_text,
    terms_of,
    without,
)
from sizeup.symbolic.guards import Bounds, Guard

_DIGITS = re.compile(r"(\d+)")


def form_text(number: Number) -> str:
    """A closed form as text that is valid Python, common factors first."""
    if not isinstance(number, Expression):
        return str(number)
    times, shared = math.gcd(*number.terms.values()), common_factor(number.terms)
    rest = {
        without(monomial, shared) or (): coefficient // times
        for monomial, coefficient in number.terms.items()
    }
    inside, linear = _linear_factors(simplify(rest))
    factors = [*([str(times)] if times != 1 else []), *powers(shared), *linear]
    if isinstance(inside, Expression):
        text = _sum(inside)
        factors.append(f"({text})" if factors and len(inside.terms) > 1 else text)
    elif inside != 1 or not factors:
        factors.append(str(inside))
    return " * ".join(factors)


def _linear_factors(number: Number) -> tuple[Number, list[str]]:
    """A number without factors such as (height//4 - 1), and those factors."""
    factors: list[str] = []
    for atom in sorted(number.atoms()) if isinstance(number, Expression) else ():
        if not isinstance(number, Expression) or any(monomial.count(atom) > 1 for monomial in number.terms):
            continue
        with_atom = simplify({without(m, (atom,)) or (): c for m, c in number.terms.items() if atom in m})
        other = simplify({m: c for m, c in number.terms.items() if atom not in m})
        shift = _multiple(other, with_atom)
        if shift is not None and len(number.terms) > 1:
            factors.append(f"({_sum(Expression({(atom,): 1, (): shift}))})")
            number = with_atom
    return number, factors


def _multiple(left: Number, right: Number) -> int | None:
    """left / right if that is an integer."""
    tops, bottoms = terms_of(left), terms_of(right)
    if not tops or set(tops) != set(bottoms):
        return None
    (times, rest), *others = {divmod(tops[monomial], bottoms[monomial]) for monomial in tops}
    return None if rest or others else times


def _sum(number: Expression) -> str:
    return sum_text(sorted(number.terms.items(), key=_reading_order), " * ")


def _reading_order(term: tuple[Monomial, int]) -> tuple[int, list[list[str | int]]]:
    """Long products first, and among those 2 before 16."""
    texts = [[int(part) if part.isdigit() else part for part in _DIGITS.split(atom.text)] for atom in term[0]]
    return -len(term[0]), [[str(type(part_text)), part_text] for text in texts for part_text in text]


def substitute(number: Number, sizes: Mapping[str, int]) -> Number:
    """A number with some of its symbolic dimensions replaced by sizes."""
    if not isinstance(number, Expression) or not number.names() & sizes.keys():
        return number
    total: Number = 0
    for monomial, coefficient in number.terms.items():
        product: Number = coefficient
        for atom in monomial:
            product = product * _substitute_atom(atom, sizes)
        total = total + product
    return total


def _substitute_atom(atom: Atom, sizes: Mapping[str, int]) -> Number:
    if atom.kind == "size":
        return sizes.get(atom.name, Expression({(atom,): 1}))
    left, right = substitute(atom.left or 0, sizes), substitute(atom.right or 0, sizes)
    if atom.kind == "//":
        return quotient(left, right)
    return largest([left, right]) if atom.kind == "max" else smallest([left, right])


def least_sizes(guards: Iterable[Guard], names: Iterable[str]) -> tuple[Bounds, list[Guard]]:
    """The size from which each dimension meets all guards on it alone, and the remaining guards."""
    bounds: Bounds = dict.fromkeys(names, (1, 2**40))
    guards = list(guards)
    for guard in guards:
        name, least = _least(guard)
        if name:
            bounds[name] = (max(bounds[name][0], least), bounds[name][1])
    return bounds, [guard for guard in guards if guard.certain(bounds) is not True]


def _least(guard: Guard) -> tuple[str, int]:
    """A dimension and the size from which the guard on it holds; no name if it is not such a guard."""
    names = guard.names()
    if len(names) != 1 or guard.parts or guard.relation == "==":
        return "", 0
    (name,) = names
    low, high = 1, 2**20
    if guard.certain({name: (high, 2**40)}) is not True:
        return "", 0
    while low < high:  # the guard is certain from `high` on, and certainty only grows with the bound
        middle = (low + high) // 2
        if guard.certain({name: (middle, 2**40)}) is True:
            high = middle
        else:
            low = middle + 1
    return name, low
