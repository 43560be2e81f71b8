"""A report as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.results.report import Report

_SCRIPTS = (
    "model.js",
    "precision_map.js",
    "operators.js",
    "roofline.js",
    "memory.js",
    "icicle.js",
    "whatif.js",
)


def lines(report: Report) -> Iterator[str]:
    """Yields the page as one text."""
    from sizeup.render.html.content import body  # imported on first use
    from sizeup.render.html.shell import shell

    data = data_of(report)
    yield shell(f"{report.name}: sizeup report", body(report, data), data, _SCRIPTS, ("report.css",))


def data_of(report: Report) -> dict[str, Any]:
    """Returns the data that the scripts of the page read, as columns."""
    from sizeup.dtypes import precision_name
    from sizeup.render.html.columns import memory_map, operators, roofline, tensors
    from sizeup.units import printable

    return {
        "model": {
            "name": printable(report.name),
            "precision": None if report.precision is None else precision_name(report.precision),
            "seconds": None if report.latency is None else report.latency.seconds,
        },
        "ops": operators(report),
        "tensors": tensors(report),
        "roofline": roofline(report),
        "memory": memory_map(report),
        "what_if": report.what_if,
    }
