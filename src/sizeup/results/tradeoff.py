"""Precisions compared: one row per point, and the means by precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sizeup.mixed_precision.accuracy import Accuracy
from sizeup.mixed_precision.figures import Budgets
from sizeup.mixed_precision.tradeoff import Point, Row, table
from sizeup.results.result import Result


def _figure(name: str) -> Callable[[Point], Any]:
    return lambda point: None if point.figures is None else getattr(point.figures, name)


def names_of(point: Point, verdict: bool | None) -> str:
    """The budgets of that verdict: True accepts, None is undetermined."""
    return ", ".join(name for name, answer in point.verdicts.items() if answer is verdict)


@dataclass(frozen=True, repr=False)
class Tradeoff(Result):
    """Accuracy, latency, energy and memory of a model at every precision, batch and input size."""

    name: str
    target: str | None
    budgets: Budgets
    all_points: tuple[Point, ...]
    accuracy: Accuracy | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The points that run."""
        return tuple(each for each in self.all_points if not each.unsupported)

    @cached_property
    def unsupported(self) -> tuple[Point, ...]:
        """The points that cannot run, each with its reason."""
        return tuple(each for each in self.all_points if each.unsupported)

    @cached_property
    def rows(self) -> list[Row]:
        """The means by precision, the fastest first."""
        return table(self.points)

    @property
    def share_name(self) -> str:
        """What the share of correct samples is called: accuracy, or agreement with the float network."""
        return "agreement" if self.accuracy is not None and self.accuracy.is_agreement else "accuracy"

    @property
    def has_budgets(self) -> bool:
        """Whether any point was judged by a budget."""
        return any(each.verdicts for each in self.points)

    @cached_property
    def highlights(self) -> dict[str, Point]:
        """Of the points that no budget rejects, the best of each quantity that is known of all of them."""
        candidates = [each for each in self.points if each.accepted is not False]
        measures: dict[str, Callable[[Point], float | None]] = {
            f"highest {self.share_name}": lambda point: (
                None if share_of(point) is None else -(share_of(point) or 0)
            ),
            "lowest latency": _figure("seconds"),
            "lowest energy": _figure("joules"),
            "least memory": lambda point: point.memory_bytes,
        }
        best = {}
        for label, measure in measures.items():
            values = [(measure(each), each) for each in candidates]
            if values and all(value is not None for value, _ in values):
                best[label] = min(values, key=lambda pair: pair[0] or 0)[1]
        return best

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.points):,} points at {len(self.rows)} precisions>"

    def provenance(self) -> Iterator[tuple[str, str]]:
        """Labels and sentences: where the numbers come from, what is unsupported, what to keep in mind."""
        if self.accuracy is not None:
            yield self.share_name, _accuracy_words(self.accuracy)
        latencies = [each.latency for each in self.points if each.latency is not None]
        for text in dict.fromkeys(f"{each.basis}: {each.provenance}" for each in latencies):
            yield "latency", text
        for text in dict.fromkeys(each.energy_basis for each in self.points if each.energy_basis):
            yield "energy", f"from {text}"
        for text in self._unsupported_words():
            yield "unsupported", text
        bases = {each.basis for each in latencies}
        if len(bases) > 1:
            yield "caveat", f"latencies on several bases ({', '.join(sorted(bases))}) do not compare exactly"
        caveats = [*self.notes, *(self.accuracy.caveats if self.accuracy else ())]
        if any(None in each.verdicts.values() for each in self.points):
            caveats.append("(?) after a budget: whether it accepts is undetermined")
        caveats += [note for each in latencies for note in each.caveats]
        for text in dict.fromkeys(caveats):
            yield "caveat", text

    def _unsupported_words(self) -> Iterator[str]:
        """Each reason once, after the precision, or the batches and sizes, that it holds for."""
        by_reason: dict[str, list[Point]] = {}
        for each in self.unsupported:
            by_reason.setdefault(each.unsupported, []).append(each)
        for reason, points in by_reason.items():
            precisions = dict.fromkeys(each.precision for each in points)
            places = dict.fromkeys(filter(None, map(place_of, points)))
            yield f"{'; '.join(precisions if len(precisions) == 1 else places)}: {reason}"


def place_of(point: Point) -> str:
    """The batch and the input size; empty for a model as it was saved."""
    places = {"batch": point.batch, "size": point.size}
    return ", ".join(f"{what} {number:,}" for what, number in places.items() if number is not None)


def share_of(point: Point) -> float | None:
    """The accuracy of a point, or its agreement with the float network."""
    return point.accuracy if point.accuracy is not None else point.agreement


def _accuracy_words(accuracy: Accuracy) -> str:
    if not accuracy.is_agreement:
        return accuracy.provenance
    return f"with the float network's top class, as there are no labels; {accuracy.provenance}"
