"""Expressions as people and Python read them: common factors in front, products kept together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from sizeup.graph.conditions import Bounds, Condition
from sizeup.graph.expressions import (
    Atom,
    Expression,
    Monomial,
    Number,
    largest,
    powers,
    quotient,
    simplest,
    smallest,
    terms_of,
)

_DIGITS = re.compile(r"(\d+)")


def written(number: Number) -> str:
    """A number as a formula that Python evaluates too, what all terms share in front."""
    if not isinstance(number, Expression):
        return str(number)
    common, shared = _shared(number)
    rest = {
        tuple(_taken_out(monomial, shared)): coefficient // common
        for monomial, coefficient in number.terms.items()
    }
    factors = [str(common)] if common != 1 else []
    factors += powers(shared)
    inside, linear = simplest(rest), list[str]()
    if isinstance(inside, Expression):
        inside, linear = _linear_factors(inside)
    factors += linear
    if isinstance(inside, Expression):
        text = _sum(inside)
        factors.append(f"({text})" if factors and len(inside.terms) > 1 else text)
    elif inside != 1 or not factors:
        factors.append(str(inside))
    return " * ".join(factors)


def _shared(number: Expression) -> tuple[int, Monomial]:
    common = math.gcd(*number.terms.values())
    monomials = list(number.terms)
    shared = list(monomials[0])
    for monomial in monomials[1:]:
        rest, kept = list(monomial), []
        for atom in shared:
            if atom in rest:
                rest.remove(atom)
                kept.append(atom)
        shared = kept
    return common, tuple(shared)


def _taken_out(monomial: Monomial, shared: Monomial) -> list[Atom]:
    rest = list(monomial)
    for atom in shared:
        rest.remove(atom)
    return rest


def _linear_factors(number: Expression) -> tuple[Number, list[str]]:
    """Factors such as (height//4 - 1), taken out one after the other."""
    found: list[str] = []
    rest: Number = number
    for atom in sorted(number.atoms()):
        if not isinstance(rest, Expression) or any(monomial.count(atom) > 1 for monomial in rest.terms):
            continue
        with_atom = simplest({_but(m, atom): c for m, c in rest.terms.items() if atom in m})
        without = simplest({m: c for m, c in rest.terms.items() if atom not in m})
        shift = _multiple(without, with_atom)
        if shift is not None and len(rest.terms) > 1:
            found.append(f"({_sum(Expression({(atom,): 1, (): shift}))})")
            rest = with_atom
    return rest, found


def _but(monomial: Monomial, atom: Atom) -> Monomial:
    place = monomial.index(atom)
    return monomial[:place] + monomial[place + 1 :]


def _multiple(left: Number, right: Number) -> int | None:
    """How many times the right one the left one is, if it is a whole number of times."""
    tops, bottoms = terms_of(left), terms_of(right)
    if not tops or set(tops) != set(bottoms):
        return None
    times = {tops[each] // bottoms[each] for each in tops if tops[each] % bottoms[each] == 0}
    exact = all(tops[each] % bottoms[each] == 0 for each in tops)
    return times.pop() if exact and len(times) == 1 else None


def _sum(number: Expression) -> str:
    pieces: list[str] = []
    for monomial, coefficient in sorted(number.terms.items(), key=_reading_order):
        factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        text = " * ".join([*factors, *powers(monomial)])
        sign = ("-" if not pieces else " - ") if coefficient < 0 else ("" if not pieces else " + ")
        pieces.append(sign + text)
    return "".join(pieces)


def _reading_order(term: tuple[Monomial, int]) -> tuple[int, list[list[str | int]]]:
    """Long products first, and among those 2 before 16."""
    texts = [[int(part) if part.isdigit() else part for part in _DIGITS.split(atom.text)] for atom in term[0]]
    return -len(term[0]), [[str(type(each)), each] for text in texts for each in text]


def substituted(number: Number, sizes: Mapping[str, int]) -> Number:
    """A number with some of its free dimensions replaced by sizes."""
    if not isinstance(number, Expression) or not number.names() & sizes.keys():
        return number
    total: Number = 0
    for monomial, coefficient in number.terms.items():
        product: Number = coefficient
        for atom in monomial:
            product = product * _substituted_atom(atom, sizes)
        total = total + product
    return total


def _substituted_atom(atom: Atom, sizes: Mapping[str, int]) -> Number:
    if atom.kind == "size":
        return sizes.get(atom.name, Expression({(atom,): 1}))
    left, right = substituted(atom.left or 0, sizes), substituted(atom.right or 0, sizes)
    if atom.kind == "//":
        return quotient(left, right)
    return largest([left, right]) if atom.kind == "max" else smallest([left, right])


def least_sizes(conditions: Iterable[Condition], names: Iterable[str]) -> tuple[Bounds, list[Condition]]:
    """From which size on each dimension meets all conditions on it alone, and the conditions left over."""
    found: Bounds = dict.fromkeys(names, (1, 2**40))
    conditions = list(conditions)
    for condition in conditions:
        name, least = _least(condition)
        if name:
            found[name] = (max(found[name][0], least), found[name][1])
    return found, [each for each in conditions if each.certain(found) is not True]


def _least(condition: Condition) -> tuple[str, int]:
    """A dimension and the size from which on the condition on it holds, where it is such a condition."""
    names = condition.names()
    if len(names) != 1 or condition.parts or condition.relation == "==":
        return "", 0
    (name,) = names
    low, high = 1, 2**20
    if condition.certain({name: (high, 2**40)}) is not True:
        return "", 0
    while low < high:  # the condition is certain from `high` on, and certainty only grows with the bound
        middle = (low + high) // 2
        if condition.certain({name: (middle, 2**40)}) is True:
            high = middle
        else:
            low = middle + 1
    return name, low
