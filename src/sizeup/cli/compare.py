"""`sizeup compare`: what one model costs beside another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, Device, Inputs, Precision, RawCsv, Rules, bindings, model_inputs

EXAMPLE = "Example: sizeup compare torchvision:mobilenet_v2 mobilenet_v2.tflite -d rpi5/litert"

_KINDS = (
    "a .tflite, .onnx or .pt2 file, package.module:factory, torchvision:NAME, timm:NAME or hf:CONFIG.json."
)


@verb
def compare(
    a: Annotated[
        str, typer.Argument(metavar="A", help=f"The model to start from: {_KINDS}", show_default=False)
    ],
    b: Annotated[
        str,
        typer.Argument(metavar="B", help="The model to compare with it, of any format.", show_default=False),
    ],
    device: Device = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    device_b: Annotated[
        str | None, typer.Option(metavar="TARGET", help="The target of B, where it is another.")
    ] = None,
    precision_b: Annotated[
        str | None, typer.Option(metavar="TYPE|FILE", help="The precision of B, where it is another.")
    ] = None,
    input_b: Annotated[
        list[str] | None,
        typer.Option(
            "--input-b", metavar="[NAME:]SHAPE[:TYPE]", help="The inputs of B, where they are others."
        ),
    ] = None,
    bind_b: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SIZE", help="Sizes in B, where they are others.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Show so many rows.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every row, in order.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .json, .csv or .md file; repeatable."),
    ] = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request.")] = False,
    rules: Rules = None,
) -> None:
    """Compare two models: totals, and what became of every operator."""
    if json and markdown:
        raise typer.BadParameter("print JSON or Markdown, not both", param_hint="--markdown")
    from sizeup import render
    from sizeup.api import analyze as analyze_api
    from sizeup.api import compare as api
    from sizeup.api import models as models_api
    from sizeup.cli import terminal
    from sizeup.render.console import comparison_page
    from sizeup.render.data import comparison as data

    for path in output or ():
        render.check_path("Comparison", path)
    arguments = [model_inputs(input), model_inputs(input_b or input)]
    bound = [bindings(bind), bindings(bind_b or bind)]
    for path in rules or ():
        models_api.load_rules(path)
    with terminal.busy(f"reading {a}"):
        one = analyze_api.analyze(a, **arguments[0], bind=bound[0], precision=precision, target=device)
    with terminal.busy(f"reading {b}"):
        other = analyze_api.analyze(
            b,
            **arguments[1],
            bind=bound[1],
            precision=precision_b or precision,
            target=device_b or device,
        )
    with terminal.busy("comparing"):
        found = api.compare(one, other)
        found.headline  # noqa: B018 - what takes time is computed while we say so
    for path in output or ():
        found.save(path, raw_csv=raw_csv)
    if json:
        sys.stdout.writelines(data.json_lines(found))
    elif markdown:
        sys.stdout.writelines(comparison_page.markdown(found))
    else:
        comparison_page.render(found, terminal.output(), top=top, everything=everything)
    terminal.tell_written(output or ())
