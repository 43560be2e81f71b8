"""Which precisions of each layer fit a threshold, for people and machines."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.files import write_text
from sizeup.graph import Graph
from sizeup.precision.sizes import Sizes
from sizeup.report.console import print_labelled, print_rows
from sizeup.report.text import named

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
        fit, count = len(self.layers) - len(self.without), len(self.layers)
        name, size = self.graph.name or "model", units.size(self.threshold_bytes)
        return f"<{name}: {fit:,} of {count:,} layers fit {size}>"

    @property
    def without(self) -> tuple[Sizes, ...]:
        """Layers that fit at no precision."""
        return tuple(each for each in self.layers if not each.kept)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, sizes in bytes."""
        names = [precision_name(each) for each in self.precisions]
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.graph.name, "format": self.graph.format},
            "threshold_bytes": self.threshold_bytes,
            "measure": self.measure,
            "layers": [
                {
                    "op": each.layer.op,
                    "name": each.layer.name,
                    "kind": each.layer.kind,
                    "read_bytes": dict(zip(names, each.read_bytes, strict=True)),
                    "made_bytes": dict(zip(names, each.made_bytes, strict=True)),
                    "bytes": dict(zip(names, each.bytes, strict=True)),
                    "fits": list(each.kept_names),
                }
                for each in self.layers
            ],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a .json file."""
        write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])


def render(found: Fitting, console: Console, top: int | None = None) -> None:
    """Print how many layers fit, then each with its sizes; a star marks what fits."""
    console.print(Text(named(found.graph.name or "model", found.graph.format), style="bold"))
    every = sum(1 for each in found.layers if len(each.kept) == len(found.precisions))
    limit = units.size(found.threshold_bytes)
    print_labelled(console, "limit", f"{limit} for the {_words(found.measure)} of each layer")
    print_labelled(console, "layers", f"{len(found.layers):,}, of which {every:,} fit at every type")
    if found.without:
        print_labelled(
            console, "warning", f"{len(found.without):,} fit at no type: {_listed(found.without)}", "yellow"
        )
    console.print()
    titles = [*(precision_name(each) for each in found.precisions), "layer"]
    shown = found.layers[: top or None]
    widest = max((len(each.layer.kind) for each in shown), default=0)
    print_rows(console, titles, [_row(each, found.precisions, widest) for each in shown])
    if top is not None and top < len(found.layers):
        console.print(Text(f"  {len(found.layers) - top:,} more: --top N shows them", style="dim"))


def _words(measure: str) -> str:
    return {"tensors": "larger of what is read and made", "sum": "sum of what is read and made"}.get(
        measure, measure
    )


def _listed(layers: Sequence[Sizes]) -> str:
    names = [each.layer.name for each in layers[:3]]
    return ", ".join(names) + (f" and {len(layers) - 3:,} more" if len(layers) > 3 else "")


def _row(each: Sizes, precisions: Sequence[DType], widest: int) -> list[str]:
    cells = [
        units.size(size) + (" *" if dtype in each.kept else "  ")
        for size, dtype in zip(each.bytes, precisions, strict=True)
    ]
    return [*cells, f"{each.layer.kind:<{widest}}  {each.layer.name}"]
