"""Closed forms on a terminal: lines end between terms, not within one."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import LEAST_ROOM, print_labelled, print_lines
from sizeup.symbolic import sizes_text
from sizeup.units import brief, plain

if TYPE_CHECKING:
    from sizeup.results.closed_forms import ClosedForms
    from sizeup.results.parts import KernelFormula, LatencyForms

_LABELS = 25
_INDEX = 8
_MOST_NAMED = 3
_HARD = "\N{NO-BREAK SPACE}"


def render(forms: ClosedForms, console: Console) -> None:
    """Print totals, where they hold, and every operator that computes anything, or every kernel."""
    console.print(Text(plain(forms.title), style="bold"))
    for label, text in forms.totals:
        _print_formula(console, label, f"= {text}", "bold" if label == "MACs" else "", _LABELS)
    _print_holds(console, forms.holds)
    console.print()
    if forms.latency is not None:
        apart = tuple(each for each in forms.latency_holds if each not in forms.holds)
        _render_latency(forms.latency, apart, console)
        return
    _print_holds(console, forms.latency_holds)
    for op in forms.ops:
        if op.macs == "0" and op.elementwise == "0":
            continue
        _print_formula(console, f"{op.index}", f"{op.kind} {op.name} {op.output}", "cyan", _INDEX)
        what = f"MACs = {op.macs}" if op.macs != "0" else f"elementwise = {op.elementwise}"
        _print_formula(console, "", what, "", _INDEX + 2)


def _print_holds(console: Console, holds: tuple[tuple[str, str], ...]) -> None:
    previous = ""
    for label, text in holds:
        style = "" if label.startswith("holds") else "yellow"
        print_labelled(console, "" if label == previous else label, text, style, _LABELS)
        previous = label


def _render_latency(found: LatencyForms, holds: tuple[tuple[str, str], ...], console: Console) -> None:
    """The totals, then every kernel with the lines that its time is computed by."""
    console.print(Text(plain(f"seconds on {found.target.name}"), style="bold"))
    for name, text in found.totals:
        _print_formula(console, name, f"= {text}", "bold" if name == "seconds" else "", _LABELS)
    print_labelled(console, "basis", f"{found.basis}: {found.origin}", width=_LABELS)
    for note in found.notes:
        print_labelled(console, "but", note, "yellow", _LABELS)
    _print_holds(console, holds)
    console.print()
    console.print(Text(f"kernels, and their part of the time at {sizes_text(found.example)}", style="bold"))
    for kernel in found.kernels:
        print_labelled(console, kernel.label, _heading(kernel), "cyan", _INDEX)
        for name, text in kernel.lines:
            _print_formula(console, "", f"{name} = {text}", "", _INDEX + 2)


def _heading(kernel: KernelFormula) -> str:
    times = f"{kernel.count:,} x " if kernel.count != 1 else ""
    names, rest = ", ".join(map(brief, kernel.ops[:_MOST_NAMED])), len(kernel.ops) - _MOST_NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"{times}{kernel.kind} ({units.share(kernel.share, 1)}): {names}{more}"


def text_of(forms: ClosedForms) -> str:
    """Closed forms as plain text of 80 columns."""
    buffer = io.StringIO()
    render(forms, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue()


def _print_formula(console: Console, label: str, text: str, style: str, width: int) -> None:
    room = max(console.width - width, LEAST_ROOM)
    kept = " ".join(_short(each, room) for each in _by_terms(plain(text)).split(" "))
    lines = textwrap.wrap(kept, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
    print_lines(console, label, [line.replace(_HARD, " ") for line in lines], style, width)


def _short(term: str, room: int) -> str:
    """A term that is too long for a line ends one before a factor."""
    return term if len(term) + 2 <= room else term.replace(f"{_HARD}*{_HARD}", f" *{_HARD}")


def _by_terms(formula: str) -> str:
    """The text with spaces that hold, but for those before a term and after a comma."""
    depth, made = 0, []
    for place, sign in enumerate(formula):
        depth += (sign == "(") - (sign == ")")
        ends = formula[place + 1 : place + 2] in ("+", "-") or (place > 0 and formula[place - 1] in ",:")
        named = depth == 0 and "=" not in formula[:place]
        made.append(_HARD if sign == " " and not (named or (ends and depth <= 1)) else sign)
    return "".join(made)
