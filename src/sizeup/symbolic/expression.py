"""Integers that depend on symbolic dimensions: polynomials over sizes, floor divisions, maxima and minima."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NoReturn, TypeAlias

from sizeup.errors import LimitReached
from sizeup.graph import SymbolicSize
from sizeup.symbolic.decisions import decide

Number: TypeAlias = "int | Expression"
_Kind = Literal["size", "//", "max", "min"]
_PLAIN_NAME = re.compile(r"[^\W\d]\w*\Z")


class Atom:
    """A factor of a monomial: a named size, or a quotient, maximum or minimum of two polynomials.

    Atoms with the same text are equal.
    """

    __slots__ = ("kind", "left", "name", "right", "text")

    def __init__(self, kind: _Kind, name: str, left: Expression | None, right: Expression | None) -> None:
        self.kind = kind
        self.name = name
        self.left = left
        self.right = right
        self.text = self._text()

    def _text(self) -> str:
        if self.kind == "size":
            return self.name if _PLAIN_NAME.match(self.name) else repr(self.name)
        if self.kind == "//":
            return f"({_enclosed(self.left)}//{_enclosed(self.right)})"
        return f"{self.kind}({self.left}, {self.right})"

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.text == other.text

    def __lt__(self, other: Atom) -> bool:
        # Names first, so that products read batch * (...).
        return (self.kind != "size", self.text) < (other.kind != "size", other.text)


Monomial: TypeAlias = tuple[Atom, ...]  # sorted; a power is a repetition
_ONE: Monomial = ()
_MAX_TERMS, _MAX_FACTORS = 2_000, 100


class Expression(SymbolicSize):
    """A polynomial with integer coefficients over atoms, in normal form.

    It supports + - * // % and ** like an int. A comparison whose result depends on sizes is decided by the
    listener (`decisions.assuming`), and raises TypeError if there is none.
    """

    __slots__ = ("_hash", "_text", "terms")

    terms: Mapping[Monomial, int]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None
        self._text: str | None = None

    def atoms(self) -> set[Atom]:
        """The atoms of its terms, without those nested in them."""
        return {atom for monomial in self.terms for atom in monomial}

    def names(self) -> set[str]:
        """The symbolic dimensions that it depends on."""
        names: set[str] = set()
        for atom in self.atoms():
            if atom.kind == "size":
                names.add(atom.name)
            for part in (atom.left, atom.right):
                names |= part.names() if part is not None else set()
        return names

    def same(self, other: object) -> bool:
        """Whether both have the same terms; equal expressions may differ in rare cases."""
        return isinstance(other, Expression) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            # bit_length separates -1 and -2, which have the same hash: a collision would call __eq__.
            self._hash = hash(frozenset((m, c, c.bit_length()) for m, c in self.terms.items()))
        return self._hash

    def __str__(self) -> str:
        if self._text is None:
            ordered = sorted(self.terms.items(), key=lambda item: (-len(item[0]), item[0]))
            self._text = sum_text(ordered, "*")
        return self._text

    def __repr__(self) -> str:
        return f"<{self}>"

    def __format__(self, specification: str) -> str:
        return str(self)  # the commas of {:,} are for numbers

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Expression):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, coefficient in terms_of(other).items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return simplify(terms)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + (-other) if isinstance(other, int | Expression) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other if isinstance(other, int | Expression) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int | Expression):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        others = terms_of(other)
        _check_size(
            len(self.terms) * len(others),
            max(map(len, self.terms), default=0) + max(map(len, others), default=0),
        )
        for left, times in self.terms.items():
            for right, factor in others.items():
                monomial = tuple(sorted((*left, *right))) if left and right else left or right
                terms[monomial] = terms.get(monomial, 0) + times * factor
        return simplify(terms)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Any:
        if type(exponent) is not int or exponent < 0:
            return NotImplemented
        return math.prod([self] * exponent)

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self, other) if isinstance(other, int | Expression) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(other, self) if isinstance(other, int | Expression) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self - quotient(self, other) * other if isinstance(other, int | Expression) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return other - quotient(other, self) * self if isinstance(other, int | Expression) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | Expression) and decide("==", self - other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: Number) -> bool:
        return decide(">=", self - other)

    def __gt__(self, other: Number) -> bool:
        return decide(">=", self - other - 1)

    def __le__(self, other: Number) -> bool:
        return decide(">=", other - self)

    def __lt__(self, other: Number) -> bool:
        return decide(">=", other - self - 1)

    def __bool__(self) -> bool:
        # 0 is an int, never an Expression; an access with 0 elements at some sizes adds 0 to sums there.
        return True

    def _refuse(self) -> NoReturn:
        raise TypeError(f"symbolic dimensions have no value: {self}")

    __int__ = __index__ = __float__ = __round__ = __iter__ = _refuse


def terms_of(number: Number) -> Mapping[Monomial, int]:
    """The terms of an expression or of an int."""
    if isinstance(number, Expression):
        return number.terms
    return {_ONE: int(number)} if number else {}


def simplify(terms: Mapping[Monomial, int]) -> Number:
    """An expression of these terms; an int if no size is left."""
    nonzero = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not nonzero:
        return 0
    if len(nonzero) == 1 and _ONE in nonzero:
        return nonzero[_ONE]
    _check_size(len(nonzero))
    return Expression(nonzero)


def _check_size(terms: int, factors: int = 0) -> None:
    if terms > _MAX_TERMS or factors > _MAX_FACTORS:
        raise LimitReached(
            f"a size or amount has more than {_MAX_TERMS:,} terms of symbolic dimensions, or products of more"
            f" than {_MAX_FACTORS}; bind some with --bind NAME=SIZE"
        )


def size(name: str) -> Expression:
    """The size of a symbolic dimension."""
    return Expression({(Atom("size", name, None, None),): 1})


def sum_of(numbers: Iterable[Number]) -> Number:
    """The sum, in one pass over all terms."""
    terms: dict[Monomial, int] = {}
    for number in numbers:
        for monomial, coefficient in terms_of(number).items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
    return simplify(terms)


def quotient(left: Number, right: Number) -> Number:
    """The quotient, rounded down; divisors are positive sizes."""
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if isinstance(right, int):
        if right < 0:
            return quotient(-left, -right)
        return _by_number(terms_of(left), right)
    exact = exact_quotient(left, right)
    if exact is not None:
        return exact
    left, right = without_common(left, right)
    if isinstance(right, int):
        return quotient(left, right)
    return _atom("//", left, right)


def largest(numbers: Iterable[Number]) -> Number:
    """The maximum."""
    return _extreme("max", numbers)


def smallest(numbers: Iterable[Number]) -> Number:
    """The minimum."""
    return _extreme("min", numbers)


def _extreme(kind: Literal["max", "min"], numbers: Iterable[Number]) -> Number:
    first, *rest = numbers
    for other in rest:
        difference = first - other
        if isinstance(difference, int):
            first = first if (difference >= 0) == (kind == "max") else other
        else:
            first, other = sorted((first, other), key=str)
            first = _atom(kind, first, other)
    return first


def _atom(kind: _Kind, left: Number, right: Number) -> Expression:
    parts = [part if isinstance(part, Expression) else Expression(terms_of(part)) for part in (left, right)]
    return Expression({(Atom(kind, "", *parts),): 1})


def _by_number(terms: Mapping[Monomial, int], divisor: int) -> Number:
    """The quotient by an integer; multiples of the divisor are split off and nested quotients merged."""
    if divisor == 1:
        return simplify(terms)
    if any(terms) and all(coefficient < 0 for monomial, coefficient in terms.items() if monomial):
        # floor(-x / d) = -ceil(x / d), which reads better than a quotient of remainders.
        negated = {monomial: -coefficient for monomial, coefficient in terms.items()}
        negated[_ONE] = negated.get(_ONE, 0) + divisor - 1
        return -_by_number(negated, divisor)
    quotients = {monomial: coefficient // divisor for monomial, coefficient in terms.items()}
    rest = {
        monomial: coefficient % divisor for monomial, coefficient in terms.items() if coefficient % divisor
    }
    return simplify(quotients) + _proper(rest, divisor)


def _proper(rest: dict[Monomial, int], divisor: int) -> Number:
    """The quotient of terms with coefficients below the divisor."""
    constant = rest.pop(_ONE, 0)
    if not rest:
        return 0
    common = math.gcd(divisor, *rest.values())
    if common > 1:
        fewer = {monomial: coefficient // common for monomial, coefficient in rest.items()}
        return _by_number({**fewer, _ONE: constant // common}, divisor // common)
    if len(rest) == 1:
        ((monomial, times),) = rest.items()
        inner = monomial[0] if len(monomial) == 1 and times == 1 else None
        if inner is not None and inner.kind == "//" and inner.left is not None and inner.right is not None:
            first = inner.right.terms
            if list(first) == [_ONE]:  # (x // a + c) // b = (x + a c) // (a b)
                step = first[_ONE]
                return quotient(inner.left + constant * step, step * divisor)
    return _atom("//", simplify({**rest, _ONE: constant}), divisor)


def exact_quotient(left: Number, right: Expression) -> Number | None:
    """left / right by polynomial long division; None if there is a remainder."""
    tops, bottoms = terms_of(left), right.terms
    lead = max(bottoms, key=_degree)
    divisor, factor = bottoms[lead], dict[Monomial, int]()
    if len(bottoms) == 1:
        for monomial, times in tops.items():
            kept = without(monomial, lead)
            if kept is None or times % divisor:
                return None
            factor[kept] = times // divisor
        return simplify(factor)
    rest = left
    for _ in range(len(tops) * 4):
        if not isinstance(rest, Expression):
            return simplify(factor) if rest == 0 else None
        top = max(rest.terms, key=_degree)
        kept = without(top, lead)
        if kept is None or rest.terms[top] % divisor:
            return None
        times = rest.terms[top] // divisor
        factor[kept] = factor.get(kept, 0) + times
        rest = rest - simplify({kept: times}) * right
    return None


def _degree(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    return len(monomial), tuple(atom.text for atom in monomial)


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """A monomial divided by another; None if there is a remainder."""
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def common_factor(monomials: Iterable[Monomial]) -> Monomial:
    """The atoms that divide every monomial."""
    first, *others = monomials
    for monomial in others:
        rest, shared = list(monomial), list[Atom]()
        for atom in first:
            if atom in rest:
                rest.remove(atom)
                shared.append(atom)
        first = tuple(shared)
    return first


def without_common(left: Number, right: Number) -> tuple[Number, Number]:
    """Both divided by the integers and named sizes that divide every term of each."""
    if not terms_of(left):
        return 0, 1
    terms = [*terms_of(left).items(), *terms_of(right).items()]
    common = math.gcd(*(coefficient for _, coefficient in terms))
    # Only named sizes are certainly not 0.
    factor = tuple(atom for atom in common_factor(monomial for monomial, _ in terms) if atom.kind == "size")

    def reduced(number: Number) -> Number:
        return simplify({without(m, factor) or _ONE: c // common for m, c in terms_of(number).items()})

    return reduced(left), reduced(right)


def _enclosed(expression: Expression | None) -> str:
    assert expression is not None  # a quotient has both parts
    is_simple = len(expression.terms) == 1 and all(
        not monomial or (times == 1 and len(monomial) == 1) for monomial, times in expression.terms.items()
    )
    return str(expression) if is_simple else f"({expression})"


def sum_text(terms: Iterable[tuple[Monomial, int]], times: str) -> str:
    """Terms in the given order as text, with a sign for multiplication."""
    text = ""
    for monomial, coefficient in terms:
        factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        text += (" - " if text else "-") if coefficient < 0 else " + " if text else ""
        text += times.join([*factors, *powers(monomial)])
    return text or "0"


def powers(monomial: Monomial) -> list[str]:
    """The factors of a monomial as texts, repeated ones as powers."""
    return [
        atom.text if (times := monomial.count(atom)) == 1 else f"{atom.text}**{times}"
        for atom in dict.fromkeys(monomial)
    ]
