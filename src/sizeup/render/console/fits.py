"""Which precisions of each layer fit a threshold, for people and machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.files import write_text
from sizeup.graph import Graph, Shape
from sizeup.precision.sizes import Sizes
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.console.report import UNKNOWN, named

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, repr=False)
class Fitting:
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

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, sizes in bytes."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.graph.name, "format": self.graph.format},
            "threshold_bytes": self.threshold_bytes,
            "measure": self.measure,
            "layers": [self._layer(each) for each in self.layers],
        }

    def _layer(self, each: Sizes) -> dict[str, Any]:
        names = [precision_name(precision) for precision in self.precisions]

        def by_precision(sizes: Sequence[int]) -> dict[str, int | None]:
            return {name: size if each.is_known else None for name, size in zip(names, sizes, strict=True)}

        return {
            "op": each.layer.op,
            "name": each.layer.name,
            "kind": each.layer.kind,
            "input_shapes": _lists(each.input_shapes),
            "output_shapes": _lists(each.output_shapes),
            "read_bytes": by_precision(each.read_bytes),
            "made_bytes": by_precision(each.made_bytes),
            "bytes": by_precision(each.bytes),
            "fits": list(each.kept_names) if each.is_known else None,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a .json file."""
        write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])


def _lists(shapes: Sequence[Shape | None]) -> list[list[int] | None]:
    return [None if shape is None else list(shape) for shape in shapes]


def render(found: Fitting, console: Console, top: int | None = None) -> None:
    """Print how many layers fit, then each with the sizes of its tensors; a star marks what fits."""
    console.print(Text(named(found.graph.name or "model", found.graph.format), style="bold"))
    every = sum(1 for each in found.layers if len(each.kept) == len(found.precisions))
    limit = units.size(found.threshold_bytes)
    print_labelled(console, "limit", f"{limit} for the {_words(found.measure)} of each layer")
    print_labelled(console, "layers", f"{len(found.layers):,}, of which {every:,} fit at every type")
    if found.without:
        print_labelled(
            console, "warning", f"{len(found.without):,} fit at no type: {_listed(found.without)}", "yellow"
        )
    if found.undetermined:
        words = f"{len(found.undetermined):,} undetermined, with a size that depends on data"
        print_labelled(console, "caveat", f"{words}: {_listed(found.undetermined)}", "yellow")
    console.print()
    titles = [*(precision_name(each) for each in found.precisions), "layer"]
    shown = found.layers[: top or None]
    rows = [row for each in shown for row in _rows(each, found.precisions)]
    print_rows(console, titles, rows)
    if top is not None and top < len(found.layers):
        console.print(Text(f"  {len(found.layers) - top:,} more: --top N shows them", style="dim"))


def _words(measure: str) -> str:
    return {"tensors": "larger of input and output", "sum": "sum of input and output"}.get(measure, measure)


def _listed(layers: Sequence[Sizes]) -> str:
    names = [each.layer.name for each in layers[:3]]
    return ", ".join(names) + (f" and {len(layers) - 3:,} more" if len(layers) > 3 else "")


def _rows(each: Sizes, precisions: Sequence[DType]) -> Iterator[list[str]]:
    """The layer by its measure, then the tensors that it reads and produces, each with its bytes."""
    marks = ["*" if dtype in each.kept else " " for dtype in precisions]
    yield [*_cells(each, each.bytes, marks), f"{each.layer.kind} {each.layer.name}"]
    blank = [" "] * len(precisions)
    for label, sizes, shapes in (
        ("input ", each.read_bytes, each.input_shapes),
        ("output", each.made_bytes, each.output_shapes),
    ):
        yield [*_cells(each, sizes, blank), f"  {label} {', '.join(map(units.shape, shapes))}"]


def _cells(each: Sizes, sizes: Sequence[int], marks: Sequence[str]) -> list[str]:
    texts = [units.size(size) if each.is_known else UNKNOWN for size in sizes]
    return [text + mark for text, mark in zip(texts, marks, strict=True)]
