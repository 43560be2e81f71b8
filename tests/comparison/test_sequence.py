"""Sequences side by side, against the table that tries everything, and within the bound that is stated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.comparison.matching import MOST_EDITS, aligned, increasing

TOKENS = st.lists(st.integers(0, 4), max_size=14)


def longest(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the longest common subsequence, by the table of all beginnings."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def check(a: Sequence[int], b: Sequence[int], pairs: list[tuple[int, int]]) -> None:
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(pairs))


@settings(max_examples=500, deadline=None)
@given(TOKENS, TOKENS)
def test_as_many_tokens_are_aligned_as_can_be(a: list[int], b: list[int]) -> None:
    pairs = aligned(a, b)
    check(a, b, pairs)
    assert len(pairs) == longest(a, b)


@settings(max_examples=300, deadline=None)
@given(TOKENS, TOKENS, st.integers(1, 4))
def test_pieces_are_still_alignments(a: list[int], b: list[int], most_edits: int) -> None:
    check(a, b, aligned(a, b, most_edits))


@given(st.permutations(range(9)))
def test_longest_increasing_part_is_found(seconds: list[int]) -> None:
    chain = increasing(list(enumerate(seconds)))
    assert all(one < other for one, other in pairwise(chain))
    assert all(one[1] < other[1] for one, other in pairwise(chain))
    assert len(chain) == longest(seconds, sorted(seconds))


class Watched(Sequence[int]):
    """Tokens that count how often they are looked at."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens, self.looks = tokens, 0

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, place: int) -> int:  # type: ignore[override] # no slices are asked for
        self.looks += 1
        return self.tokens[place]

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("tokens are looked at by place")


COUNT = 20_000
RANDOM = random.Random(0)
WORST = {
    "nothing alike": (range(COUNT), range(COUNT, 2 * COUNT)),
    "the other way round": (range(COUNT), range(COUNT - 1, -1, -1)),
    "one of three": (
        [RANDOM.randrange(3) for _ in range(COUNT)],
        [RANDOM.randrange(3) for _ in range(COUNT)],
    ),
    "one of a hundred": (
        [RANDOM.randrange(100) for _ in range(COUNT)],
        [RANDOM.randrange(100) for _ in range(COUNT)],
    ),
    "blocks of nine, some left out": (
        [each % 9 for each in range(COUNT)],
        [each % 9 for each in range(COUNT) if RANDOM.random() < 0.98],
    ),
}


@pytest.mark.parametrize("case", WORST)
def test_bound_holds_for_twenty_thousand_operators(case: str) -> None:
    a, b = (Watched(each) for each in WORST[case])
    check(a.tokens, b.tokens, aligned(a, b))
    most = (2 * MOST_EDITS + 1) * (len(a) + len(b))
    assert a.looks <= most
    assert b.looks <= most
