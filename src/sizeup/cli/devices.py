"""`sizeup devices`: what is known of hardware."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb

EXAMPLE = "Example: sizeup devices stm32f746"


@verb
def devices(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A device, or a word that names of devices, makers or cores hold.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Only microcontroller, phone, npu, cpu, gpu, ... devices.",
            autocompletion=completion.kinds,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference as Markdown.")] = False,
) -> None:
    """List devices that models can be sized up for, or tell all of one, with its sources."""
    from sizeup import targets
    from sizeup.cli import terminal
    from sizeup.report import device_data
    from sizeup.report import devices as report

    found = targets.devices(name, kind=kind)
    if json:
        fits = [fit for each in found for fit in targets.fits(each)]
        sys.stdout.writelines(device_data.json_lines(found, targets.runtimes(found), fits))
    elif markdown:
        sys.stdout.writelines(report.markdown(found, targets.runtimes(found)))
    elif name is not None and len(found) == 1:
        report.render_one(found[0], targets.runtimes(found), terminal.output(), fits=targets.fits(found[0]))
    else:
        report.render_list(found, terminal.output())
