"""What the precision verbs find: an assignment under budgets, a front, and what fits."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.latency import Estimate
from sizeup.mixed_precision.choose import Choice
from sizeup.mixed_precision.figures import BUDGETS, WORDS, Budgets, Figures
from sizeup.mixed_precision.layers import Names
from sizeup.mixed_precision.options import Options
from sizeup.mixed_precision.recipes import Recipe, write_recipe
from sizeup.mixed_precision.refine import Refined
from sizeup.mixed_precision.sizes import Sizes
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
