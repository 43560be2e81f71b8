"""Results of the precision verbs: an assignment under budgets, a Pareto front, what fits, a trade-off."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.files import read_problem, read_settings
from sizeup.graph import Graph
from sizeup.latency import Estimate
from sizeup.mixed_precision.accuracy import Accuracy
from sizeup.mixed_precision.choose import Assignment
from sizeup.mixed_precision.figures import BUDGET_LABELS, BUDGETS, Budgets, Figures
from sizeup.mixed_precision.layers import LayerNames
from sizeup.mixed_precision.options import OptionTable
from sizeup.mixed_precision.recipes import QUANTIZERS, Recipe, write_recipe
from sizeup.mixed_precision.refine import MeasuredAssignment
from sizeup.mixed_precision.sizes import LayerSizes
from sizeup.mixed_precision.tradeoff import Point, Row, table
from sizeup.results.result import Result
from sizeup.settings import parse_json

__all__ = [
    "BUDGETS",
    "BUDGET_LABELS",
    "PrecisionAssignment",
    "PrecisionFits",
    "PrecisionFront",
    "measured_basis",
    "read_losses",
]


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionAssignment(Result):
    """The mixed-precision assignment with the least loss within budgets; `basis` is that of the losses."""

    options: OptionTable
    assignment: Assignment
    budgets: Budgets
    original: Figures  # of the unchanged network
    losses: dict[int, float]  # of every layer by op, at its assigned dtype
    basis: str
    measured: MeasuredAssignment | None = None  # if losses were measured
    estimate: Estimate | None = None  # of the assignment on the target
    no_latency_reason: str = ""  # why there is no estimate on the target

    @property
    def graph(self) -> Graph:
        """The unchanged network."""
        return self.options.graph

    @property
    def has_budgets(self) -> bool:
        """Whether any budget is set."""
        return self.budgets != Budgets()

    @property
    def undetermined_budgets(self) -> tuple[str, ...]:
        """The budgets that the assignment may exceed, because only a lower bound of its amount is known."""
        return self.assignment.figures.bounded(self.budgets)

    @property
    def precision_map(self) -> dict[str, str]:
        """The precision map for `analyze(precision=...)`; by op number if a name is ambiguous."""
        names, dtypes, precisions = LayerNames(self.graph), self.assignment.dtypes, {}
        for layer in self.options.layers:
            is_unique = names.find(layer.name) == [layer.op]
            precisions[layer.name if is_unique else f"#{layer.op}"] = precision_name(dtypes[layer.op])
        return precisions

    def __repr__(self) -> str:
        counts = Counter(map(precision_name, self.assignment.dtypes.values()))
        mix = ", ".join(f"{count:,} at {name}" for name, count in counts.most_common())
        return f"<{self.graph.name or 'model'}: {mix}; loss {self.assignment.loss:.4g}>"

    def write_recipe(self, path: str | os.PathLike[str], kind: str | None = None) -> Recipe:
        """Writes the assignment for a quantizer: ai-edge-quantizer, onnxruntime or torchao.

        By default the quantizer of the model's format. The notes of the returned recipe list what it cannot
        express.
        """
        usual = QUANTIZERS.get(self.graph.format)
        if kind is None and usual is None:
            raise SizeupError(
                f"no quantizer for {self.graph.format or 'graphs built in code'}; give its kind"
            )
        return write_recipe(self.graph, self.assignment.dtypes, path, kind or usual or "")


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionFront(Result):
    """Assignments of which none is worse in both quantities than another; `basis` is that of the losses."""

    options: OptionTable
    axes: tuple[str, str]
    assignments: tuple[Assignment, ...]
    losses: tuple[float, ...]
    basis: str
    budgets: Budgets
    estimate: Estimate | None = None  # of the first assignment on the target; all have its basis

    @property
    def undetermined_budgets(self) -> tuple[str, ...]:
        """The budgets that assignments may exceed, because only a lower bound of an amount is known."""
        return tuple(
            dict.fromkeys(name for each in self.assignments for name in each.figures.bounded(self.budgets))
        )

    def __repr__(self) -> str:
        name, axes = self.options.graph.name or "model", " and ".join(self.axes)
        return f"<{name}: {len(self.assignments)} assignments by {axes}>"


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionFits(Result):
    """Every layer's bytes per precision, and the precisions within the threshold."""

    graph: Graph
    threshold_bytes: int
    measure: str
    precisions: tuple[DType, ...]
    layers: tuple[LayerSizes, ...]

    def __repr__(self) -> str:
        fit, count = sum(bool(layer.fitting_dtypes) for layer in self.layers), len(self.layers)
        name, size = self.graph.name or "model", units.size(self.threshold_bytes)
        return f"<{name}: {fit:,} of {count:,} layers fit {size}>"

    @property
    def not_fitting(self) -> tuple[LayerSizes, ...]:
        """Layers that fit at no precision."""
        return tuple(layer for layer in self.layers if layer.is_known and not layer.fitting_dtypes)

    @property
    def undetermined(self) -> tuple[LayerSizes, ...]:
        """Layers with a size that depends on data."""
        return tuple(layer for layer in self.layers if not layer.is_known)


_LOSSES = {
    "kl": "KL divergence of the outputs",
    "noise": "noise of the outputs",
    "loss": "cross-entropy",
    "accuracy": "accuracy",
}


def measured_basis(refined: MeasuredAssignment) -> str:
    """Returns the basis of measured losses as text."""
    return f"sum over layers ({_LOSSES[refined.loss_measure]}, measured)"


def read_losses(path: Path) -> dict[str, dict[str, float]]:
    """Reads losses from a JSON file: {layer: {precision: loss}}."""
    try:
        content = parse_json(read_settings(path))
    except OSError as error:
        raise SizeupError(f"{path}: {read_problem(error)}") from error
    except ValueError as error:
        raise SizeupError(f"{path}: not a table of losses: {error}") from error
    rows = content.values() if isinstance(content, dict) else [None]
    numbers = [value for row in rows for value in (row.values() if isinstance(row, dict) else [None])]
    if not all(map(_is_loss, numbers)):
        raise SizeupError(f'{path}: expected losses as {{"layer": {{"int8": 0.1, "int4": 0.9}}, ...}}')
    losses: dict[str, dict[str, float]] = content
    return losses


def _is_loss(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -sys.float_info.max <= value <= sys.float_info.max  # not NaN, which is in no range


def _figure(name: str) -> Callable[[Point], Any]:
    return lambda point: None if point.figures is None else getattr(point.figures, name)


def budgets_with_verdict(point: Point, verdict: bool | None) -> str:
    """Returns the names of the budgets with that verdict: True accepts, None is undetermined."""
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
        """The points that can run."""
        return tuple(point for point in self.all_points if not point.unsupported)

    @cached_property
    def unsupported(self) -> tuple[Point, ...]:
        """The points that cannot run, each with its reason."""
        return tuple(point for point in self.all_points if point.unsupported)

    @cached_property
    def rows(self) -> list[Row]:
        """The means per precision, the fastest first."""
        return table(self.points)

    @property
    def share_name(self) -> str:
        """The name of the share of correct samples: accuracy, or agreement with the float network."""
        return "agreement" if self.accuracy is not None and self.accuracy.is_agreement else "accuracy"

    @property
    def has_budgets(self) -> bool:
        """Whether any point has a budget's verdict."""
        return any(point.verdicts for point in self.points)

    @cached_property
    def highlights(self) -> dict[str, Point]:
        """The best point per quantity, of those that no budget rejects; only quantities known for all."""
        candidates = [point for point in self.points if point.accepted is not False]
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
            values = [(measure(point), point) for point in candidates]
            if values and all(value is not None for value, _ in values):
                best[label] = min(values, key=lambda pair: pair[0] or 0)[1]
        return best

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.points):,} points at {len(self.rows)} precisions>"

    def provenance(self) -> Iterator[tuple[str, str]]:
        """Yields labels and sentences: provenance of the numbers, what is unsupported, and caveats."""
        if self.accuracy is not None:
            yield self.share_name, _accuracy_text(self.accuracy)
        latencies = [point.latency for point in self.points if point.latency is not None]
        for text in dict.fromkeys(f"{latency.basis}: {latency.provenance}" for latency in latencies):
            yield "latency", text
        for text in dict.fromkeys(point.energy_basis for point in self.points if point.energy_basis):
            yield "energy", f"from {text}"
        for text in self._unsupported_text():
            yield "unsupported", text
        bases = {latency.basis for latency in latencies}
        if len(bases) > 1:
            yield "caveat", f"latencies on several bases ({', '.join(sorted(bases))}) do not compare exactly"
        caveats = [*self.notes, *(self.accuracy.caveats if self.accuracy else ())]
        if any(None in point.verdicts.values() for point in self.points):
            caveats.append("(?) after a budget: whether it accepts is undetermined")
        missing = [point for point in self.points if point.no_latency_reason]
        caveats += [f"no latency at {point.precision}: {point.no_latency_reason}" for point in missing]
        caveats += [caveat for latency in latencies for caveat in latency.caveats]
        for text in dict.fromkeys(caveats):
            yield "caveat", text

    def _unsupported_text(self) -> Iterator[str]:
        """Yields each reason once, after the precision, or the batches and sizes, it applies to."""
        by_reason: dict[str, list[Point]] = {}
        for point in self.unsupported:
            by_reason.setdefault(point.unsupported, []).append(point)
        for reason, points in by_reason.items():
            precisions = dict.fromkeys(point.precision for point in points)
            shapes = dict.fromkeys(filter(None, map(batch_and_size, points)))
            yield f"{'; '.join(precisions if len(precisions) == 1 else shapes)}: {reason}"


def batch_and_size(point: Point) -> str:
    """Returns the batch and the input size; empty for a model as saved."""
    values = {"batch": point.batch, "size": point.size}
    return ", ".join(f"{name} {number:,}" for name, number in values.items() if number is not None)


def share_of(point: Point) -> float | None:
    """Returns the accuracy of a point, or its agreement with the float network."""
    return point.accuracy if point.accuracy is not None else point.agreement


def _accuracy_text(accuracy: Accuracy) -> str:
    if not accuracy.is_agreement:
        return accuracy.provenance
    return f"with the float network's top class, as there are no labels; {accuracy.provenance}"
