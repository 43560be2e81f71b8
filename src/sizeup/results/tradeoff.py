"""Precisions against each other: one row per point, the means by precision, tables, a page and a picture."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sizeup.csv_cells import csv_lines
from sizeup.files import write_text
from sizeup.precision.accuracy import Accuracy
from sizeup.precision.figures import BUDGETS, Budgets
from sizeup.precision.tradeoff import Point, Row, table
from sizeup.render.files import check_ending

SCHEMA_VERSION = 2
_MEGA = 1e6


def _thousandfold(value: float | None) -> float | None:
    return None if value is None else 1e3 * value


def _mega(value: float | None) -> float | None:
    return None if value is None else value / _MEGA


def _figure(name: str) -> Callable[[Point], Any]:
    return lambda point: None if point.figures is None else getattr(point.figures, name)


def _milliseconds(name: str) -> Callable[[Point], float | None]:
    return lambda point: None if point.latency is None else _thousandfold(getattr(point.latency, name))


def names_of(point: Point, verdict: bool | None) -> str:
    """The budgets of that verdict: True accepts, None is undetermined."""
    return ", ".join(name for name, answer in point.verdicts.items() if answer is verdict)


# The columns of CSV files, JSON points and data frames; docs/precision.md says what each is.
COLUMNS: dict[str, Callable[[Point], Any]] = {
    "precision": lambda point: point.precision,
    "batch": lambda point: point.batch,
    "size": lambda point: point.size,
    "accuracy": lambda point: point.accuracy,
    "agreement": lambda point: point.agreement,
    "latency_ms": _milliseconds("seconds"),
    "latency_low_ms": _milliseconds("low"),
    "latency_high_ms": _milliseconds("high"),
    "latency_basis": lambda point: None if point.latency is None else point.latency.basis,
    "energy_j": _figure("joules"),
    "energy_proxy_j": _figure("joules"),
    "energy_basis": lambda point: point.energy_basis,
    "memory_mb": lambda point: _mega(point.memory_bytes),
    "weight_bytes": _figure("weight_bytes"),
    "activation_bytes": _figure("activation_bytes"),
    "accepted": lambda point: point.accepted,
    "accepted_by": lambda point: names_of(point, True) or None,
    "undetermined_by": lambda point: names_of(point, None) or None,
}
_REAL = tuple(
    name for name in COLUMNS if name.endswith(("_ms", "_j", "_mb")) or name in ("accuracy", "agreement")
)


@dataclass(frozen=True, repr=False)
class Tradeoff:
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

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.name},
            "target": self.target,
            "budgets": {name: getattr(self.budgets, name) for name in BUDGETS},
            "notes": [f"{label}: {text}" for label, text in self.provenance()],
            "precisions": [_means(row) for row in self.rows],
            "points": [{**_cells(each), "budgets": dict(each.verdicts)} for each in self.points],
            "unsupported": [
                {
                    "precision": each.precision,
                    "batch": each.batch,
                    "size": each.size,
                    "reason": each.unsupported,
                }
                for each in self.unsupported
            ],
        }

    def to_pandas(self) -> Any:
        """One row per point, with the columns of the CSV file; unknown numbers are NaN."""
        from sizeup.render.data.frames import frame_of

        columns: dict[str, list[Any]] = {
            name: [read(each) for each in self.points] for name, read in COLUMNS.items()
        }
        for name in _REAL:
            columns[name] = [math.nan if each is None else each for each in columns[name]]
        return frame_of(columns)

    def save(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Write the table as its suffix says: .csv, .json, .md or .html.

        `raw_csv` leaves texts as they are that a spreadsheet would take for formulas.
        """
        check_path(path)
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            write_text(path, csv_lines(COLUMNS, (_cells(each).values() for each in self.points), raw=raw_csv))
        elif suffix == ".json":
            write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])
        elif suffix == ".md":
            from sizeup.render.console import tradeoff as tradeoff_words

            write_text(path, tradeoff_words.markdown(self))
        else:
            from sizeup.render.html import tradeoff as page

            write_text(path, page.lines(self))

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw every point as .png or .svg: memory against latency, one color per precision."""
        from sizeup.render import plots

        return plots.plot_tradeoff(self, path)


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


def _cells(point: Point) -> dict[str, Any]:
    return {name: read(point) for name, read in COLUMNS.items()}


def _means(row: Row) -> dict[str, Any]:
    """A row under the names of the older table of means."""
    return {
        "precision": row.precision,
        "points": row.points,
        "accuracy_mean": row.accuracy,
        "agreement_mean": row.agreement,
        "latency_ms_mean": _thousandfold(row.seconds),
        "memory_mb_mean": _mega(row.memory_bytes),
        "energy_j_mean": row.joules,
        "accepted_ratio": row.accepted_ratio,
    }


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that the table is not written as."""
    check_ending(path, "the table is", ".csv", ".json", ".md", ".html")
