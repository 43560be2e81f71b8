"""`sizeup tradeoff`: one model at several precisions, batch sizes and input sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import Bind, Device, Inputs, Json, Model, RawCsv, Trust, bindings, model_inputs
from sizeup.cli.runner import limited_command

EXAMPLE = "Example: sizeup tradeoff model.onnx -d rpi5/ort --batch 1,8 --data test.npz -o table.html"


@limited_command
def tradeoff(
    model: Model,
    precisions: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Precisions to compare, e.g. fp32,int8.",
            autocompletion=completion.precisions,
        ),
    ] = "fp32,fp16,int8,int4,int2",
    batch: Annotated[
        str, typer.Option(metavar="LIST", help="Batch sizes, e.g. 1,8 (default: that of the model).")
    ] = "",
    size: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Input sizes (height and width, or length), e.g. 160,224 (default: that of the model).",
        ),
    ] = "",
    device: Device = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure accuracy on an .npz file with samples (x) and labels (y), e.g. test.npz.",
        ),
    ] = None,
    accuracy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read accuracy from a CSV file with columns precision and accuracy, e.g. accuracy.csv.",
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Maximum size of the weights, e.g. 256KiB.")
    ] = None,
    activations: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Maximum size of the activation memory plan, e.g. 64KiB."),
    ] = None,
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Maximum latency on the target, e.g. 20ms.")
    ] = None,
    energy: Annotated[
        str | None,
        typer.Option(metavar="ENERGY", help="Maximum energy per inference on the target, e.g. 3mJ."),
    ] = None,
    budgets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also show which budgets of a file each row meets, e.g. budgets.toml.",
        ),
    ] = None,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a .csv, .json, .md or .html file, e.g. table.html; repeatable.",
        ),
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Plot all points as a .png or .svg file, e.g. points.png; repeatable."
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Json = False,
) -> None:
    """Compare precisions, batch sizes and input sizes of a model: accuracy, latency, energy and memory."""
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
            precisions=[name.strip() for name in precisions.split(",") if name.strip()],
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
        terminal.print_json(table.to_dict())
    else:
        render_tradeoff(table, terminal.output())
    terminal.print_written([*(output or ()), *(plot or ())])


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is not a list of numbers, e.g. 1,8", param_hint=option)
    return [int(part) for part in parts]
