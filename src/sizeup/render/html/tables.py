"""Tables of a page that need no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sizeup.units import printable


def escaped(text: str) -> str:
    """Returns a text with everything escaped that HTML or a terminal would interpret."""
    return escape(printable(text))


def framed(label: str, titles: Sequence[str], rows: str) -> str:
    """Returns a table that scrolls by itself; `rows` is HTML."""
    head = "".join(f'<th scope="col">{escaped(title)}</th>' for title in titles)
    return (
        f'<div class="scroll plain" tabindex="0" role="region" aria-label="{escaped(label)}, scrolls">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def row(cells: Sequence[str], mark: str = "") -> str:
    """Returns a row of a table, with a class if `mark` is one."""
    first, *others = (escaped(text) for text in cells)
    inner = "".join(f"<td>{text}</td>" for text in others)
    return f'<tr{f" class={mark}" if mark else ""}><th scope="row">{first}</th>{inner}</tr>'
