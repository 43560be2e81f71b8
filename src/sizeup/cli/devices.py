"""`sizeup devices`: the catalog of devices."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import Bind, Inputs, Json, Precision, bindings, model_inputs
from sizeup.cli.runner import command
from sizeup.errors import SizeupError

if TYPE_CHECKING:
    from sizeup.targets import Board, Device
    from sizeup.targets.clusters import Cluster

EXAMPLE = "Example: sizeup devices stm32f746"


@command
def devices(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Device, board or cluster, part of the name of a device, vendor or core, or a device or"
            " cluster file, e.g. stm32f746.",
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
    boards: Annotated[
        bool, typer.Option("--boards", help="List boards: products that carry a device, e.g. nano33ble.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="MODEL", help="List the boards that this model fits on, e.g. model.tflite."
        ),
    ] = None,
    under: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --for: limit of the latency, e.g. 33ms.")
    ] = None,
    ram: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="With --for: RAM that the application needs in addition to the model, e.g. 64KiB (default:"
            " the reserve of each board).",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --for: CSV file with the columns board and price, to list the cheapest board first,"
            " e.g. prices.csv.",
        ),
    ] = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the list as Markdown.")] = False,
    template: Annotated[
        bool, typer.Option("--template", help="Print a device file to fill in for a new device NAME.")
    ] = False,
) -> None:
    """List known devices and clusters or boards, print one with its sources, or rank boards for a model."""
    from sizeup import targets
    from sizeup.cli.runner import device_files, parse_device_file
    from sizeup.targets.cluster_names import is_cluster
    from sizeup.targets.clusters import cluster, shipped_clusters

    if model is not None:
        _check_ranking(kind, markdown, template)
        _rank(model, name, under, ram, prices, precision, input, bind, json)
        return
    _check_without_model(under=under, ram=ram, prices=prices, precision=precision, input=input, bind=bind)

    if template:
        sys.stdout.write(
            targets.template(name or "my device", [runtime.name for runtime in targets.runtimes()])
        )
        return
    if name is not None and not boards and is_cluster(name):
        _print_cluster(cluster(name)[0], json, markdown)
        return
    device_file = parse_device_file(name)
    if name is not None and device_file is None:
        name = _without_runtime(name)
    if boards or (name is not None and device_file is None and targets.current_catalog().has_board(name)):
        _print_boards(targets.boards(name), name is not None, json, markdown)
        return
    if device_file is None:
        matches = targets.devices(name, kind=kind)
        is_all = name is None and kind is None
        listed = tuple(shipped_clusters().values()) if is_all else ()
        _print(matches, name is not None and len(matches) == 1, json, markdown, listed)
        return
    with device_files(device_file.file):
        file = Path(device_file.file)
        names = targets.names_in(file) if device_file.device is None else [device_file.device]
        matches = [device for device_name in names for device in targets.devices(device_name, kind=kind)]
        _print(matches, len(matches) == 1, json, markdown)


def _without_runtime(name: str) -> str:
    """The device or board of a target such as nano33ble/tflm; any other text as it is."""
    from sizeup.targets import current_catalog

    catalog = current_catalog()
    first, slash, _ = name.partition("/")
    is_name = catalog.has_device(name) or catalog.has_board(name)  # an alias may contain a slash
    if is_name or not slash or not (catalog.has_device(first) or catalog.has_board(first)):
        return name
    catalog.target(name)  # an unknown runtime is an error
    return first


def _check_ranking(kind: str | None, markdown: bool, template: bool) -> None:
    for option, is_set in (("--kind", kind), ("--markdown", markdown), ("--template", template)):
        if is_set:
            raise SizeupError(f"{option} does not apply with --for; boards are selected by NAME")


def _check_without_model(**options: object) -> None:
    for option, value in options.items():
        if value:
            raise SizeupError(f"--{option} needs a model: add --for MODEL")


def _rank(
    model: str,
    name: str | None,
    under: str | None,
    ram: str | None,
    prices: Path | None,
    precision: str | None,
    input: list[str] | None,
    bind: list[str] | None,
    json: bool,
) -> None:
    from sizeup.api.rank import rank_targets
    from sizeup.cli import terminal
    from sizeup.render import envelope
    from sizeup.render.console import ranking as report

    ranking = rank_targets(
        model,
        boards=name,
        under=under,
        ram=ram,
        prices=prices,
        precision=precision,
        bind=bindings(bind),
        **model_inputs(input),
    )
    if json:
        terminal.print_json(envelope.json_lines(ranking))
    else:
        report.render(ranking, terminal.output())


def _print_boards(matches: list[Board], in_full: bool, json: bool, markdown: bool) -> None:
    from sizeup import targets
    from sizeup.cli import terminal
    from sizeup.render.console import boards as report
    from sizeup.render.data import boards as board_data

    devices = {board.name: board.equip(targets.device(board.device)) for board in matches}
    if json:
        terminal.print_json(board_data.json_lines(matches, devices))
    elif markdown:
        sys.stdout.writelines(report.markdown(matches, devices))
    elif in_full and len(matches) == 1:
        report.render_one(matches[0], devices[matches[0].name], terminal.output())
    else:
        report.render_list(matches, devices, terminal.output())


def _print_cluster(cluster: Cluster, json: bool, markdown: bool) -> None:
    from sizeup.cli import terminal
    from sizeup.render.console import clusters as report
    from sizeup.render.data import devices as device_data

    if json:
        terminal.print_json(device_data.json_lines((), (), (), listed_clusters=(cluster,)))
    elif markdown:
        sys.stdout.writelines(report.markdown((cluster,)))
    else:
        report.render_one(cluster, terminal.output())


def _print(
    matches: list[Device], in_full: bool, json: bool, markdown: bool, clusters: Sequence[Cluster] = ()
) -> None:
    from sizeup import targets
    from sizeup.cli import terminal
    from sizeup.latency import standings_of
    from sizeup.render.console import devices as report
    from sizeup.render.data import devices as device_data

    standings = {device.name: standings_of(device) for device in matches}
    if json:
        fits = [fit for device in matches for fit in targets.calibrations(device)]
        rows = [standing for listed in standings.values() for standing in listed]
        terminal.print_json(device_data.json_lines(matches, targets.runtimes(matches), rows, fits, clusters))
    elif markdown:
        sys.stdout.writelines(report.markdown(matches, targets.runtimes(matches), standings, clusters))
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
        report.render_list(matches, terminal.output(), standings, clusters)
