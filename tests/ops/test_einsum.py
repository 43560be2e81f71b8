"""The letters of einsum equations, compared with the shapes that numpy computes."""

from __future__ import annotations

import numpy as np
import pytest

from sizeup.ops.matmul import is_equation, letters


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)]),
        ("ij,jk", [(2, 3), (3, 5)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(4, 4)]),
        ("b...i, b...ij -> b...j", [(7, 2, 3), (7, 2, 3, 5)]),
        ("...ij,...jk", [(7, 2, 3), (6, 7, 3, 5)]),
        ("...,...->...", [(3,), (2, 3)]),
        ("ij,kj,l->", [(2, 3), (5, 3), (4,)]),
    ],
)
def test_the_result_has_the_shape_that_numpy_computes(equation: str, shapes: list[tuple[int, ...]]) -> None:
    assert is_equation(equation)
    terms, result = letters(equation, [len(shape) for shape in shapes])
    assert [len(term) for term in terms] == [len(shape) for shape in shapes]
    sizes = {
        letter: size
        for term, shape in zip(terms, shapes, strict=True)
        for letter, size in zip(term, shape, strict=True)
    }
    expected = np.einsum(equation, *(np.ones(shape) for shape in shapes)).shape
    assert tuple(sizes[letter] for letter in result) == expected


def test_an_ellipsis_is_at_most_as_long_as_there_are_other_letters() -> None:
    """Of 26 small and 26 capital letters, 49 are left."""
    (term,), result = letters("i...jk", [52])
    assert (term[0], term[-2:], len(set(term))) == ("i", "jk", 52)
    assert set(result) == set(term)


@pytest.mark.parametrize(
    ("equation", "ranks"), [("ij,jk->ik", [2]), ("...ijk->i", [2]), ("i...jk", [53]), ("...", [53])]
)
def test_an_equation_that_does_not_match_its_operands_is_refused(equation: str, ranks: list[int]) -> None:
    with pytest.raises(ValueError, match="einsum"):
        letters(equation, ranks)


@pytest.mark.parametrize("text", ["i.j->k", "ij->k->l", "i1->i", "....i->i"])
def test_other_texts_are_no_equations(text: str) -> None:
    assert not is_equation(text)
