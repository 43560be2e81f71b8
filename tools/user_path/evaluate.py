"""Estimates of the public API for each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import sizeup
from sizeup import units
from user_path.networks import agrees, recorded
from user_path.pairs import Pair, Quantity
from user_path.refits import Refits

AS_STORED = "as stored"


class Answer(NamedTuple):
    """An estimate of the public API next to the measurement; all times in seconds.

    `low` and `high` are None if the estimate has no interval: then it is a lower bound. `basis` is "none",
    and `seconds` NaN, if there is no estimate.
    """

    source: str
    network: str
    shape: str  # of the input, '' if a file has it
    precision: str
    target: str
    device_class: str
    is_held_out: bool
    quantity: Quantity
    measured: float
    basis: str
    seconds: float
    low: float | None
    high: float | None
    is_applicable: bool = True
    # Those of a calibration without the family of the network; None if it is not calibrated, or not refitted.
    new_seconds: float | None = None
    new_low: float | None = None
    new_high: float | None = None

    @property
    def has_interval(self) -> bool:
        """Whether the estimate has both ends of an interval."""
        return self.low is not None and self.high is not None

    @property
    def covers(self) -> bool:
        """Whether the interval holds the measurement."""
        return self.low is not None and self.high is not None and self.low <= self.measured <= self.high

    @property
    def ratio(self) -> float:
        """Estimated over measured seconds."""
        return self.seconds / self.measured


def as_new(answer: Answer) -> Answer | None:
    """The answer of a calibration that has not seen the family of the network; None if there is none."""
    if answer.new_seconds is None:
        return None
    return answer._replace(seconds=answer.new_seconds, low=answer.new_low, high=answer.new_high)


def label(item: Pair | Answer) -> tuple[str | float, ...]:
    """The identity of a measurement, the same for a pair and its answer."""
    if isinstance(item, Answer):
        return (item.source, item.network, item.shape, item.precision, item.target, item.measured)
    precision = item.precision or AS_STORED
    return (item.source, item.network.reference, _shape(item), precision, item.target.name, item.seconds)


def _shape(pair: Pair) -> str:
    return "" if pair.network.shape is None else units.shape(pair.network.shape)


def answers(pairs: Iterable[Pair], truth: Path, models: Path) -> Iterator[Answer]:
    """The answer for each pair whose network has the costs of the table.

    Each network is recorded once; those with the most pairs come first.
    """
    refits = Refits(truth, models)
    groups: dict[tuple[str, tuple[int, ...] | None], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.network.reference, pair.network.shape), []).append(pair)
    for (reference, shape), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        result = recorded(reference, shape, models)
        yield from (answer(pair, result, refits) for pair in group if agrees(pair.network, result))


def _pipelined(estimate: sizeup.Estimate) -> tuple[str, float, float | None, float | None]:
    """Basis, and the seconds between two results of a pipeline."""
    rate = estimate.pipelined
    if rate is None:
        return "none", float("nan"), None, None
    return "calibrated", 1 / rate.inferences_per_second, 1 / rate.high, 1 / rate.low


def answer(pair: Pair, result: sizeup.Report, refits: Refits) -> Answer:
    """The estimate of `sizeup.estimate` for a recorded network."""
    basis, seconds, low, high, is_applicable = "none", float("nan"), None, None, True
    new: tuple[float, float, float] | tuple[None, None, None] = (None, None, None)
    try:
        estimate = sizeup.estimate(result, pair.target.name, precision=pair.precision)
    except sizeup.SizeupError:
        pass
    else:
        basis, seconds, is_applicable = estimate.basis, estimate.seconds, estimate.is_applicable
        low, high = estimate.low, estimate.high
        new = refits.estimate(pair, estimate) or new
        if pair.quantity == "throughput":
            basis, seconds, low, high = _pipelined(estimate)
    return Answer(
        pair.source,
        pair.network.reference,
        _shape(pair),
        pair.precision or AS_STORED,
        pair.target.name,
        pair.device_class,
        pair.is_held_out,
        pair.quantity,
        pair.seconds,
        basis,
        seconds,
        low,
        high,
        is_applicable,
        *new,
    )
