"""`sizeup ops`: the reference of cost rules."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sizeup.cli.options import Rules
from sizeup.cli.runner import command

EXAMPLE = "Example: sizeup ops CONV_2D"


@command
def ops(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Op kind, family, name in a format, or a pattern, e.g. aten.conv2d, Conv or CONV_2D.",
            show_default=False,
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference as Markdown.")] = False,
    rules: Rules = None,
) -> None:
    """List the op kinds that have a cost rule, with the rule and the operator names in each format."""
    from sizeup.api import models as api
    from sizeup.cli import terminal
    from sizeup.render.console import ops as reference

    with terminal.busy("loading cost rules"):
        for path in rules or ():
            api.load_rules(path)
    matches = reference.find(name)
    if markdown:
        sys.stdout.writelines(reference.markdown(matches))
    else:
        reference.render(matches, terminal.output())
