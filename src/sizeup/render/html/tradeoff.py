"""A trade-off as one HTML file: highlights, a plot, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sizeup.render.console import precision as words
from sizeup.render.html.shell import shell
from sizeup.render.html.tables import escaped, framed, row
from sizeup.results.precision import share_of
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.precision import Tradeoff

_ALTERNATIVE = "Accuracy, latency, energy and memory of every point; all numbers are in the table below"


def lines(tradeoff: Tradeoff) -> Iterator[str]:
    """Yields the page as one text."""
    yield shell(
        f"{printable(tradeoff.name)}: sizeup tradeoff",
        _body(tradeoff),
        data_of(tradeoff),
        ("tradeoff.js",),
        ("report.css", "tradeoff.css"),
    )


def data_of(tradeoff: Tradeoff) -> dict[str, Any]:
    """Returns the points that the script draws, in the order of the table."""
    points = [
        {
            "precision": point.precision,
            "name": printable(" ".join(words.label_of(point))),
            "share": share_of(point),
            "seconds": None if point.latency is None else point.latency.seconds,
            "low": None if point.latency is None or point.latency.seconds is None else point.latency.low,
            "high": None if point.latency is None else point.latency.high,
            "joules": None if point.figures is None else point.figures.joules,
            "bytes": point.memory_bytes,
            "accepted": point.accepted,
        }
        for point in words.ordered(tradeoff)
    ]
    return {"points": points, "share": tradeoff.share_name}


def _body(tradeoff: Tradeoff) -> str:
    location = f" on {tradeoff.target}" if tradeoff.target else ""
    return f"""<header class="page-head">
<div class="line"><div><p class="kicker">{escaped(f"sizeup tradeoff{location}")}</p>
<h1>{escaped(tradeoff.name)}</h1></div>
<button type="button" class="theme" id="theme">Dark colors</button></div>
<dl class="numbers">{"".join(_cards(tradeoff))}</dl>
</header>
<main id="main">
<section id="picture" aria-labelledby="picture-title"><h2 id="picture-title">Precisions compared</h2>
<noscript><p>The plot needs JavaScript; the table below does not.</p></noscript>
<div class="controls" id="choices"></div>
<figure><div class="plot" id="scatter" role="group" aria-label="{_ALTERNATIVE}"></div>
<figcaption id="caption"></figcaption></figure></section>
<section id="points" aria-labelledby="points-title"><h2 id="points-title">All points</h2>
{_table(tradeoff)}</section>
{_unsupported(tradeoff)}
<section id="provenance" aria-labelledby="provenance-title"><h2 id="provenance-title">Provenance</h2>
<dl class="facts">{"".join(_facts(tradeoff))}</dl></section>
</main>
<footer class="page-foot">Made by sizeup {escaped(version("sizeup"))}.</footer>"""


def _cards(tradeoff: Tradeoff) -> Iterator[str]:
    for label, value, detail in words.highlight_words(tradeoff):
        yield (
            f'<div><dt>{escaped(label)}</dt><dd class="value">{escaped(value)}</dd>'
            f'<dd class="detail">{escaped(detail)}</dd></div>'
        )


def _table(tradeoff: Tradeoff) -> str:
    titles = words.titles_of(tradeoff)
    rows = "".join(
        row(words.words_of(tradeoff, point), "rejected" if point.accepted is False else "")
        for point in words.ordered(tradeoff)
    )
    return framed("All points", titles, rows)


def _unsupported(tradeoff: Tradeoff) -> str:
    """Returns the unsupported precisions with reasons; empty if there are none."""
    reasons = [text for label, text in tradeoff.provenance() if label == "unsupported"]
    if not reasons:
        return ""
    items = "".join(f"<li>{escaped(reason)}</li>" for reason in reasons)
    title = '<h2 id="unsupported-title">Unsupported</h2>'
    return (
        f'<section id="unsupported" aria-labelledby="unsupported-title">{title}'
        f'<p>These are not in the table.</p><ul class="notes">{items}</ul></section>'
    )


def _facts(tradeoff: Tradeoff) -> Iterator[str]:
    for label, text in tradeoff.provenance():
        if label != "unsupported":
            yield f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>"
