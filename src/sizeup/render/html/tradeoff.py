"""Precisions against each other as one HTML file: highlights, a picture, and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sizeup.render.console import precision as words
from sizeup.render.html.shell import shell
from sizeup.results.precision import share_of
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.precision import Tradeoff

_ALTERNATIVE = "Accuracy, latency, energy and memory of every point; the table below has all numbers"


def lines(tradeoff: Tradeoff) -> Iterator[str]:
    """The page, as one piece of text."""
    yield shell(
        f"{plain(tradeoff.name)}: sizeup tradeoff",
        _body(tradeoff),
        data_of(tradeoff),
        ("tradeoff.js",),
        ("report.css", "tradeoff.css"),
    )


def data_of(tradeoff: Tradeoff) -> dict[str, Any]:
    """What the script draws: the points in the order of the table."""
    points = [
        {
            "precision": each.precision,
            "name": plain(" ".join(words.label_of(each))),
            "share": share_of(each),
            "seconds": None if each.latency is None else each.latency.seconds,
            "low": None if each.latency is None or each.latency.seconds is None else each.latency.low,
            "high": None if each.latency is None else each.latency.high,
            "joules": None if each.figures is None else each.figures.joules,
            "bytes": each.memory_bytes,
            "accepted": each.accepted,
        }
        for each in words.ordered(tradeoff)
    ]
    return {"points": points, "share": tradeoff.share_name}


def _body(tradeoff: Tradeoff) -> str:
    where = f" on {tradeoff.target}" if tradeoff.target else ""
    return f"""<header class="page-head">
<div class="line"><div><p class="kicker">{_text(f"sizeup tradeoff{where}")}</p>
<h1>{_text(tradeoff.name)}</h1></div>
<button type="button" class="theme" id="theme">Dark colours</button></div>
<dl class="numbers">{"".join(_cards(tradeoff))}</dl>
</header>
<main id="main">
<section id="picture" aria-labelledby="picture-title"><h2 id="picture-title">Precisions compared</h2>
<noscript><p>The picture needs JavaScript; the table below does not.</p></noscript>
<div class="controls" id="choices"></div>
<figure><div class="plot" id="scatter" role="group" aria-label="{_ALTERNATIVE}"></div>
<figcaption id="caption"></figcaption></figure></section>
<section id="points" aria-labelledby="points-title"><h2 id="points-title">All points</h2>
{_table(tradeoff)}</section>
{_unsupported(tradeoff)}
<section id="provenance" aria-labelledby="provenance-title"><h2 id="provenance-title">Where the numbers come
from</h2><dl class="facts">{"".join(_facts(tradeoff))}</dl></section>
</main>
<footer class="page-foot">Made by sizeup {_text(version("sizeup"))}.</footer>"""


def _text(text: str) -> str:
    return escape(plain(text))


def _cards(tradeoff: Tradeoff) -> Iterator[str]:
    for label, value, detail in words.highlight_words(tradeoff):
        yield (
            f'<div><dt>{_text(label)}</dt><dd class="value">{_text(value)}</dd>'
            f'<dd class="detail">{_text(detail)}</dd></div>'
        )


def _table(tradeoff: Tradeoff) -> str:
    titles = words.titles_of(tradeoff)
    rows = "".join(
        _row(words.words_of(tradeoff, each), "rejected" if each.accepted is False else "")
        for each in words.ordered(tradeoff)
    )
    return _framed("All points", titles, rows)


def _unsupported(tradeoff: Tradeoff) -> str:
    """What cannot run, and why; nothing if all of it can."""
    reasons = [text for label, text in tradeoff.provenance() if label == "unsupported"]
    if not reasons:
        return ""
    items = "".join(f"<li>{_text(each)}</li>" for each in reasons)
    title = '<h2 id="unsupported-title">Unsupported</h2>'
    return (
        f'<section id="unsupported" aria-labelledby="unsupported-title">{title}'
        f'<p>These are not in the table.</p><ul class="notes">{items}</ul></section>'
    )


def _facts(tradeoff: Tradeoff) -> Iterator[str]:
    for label, text in tradeoff.provenance():
        if label != "unsupported":
            yield f"<dt>{_text(label)}</dt><dd>{_text(text)}</dd>"


def _framed(label: str, titles: Sequence[str], rows: str) -> str:
    head = "".join(f'<th scope="col">{_text(title)}</th>' for title in titles)
    return (
        f'<div class="scroll plain" tabindex="0" role="region" aria-label="{_text(label)}, scrolls">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(cells: Sequence[str], mark: str) -> str:
    first, *others = (_text(each) for each in cells)
    inner = "".join(f"<td>{each}</td>" for each in others)
    return f'<tr{f" class={mark}" if mark else ""}><th scope="row">{first}</th>{inner}</tr>'
