"""The parts of the page that scripts fill: a heading, a sentence on how to read it, and a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.report import Report

_Part = tuple[str, str, str]  # title, a sentence, what is below it as HTML
_MOST_TOLD = 3


def section(name: str, report: Report, data: dict[str, Any]) -> str:
    """One part of the page, by the data that it will be drawn from."""
    title, words, inner = _PARTS[name](report, data)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>'
        f"<p>{escape(plain(words))}</p>{inner}</section>"
    )


def _figure(identity: str, alternative: str, caption: str) -> str:
    label = escape(plain(alternative))
    return (
        f'<figure><div class="plot" id="{identity}" role="group" aria-label="{label}"></div>'
        f"<figcaption>{escape(plain(caption))}</figcaption></figure>"
    )


def _time(report: Report, data: dict[str, Any]) -> _Part:
    title, found = "Where the time goes", data["roofline"]
    if found is None:
        return title, f"Nothing to draw: {report.no_latency}. A target (-d TARGET) gives times and roofs.", ""
    if not found["op"]:
        return title, "No operator of this model has MACs, which the picture is about.", ""
    words = (
        "Every point is an operator with all that is merged into it, the larger the longer it takes. Its"
        " place tells what it attains; lines are what the device can do at most: by number type above, by"
        " memory on the left."
    )
    bounds = Counter(each for each in report.latency.by_op()[1] if each) if report.latency else Counter()
    told = ", ".join(f"{count:,} by {bound}" for bound, count in bounds.most_common())
    slowest = sorted(range(len(found["op"])), key=lambda place: -found["taken"][place])[:_MOST_TOLD]
    names = ", ".join(
        f"{report.ops[found['op'][place]].name} {units.duration(found['taken'][place])}" for place in slowest
    )
    alternative = (
        f"Roofline of {found['device']}: {len(found['op']):,} operators with MACs. The slowest are {names}."
        f" Operators are bound: {told}. The table of operators has all numbers."
    )
    others = ""
    if found["others"]:
        share = units.share(found["others_seconds"], found["seconds"])
        others = (
            f" {found['others']:,} operators without MACs take {share} of the time and have no place here."
        )
    caption = (
        f"Times are {_basis(found['basis'])} on {found['target']}.{others}"
        " A click shows the operator in the table."
    )
    return title, words, _figure("roofline-plot", alternative, caption)


def _basis(basis: str) -> str:
    return {
        "calibrated": "estimates from a calibration",
        "roofline": "estimates from the data sheet",
    }.get(basis, "estimates from a table of coefficients")


def _memory(report: Report, data: dict[str, Any]) -> _Part:
    title, found, usage = "Memory over time", data["memory"], report.memory.usage
    if found is None:
        return title, f"Nothing to draw: {usage.missing or 'the model has no operators'}.", ""
    words = (
        "Above, what is in use while each operator runs; below, where each tensor lies and for how long."
        " Hover names a tensor, a click follows it: the operator that makes it and those that read it are"
        " marked here and in the table."
    )
    held = ", ".join(f"{each.name} {units.size(each.bytes)}" for each in usage.held[:_MOST_TOLD])
    alternative = (
        f"Memory by operator: the peak is {units.size(usage.peak_bytes)} in operator {usage.peak_op}, where"
        f" the largest tensors are {held}. Below it the map of {len(found['size']):,} buffers."
    )
    keys = (
        "Orange enters the model, green leaves it, grey is what a kernel takes for itself."
        ' <span class="key maker">Makers</span> and <span class="key reader">readers</span>'
        " of a followed tensor are marked."
    )
    figure = _figure("memory-plot", alternative, found["caption"]).replace(
        "</figcaption>", f" {keys}</figcaption>"
    )
    return (
        title,
        words,
        f'{figure}<div class="controls" id="follow-controls"></div><div id="followed" role="status"></div>',
    )


def _modules(report: Report, data: dict[str, Any]) -> _Part:
    words = "The wider a box, the more it costs. A click goes into a module, the names above lead back out."
    return "Cost by module", words, '<div id="icicle"></div>'


def _what_if(report: Report, data: dict[str, Any]) -> _Part:
    title, found = "What if: other number types", data["what_if"]
    if found is None:
        return title, "There is no layer here whose number type could be chosen.", ""
    words = (
        "Set the type of all layers or of one. Weights, traffic and the memory in use at once are computed"
        " here exactly as sizeup does it, conversions between types included; that memory is what no arena in"
        " this order goes below."
    )
    return (
        title,
        words,
        f'<div id="what-if-content"></div><p><small>{escape(plain(_left_out(report, found)))}</small></p>',
    )


def _left_out(report: Report, found: dict[str, Any]) -> str:
    """What the page does not know of a choice."""
    parts = []
    latency = found["latency"]
    if "unavailable" in latency:
        parts.append(f"No latency here: {latency['unavailable']}.")
    else:
        parts.append(f"Latency: {_basis(latency['basis'])} on {latency['target']}.")
        if report.latency is not None and report.latency.basis != latency["basis"]:
            parts.append("Not all of these types were measured, so none of the measurements is used here.")
        if latency["merges"]:
            parts.append(
                "The runtime merges operators, which conversions may separate: a mixture may take longer."
            )
    if report.precision is not None:
        parts.append("Layers that are not set here have the model's own types, not the one of this report.")
    if report.graph.run is not None:
        parts.append("Kernels' own workspaces and memory that PyTorch frees late are not in the arena here.")
    parts.append("What a type costs in accuracy is not computed here: sizeup precision measures it.")
    return " ".join(parts)


def _operators(report: Report, data: dict[str, Any]) -> _Part:
    words = (
        "In the order in which they run. A heading sorts; a shape follows that tensor through the operators."
    )
    return "Operators", words, '<div id="operator-table"></div>'


_PARTS: dict[str, Callable[[Report, dict[str, Any]], _Part]] = {
    "time": _time,
    "memory": _memory,
    "modules": _modules,
    "what-if": _what_if,
    "operators": _operators,
}
