"""The sections of the page that scripts fill: a heading, an explanation, and an empty element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.render.vocabulary import size_text
from sizeup.results.rows import BOUND_LABELS
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.report import Report

_Part = tuple[str, str, str]  # title, explanation, HTML below it
_MOST_NAMED = 3


def section(name: str, report: Report, data: dict[str, Any]) -> str:
    """Returns a section of the page; `data` is what its script draws."""
    title, words, inner = _PARTS[name](report, data)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>'
        f"<p>{escape(printable(words))}</p>{inner}</section>"
    )


def _figure(identity: str, alternative: str, caption: str) -> str:
    label = escape(printable(alternative))
    return (
        f'<figure><div class="plot" id="{identity}" role="group" aria-label="{label}"></div>'
        f"<figcaption>{escape(printable(caption))}</figcaption></figure>"
    )


def _time(report: Report, data: dict[str, Any]) -> _Part:
    title, roofline = "Roofline", data["roofline"]
    if roofline is None and report.npu is not None:
        return title, "Not available: Vela reports no bytes by operator.", ""
    if roofline is None:
        return title, f"Not available: {report.no_latency_reason}. Add -d TARGET for a roofline.", ""
    if not roofline["op"]:
        return title, "Not available: no operator of this model has MACs.", ""
    words = (
        "Each point is a kernel with the operators fused into it; its area grows with its time. Its position"
        " is its arithmetic intensity and throughput. Lines are the peaks of the device: compute by dtype"
        " (horizontal), memory bandwidth (sloped)."
    )
    by_op = report.latency.by_op()[1] if report.latency else ()
    bounds = Counter(BOUND_LABELS[bound] for bound in by_op if bound not in (None, "nothing"))
    limits = ", ".join(f"{count:,} by {bound}" for bound, count in bounds.most_common()) or "unknown"
    slowest = sorted(range(len(roofline["op"])), key=lambda point: -roofline["op_seconds"][point])[
        :_MOST_NAMED
    ]
    names = ", ".join(
        f"{report.ops[roofline['op'][point]].name} {units.duration(roofline['op_seconds'][point])}"
        for point in slowest
    )
    alternative = (
        f"Roofline of {roofline['device']}: {units.plural(len(roofline['op']), 'operator')} with MACs."
        f" The slowest are {names}."
        f" Operators are bound: {limits}. All numbers are in the table of operators."
    )
    others = ""
    if roofline["others"]:
        share = units.share(roofline["others_seconds"], roofline["seconds"])
        count = units.plural(roofline["others"], "operator")
        others = f" Not drawn: {count} without MACs, {share} of the time."
    caption = (
        f"Times are estimates from {_basis(roofline['basis'])} on {roofline['target']}.{others}"
        " A click shows the operator in the table."
    )
    return title, words, _figure("roofline-plot", alternative, caption)


def _basis(basis: str) -> str:
    return {
        "calibrated": "a calibration",
        "instructions": "the instructions of its kernels",
        "vela": "Vela's cycles",
        "roofline": "the data sheet",
    }.get(basis, "a table of coefficients")


def _memory(report: Report, data: dict[str, Any]) -> _Part:
    title, memory, usage = "Memory by operator", data["memory"], report.memory.usage
    if memory is None:
        return title, f"Not available: {usage.unavailable_reason or 'the model has no operators'}.", ""
    words = (
        "Top: live memory while each operator runs. Bottom: the memory plan, with the offset and the liveness"
        " of each tensor. Hover to see a tensor; click to mark its producer and its consumers here and in the"
        " table."
    )
    largest = ", ".join(
        f"{tensor.name} {size_text(tensor.bytes)}" for tensor in usage.peak_tensors[:_MOST_NAMED]
    )
    buffers = units.plural(len(memory["size"]), "buffer")
    alternative = (
        f"Memory by operator: the peak is {units.size(usage.peak_bytes)} in operator {usage.peak_op}, where"
        f" the largest tensors are {largest}. Below it the memory plan of {buffers}."
    )
    keys = (
        "Orange: model input; green: model output; gray: kernel workspace."
        ' The <span class="key maker">producer</span> and <span class="key reader">consumers</span>'
        " of a selected tensor are marked."
    )
    figure = _figure("memory-plot", alternative, memory["caption"]).replace(
        "</figcaption>", f" {keys}</figcaption>"
    )
    return (
        title,
        words,
        f'{figure}<div class="controls" id="follow-controls"></div><div id="followed" role="status"></div>',
    )


def _modules(report: Report, data: dict[str, Any]) -> _Part:
    words = "The width of a box is its cost. Click a module to open it; the path above leads back."
    return "Cost by module", words, '<div id="icicle"></div>'


def _what_if(report: Report, data: dict[str, Any]) -> _Part:
    title, what_if = "What if: other precisions", data["what_if"]
    if what_if is None:
        return title, "Not available: no layer has a choice of precision.", ""
    words = (
        "Set the precision of all layers or of one. Weights, traffic and peak activation memory are computed"
        " as sizeup does, including conversions. Peak activation memory is a lower bound of the arena in this"
        " schedule."
    )
    limitations = escape(printable(_limitations(report, what_if)))
    return (
        title,
        words,
        f'<div id="what-if-content"></div><p><small>{limitations}</small></p>',
    )


def _limitations(report: Report, what_if: dict[str, Any]) -> str:
    """Returns what the page does not compute for a precision map."""
    parts = []
    latency = what_if["latency"]
    if "unavailable" in latency:
        parts.append(f"No latency: {latency['unavailable']}.")
    else:
        parts.append(f"Latency: estimates from {_basis(latency['basis'])} on {latency['target']}.")
        if report.latency is not None and report.latency.basis != latency["basis"]:
            parts.append("Measurements do not cover all of these precisions and are not used here.")
        if latency["merges"]:
            parts.append("Conversions may prevent fusion: mixed precision may be slower.")
    if report.precision is not None:
        parts.append("Other layers have the precision of the model, not that of this report.")
    if report.graph.recorded_run is not None:
        parts.append("Peak memory here excludes kernel workspaces and memory that PyTorch frees late.")
    parts.append("Accuracy is not computed here: sizeup precision measures it.")
    return " ".join(parts)


def _operators(report: Report, data: dict[str, Any]) -> _Part:
    words = "In execution order. Click a heading to sort; click a shape to select that tensor."
    return "Operators", words, '<div id="operator-table"></div>'


_PARTS: dict[str, Callable[[Report, dict[str, Any]], _Part]] = {
    "time": _time,
    "memory": _memory,
    "modules": _modules,
    "what-if": _what_if,
    "operators": _operators,
}
