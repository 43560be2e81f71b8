"""The text of the page, readable without scripts: fit verdict, numbers, coverage, assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.render.console import latency as timing
from sizeup.render.console import report as text
from sizeup.render.console.npu import npu_lines
from sizeup.render.html.sections import section
from sizeup.render.vocabulary import NOT_APPLICABLE, fit_verdict, shortfalls, verified_text
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import MemoryFit, MemoryNeed
    from sizeup.results.report import Report
    from sizeup.targets import Target

_MEMORY_LABELS = (
    *("memory", "GPU memory", "excluded", "live at peak", "schedule", "arena", "overlap", "unsupported"),
    "precision",
)
_FORMATS = {"torch": "PyTorch", "onnx": "ONNX", "tflite": "TFLite"}
_CONTENTS = {
    "time": "Time",
    "memory": "Memory",
    "modules": "Modules",
    "what-if": "What if",
    "operators": "Operators",
    "receipt": "Coverage and provenance",
}
_NPU_TITLE = "NPU"


def body(report: Report, data: dict[str, Any]) -> str:
    """Returns the body of the page, before scripts add to it."""
    return f"""<header class="page-head">
<div class="line"><p class="kicker">{_kicker(report)}</p>
<button type="button" class="theme" id="theme">Dark colors</button></div>
<h1>{_escaped(report.name)}</h1>
{verdict_html(verdict(report))}
<nav aria-label="Contents"><ul class="contents">{"".join(_contents(report))}</ul></nav>
</header>
<main id="main">
<section aria-label="Headline numbers"><dl class="numbers">{"".join(_numbers(report))}</dl></section>
{_npu(report)}{section("time", report, data)}
{section("memory", report, data)}
{section("modules", report, data)}
{section("what-if", report, data)}
{section("operators", report, data)}
{_receipt(report)}
</main>
<footer class="page-foot">{_footer(report)}</footer>"""


def _escaped(words: str) -> str:
    return escape(units.printable(words))


def _contents(report: Report) -> Iterator[str]:
    contents = _CONTENTS if report.npu is None else {"npu": _NPU_TITLE, **_CONTENTS}
    yield from (f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in contents.items())


def _kicker(report: Report) -> str:
    name = _FORMATS.get(report.format, report.format)
    parts = [f"sizeup report on {f'a model in {name}' if name else 'a graph'}"]
    if report.target is not None:
        parts.append(f"for {report.target.name}")
    if report.precision is not None:
        parts.append(f"at {precision_name(report.precision)}")
    return _escaped(", ".join(parts))


def _card(label: str, value: str, detail: str, extra: str = "") -> str:
    return (
        f'<div><dt>{escape(label)}</dt><dd class="value">{_escaped(value)}</dd>'
        f'{extra}<dd class="detail">{_escaped(detail)}</dd></div>'
    )


def _numbers(report: Report) -> Iterator[str]:
    totals = report.totals
    suffix = ", incomplete" if report.unknown_ops else ""
    if report.unknown_ops and not totals.macs:
        yield _card("MACs", "unknown", "no operator with MACs was counted")
    else:
        yield _card("MACs", units.count(totals.macs), f"{totals.macs:,}{suffix}; FLOPs: 2 per MAC")
    yield _card(
        "Parameters", units.count(totals.params), f"{totals.params:,} in {units.size(totals.weight_bytes)}"
    )
    yield from _memory(report)
    yield from _latency(report)
    moved = units.size(totals.read_bytes + totals.written_bytes)
    yield _card(
        "Traffic",
        moved,
        f"{units.size(totals.read_bytes)} read, {units.size(totals.written_bytes)} written{suffix}",
    )
    share = "all" if not report.unknown_ops else f"{100 * report.coverage:.1f} %"
    yield _card("Counted", share, text.receipt(report)[0].removesuffix(":"))


def _memory(report: Report) -> Iterator[str]:
    memory = report.memory
    usage, arena = memory.usage, memory.arena
    if usage.unavailable_reason:
        yield _card("Peak activation memory", "unknown", usage.unavailable_reason)
        return
    details = [] if usage.peak_op is None else [f"in operator {usage.peak_op}"]
    if memory.best_peak_bytes is not None and memory.best_peak_bytes < usage.peak_bytes:
        details.append(f"another schedule needs {units.size(memory.best_peak_bytes)}")
    yield _card("Peak activation memory", text.peak_size(usage), "; ".join(details))
    if memory.device_memory is not None:
        detail = f"{units.size(memory.device_memory.allocated_bytes)} allocated, with weights and inputs"
        yield _card("Reserved GPU memory", units.size(memory.device_memory.reserved_bytes), detail)
    if arena is not None and memory.arena_bytes is not None:
        tail = arena.tail_bytes(memory.word_bits)
        detail = f"{arena.head_bytes:,} B head and {tail:,} B tail on a {memory.word_bits}-bit processor"
        yield _card("TFLite Micro arena", units.size(memory.arena_bytes), detail)


def _latency(report: Report) -> Iterator[str]:
    estimate = report.latency
    if estimate is None:
        yield _card("Latency", "unknown", report.no_latency_reason)
        return
    location = "" if estimate.target is None else f"on {estimate.target.name}, "
    caveat = "" if estimate.is_applicable else f"{NOT_APPLICABLE}; "
    value = units.duration(estimate.seconds)
    bar, detail = "", f"{location}{estimate.basis}"
    if estimate.low is None:
        value = f"at least {value}" if estimate.is_lower_bound else value
        detail += "; no prediction interval"
    elif estimate.high is None:
        detail += f"; at least {units.duration(estimate.low)}"
    else:
        at = (
            100 * (estimate.seconds - estimate.low) / (estimate.high - estimate.low)
            if estimate.high > estimate.low
            else 50
        )
        bar = f'<dd class="bar" aria-hidden="true"><span style="left:{at:.1f}%"></span></dd>'
        detail = f"{timing.interval_text(estimate.low, estimate.high, estimate.level)}; {detail}"
    if estimate.standing is not None and not estimate.standing.verified:
        detail += f"; {verified_text('')}"
    yield _card("Latency", value, f"{caveat}{detail}", bar)
    spent = None if report.latency_details is None else report.latency_details.energy
    if spent is not None:
        value, interval = units.joules(spent.joules), ""
        if spent.low is not None and spent.high is None:
            interval = "without operators of unknown latency, "
        elif spent.low is not None and spent.high is not None:
            interval = f"{units.joules(spent.low)} to {units.joules(spent.high)}, "
        if spent.is_upper_bound and spent.high is not None:
            value, interval = (
                f"at most {units.joules(spent.high)}",
                f"{units.joules(spent.joules)} at the expected latency, ",
            )
        yield _card("Energy", value, f"{caveat}{interval}from the {spent.basis}")


def _npu(report: Report) -> str:
    """Returns the section on what Vela reports; empty without an Ethos-U."""
    if report.npu is None:
        return ""
    npu = report.npu
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{_escaped(words)}</dd>" for label, words in npu_lines(npu))
    words = "All figures of the NPU are those that Arm's compiler Vela reports for the compiled file."
    return (
        f'<section id="npu" aria-labelledby="npu-title"><h2 id="npu-title">{_NPU_TITLE}</h2>'
        f'<p>{escape(words)}</p><dl class="facts">{rows}</dl></section>\n'
    )


def _receipt(report: Report) -> str:
    """Returns the section on coverage, provenance and assumptions."""
    facts = [*_facts(report)]
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{_escaped(words)}</dd>" for label, words in facts)
    return (
        '<section id="receipt" aria-labelledby="receipt-title">'
        '<h2 id="receipt-title">Coverage and provenance</h2>'
        f"<p>{_escaped(text.receipt(report)[0])}</p>{_unknown(report)}"
        f'<dl class="facts">{rows}</dl>{_notes(report)}</section>'
    )


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    yield from ((label, words) for label, words in text.headline(report) if label in ("input", "output"))
    if report.latency_details is not None:
        yield from timing.latency_lines(report.latency_details)
    elif report.no_latency_reason:
        yield "latency", f"unknown: {report.no_latency_reason}"
    yield from ((label, words) for label, words in text.headline(report) if label in _MEMORY_LABELS)
    yield "sha256", report.sha256 or "none: the model is not a single file"


def _unknown(report: Report) -> str:
    if not report.unknown_ops:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{_escaped(entry.op_kind)}</th><td class="number">{entry.count:,}</td>'
        f"<td>{_escaped(entry.reason)}</td></tr>"
        for entry in report.unknown_ops
    )
    return (
        '<table class="receipt-table"><caption class="unseen">Operators not counted</caption>'
        "<thead><tr>"
        '<th scope="col">operator</th><th scope="col" class="number">count</th>'
        '<th scope="col">reason</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _notes(report: Report) -> str:
    notes: Iterable[str] = report.notes
    listed = "".join(f"<li>{_escaped(note)}</li>" for note in notes)
    return f'<h3>Assumptions</h3><ul class="notes">{listed}</ul>' if listed else ""


def _footer(report: Report) -> str:
    digest = f" of <code>{escape(report.sha256[:16])}</code>" if report.sha256 else ""
    return (
        f"Made by sizeup {escape(version('sizeup'))}{digest}. This file is self-contained:"
        " nothing is fetched. Plots: plotly.js (MIT license)."
    )


State = Literal["fits", "not", "unsure", "none"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fit verdict, sentences that explain it, and the memories that it is about."""

    state: State
    words: str
    sentences: tuple[str, ...] = ()
    spaces: tuple[MemoryNeed, ...] = ()


def verdict(report: Report) -> Verdict:
    """Returns whether the model fits the target of the report."""
    if report.target is None:
        return Verdict("none", "No target given", ("Add -d TARGET for a fit verdict.",))
    assert report.memory_fit is not None
    return _target_verdict(report, report.target, report.memory_fit)


def _target_verdict(report: Report, target: Target, fit: MemoryFit) -> Verdict:
    title = target.title
    if fit.unsupported_reason:
        return Verdict("not", f"Does not run on {title}", (f"{fit.unsupported_reason}.",), fit.memories)
    words = _sentence(fit_verdict(fit.fits, title, shortfalls(fit)))
    unknown = (reason for space in fit.memories for reason in space.unknown)
    caveats = tuple(f"{_sentence(caveat)}." for caveat in fit.caveats)
    reasons = (*(f"{_sentence(reason)}." for reason in unknown), *caveats)
    if fit.fits is False:
        return Verdict("not", words, caveats, fit.memories)
    if fit.fits is None:
        return Verdict("unsure", words, reasons or (_between(fit),), fit.memories)
    if report.unknown_ops:
        reasons = ("Operators that are not counted may need more.", *caveats)
    return Verdict("fits", words, reasons, fit.memories)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _between(fit: MemoryFit) -> str:
    names = " and ".join(space.title for space in fit.memories if space.fits is None)
    return f"The limit of {names} is between the lower and the upper bound of the need."


def verdict_html(verdict: Verdict) -> str:
    """Returns the verdict as HTML."""
    sentences = " ".join(printable(sentence) for sentence in verdict.sentences)
    spaces = "".join(map(_space, verdict.spaces))
    listed = f'<ul class="memories">{spaces}</ul>' if spaces else ""
    return (
        f'<div class="verdict {verdict.state}" id="verdict">'
        f"<strong>{escape(printable(verdict.words))}</strong> {escape(sentences)}{listed}</div>"
    )


def _space(space: MemoryNeed) -> str:
    style = {True: "", False: ' class="short"', None: ' class="open"'}[space.fits]
    parts = escape(printable("; ".join(_parts(space))))
    words = f"<b>{escape(space.title)}</b>: {escape(needed(space)).replace(' %', '&nbsp;%')}"
    return f"<li{style}>{words}{_gauge(space) or '<br>'}<small>{parts}</small></li>"


def _gauge(space: MemoryNeed) -> str:
    """Returns a bar: the certain need, and lighter the possible need, relative to the limit."""
    if not space.limit_bytes or not space.parts:
        return ""
    least, most = (min(100 * size / space.limit_bytes, 100) for size in (space.low_bytes, space.need_bytes))
    return (
        f'<div class="gauge"><span style="width:{least:.1f}%"></span>'
        f'<span class="may" style="width:{most - least:.1f}%"></span></div>'
    )


def _parts(space: MemoryNeed) -> Iterator[str]:
    for part in space.parts:
        least, most = units.size(part.low_bytes), part.high_bytes
        if part.is_exact:
            yield f"{part.name} {least}, {part.basis}"
        elif most is None:
            yield f"{part.name} at least {least}, {part.basis}"
        else:
            span = f"up to {units.size(most)}" if not part.low_bytes else f"{least} to {units.size(most)}"
            yield f"{part.name} {span}, {part.basis}"
    yield from space.assumptions


def needed(space: MemoryNeed) -> str:
    """Returns the need of one memory: `54 KiB of 320 KiB (17 %)`."""
    least, most, limit = space.low_bytes, space.high_bytes, space.limit_bytes
    if not space.parts:
        return "need unknown"
    amount = units.size(least) if least == most else f"at least {units.size(least)}"
    if most is not None and least != most:
        amount = f"{units.size(least)} to {units.size(most)}"
    if limit is None:
        return f"{amount}; size of the memory unknown"
    share = 100 * space.need_bytes / limit if limit else 100
    few = f"{share:.0f}" if share >= 1 else "under 1"
    return f"{amount} of {units.size(limit)} ({few} %)"
