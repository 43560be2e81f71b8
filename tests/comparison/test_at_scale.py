"""The time of a comparison grows with the number of operators, not with its square."""

from __future__ import annotations

import random

import pytest

from comparison.edited import Layer, chain, check_complete, edited, priced
from sizeup.comparison import Differences, ModelCosts, compare
from timing import undisturbed

KINDS = ("conv", "batch_norm", "relu", "tanh")


def timed(a: ModelCosts, b: ModelCosts) -> tuple[float, Differences]:
    """Seconds of CPU that a comparison takes, and what it finds."""
    with undisturbed() as taken:
        differs = compare(a, b)
    return taken.seconds, differs


def layers(count: int) -> list[Layer]:
    return [Layer(place, KINDS[place % len(KINDS)], kernel=3) for place in range(count)]


def edits(count: int) -> list[tuple[str, int]]:
    chance = random.Random(0)
    return [
        (chance.choice(("insert", "delete", "change")), chance.randrange(count)) for _ in range(count // 100)
    ]


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("names", [True, False])
def test_twenty_thousand_edited_operators_take_seconds(names: bool) -> None:
    taken = {}
    for count in (5_000, 20_000):
        before = layers(count)
        after, edits_by_kind = edited(before, edits(count))
        a, b = (priced(chain(each, names=names)) for each in (before, after))
        taken[count], differs = timed(a, b)
        check_complete(differs)
        assert sum(row.status != "same" for row in differs.rows) == sum(map(len, edits_by_kind.values()))
    assert taken[20_000] < 10
    assert taken[20_000] < 1.75 * 4 * taken[5_000]


@pytest.mark.alone
@pytest.mark.slow
def test_networks_with_little_in_common_take_seconds_too() -> None:
    taken = {}
    for count in (5_000, 20_000):
        chance = random.Random(count)
        other = [Layer(place, chance.choice(("sigmoid", "exp", "conv"))) for place in range(count)]
        taken[count], differs = timed(
            priced(chain(layers(count), names=False)), priced(chain(other, names=False))
        )
        check_complete(differs)
    assert taken[20_000] < 15
    assert taken[20_000] < 1.75 * 4 * taken[5_000]
