"""The remedies of a check as text, and the command to type next if none is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup.render.console.layout import print_labeled
from sizeup.render.vocabulary import quantity_title
from sizeup.units import printable, quantity

if TYPE_CHECKING:
    from sizeup.results.check import Check
    from sizeup.results.parts import Remedy

REMEDY_LABELS = {True: "fits", False: "not enough", None: "may fit"}
_HEADING = "Remedies, each checked again:"
_NOTHING = "No remedy found: no change that was tried reduces the need of this model."


def effect(remedy: Remedy) -> str:
    """Returns the needs before and after a remedy."""
    parts = []
    for change in remedy.changes:
        before, after = quantity(change.unit, change.before), quantity(change.unit, change.after)
        parts.append(f"{quantity_title(change.name)} from {before} to {after}")
    return ", ".join(dict.fromkeys(parts))  # several budgets may limit one quantity


def remedies_heading(check: Check) -> str:
    """Returns the heading of the remedies, or that none was found if they were searched for."""
    if check.remedies:
        return _HEADING
    is_over = any(limit.fits is False for limit in check.limits)
    is_searched = check.has_searched_remedies and not check.unsupported_reason
    return _NOTHING if is_searched and is_over else ""


def next_step(check: Check) -> tuple[str, str]:
    """Returns the command to type if no remedy is enough, and its purpose; empty if there is none."""
    return (check.boards_command, " lists the boards that it fits on") if check.boards_command else ("", "")


def render_remedies(check: Check, console: Console) -> None:
    """Print the heading, every remedy with the command that applies it, and the next step."""
    heading = remedies_heading(check)
    if heading:
        console.print()
        console.print(Text(heading, style="bold"))
    for remedy in check.remedies:
        style = {True: "green", False: "", None: "yellow"}[remedy.fits]
        print_labeled(console, REMEDY_LABELS[remedy.fits], f"{remedy.description}: {effect(remedy)}", style)
        for note in remedy.notes:
            print_labeled(console, "", note, "dim")
        # On one line, to be copied.
        console.print(Text(printable(f"    $ {remedy.command}"), style="bold"), soft_wrap=True)
    command, purpose = next_step(check)
    if command:
        console.print(Text(printable(f"{command}{purpose}"), style="dim"), soft_wrap=True)
