"""A serving estimate as one HTML file: verdict, memory of each GPU, context against sequences, layouts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.render.console import llm as words
from sizeup.render.console import llm_times
from sizeup.render.data.llm import LAYOUTS, to_dict
from sizeup.render.html.shell import shell
from sizeup.render.html.tables import escaped, framed, row

if TYPE_CHECKING:
    from sizeup.results.llm import Serving
    from sizeup.results.parts import GpuMemory

_COLORS = {
    "weights": "blue",
    "vision tower": "sky",
    "key-value cache": "green",
    "activations": "orange",
    "CUDA graphs": "pink",
    "communication": "red",
    "CUDA context": "gray",
    "driver": "soft",
    "not allocated": "faint",
}
_LABEL = 'font-size="11" fill="var(--soft)"'
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 260, 80, 40


def lines(serving: Serving) -> Iterator[str]:
    """Yields the page as one text."""
    yield shell(
        f"{serving.name}: sizeup llm", _body(serving), to_dict(serving), (), ("report.css", "tradeoff.css")
    )


def _body(serving: Serving) -> str:
    facts = "".join(
        f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>" for label, text in words.facts(serving)
    )
    assumed = "".join(f"<li>{escaped(text)}</li>" for text in serving.assumptions)
    sources = "".join(f"<li>{escaped(text)}</li>" for text in serving.sources)
    missing = "".join(f"<li>{escaped(text)}</li>" for text in serving.not_modeled)
    return f"""<header class="page-head">
<div class="line"><div><p class="kicker">sizeup llm</p>
<h1>{escaped(words.title(serving))}</h1></div>
<button type="button" class="theme" id="theme">Dark colors</button></div>
<p><strong>Fits {escaped(words.verdict(serving))}</strong></p>
{"".join(f"<p>Would fit: {escaped(text)}</p>" for text in serving.remedies)}
<dl class="facts">{facts}</dl>
</header>
<main id="main">
<section id="memory" aria-labelledby="memory-title"><h2 id="memory-title">Memory of each GPU</h2>
<p>One bar per pipeline stage; the fullest GPU is stage {serving.memory.stage + 1}.</p>
{_legend(serving)}
{"".join(_bar(gpu) for gpu in serving.gpus)}
{_memory_table(serving)}</section>
<section id="context" aria-labelledby="context-title">
<h2 id="context-title">Longest context by concurrent sequences</h2>
{_curve(serving)}
{_points_table(serving)}</section>
{_times(serving)}
{_goals(serving)}
{_traffic(serving)}
<section id="layouts" aria-labelledby="layouts-title"><h2 id="layouts-title">Layouts</h2>
<p>Those that fit first, then by memory of the fullest GPU: {words.layouts_caption(serving)}.</p>
{framed("Layouts", _named_first(words.LAYOUT_TITLES), _layout_rows(serving))}</section>
<section id="provenance" aria-labelledby="provenance-title"><h2 id="provenance-title">Assumptions</h2>
<ul class="notes">{assumed}</ul><h3>Not modeled</h3><ul class="notes">{missing}</ul>
<h3>Sources</h3><ul class="notes">{sources}</ul></section>
</main>
<footer class="page-foot">Made by sizeup {escaped(version("sizeup"))}.</footer>"""


def _legend(serving: Serving) -> str:
    parts = {name for gpu in serving.gpus for name, size, _ in words.memory_parts(gpu) if size}
    items = "".join(
        f'<span style="white-space:nowrap"><svg width="12" height="12" aria-hidden="true"><rect width="12"'
        f' height="12" fill="var(--{color})"/></svg> {escaped(name)}</span> '
        for name, color in _COLORS.items()
        if name in parts
    )
    return f"<p>{items}</p>"


def _bar(gpu: GpuMemory) -> str:
    """Returns the memory of one GPU as a horizontal bar."""
    left, rects = 0.0, []
    for name, size, _ in words.memory_parts(gpu):
        width = _WIDTH * size / gpu.total_bytes
        rects.append(
            f'<rect x="{left:.2f}" width="{width:.2f}" height="28" fill="var(--{_COLORS[name]})">'
            f"<title>{escaped(name)}: {units.size(size)}</title></rect>"
        )
        left += width
    label = f"stage {gpu.stage + 1}, {gpu.layers} layers, {units.size(gpu.total_bytes)}"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} 28" width="100%" role="img"'
        f' aria-label="Memory, {escaped(label)}">'
        f"{''.join(rects)}</svg><figcaption>{escaped(label)}</figcaption></figure>"
    )


def _memory_table(serving: Serving) -> str:
    rows = "".join(row((name, *figures)) for *figures, name in words.memory_rows(serving))
    return framed("Memory of the fullest GPU", ("part", "memory", "share", "interval"), rows)


def _curve(serving: Serving) -> str:
    """Returns the longest context against the number of sequences, on logarithmic axes."""
    points = serving.curve()
    if not points:
        return "<p>No sequence fits.</p>"
    last_x = max(math.log2(points[-1][0]), 1.0)
    top_y = max(math.log2(max(context for _, context in points)), 1.0)
    low_y = math.log2(max(min(context for _, context in points), 1))
    spread = max(top_y - low_y, 1.0)

    def position(sequences: int, context: int) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - 20) * math.log2(sequences) / last_x
        y = 20 + (_HEIGHT - _BOTTOM - 20) * (top_y - math.log2(context)) / spread
        return x, y

    positions = [position(*point) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--blue)"><title>{count:,} sequences:'
        f" {context:,} tokens</title></circle>"
        for (x, y), (count, context) in zip(positions, points, strict=True)
    )
    across = "".join(
        f'<text x="{x:.1f}" y="{_HEIGHT - 20}" {_LABEL} text-anchor="middle">{count:,}</text>'
        for (x, _), (count, _c) in zip(positions, points, strict=True)
        if len(points) < 10 or count.bit_length() % 2
    )
    ends = {points[0][1]: positions[0][1], points[-1][1]: positions[-1][1]}
    up = "".join(
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" {_LABEL} text-anchor="end">{context:,}</text>'
        for context, y in ends.items()
    )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img"'
        ' aria-label="Longest context by sequences; all numbers are in the page\'s data">'
        f'<polyline points="{path}" fill="none" stroke="var(--blue)" stroke-width="2"/>'
        f"{marks}{across}{up}</svg><figcaption>Tokens of context (up) against concurrent sequences (across),"
        " both logarithmic.</figcaption></figure>"
    )


def _points_table(serving: Serving) -> str:
    rows = "".join(row(cells) for cells in words.point_rows(serving))
    return framed("Concurrency", words.POINT_TITLES, rows)


def _times(serving: Serving) -> str:
    """Returns times and throughput at each concurrency; empty if they are unknown."""
    times = serving.times()
    if times is None:
        return ""
    notes = (f"Basis: {llm_times.basis(serving, times)}", *(f"Caveat: {text}" for text in times.caveats))
    seconds = "".join(row(cells) for cells in llm_times.time_rows(times))
    rates = "".join(row(cells) for cells in llm_times.rate_rows(times))
    tables = (
        framed("Times", llm_times.TIME_TITLES, seconds),
        framed("Throughput", llm_times.RATE_TITLES, rates),
    )
    return (
        '<section id="times" aria-labelledby="times-title"><h2 id="times-title">Times</h2>'
        f"<p>Times per output token (TPOT) and to the first token (TTFT) for {serving.input:,} input and"
        f" {serving.output:,} output tokens, at a constant number of requests.</p>{''.join(tables)}"
        f"{''.join(f'<p>{escaped(text)}</p>' for text in notes)}</section>"
    )


def _goals(serving: Serving) -> str:
    """Returns the layouts that reach the goals; empty if there are none."""
    if serving.goals is None:
        return ""
    layouts = serving.goal_rows(LAYOUTS)
    rows = "".join(row(_named_first(cells)) for cells in llm_times.goal_cells(layouts))
    table = framed("Layouts that reach the goals", _named_first(llm_times.GOAL_TITLES), rows) if rows else ""
    return _section("goals", "Goals", llm_times.goals_text(serving, layouts), table)


def _traffic(serving: Serving) -> str:
    """Returns percentiles of a simulation; empty if no rate was given."""
    if serving.traffic is None:
        return ""
    rows = "".join(row(_named_first(cells)) for cells in llm_times.traffic_rows(serving.traffic))
    table = framed("Simulated traffic", _named_first(llm_times.TRAFFIC_TITLES), rows) if rows else ""
    return _section("arrivals", "Arrivals", llm_times.traffic_text(serving.traffic), table)


def _section(name: str, title: str, text: str, content: str) -> str:
    sentence = escaped(text[:1].upper() + text[1:])
    heading = f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
    return f"{heading}<p>{sentence}.</p>{content}</section>"


def _named_first(cells: tuple[str, ...]) -> tuple[str, ...]:
    return (cells[-1], *cells[:-1])


def _layout_rows(serving: Serving) -> str:
    return "".join(row(_named_first(cells)) for cells in words.layout_rows(serving, LAYOUTS))
