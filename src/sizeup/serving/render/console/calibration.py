"""A calibration of a server as text: measured and estimated times, and the corrections that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.units import printable

if TYPE_CHECKING:
    from rich.console import Console

    from sizeup.serving.times.calibrate import ServingCalibration

_TITLES = ("requests", "input", "output", "TPOT", "estimated", "TTFT", "estimated", "file")


def render(calibration: ServingCalibration, console: Console) -> None:
    """Print measured and estimated times, and how later estimates are corrected."""
    title = f"{calibration.model} on {calibration.target}, {calibration.layout}, cache {calibration.kv}"
    console.print(Text(printable(title), style="bold"))
    rows = [
        (
            *(f"{count:,}" for count in (each.run.requests, each.run.input, each.run.output)),
            units.duration(each.run.tpot),
            units.duration(each.tpot),
            "not used" if each.run.ttft is None else units.duration(each.run.ttft),
            units.duration(each.ttft),
            printable(each.run.file),
        )
        for each in calibration.measurements
    ]
    print_rows(console, _TITLES, rows)
    console.print()
    ttft = calibration.ttft_factor
    first = "" if ttft is None else f", TTFT x {ttft:.2f}"
    text = f"TPOT x {calibration.tpot_factor:.2f}{first} (geometric mean of measured / estimated)"
    print_labeled(console, "correction", text, "bold")
    for note in calibration.notes:
        print_labeled(console, "note", printable(note))
    print_labeled(console, "saved in", printable(str(calibration.path)))
    print_labeled(console, "next", "sizeup llm with the same model, target, layout and precisions")
