"""`sizeup ops`: what is known of operators."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import Rules

EXAMPLE = "Example: sizeup ops CONV_2D"


@verb
def ops(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A kind, a family, a name such as aten.conv2d, Conv or CONV_2D, or a pattern.",
            show_default=False,
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference as Markdown.")] = False,
    rules: Rules = None,
) -> None:
    """List the kinds of operators that have a rule, what it says, and their names in each format."""
    from sizeup.api import models as api
    from sizeup.cli import terminal
    from sizeup.render.console import ops as reference

    with terminal.busy("reading rules"):
        for path in rules or ():
            api.load_rules(path)
    found = reference.find(name)
    if markdown:
        sys.stdout.writelines(reference.markdown(found))
    else:
        reference.render(found, terminal.output())
