"""The best choices of precisions from the least of one quantity to the least of another."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.csv_cells import csv_lines
from sizeup.dtypes import precision_name
from sizeup.files import write_text
from sizeup.precision.choose import Choice
from sizeup.precision.figures import BUDGETS, WORDS
from sizeup.precision.options import Options
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.console.report import NOTHING, plain
from sizeup.render.files import check_ending

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, repr=False)
class Front:
    """Choices of which none is worse in both quantities than another; `basis` says where losses are from."""

    options: Options
    axes: tuple[str, str]
    choices: tuple[Choice, ...]
    losses: tuple[float, ...]
    basis: str

    def __repr__(self) -> str:
        name, axes = self.options.graph.name or "model", " and ".join(self.axes)
        return f"<{name}: {len(self.choices)} choices by {axes}>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, bytes, seconds and joules raw."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.options.graph.name, "format": self.options.graph.format},
            "target": None if self.options.target is None else self.options.target.name,
            "axes": list(self.axes),
            "loss_basis": self.basis,
            "choices": [
                {**row, "layers": {f"#{op}": precision_name(kind) for op, kind in choice.chosen.items()}}
                for row, choice in zip(self._rows(), self.choices, strict=True)
            ],
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "loss": loss,
                **{name: getattr(choice.figures, name) for name in BUDGETS},
                "proven": choice.proven,
                "gap": choice.gap,
            }
            for loss, choice in zip(self.losses, self.choices, strict=True)
        ]

    def save(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Write the choices as a .json or .csv file.

        `raw_csv` leaves texts as they are that a spreadsheet would take for formulas.
        """
        check_path(path)
        if Path(path).suffix.lower() == ".json":
            write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])
        else:
            rows = (each.values() for each in self._rows())
            write_text(path, csv_lines(("loss", *BUDGETS, "proven", "gap"), rows, raw=raw_csv))


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a front is not written as."""
    check_ending(path, "a front is", ".json", ".csv")


def render(found: Front, console: Console) -> None:
    """Print one line a choice."""
    console.print(Text(plain(found.options.graph.name or "model"), style="bold"))
    number = len(found.choices)
    by = " and ".join(found.axes)
    print_labelled(console, "front", f"{number} choice{'s' * (number != 1)} by {by}; {_proof(found.choices)}")
    print_labelled(console, "loss", found.basis)
    for reason in found.options.unsupported:
        print_labelled(console, "left out", reason)
    console.print()
    known = [
        name for name in BUDGETS if any(getattr(each.figures, name) is not None for each in found.choices)
    ]
    rows = [_words(*each, known) for each in zip(found.losses, found.choices, strict=True)]
    print_rows(console, ("loss", *(WORDS[name] for name in known), "layers"), rows)


def _proof(choices: Sequence[Choice]) -> str:
    """How near to the best all of them are known to be."""
    gaps = [choice.gap for choice in choices]
    if any(gap is None for gap in gaps):
        return "how near they are to the best is not known"
    widest = max((gap or 0.0 for gap in gaps), default=0.0)
    return (
        f"a gap of up to {100 * widest:.2g} % is left"
        if widest
        else "each is proven the best within what it takes"
    )


def _words(loss: float, choice: Choice, known: Sequence[str]) -> list[str]:
    amounts = [getattr(choice.figures, name) for name in known]
    told = [
        NOTHING if amount is None else units.amount(name, amount)
        for name, amount in zip(known, amounts, strict=True)
    ]
    counts = Counter(map(precision_name, choice.chosen.values()))
    mix = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return [f"{loss:.3g}", *told, mix]
