"""Operating points of a serving estimate: sliders, throughput against speed, and times by cause.

`llm.js` draws the points of the grid in the page's data. Tables show those with the lengths that were asked
for, and need no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.render.html.tables import escaped, framed, row
from sizeup.units import plural, rate

if TYPE_CHECKING:
    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.traffic import Traffic

_POINT_TITLES = ("layout", "requests", "TPOT", "TTFT", "tokens/s per user", "tokens/s per GPU", "rank")
_HEADING = """<section id="points" aria-labelledby="points-title">
<h2 id="points-title">Operating points</h2>"""
_RANKS = (
    "Large marks are on the frontier: no other point has as many tokens per second both per user and per GPU."
    " Filled marks are tied with it: intervals of throughput overlap, or without one, the ratio is small."
    " Hollow marks are worse. Crosses are of layouts without a line."
)


def sections(serving: Serving, grid: dict[str, Any] | None) -> str:
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


def percentile_bars(traffic: Traffic) -> str:
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
