"""`sizeup devices`: the catalog of devices."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import Json
from sizeup.cli.runner import command

if TYPE_CHECKING:
    from sizeup.targets import Device

EXAMPLE = "Example: sizeup devices stm32f746"


@command
def devices(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Device, part of the name of a device, vendor or core, or a device file, e.g. stm32f746.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Only devices of this kind, e.g. microcontroller, phone, npu, cpu or gpu.",
            autocompletion=completion.kinds,
        ),
    ] = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the list as Markdown.")] = False,
    template: Annotated[
        bool, typer.Option("--template", help="Print a device file to fill in for a new device NAME.")
    ] = False,
) -> None:
    """List the known devices, or print one device in full with its sources."""
    from sizeup import targets
    from sizeup.cli.runner import device_files, parse_device_file

    if template:
        sys.stdout.write(
            targets.template(name or "my device", [runtime.name for runtime in targets.runtimes()])
        )
        return
    device_file = parse_device_file(name)
    if device_file is None:
        matches = targets.devices(name, kind=kind)
        _print(matches, name is not None and len(matches) == 1, json, markdown)
        return
    with device_files(device_file.file):
        file = Path(device_file.file)
        names = targets.names_in(file) if device_file.device is None else [device_file.device]
        matches = [device for device_name in names for device in targets.devices(device_name, kind=kind)]
        _print(matches, len(matches) == 1, json, markdown)


def _print(matches: list[Device], in_full: bool, json: bool, markdown: bool) -> None:
    from sizeup import targets
    from sizeup.cli import terminal
    from sizeup.latency import standings_of
    from sizeup.render.console import devices as report
    from sizeup.render.data import devices as device_data

    standings = {device.name: standings_of(device) for device in matches}
    if json:
        fits = [fit for device in matches for fit in targets.calibrations(device)]
        rows = [standing for listed in standings.values() for standing in listed]
        sys.stdout.writelines(device_data.json_lines(matches, targets.runtimes(matches), rows, fits))
    elif markdown:
        sys.stdout.writelines(report.markdown(matches, targets.runtimes(matches), standings))
    elif in_full:
        device = matches[0]
        report.render_one(
            device,
            targets.runtimes(matches),
            terminal.output(),
            standings[device.name],
            fits=targets.calibrations(device),
        )
    else:
        report.render_list(matches, terminal.output(), standings)
