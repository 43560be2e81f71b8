"""`sizeup devices`: what is known of hardware."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb

if TYPE_CHECKING:
    from sizeup.targets import Device

EXAMPLE = "Example: sizeup devices stm32f746"


@verb
def devices(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A device, a word that names of devices, makers or cores hold, or a device file.",
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
    template: Annotated[
        bool, typer.Option("--template", help="Print a file to fill in, for a new device called NAME.")
    ] = False,
) -> None:
    """List devices that models can be sized up for, or tell all of one, with its sources."""
    from sizeup import targets
    from sizeup.cli.exits import device_files, in_file

    if template:
        sys.stdout.write(targets.template(name or "my device", [each.name for each in targets.runtimes()]))
        return
    place = in_file(name)
    if place is None:
        found = targets.devices(name, kind=kind)
        _show(found, name is not None and len(found) == 1, json, markdown)
        return
    with device_files(place.file):
        names = targets.names_in(Path(place.file)) if place.device is None else [place.device]
        found = [each for named in names for each in targets.devices(named, kind=kind)]
        _show(found, len(found) == 1, json, markdown)


def _show(found: list[Device], in_full: bool, json: bool, markdown: bool) -> None:
    from sizeup import targets
    from sizeup.cli import terminal
    from sizeup.render.console import devices as report
    from sizeup.render.data import devices as device_data

    if json:
        fits = [fit for each in found for fit in targets.fits(each)]
        sys.stdout.writelines(device_data.json_lines(found, targets.runtimes(found), fits))
    elif markdown:
        sys.stdout.writelines(report.markdown(found, targets.runtimes(found)))
    elif in_full:
        report.render_one(found[0], targets.runtimes(found), terminal.output(), fits=targets.fits(found[0]))
    else:
        report.render_list(found, terminal.output())
