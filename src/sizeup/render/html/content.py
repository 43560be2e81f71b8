"""The text of the page, readable without a script: fit verdict, numbers, receipt, assumptions."""

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
from sizeup.render.html.sections import section
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Room, Space
    from sizeup.results.report import Report
    from sizeup.targets import Target

_FORMATS = {"torch": "PyTorch", "onnx": "ONNX", "tflite": "TFLite"}
_CONTENTS = {
    "time": "Time",
    "memory": "Memory",
    "modules": "Modules",
    "what-if": "What if",
    "operators": "Operators",
    "receipt": "How sure this is",
}


def body(report: Report, data: dict[str, Any]) -> str:
    """All that stands in the page before scripts add to it."""
    return f"""<header class="page-head">
<div class="line"><p class="kicker">{_kicker(report)}</p>
<button type="button" class="theme" id="theme">Dark colours</button></div>
<h1>{_said(report.name)}</h1>
{verdict_html(verdict(report))}
<nav aria-label="Contents"><ul class="contents">{"".join(_contents())}</ul></nav>
</header>
<main id="main">
<section aria-label="Headline numbers"><dl class="numbers">{"".join(_numbers(report))}</dl></section>
{section("time", report, data)}
{section("memory", report, data)}
{section("modules", report, data)}
{section("what-if", report, data)}
{section("operators", report, data)}
{_receipt(report)}
</main>
<footer class="page-foot">{_footer(report)}</footer>"""


def _said(words: str) -> str:
    return escape(units.plain(words))


def _contents() -> Iterator[str]:
    yield from (f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in _CONTENTS.items())


def _kicker(report: Report) -> str:
    name = _FORMATS.get(report.format, report.format)
    parts = [f"sizeup report on {f'a model in {name}' if name else 'a graph'}"]
    if report.target is not None:
        parts.append(f"for {report.target.name}")
    if report.precision is not None:
        parts.append(f"at {precision_name(report.precision)}")
    return _said(", ".join(parts))


def _card(label: str, value: str, detail: str, extra: str = "") -> str:
    return (
        f'<div><dt>{escape(label)}</dt><dd class="value">{_said(value)}</dd>'
        f'{extra}<dd class="detail">{_said(detail)}</dd></div>'
    )


def _numbers(report: Report) -> Iterator[str]:
    totals = report.totals
    lacking = ", incomplete" if report.unknown else ""
    if report.unknown and not totals.macs:
        yield _card("MACs", "unknown", "no operator with MACs could be counted")
    else:
        yield _card("MACs", units.count(totals.macs), f"{totals.macs:,}{lacking}; FLOPs are twice as many")
    yield _card(
        "Parameters", units.count(totals.params), f"{totals.params:,} in {units.size(totals.weight_bytes)}"
    )
    yield from _memory(report)
    yield from _latency(report)
    moved = units.size(totals.read_bytes + totals.written_bytes)
    yield _card(
        "Traffic",
        moved,
        f"{units.size(totals.read_bytes)} read, {units.size(totals.written_bytes)} written{lacking}",
    )
    share = "all" if not report.unknown else f"{100 * report.coverage:.1f} %"
    yield _card("Counted", share, text.receipt(report)[0].removesuffix(":"))


def _memory(report: Report) -> Iterator[str]:
    found = report.memory
    usage, arena = found.usage, found.arena
    if usage.missing:
        yield _card("Memory at the peak", "unknown", usage.missing)
        return
    where = (
        "beside the weights" if usage.peak_op is None else f"beside the weights, in operator {usage.peak_op}"
    )
    if found.best_peak_bytes is not None and found.best_peak_bytes < usage.peak_bytes:
        where += f"; another order needs {units.size(found.best_peak_bytes)}"
    yield _card("Memory at the peak", text.peak_size(usage), where)
    if arena is not None and found.arena_bytes is not None:
        tail = arena.tail_bytes(found.word_bits)
        detail = f"{arena.head_bytes:,} B head and {tail:,} B tail on a {found.word_bits}-bit processor"
        yield _card("TFLite Micro's arena", units.size(found.arena_bytes), detail)


def _latency(report: Report) -> Iterator[str]:
    found = report.latency
    if found is None:
        yield _card("Latency", "unknown", report.no_latency)
        return
    where = "" if found.target is None else f"on {found.target.name}, "
    value = units.duration(found.seconds)
    bar, detail = "", f"{where}{found.basis}"
    if found.low is None:
        value = f"at least {value}" if found.basis == "roofline" else value
        detail += "; no error bar"
    elif found.high is None:
        detail += f"; at least {units.duration(found.low)}"
    else:
        at = 100 * (found.seconds - found.low) / (found.high - found.low) if found.high > found.low else 50
        bar = f'<dd class="bar" aria-hidden="true"><span style="left:{at:.1f}%"></span></dd>'
        span = f"{units.duration(found.low)} to {units.duration(found.high)}"
        detail = f"{span} in nine of ten; {detail}"
    yield _card("Latency", value, detail, bar)
    spent = None if report.latency_details is None else report.latency_details.energy
    if spent is not None:
        value, span = f"{'at most ' if spent.at_most else ''}{units.joules(spent.joules)}", ""
        if spent.low is not None and spent.high is not None:
            span = f"{units.joules(spent.low)} to {units.joules(spent.high)}, "
        if spent.at_most and spent.high is not None:
            value, span = (
                f"at most {units.joules(spent.high)}",
                f"{units.joules(spent.joules)} at the expected time, ",
            )
        yield _card("Energy", value, f"{span}from the {spent.basis}")


def _receipt(report: Report) -> str:
    """What was counted and what not, on what it rests, and what was assumed."""
    facts = [*_facts(report)]
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{_said(words)}</dd>" for label, words in facts)
    return (
        '<section id="receipt" aria-labelledby="receipt-title"><h2 id="receipt-title">How sure this is</h2>'
        f"<p>{_said(text.receipt(report)[0])}</p>{_unknown(report)}"
        f'<dl class="facts">{rows}</dl>{_notes(report)}</section>'
    )


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    yield from ((label, words) for label, words in text.headline(report) if label in ("input", "output"))
    if report.latency_details is not None:
        yield from timing.lines(report.latency_details)
    elif report.no_latency:
        yield "latency", f"unknown: {report.no_latency}"
    yield from (
        (label, words)
        for label, words in text.headline(report)
        if label
        in ("memory", "beyond that", "held then", "best order", "arena", "overlap", "refused", "bytes at")
    )
    yield "sha256", report.sha256 or "none: the model is no single file"


def _unknown(report: Report) -> str:
    if not report.unknown:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{_said(each.kind)}</th><td class="number">{each.count:,}</td>'
        f"<td>{_said(each.reason)}</td></tr>"
        for each in report.unknown
    )
    return (
        '<table class="receipt-table"><caption class="unseen">Operators that are not counted</caption>'
        "<thead><tr>"
        '<th scope="col">operator</th><th scope="col" class="number">times</th><th scope="col">why</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _notes(report: Report) -> str:
    notes: Iterable[str] = report.notes
    listed = "".join(f"<li>{_said(each)}</li>" for each in notes)
    return f'<h3>Assumptions</h3><ul class="notes">{listed}</ul>' if listed else ""


def _footer(report: Report) -> str:
    digest = f" of <code>{escape(report.sha256[:16])}</code>" if report.sha256 else ""
    return (
        f"Made by sizeup {escape(version('sizeup'))}{digest}. All is in this file; nothing is fetched."
        " Drawn with plotly.js (MIT licence)."
    )


State = Literal["fits", "not", "unsure", "none"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes, no or neither in a few words, what to add to that, and the memories behind it."""

    state: State
    words: str
    sentences: tuple[str, ...] = ()
    spaces: tuple[Space, ...] = ()


def verdict(report: Report) -> Verdict:
    """Whether the target that the report was made for has room for the model."""
    if report.target is None:
        return Verdict("none", "No target given", ("Name one with -d TARGET to see whether it fits.",))
    assert report.room is not None
    return _told(report, report.target, report.room)


def _told(report: Report, target: Target, found: Room) -> Verdict:
    title = target.device.title
    if found.refused:
        return Verdict("not", f"Does not run on {title}", (f"{found.refused}.",), found.spaces)
    if found.fits is False:
        short = " and ".join(each.words for each in found.spaces if each.fits is False)
        return Verdict(
            "not", f"Does not fit {title}", (f"There is too little {short} for it.",), found.spaces
        )
    doubts = tuple(f"{each[:1].upper()}{each[1:]}." for space in found.spaces for each in space.unknown)
    if found.fits is None:
        words = f"Cannot tell whether it fits {title}"
        return Verdict("unsure", words, doubts or (_between(found),), found.spaces)
    if report.unknown:
        doubts = ("Not every operator is known, and those may take more.",)
    return Verdict("fits", f"Fits {title}", doubts, found.spaces)


def _between(found: Room) -> str:
    unsure = " and ".join(each.words for each in found.spaces if each.fits is None)
    return f"What it needs of {unsure} is known from below and above only, and the limit lies between."


def verdict_html(found: Verdict) -> str:
    """The verdict as the first thing in the page."""
    said = " ".join(plain(each) for each in found.sentences)
    spaces = "".join(map(_space, found.spaces))
    listed = f'<ul class="rooms">{spaces}</ul>' if spaces else ""
    return (
        f'<div class="verdict {found.state}" id="verdict"><strong>{escape(plain(found.words))}</strong>'
        f" {escape(said)}{listed}</div>"
    )


def _space(space: Space) -> str:
    style = {True: "", False: ' class="short"', None: ' class="open"'}[space.fits]
    parts = escape(plain("; ".join(_parts(space))))
    words = f"<b>{escape(space.words)}</b>: {escape(needed(space)).replace(' %', '&nbsp;%')}"
    return f"<li{style}>{words}{_gauge(space)}<small>{parts}</small></li>"


def _gauge(space: Space) -> str:
    """What is certainly needed, and lighter what it may come to, of what there is."""
    if not space.limit_bytes:
        return ""
    least, most = (min(100 * each / space.limit_bytes, 100) for each in (space.least_bytes, space.need_bytes))
    return (
        f'<div class="gauge"><span style="width:{least:.1f}%"></span>'
        f'<span class="may" style="width:{most - least:.1f}%"></span></div>'
    )


def _parts(space: Space) -> Iterator[str]:
    for part in space.parts:
        least, most = units.size(part.least_bytes), part.most_bytes
        if part.is_exact:
            yield f"{part.name} {least}, {part.how}"
        elif most is None:
            yield f"{part.name} at least {least}, {part.how}"
        else:
            span = f"up to {units.size(most)}" if not part.least_bytes else f"{least} to {units.size(most)}"
            yield f"{part.name} {span}, {part.how}"
    yield from space.assumptions


def needed(space: Space) -> str:
    """The numbers of one memory in words: `54 KiB of 320 KiB (17 %)`."""
    least, most, limit = space.least_bytes, space.most_bytes, space.limit_bytes
    amount = units.size(least) if least == most else f"at least {units.size(least)}"
    if most is not None and least != most:
        amount = f"{units.size(least)} to {units.size(most)}"
    if limit is None:
        return f"{amount}; how much there is of it is not known"
    share = 100 * space.need_bytes / limit if limit else 100
    few = f"{share:.0f}" if share >= 1 else "under 1"
    return f"{amount} of {units.size(limit)} ({few} %)"
