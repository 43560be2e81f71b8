"""What the precision verbs find: an assignment under budgets, a front, what fits, and a trade-off."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.latency import Estimate
from sizeup.mixed_precision.accuracy import Accuracy
from sizeup.mixed_precision.choose import Choice
from sizeup.mixed_precision.figures import BUDGETS, WORDS, Budgets, Figures
from sizeup.mixed_precision.layers import Names
from sizeup.mixed_precision.options import Options
from sizeup.mixed_precision.recipes import Recipe, write_recipe
from sizeup.mixed_precision.refine import Refined
from sizeup.mixed_precision.sizes import Sizes
from sizeup.mixed_precision.tradeoff import Point, Row, table
from sizeup.results.result import Result

__all__ = [
    "BUDGETS",
    "WORDS",
    "PrecisionAssignment",
    "PrecisionFits",
    "PrecisionFront",
    "measured_basis",
    "read_losses",
]

_QUANTISERS = {
    "tflite": "ai-edge-quantizer",
    "onnx": "onnxruntime",
    "torch": "torchao",
    "torch.export": "torchao",
}


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionAssignment(Result):
    """The precisions that lose least within the budgets; `basis` says where the losses are from."""

    options: Options
    choice: Choice
    budgets: Budgets
    widest: Figures  # what the network takes as it is
    losses: dict[int, float]  # of every layer, by operator, at its chosen type
    basis: str
    refined: Refined | None = None  # where it was measured
    estimate: Estimate | None = None  # of the choice on the target

    @property
    def graph(self) -> Graph:
        """The network as it was given."""
        return self.options.graph

    @property
    def has_budgets(self) -> bool:
        """Whether anything was limited."""
        return self.budgets != Budgets()

    @property
    def mapping(self) -> dict[str, str]:
        """{layer: precision}, as `analyze(precision=...)` takes it; by number where a name says more."""
        names, chosen = Names(self.graph), self.choice.chosen
        found = {}
        for layer in self.options.layers:
            alone = names.find(layer.name) == [layer.op]
            found[layer.name if alone else f"#{layer.op}"] = precision_name(chosen[layer.op])
        return found

    def __repr__(self) -> str:
        counts = Counter(map(precision_name, self.choice.chosen.values()))
        mix = ", ".join(f"{count:,} at {name}" for name, count in counts.most_common())
        return f"<{self.graph.name or 'model'}: {mix}; loss {self.choice.loss:.4g}>"

    def write_recipe(self, path: str | os.PathLike[str], kind: str | None = None) -> Recipe:
        """Write the choice for a quantiser: ai-edge-quantizer, onnxruntime or torchao, by default that of the
        model's format; the notes of what is returned say what it cannot express."""
        usual = _QUANTISERS.get(self.graph.format)
        if kind is None and usual is None:
            raise SizeupError(f"no quantiser is known for {self.graph.format or 'graphs made by hand'}")
        return write_recipe(self.graph, self.choice.chosen, path, kind or usual or "")


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionFront(Result):
    """Choices of which none is worse in both quantities than another; `basis` says where losses are from."""

    options: Options
    axes: tuple[str, str]
    choices: tuple[Choice, ...]
    losses: tuple[float, ...]
    basis: str

    def __repr__(self) -> str:
        name, axes = self.options.graph.name or "model", " and ".join(self.axes)
        return f"<{name}: {len(self.choices)} choices by {axes}>"


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionFits(Result):
    """Every layer's sizes at each precision, and which of them are within the threshold."""

    graph: Graph
    threshold_bytes: int
    measure: str
    precisions: tuple[DType, ...]
    layers: tuple[Sizes, ...]

    def __repr__(self) -> str:
        fit, count = sum(bool(each.kept) for each in self.layers), len(self.layers)
        name, size = self.graph.name or "model", units.size(self.threshold_bytes)
        return f"<{name}: {fit:,} of {count:,} layers fit {size}>"

    @property
    def without(self) -> tuple[Sizes, ...]:
        """Layers that fit at no precision."""
        return tuple(each for each in self.layers if each.is_known and not each.kept)

    @property
    def undetermined(self) -> tuple[Sizes, ...]:
        """Layers with a size that depends on data."""
        return tuple(each for each in self.layers if not each.is_known)


_LOSSES = {
    "kl": "divergence of the outputs",
    "noise": "noise of the outputs",
    "loss": "cross-entropy",
    "accuracy": "accuracy",
}


def measured_basis(refined: Refined) -> str:
    """Where measured losses are from, in words."""
    return f"the sum of its layers' own ({_LOSSES[refined.judged]}, measured)"


def read_losses(path: Path) -> dict[str, dict[str, float]]:
    """Losses from a JSON file: {layer: {precision: loss}}."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SizeupError(f"{path}: not a table of losses: {error}") from error
    rows = content.values() if isinstance(content, dict) else [None]
    numbers = [value for row in rows for value in (row.values() if isinstance(row, dict) else [None])]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        raise SizeupError(f'{path}: losses are {{"layer": {{"int8": 0.1, "int4": 0.9}}, ...}}')
    found: dict[str, dict[str, float]] = content
    return found


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
