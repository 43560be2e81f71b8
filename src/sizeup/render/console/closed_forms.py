"""Closed forms on a terminal; lines break between terms."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import LEAST_ROOM, print_labeled, print_lines
from sizeup.symbolic import sizes_text
from sizeup.units import printable, shorten

if TYPE_CHECKING:
    from sizeup.results.closed_forms import ClosedForms
    from sizeup.results.parts import KernelFormula, LatencyForms

_LABELS = 25
_INDEX = 8
_MOST_NAMED = 3
_NO_BREAK = "\N{NO-BREAK SPACE}"


def render(forms: ClosedForms, console: Console) -> None:
    """Print totals, their guards, and every operator that computes, or every kernel."""
    console.print(Text(printable(forms.title), style="bold"))
    for label, text in forms.totals:
        _print_formula(console, label, f"= {text}", "bold" if label == "MACs" else "", _LABELS)
    _print_guards(console, forms.validity)
    console.print()
    if forms.latency is not None:
        guards = tuple(guard for guard in forms.latency_validity if guard not in forms.validity)
        _render_latency(forms.latency, guards, console)
        return
    _print_guards(console, forms.latency_validity)
    for op in forms.ops:
        if op.macs == "0" and op.elementwise == "0":
            continue
        _print_formula(console, f"{op.index}", f"{op.op_kind} {op.name} {op.output}", "cyan", _INDEX)
        formula = f"MACs = {op.macs}" if op.macs != "0" else f"elementwise = {op.elementwise}"
        _print_formula(console, "", formula, "", _INDEX + 2)


def _print_guards(console: Console, guards: tuple[tuple[str, str], ...]) -> None:
    previous = ""
    for label, text in guards:
        style = "" if label.startswith(("holds", "valid")) else "yellow"
        print_labeled(console, "" if label == previous else label, text, style, _LABELS)
        previous = label


def _render_latency(forms: LatencyForms, guards: tuple[tuple[str, str], ...], console: Console) -> None:
    """Print the totals, then every kernel with the formulas of its latency."""
    console.print(Text(printable(f"seconds on {forms.target.name}"), style="bold"))
    for name, text in forms.totals:
        _print_formula(console, name, f"= {text}", "bold" if name == "seconds" else "", _LABELS)
    print_labeled(console, "basis", f"{forms.basis}: {forms.origin}", width=_LABELS)
    for note in forms.notes:
        print_labeled(console, "caveat", note, "yellow", _LABELS)
    _print_guards(console, guards)
    console.print()
    console.print(
        Text(f"kernels, with their share of the latency at {sizes_text(forms.example)}", style="bold")
    )
    for kernel in forms.kernels:
        print_labeled(console, kernel.label, _heading(kernel), "cyan", _INDEX)
        for name, text in kernel.lines:
            _print_formula(console, "", f"{name} = {text}", "", _INDEX + 2)


def _heading(kernel: KernelFormula) -> str:
    times = f"{kernel.count:,} x " if kernel.count != 1 else ""
    names, rest = ", ".join(map(shorten, kernel.ops[:_MOST_NAMED])), len(kernel.ops) - _MOST_NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"{times}{kernel.kind} ({units.share(kernel.share, 1)}): {names}{more}"


def text_of(forms: ClosedForms) -> str:
    """Returns closed forms as plain text of 80 columns."""
    buffer = io.StringIO()
    render(forms, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue()


def _print_formula(console: Console, label: str, text: str, style: str, width: int) -> None:
    text_width = max(console.width - width, LEAST_ROOM)
    formula = " ".join(_short(term, text_width) for term in _by_terms(printable(text)).split(" "))
    lines = textwrap.wrap(formula, text_width, subsequent_indent="  ", break_on_hyphens=False) or [""]
    print_lines(console, label, [line.replace(_NO_BREAK, " ") for line in lines], style, width)


def _short(term: str, width: int) -> str:
    """Returns a term with breaks before factors if it is too long for a line."""
    return term if len(term) + 2 <= width else term.replace(f"{_NO_BREAK}*{_NO_BREAK}", f" *{_NO_BREAK}")


def _by_terms(formula: str) -> str:
    """Returns the text with no-break spaces, except before a term and after a comma."""
    depth, letters = 0, []
    for index, letter in enumerate(formula):
        depth += (letter == "(") - (letter == ")")
        ends_term = formula[index + 1 : index + 2] in ("+", "-") or (index > 0 and formula[index - 1] in ",:")
        is_label = depth == 0 and "=" not in formula[:index]
        letters.append(
            _NO_BREAK if letter == " " and not (is_label or (ends_term and depth <= 1)) else letter
        )
    return "".join(letters)
