"""Einsum equations as letters: spaces gone, ellipses spelled out, implicit results made explicit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_letters

_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?\Z")


def is_equation(text: str) -> bool:
    """Whether a text has the form of an equation: letters, at most one ellipsis a term, one arrow."""
    return _EQUATION.match(text.replace(" ", "")) is not None


def letters(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand, one a dimension, and those of the result."""
    compact = equation.replace(" ", "")
    left, arrow, result = compact.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum {equation!r} names {len(terms)} operands, {len(ranks)} are given")
    spare = [each for each in ascii_letters if each not in compact]
    hidden = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if any(each < 0 for each in hidden) or max(hidden, default=0) > len(spare):
        raise ValueError(f"einsum {equation!r} does not match operands of ranks {list(ranks)}")
    # Ellipses align at their last dimension, so each takes the end of one common run.
    widest = "".join(spare[: max(hidden, default=0)])
    terms = [
        term.replace("...", widest[len(widest) - each :]) for term, each in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        seen = Counter(each for each in left if each.isalpha())
        result = "..." + "".join(sorted(each for each, times in seen.items() if times == 1))
    return terms, result.replace("...", widest)
