"""Closed forms on a terminal: lines end between terms, not within one."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup.report.console import LEAST_ROOM, print_labelled, print_lines
from sizeup.report.text import plain

if TYPE_CHECKING:
    from sizeup.report.closed import ClosedForms

_LABELS = 25
_INDEX = 8
_HARD = "\N{NO-BREAK SPACE}"


def render(forms: ClosedForms, console: Console) -> None:
    """Print totals, where they hold, and every operator that computes anything."""
    console.print(Text(plain(forms.title), style="bold"))
    for label, text in forms.totals:
        _print_formula(console, label, f"= {text}", "bold" if label == "MACs" else "", _LABELS)
    previous = ""
    for label, text in forms.holds:
        style = "" if label.startswith("holds") else "yellow"
        print_labelled(console, "" if label == previous else label, text, style, _LABELS)
        previous = label
    console.print()
    for op in forms.ops:
        if op.macs == "0" and op.elementwise == "0":
            continue
        _print_formula(console, f"{op.index}", f"{op.kind} {op.name} {op.output}", "cyan", _INDEX)
        what = f"MACs = {op.macs}" if op.macs != "0" else f"elementwise = {op.elementwise}"
        _print_formula(console, "", what, "", _INDEX + 2)


def text_of(forms: ClosedForms) -> str:
    """Closed forms as plain text of 80 columns."""
    buffer = io.StringIO()
    render(forms, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue()


def _print_formula(console: Console, label: str, text: str, style: str, width: int) -> None:
    room = max(console.width - width, LEAST_ROOM)
    kept = _by_terms(plain(text))
    lines = textwrap.wrap(kept, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
    print_lines(console, label, [line.replace(_HARD, " ") for line in lines], style, width)


def _by_terms(formula: str) -> str:
    """The text with spaces that hold, but for those before a term and after a comma."""
    depth, made = 0, []
    for place, sign in enumerate(formula):
        depth += (sign == "(") - (sign == ")")
        ends = formula[place + 1 : place + 2] in ("+", "-") or (place > 0 and formula[place - 1] in ",:")
        named = depth == 0 and "=" not in formula[:place]
        made.append(_HARD if sign == " " and not (named or (ends and depth <= 1)) else sign)
    return "".join(made)
