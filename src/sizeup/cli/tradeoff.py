"""`sizeup tradeoff`: a model at every precision, batch and input size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, Device, Inputs, Model, RawCsv, Trust, bindings, model_inputs

EXAMPLE = "Example: sizeup tradeoff model.onnx -d rpi5/ort --batch 1,8 --data test.npz -o table.html"


@verb
def tradeoff(
    model: Model,
    precisions: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Precisions to compare, as fp32,int8.", autocompletion=completion.precisions
        ),
    ] = "fp32,fp16,int8,int4,int2",
    batch: Annotated[str, typer.Option(metavar="LIST", help="Batch sizes, as 1,8 (default: as saved).")] = "",
    size: Annotated[
        str, typer.Option(metavar="LIST", help="Heights and widths of the input, or lengths, as 160,224.")
    ] = "",
    device: Device = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Measure accuracy on an .npz file with samples (x) and labels (y)."
        ),
    ] = None,
    accuracy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take accuracy from a .csv file with columns precision, accuracy."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit on bytes of weights, as 256KiB.")
    ] = None,
    activations: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit on the memory plan of activations, as 64KiB.")
    ] = None,
    latency: Annotated[str | None, typer.Option(metavar="TIME", help="Limit on latency.")] = None,
    energy: Annotated[
        str | None, typer.Option(metavar="ENERGY", help="Limit on energy per inference.")
    ] = None,
    budgets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A budgets.toml: say for every row which of its budgets accept it."
        ),
    ] = None,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a .csv, .json, .md or .html file; repeatable."
        ),
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw every point as a .png or .svg file; repeatable."),
    ] = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Compare precisions: accuracy, latency, energy, memory, and the budgets that accept each."""
    import json as text

    from sizeup import render
    from sizeup.api import tradeoff as api
    from sizeup.cli import terminal
    from sizeup.render import plots
    from sizeup.render.console.precision import render_tradeoff

    for path in output or ():
        render.check_path("Tradeoff", path)
    for path in plot or ():
        plots.check(path)
    arguments = {"inputs": model_inputs(input)["inputs"], "bind": bindings(bind)}
    with terminal.steps(f"reading {terminal.name_of(model)}") as progress:
        table = api.tradeoff(
            model,
            **arguments,
            precisions=[each.strip() for each in precisions.split(",") if each.strip()],
            batches=_numbers(batch, "--batch"),
            sizes=_numbers(size, "--size"),
            target=device,
            weights=weights,
            activations=activations,
            latency=latency,
            energy=energy,
            budgets=budgets,
            data=data,
            accuracy=accuracy,
            trusted=trust,
            progress=progress,
        )
        for path in output or ():
            table.save(path, raw_csv=raw_csv)
        for path in plot or ():
            table.plot(path)
    if json:
        sys.stdout.write(text.dumps(table.to_dict(), indent=2) + "\n")
    else:
        render_tradeoff(table, terminal.output())
    terminal.tell_written([*(output or ()), *(plot or ())])


def _numbers(text: str, option: str) -> list[int]:
    parts = [each.strip() for each in text.split(",") if each.strip()]
    if not all(each.isdecimal() and int(each) for each in parts):
        raise typer.BadParameter(f"{text!r} is not a list of numbers, such as 1,8", param_hint=option)
    return [int(each) for each in parts]
