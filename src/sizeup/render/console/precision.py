"""A choice of precisions: layer by layer, what it takes against its budgets, and what holds it back."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.errors import SizeupError
from sizeup.files import write_text
from sizeup.graph import Graph
from sizeup.latency import Estimate
from sizeup.precision.choose import Choice
from sizeup.precision.figures import BUDGETS, WORDS, Budgets, Figures
from sizeup.precision.layers import Names
from sizeup.precision.options import Options
from sizeup.precision.recipes import Recipe, write_recipe
from sizeup.precision.refine import Refined
from sizeup.render.console.latency import spoken
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.console.report import named
from sizeup.render.files import check_ending

SCHEMA_VERSION = 1
_QUANTISERS = {
    "tflite": "ai-edge-quantizer",
    "onnx": "onnxruntime",
    "torch": "torchao",
    "torch.export": "torchao",
}
_MORE = {"weight_bytes": "1 KiB", "activation_bytes": "1 KiB", "seconds": "1 ms", "joules": "1 mJ"}


@dataclass(frozen=True, slots=True, repr=False)
class Chosen:
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

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, bytes, seconds and joules raw."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.graph.name, "format": self.graph.format},
            "target": None if self.options.target is None else self.options.target.name,
            "loss": self.choice.loss,
            "loss_basis": self.basis,
            "measured": None if self.refined is None else self.refined.losses.to_dict(),
            "float_accuracy": None if self.refined is None else self.refined.table.baseline.accuracy,
            "proven": self.choice.proven,
            "gap": self.choice.gap,
            "budgets": {name: getattr(self.budgets, name) for name in BUDGETS},
            "figures": {name: getattr(self.choice.figures, name) for name in BUDGETS},
            "latency": None if self.estimate is None else _latency(self.estimate),
            "unsupported": list(self.options.unsupported),
            "as_given": {name: getattr(self.widest, name) for name in BUDGETS},
            "binding": list(self.choice.binding),
            "gains": self.choice.gains,
            "layers": [
                {
                    "op": layer.op,
                    "name": layer.name,
                    "kind": layer.kind,
                    "precision": precision_name(self.choice.chosen[layer.op]),
                    "loss": self.losses[layer.op],
                }
                for layer in self.options.layers
            ],
            "mapping": self.mapping,
        }

    def write_recipe(self, path: str | os.PathLike[str], kind: str | None = None) -> Recipe:
        """Write the choice for a quantiser: ai-edge-quantizer, onnxruntime or torchao, by default that of the
        model's format; the notes of what is returned say what it cannot express."""
        check_path(path)
        usual = _QUANTISERS.get(self.graph.format)
        if kind is None and usual is None:
            raise SizeupError(f"no quantiser is known for {self.graph.format or 'graphs made by hand'}")
        return write_recipe(self.graph, self.choice.chosen, path, kind or usual or "")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mapping as a .json file, which `analyze --precision` takes."""
        check_path(path)
        write_text(path, [json.dumps(self.mapping, indent=2), "\n"])


def _latency(found: Estimate) -> dict[str, Any]:
    """The estimate as the reports of other verbs have it."""
    return {"ms": found.ms, "low_ms": found.low_ms, "high_ms": found.high_ms, "basis": found.basis}


_LOSSES = {
    "kl": "divergence of the outputs",
    "noise": "noise of the outputs",
    "loss": "cross-entropy",
    "accuracy": "accuracy",
}


def measured_basis(refined: Refined) -> str:
    """Where measured losses are from, in words."""
    return f"the sum of its layers' own ({_LOSSES[refined.judged]}, measured)"


def _measured(refined: Refined) -> str:
    losses, baseline = refined.losses, refined.table.baseline
    parts = []
    if losses.accuracy is not None and baseline.accuracy is not None:
        parts.append(f"{100 * losses.accuracy:.1f} % right, {100 * baseline.accuracy:.1f} % in float")
    if losses.kl is not None:
        parts.append(f"divergence {losses.kl:.3g}")
    parts.append(f"{losses.sqnr_db:.1f} dB signal to noise")
    return f"{', '.join(parts)}; the best of {refined.tried:,} choices that were run as a whole"


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


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a choice is not written as."""
    check_ending(path, "a choice of precisions is", ".json")


def render(found: Chosen, console: Console, top: int | None = None) -> None:
    """Print what is kept and lost first, then the layers."""
    console.print(Text(named(found.graph.name or "model", found.graph.format), style="bold"))
    for label, text in _lines(found):
        print_labelled(console, label, text, "bold" if label == "choice" else "")
    widest = max((len(layer.kind) for layer in found.options.layers), default=0)
    rows = [
        (
            precision_name(found.choice.chosen[layer.op]),
            f"{found.losses[layer.op]:.3g}",
            f"{layer.kind:<{widest}}  {layer.name}",
        )
        for layer in found.options.layers
    ]
    shown = rows if top is None else rows[:top]
    console.print()
    print_rows(console, ("type", "loss", "layer"), shown)
    if len(shown) < len(rows):
        console.print(Text(f"  {len(rows) - len(shown):,} more: --top N shows them", style="dim"))


def _proof(found: Chosen) -> str:
    """How near to the best the choice is known to be."""
    if found.refined is not None:
        return f"the best of {found.refined.tried:,} that were run"
    if found.choice.proven:
        return "proven: no other choice loses less"
    if found.choice.gap is None:
        return "the best that was found; how near it is to the best is not known"
    return f"the best that was found; no other loses {100 * found.choice.gap:.2g} % less"


def _lines(found: Chosen) -> Iterator[tuple[str, str]]:
    counts = Counter(precision_name(each) for each in found.choice.chosen.values())
    mix = ", ".join(f"{count:,} layer{'s' * (count != 1)} at {name}" for name, count in counts.most_common())
    yield "choice", f"{mix}; {_proof(found)}"
    yield "loss", f"{found.choice.loss:.4g}, {found.basis}"
    if found.refined is not None:
        yield "measured", _measured(found.refined)
        yield from (("note", note) for note in found.refined.table.notes)
    for name in BUDGETS:
        taken, most = getattr(found.choice.figures, name), getattr(found.budgets, name)
        if taken is None:
            continue
        text = units.amount(name, taken)
        if most is not None:
            text += f" of {units.amount(name, most)} ({units.share(taken, most)})"
        before = getattr(found.widest, name)
        yield WORDS[name], f"{text}, {units.amount(name, before)} as given" if before is not None else text
        if name == "seconds" and found.estimate is not None:
            yield "", f"{spoken(found.estimate)}, {found.estimate.basis}"
    for reason in found.options.unsupported:
        yield "left out", reason
    for name in found.choice.binding:
        gain = (found.choice.gains or {}).get(name, 0.0)
        saves = (
            f"{_MORE[name]} more would save {gain:.3g} of the loss"
            if gain
            else f"{_MORE[name]} more saves nothing yet"
        )
        yield "held back", f"by the {WORDS[name]}: {saves}"
    if found.graph.format == "tflite" and found.budgets.activation_bytes is not None:
        yield (
            "note",
            (
                "activations are the size of the best memory plan; TFLite Micro's own planner may need more,"
                " and its arena has a tail: sizeup check --arena judges the file that you deploy"
            ),
        )
    if found.budgets != Budgets() and not found.choice.binding:
        yield "held back", "by no budget: all could be smaller"
