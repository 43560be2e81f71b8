"""A serving estimate as one HTML file: verdict, memory of each GPU, context against sequences, layouts.

`llm.js` draws the operating points of the grid in the page's data. Tables show those with the lengths that
were asked for, and need no script.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.render.html.shell import shell
from sizeup.render.html.tables import escaped, framed, row
from sizeup.serving.render.console import cost as llm_cost
from sizeup.serving.render.console import disaggregation as llm_disaggregation
from sizeup.serving.render.console import llm as words
from sizeup.serving.render.console import times as llm_times
from sizeup.serving.render.data import LAYOUTS, to_dict
from sizeup.units import plural, rate

if TYPE_CHECKING:
    from sizeup.serving.memory.gpus import GpuMemory
    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.goals import GoalRow
    from sizeup.serving.times.traffic import Traffic

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
    "runtime, system and free": "faint",
}
_LABEL = 'font-size="11" fill="var(--soft)"'
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 260, 80, 40


def lines(serving: Serving) -> Iterator[str]:
    """Yields the page as one text."""
    goal_rows = serving.goal_rows(LAYOUTS)
    data = to_dict(serving, goal_rows)
    body = _body(serving, goal_rows, data["grid"])
    styles = ("report.css", "tradeoff.css", f"{__package__}:llm.css")
    yield shell(f"{serving.name}: sizeup llm", body, data, (f"{__package__}:llm.js",), styles)


def _body(serving: Serving, goal_rows: tuple[GoalRow, ...], grid: dict[str, Any] | None) -> str:
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
{"".join(f"<p>{words.remedy_label(serving).capitalize()}: {escaped(text)}</p>" for text in serving.remedies)}
<dl class="facts">{facts}</dl>
</header>
<main id="main">
<section id="memory" aria-labelledby="memory-title"><h2 id="memory-title">{_memory_title(serving)}</h2>
<p>{_memory_text(serving)}</p>
{_legend(serving)}
{"".join(_bar(serving, gpu) for gpu in serving.gpus)}
{_memory_table(serving)}</section>
{_context(serving)}
{_local_times(serving) if serving.is_local else _times(serving)}
{_disaggregation(serving)}
{_operating_points(serving, grid)}
{_goals(serving, goal_rows)}
{_traffic(serving)}
{_layouts(serving)}
<section id="provenance" aria-labelledby="provenance-title"><h2 id="provenance-title">Assumptions</h2>
<ul class="notes">{assumed}</ul><h3>Not modeled</h3><ul class="notes">{missing}</ul>
<h3>Sources</h3><ul class="notes">{sources}</ul></section>
</main>
<footer class="page-foot">Made by sizeup {escaped(version("sizeup"))}.</footer>"""


def _memory_title(serving: Serving) -> str:
    return "Memory" if serving.is_local else "Memory of each GPU"


def _memory_text(serving: Serving) -> str:
    if serving.is_local:
        return "What the runtime, the system and other programs take is not known."
    return f"One bar per pipeline stage; the fullest GPU is stage {serving.memory.stage + 1}."


def _context(serving: Serving) -> str:
    """Returns the longest context by concurrent sequences; empty for a laptop or phone, which runs one."""
    if serving.is_local:
        return ""
    return f"""<section id="context" aria-labelledby="context-title">
<h2 id="context-title">Longest context by concurrent sequences</h2>
{_curve(serving)}
{_points_table(serving)}</section>"""


def _legend(serving: Serving) -> str:
    parts = {name for gpu in serving.gpus for name, size, _ in words.memory_parts(serving, gpu) if size}
    items = "".join(
        f'<span style="white-space:nowrap"><svg width="12" height="12" aria-hidden="true"><rect width="12"'
        f' height="12" fill="var(--{color})"/></svg> {escaped(name)}</span> '
        for name, color in _COLORS.items()
        if name in parts
    )
    return f"<p>{items}</p>"


def _bar(serving: Serving, gpu: GpuMemory) -> str:
    """Returns the memory of one GPU as a horizontal bar."""
    left, rects = 0.0, []
    for name, size, _ in words.memory_parts(serving, gpu):
        width = _WIDTH * size / gpu.total_bytes
        rects.append(
            f'<rect x="{left:.2f}" width="{width:.2f}" height="28" fill="var(--{_COLORS[name]})">'
            f"<title>{escaped(name)}: {units.size(size)}</title></rect>"
        )
        left += width
    stage = "" if serving.is_local else f"stage {gpu.stage + 1}, "
    label = f"{stage}{gpu.layers} layers, {units.size(gpu.total_bytes)}"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} 28" width="100%" role="img"'
        f' aria-label="Memory, {escaped(label)}">'
        f"{''.join(rects)}</svg><figcaption>{escaped(label)}</figcaption></figure>"
    )


def _memory_table(serving: Serving) -> str:
    """Returns the memory by part; that of a laptop or phone has no intervals."""
    figures = slice(2 if serving.is_local else 3)
    rows = "".join(row((cells[-1], *cells[figures])) for cells in words.memory_rows(serving))
    caption = "Memory" if serving.is_local else "Memory of the fullest GPU"
    return framed(caption, ("part", *("memory", "share", "interval")[figures]), rows)


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
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" style="max-width:{_WIDTH}px" role="img"'
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
    vision = () if serving.images is None else (f"Vision tower: {llm_times.tower_text(serving, times)}",)
    notes = (
        *vision,
        f"Basis: {llm_times.basis(serving, times)}",
        *(f"Caveat: {text}" for text in times.caveats),
    )
    seconds = "".join(row(cells) for cells in llm_times.time_rows(times))
    rates = "".join(row(cells) for cells in llm_times.rate_rows(times))
    tables: tuple[str, ...] = (
        framed("Times", llm_times.TIME_TITLES, seconds),
        framed("Throughput", llm_times.RATE_TITLES, rates),
    )
    notes += tuple(f"{name.capitalize()}: {text}" for name, text in llm_cost.cost_facts(serving, times))
    costs = "".join(row(cells) for cells in llm_cost.cost_rows(serving, times))
    if costs:
        tables += (framed("Cost", llm_cost.COST_TITLES, costs),)
    return (
        '<section id="times" aria-labelledby="times-title"><h2 id="times-title">Times</h2>'
        f"<p>Times per output token (TPOT) and to the first token (TTFT) for {serving.input:,} input and"
        f" {serving.output:,} output tokens, at a constant number of requests.</p>{''.join(tables)}"
        f"{''.join(f'<p>{escaped(text)}</p>' for text in notes)}</section>"
    )


def _local_times(serving: Serving) -> str:
    """Returns the times of one sequence on a laptop or phone."""
    facts = (
        f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>" for label, text in llm_times.local_facts(serving)
    )
    heading = '<section id="times" aria-labelledby="times-title"><h2 id="times-title">Times</h2>'
    return f'{heading}<dl class="facts">{"".join(facts)}</dl></section>'


def _disaggregation(serving: Serving) -> str:
    """Returns times with prompts and answers on different GPUs; empty if they were not asked for."""
    division, best = serving.disaggregation, _divisions(serving)
    if division is None:
        return best
    facts = llm_disaggregation.facts(division)
    lines = [*(f"{name}: {text}" for name, text in facts), *division.caveats]
    rows = "".join(row(cells) for cells in llm_disaggregation.rows(serving, division))
    table = framed("Disaggregated serving", llm_disaggregation.titles(serving), rows)
    return best + _section("disaggregation", "Disaggregated serving", "; ".join(lines), table)


def _divisions(serving: Serving) -> str:
    """Returns the best divisions of the GPUs; empty if they were not searched."""
    if serving.divisions is None:
        return ""
    cells = llm_disaggregation.division_rows(serving, serving.divisions)
    rows, titles = (
        "".join(row(_named_first(each)) for each in cells),
        llm_disaggregation.division_titles(serving),
    )
    table = framed("Divisions of the GPUs", _named_first(titles), rows) if rows else ""
    text = llm_disaggregation.divisions_text(serving, serving.divisions)
    return _section("divisions", "Divisions of the GPUs", text, table)


def _goals(serving: Serving, layouts: tuple[GoalRow, ...]) -> str:
    """Returns the layouts that reach the goals; empty if there are none."""
    if serving.goals is None:
        return ""
    rows = "".join(row(_named_first(cells)) for cells in llm_times.goal_cells(serving, layouts))
    titles = _named_first(llm_times.goal_titles(serving))
    table = framed("Layouts that reach the goals", titles, rows) if rows else ""
    return _section("goals", "Goals", llm_times.goals_text(serving, layouts), table)


def _traffic(serving: Serving) -> str:
    """Returns percentiles of a simulation; empty if no rate was given."""
    if serving.traffic is None:
        return ""
    rows = "".join(row(_named_first(cells)) for cells in llm_times.traffic_rows(serving.traffic))
    table = framed("Simulated traffic", _named_first(llm_times.TRAFFIC_TITLES), rows) if rows else ""
    lines = [llm_times.traffic_text(serving, serving.traffic)]
    cost = llm_cost.traffic_cost(serving)
    lines += [f"cost: {cost} at this rate"] if cost else []
    if serving.goals is not None and serving.traffic.seed is not None:
        lines.append(f"needed: {llm_cost.fleet_text(serving, serving.fleet)}")
    bars = _percentile_bars(serving.traffic)
    return _section("arrivals", "Arrivals", "; ".join(lines), bars + table)


def _section(name: str, title: str, text: str, content: str) -> str:
    sentence = escaped(text[:1].upper() + text[1:])
    heading = f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
    return f"{heading}<p>{sentence}.</p>{content}</section>"


def _named_first(cells: tuple[str, ...]) -> tuple[str, ...]:
    return (cells[-1], *cells[:-1])


def _layouts(serving: Serving) -> str:
    """Returns the best layouts; empty if none was computed."""
    rows = "".join(row(_named_first(cells)) for cells in words.layout_rows(serving, LAYOUTS))
    if not rows:
        return ""
    text = f"Those that fit first, then by memory of the fullest GPU: {words.layouts_caption(serving)}"
    return _section("layouts", "Layouts", text, framed("Layouts", _named_first(words.LAYOUT_TITLES), rows))


_POINT_TITLES = ("layout", "requests", "TPOT", "TTFT", "tokens/s per user", "tokens/s per GPU", "rank")
_HEADING = """<section id="points" aria-labelledby="points-title">
<h2 id="points-title">Operating points</h2>"""
_RANKS = (
    "Large marks are on the frontier: no other point has as many tokens per second both per user and per GPU."
    " Filled marks are tied with it: intervals of throughput overlap, or without one, the ratio is small."
    " Hollow marks are worse. Crosses are of layouts without a line."
)


def _operating_points(serving: Serving, grid: dict[str, Any] | None) -> str:
    """Returns the sections of a grid in plain data; without one, that a draft has none, else empty."""
    if grid is None:
        return (
            "" if serving.draft is None else _HEADING + "<p>They are not computed with a draft.</p></section>"
        )
    lengths = f"{serving.input:,} input and {serving.output:,} output tokens"
    points, causes = _point_rows(serving, grid), _cause_rows(serving, grid)
    first = grid["layouts"][0]
    return f"""{_HEADING}
<p>{escaped(_compared(serving, grid))} Each number is computed at its point; none is interpolated.</p>
<noscript><p>Sliders and plots need JavaScript; the tables do not.</p></noscript>
<form class="sliders" id="sliders"></form>
<dl class="numbers" id="point" aria-live="polite"></dl>
<h3 id="frontier-title">Throughput against speed</h3>
<figure><div class="plot" id="frontier" role="group" aria-label="Tokens per second per GPU against tokens per
 second per user, one line per layout; numbers are in the table below"></div>
<figcaption>{_RANKS}</figcaption></figure>
<h4>Points with {lengths}</h4>
{framed("Points of all layouts", _POINT_TITLES, points)}
<h3 id="causes-title">Time per output token by cause</h3>
<figure><div class="plot" id="causes" role="group" aria-label="Time per output token by cause and number of
 requests; numbers are in the table below"></div>
<figcaption>A decode step by what takes the time, and the prefill of other requests between two tokens.
</figcaption></figure>
<h4>{escaped(first["layout"])} with {lengths}</h4>
{framed("Times by cause", ("requests", "TPOT", *first["causes_seconds"]), causes)}</section>"""


def _compared(serving: Serving, grid: dict[str, Any]) -> str:
    """How many layouts there are, and which of them are shown."""
    if not grid["is_complete"]:
        return f"Only {serving.layout} is shown: there are too many layouts to compare."
    count, shown = grid["compared_layouts"], len(grid["layouts"])
    represented = sum(1 + len(layout["equal_layouts"]) for layout in grid["layouts"])
    parts = [f"{plural(count, 'layout')} {'fits' if count == 1 else 'fit'} on the GPUs"]
    if represented > shown:
        parts.append("those with the same times share a line")
    if represented < count:
        parts.append(f"shown are {shown} with the most points on the frontier")
    return f"{'; '.join(parts)}."


def _pair(serving: Serving, grid: dict[str, Any]) -> int:
    """The place of the lengths that were asked for, among all pairs."""
    inputs, outputs = grid["input_tokens"], grid["output_tokens"]
    return int(inputs.index(serving.input) * len(outputs) + outputs.index(serving.output))


def _point_rows(serving: Serving, grid: dict[str, Any]) -> str:
    """Points whose requests all run, the fastest for a user first."""
    pair = _pair(serving, grid)
    start = pair * len(grid["requests"])
    points = [
        (
            layout["layout"],
            requests,
            layout["tpot_seconds"]["expected"][place],
            layout["ttft_seconds"]["expected"][place],
            layout["user_tokens_per_second"][place],
            layout["gpu_tokens_per_second"][place],
            layout["rank"][place],
        )
        for layout in grid["layouts"]
        for place, requests in enumerate(grid["requests"], start)
        if layout["rank"][place] is not None
    ]
    shown = {layout["layout"] for layout in grid["layouts"]}
    others = (point for point in grid["frontiers"][pair] if point["layout"] not in shown)
    points += [(*point.values(), "frontier") for point in others]
    least, most = _prefixes(grid)
    return "".join(
        row(
            (
                layout,
                f"{requests:,}",
                least + units.duration(tpot),
                least + units.duration(ttft),
                most + rate(user),
                most + rate(gpu),
                rank,
            ),
            rank,
        )
        for layout, requests, tpot, ttft, user, gpu, rank in sorted(points, key=lambda point: point[2])
    )


def _prefixes(grid: dict[str, Any]) -> tuple[str, str]:
    """What precedes times and throughput."""
    return ("", "") if grid["basis"] == "calibrated" else ("at least ", "at most ")


def _cause_rows(serving: Serving, grid: dict[str, Any]) -> str:
    """Times of the first layout by cause."""
    start, layout = _pair(serving, grid) * len(grid["requests"]), grid["layouts"][0]
    parts, (least, _) = (
        [layout["tpot_seconds"]["expected"], *layout["causes_seconds"].values()],
        _prefixes(grid),
    )
    return "".join(
        row((f"{requests:,}", *(least + units.duration(part[place]) for part in parts)))
        for place, requests in enumerate(grid["requests"], start)
        if layout["running"][place] is not None
    )


def _percentile_bars(traffic: Traffic) -> str:
    """Returns mean and percentiles of TTFT and TPOT as bars; empty if there are none."""
    named = (("TTFT", "blue", traffic.ttft), ("TPOT", "green", traffic.tpot))
    return "".join(
        _bars(name, color, (("mean", each.mean), ("p50", each.p50), ("p90", each.p90), ("p99", each.p99)))
        for name, color, each in named
        if each is not None
    )


def _bars(name: str, color: str, values: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars with their numbers, the longest of full width."""
    longest = max(value for _, value in values) or 1.0
    rows = "".join(
        f"<span>{name} {label}</span>"
        f'<span><i style="width:{100 * value / longest:.2f}%;background:var(--{color})"></i></span>'
        f"<span>{units.duration(value)}</span>"
        for label, value in values
    )
    return f'<figure class="bars">{rows}</figure>'
