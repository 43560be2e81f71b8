"""A calibration for people: the target, how far it is off, where it is kept and what to type next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Calibrated


def render(found: Calibrated, console: Console, top: int = 5) -> None:
    """Print the target first, then its error, then the networks that fit worst."""
    console.print(Text(plain(found.target), style="bold"))
    for label, text in _lines(found):
        print_labelled(console, label, text, "bold" if label == "error" else "")
    worst = sorted(found.fitted.judged, key=lambda each: -abs(each.error))[:top]
    rows = [
        (
            f"{100 * each.error:+.1f} %",
            units.duration(each.measured),
            units.duration(each.estimated),
            plain(each.name),
        )
        for each in worst
    ]
    console.print()
    print_rows(console, ("off by", "measured", "estimated", "fits worst"), rows)


def _lines(found: Calibrated) -> Iterator[tuple[str, str]]:
    fit, band = found.fitted, found.fitted.band
    types = ", ".join(fit.precisions)
    yield "measured", f"{fit.measurements:,} networks or kernels at {types}"
    low, high = 100 * (math.exp(band.low) - 1), 100 * (math.exp(band.high) - 1)
    reach = f"nine of ten took {low:+.0f} to {high:+.0f} %"
    yield "error", f"{100 * fit.error:.1f} % off on average with its {fit.held_out} left out; {reach}"
    if len(fit.judged) < found.enough:
        yield "few", f"{len(fit.judged)} networks judge it; {found.enough} or more make the range trustworthy"
    if found.failures:
        yield "not run", f"{len(found.failures)} networks: {plain(found.failures[0])}"
    yield "saved in", plain(str(found.path))
    yield "next", plain(f"sizeup analyze MODEL -d {found.target}")
