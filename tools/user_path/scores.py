"""Statistics of answers: how far off they are, and whether their intervals hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

from user_path.evaluate import Answer

LEVEL = 0.9
AT_LEAST = "at least"
NO_ESTIMATE = "none"
_FAR = 2.0  # error factor of one answer
_EQUAL = 1 + 1e-9  # probabilities that differ by less are equal
Key = TypeVar("Key")


class Score(NamedTuple):
    """Statistics of answers with an estimate; NaN if no answer has what they need.

    `error_factor` is the geometric mean of estimate / measurement or its inverse, whichever is above 1.
    `p_value` is the probability of a coverage at least as unlikely as this one if intervals hold in 90 %.
    `misleading` is the share of answers off by more than a factor of 2 whose interval, or lower bound,
    excludes the measurement.
    """

    answers: int
    error_factor: float
    ratio: float
    coverage: float
    p_value: float
    width: float
    misleading: float


def basis_of(answer: Answer) -> str:
    """The basis of an answer with an interval, `at least` without one, `none` without an estimate."""
    if answer.basis == NO_ESTIMATE:
        return NO_ESTIMATE
    return answer.basis if answer.has_interval else AT_LEAST


def score(answers: Sequence[Answer]) -> Score:
    """The statistics of all answers that have an estimate; coverage and width of those with an interval."""
    estimated = [answer for answer in answers if answer.basis != NO_ESTIMATE and answer.seconds > 0]
    ratios = [answer.ratio for answer in estimated]
    bounded = [answer for answer in estimated if answer.has_interval]
    held = sum(answer.covers for answer in bounded)
    widths = [answer.high / answer.low for answer in bounded if answer.low and answer.high]
    return Score(
        len(estimated),
        error_factor(ratios),
        median(ratios) if ratios else math.nan,
        held / len(bounded) if bounded else math.nan,
        binomial_p_value(held, len(bounded), LEVEL) if bounded else math.nan,
        median(widths) if widths else math.nan,
        sum(map(is_misleading, estimated)) / len(estimated) if estimated else math.nan,
    )


def error_factor(ratios: Iterable[float]) -> float:
    """The geometric mean of each ratio or its inverse, whichever is above 1."""
    logs = [abs(math.log(ratio)) for ratio in ratios]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def is_misleading(answer: Answer) -> bool:
    """Whether an answer is off by more than a factor of 2 and rules out the measurement."""
    if max(answer.ratio, 1 / answer.ratio) <= _FAR:
        return False
    return not answer.covers if answer.has_interval else answer.measured < answer.seconds


def binomial_p_value(successes: int, trials: int, probability: float) -> float:
    """The two-sided p-value of an exact binomial test: the sum over all outcomes that are not more likely."""
    chances = [_chance(count, trials, probability) for count in range(trials + 1)]
    limit = chances[successes] * _EQUAL
    return min(1.0, math.fsum(chance for chance in chances if chance <= limit))


def _chance(successes: int, trials: int, probability: float) -> float:
    """The probability of a number of successes, by logarithms: powers of many trials underflow."""
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    failures = (trials - successes) * math.log1p(-probability)
    return math.exp(ways + successes * math.log(probability) + failures)


def by(answers: Iterable[Answer], key: Callable[[Answer], Key]) -> dict[Key, list[Answer]]:
    """The answers by a key, in the order of their first occurrence."""
    groups: dict[Key, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups
