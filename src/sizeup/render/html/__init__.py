"""The report as one HTML file that opens in any browser, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.results.report import Report

_SCRIPTS = (
    "model.js",
    "mixture.js",
    "operators.js",
    "roofline.js",
    "memory.js",
    "icicle.js",
    "whatif.js",
)


def lines(report: Report) -> Iterator[str]:
    """The page on a report, as one piece of text."""
    from sizeup.render.html.content import body  # whoever writes no page need not load what it takes
    from sizeup.render.html.shell import shell

    data = data_of(report)
    yield shell(f"{report.name}: sizeup report", body(report, data), data, _SCRIPTS, ("report.css",))


def data_of(report: Report) -> dict[str, Any]:
    """All that the scripts of the page work with, as plain data in columns."""
    from sizeup.dtypes import precision_name
    from sizeup.render.html.columns import operators, places, roofline, tensors
    from sizeup.units import plain

    return {
        "model": {
            "name": plain(report.name),
            "precision": None if report.precision is None else precision_name(report.precision),
            "seconds": None if report.latency is None else report.latency.seconds,
        },
        "ops": operators(report),
        "tensors": tensors(report),
        "roofline": roofline(report),
        "memory": places(report),
        "what_if": report.what_if,
    }
