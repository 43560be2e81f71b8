"""`sizeup tradeoff`: a model at every precision, batch and input size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, Device, Inputs, Model, RawCsv, bindings, model_inputs

EXAMPLE = "Example: sizeup tradeoff torchvision:mobilenet_v2 --batch 1,8 --size 160,224 -d rpi5/ort"


@verb
def tradeoff(
    model: Model,
    precisions: Annotated[
        str, typer.Option(metavar="LIST", help="The types to compare.", autocompletion=completion.precisions)
    ] = "fp32,fp16,int8,int4,int2",
    batch: Annotated[str, typer.Option(metavar="LIST", help="Batches, as 1,8; as it is without them.")] = "",
    size: Annotated[
        str, typer.Option(metavar="LIST", help="Heights and widths of the input, or lengths, as 160,224.")
    ] = "",
    device: Device = None,
    flash: Annotated[str | None, typer.Option(metavar="SIZE", help="The most bytes of weights.")] = None,
    arena: Annotated[str | None, typer.Option(metavar="SIZE", help="The most memory beside them.")] = None,
    latency: Annotated[str | None, typer.Option(metavar="TIME", help="The longest pass.")] = None,
    energy: Annotated[str | None, typer.Option(metavar="ENERGY", help="The most for a pass.")] = None,
    input: Inputs = None,
    bind: Bind = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .json or .csv file; repeatable."),
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw every point as a .png or .svg file; repeatable."),
    ] = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Compare precisions over batches and input sizes: latency, memory, energy, and what budgets accept."""
    import json as text

    from sizeup import api
    from sizeup.cli import terminal
    from sizeup.report import plots
    from sizeup.report import tradeoff as words

    for path in output or ():
        words.check_path(path)
    for path in plot or ():
        plots.check(path)
    arguments = {"inputs": model_inputs(input)["inputs"], "bind": bindings(bind)}
    with terminal.steps(f"reading {terminal.name_of(model)}") as progress:
        found = api.tradeoff(
            model,
            **arguments,
            precisions=[each.strip() for each in precisions.split(",") if each.strip()],
            batches=_numbers(batch, "--batch"),
            sizes=_numbers(size, "--size"),
            target=device,
            flash=flash,
            arena=arena,
            latency=latency,
            energy=energy,
            progress=progress,
        )
        for path in output or ():
            found.save(path, raw_csv=raw_csv)
        for path in plot or ():
            found.plot(path)
    if json:
        sys.stdout.write(text.dumps(found.to_dict(), indent=2) + "\n")
    else:
        words.render(found, terminal.output())
    terminal.tell_written([*(output or ()), *(plot or ())])


def _numbers(text: str, option: str) -> list[int]:
    parts = [each.strip() for each in text.split(",") if each.strip()]
    if not all(each.isdecimal() and int(each) for each in parts):
        raise typer.BadParameter(f"{text!r} is not a list of numbers, such as 1,8", param_hint=option)
    return [int(each) for each in parts]
