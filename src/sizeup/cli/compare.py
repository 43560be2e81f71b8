"""`sizeup compare`: differences between two models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.options import (
    MODEL_FORMS,
    Bind,
    Device,
    Inputs,
    Json,
    Precision,
    RawCsv,
    Rules,
    bindings,
    model_inputs,
)
from sizeup.cli.runner import limited_command

EXAMPLE = "Example: sizeup compare torchvision:mobilenet_v2 mobilenet_v2.tflite -d rpi5/litert"


@limited_command
def compare(
    a: Annotated[
        str, typer.Argument(metavar="A", help=f"First (old) model: {MODEL_FORMS}.", show_default=False)
    ],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B", help="Second (new) model, of the same or another format.", show_default=False
        ),
    ],
    device: Device = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    device_b: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Target for B if it differs from --device, e.g. rpi4/ort."),
    ] = None,
    precision_b: Annotated[
        str | None,
        typer.Option(metavar="TYPE|FILE", help="Precision of B if it differs from --precision, e.g. int8."),
    ] = None,
    input_b: Annotated[
        list[str] | None,
        typer.Option(
            "--input-b",
            metavar="[NAME:]SHAPE[:TYPE]",
            help="Input of B if it differs from --input, e.g. x:1x3x192x192; repeatable.",
        ),
    ] = None,
    bind_b: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SIZE",
            help="Size of a symbolic dimension of B if it differs from --bind, e.g. batch=8; repeatable.",
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, metavar="N", help="Show at most N rows, e.g. 20.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all operators in execution order, also unchanged ones.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a .json, .csv or .md file, e.g. comparison.md; repeatable.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a pull request comment.")
    ] = False,
    rules: Rules = None,
) -> None:
    """Compare two models: totals, and which operators are the same, changed, fused, added or removed."""
    if json and markdown:
        raise typer.BadParameter("use either --json or --markdown", param_hint="--markdown")
    from sizeup import render
    from sizeup.api import compare as api
    from sizeup.api import models as models_api
    from sizeup.cli import terminal
    from sizeup.render.console import comparison_output
    from sizeup.render.data import comparison as data

    for path in output or ():
        render.check_path("Comparison", path)
    for_a = api.SideOptions(**model_inputs(input), bind=bindings(bind), precision=precision, target=device)
    own = model_inputs(input_b)
    for_b = for_a.replaced(own["inputs"], bindings(bind_b), precision_b, device_b, own.get("kwargs"))
    for path in rules or ():
        models_api.load_rules(path)
    with terminal.busy(f"reading {a}"):
        report_a = for_a.report(a, b)
    with terminal.busy(f"reading {b}"):
        report_b = for_b.report(b, a)
    with terminal.busy("comparing"):
        comparison = api.compare(report_a, report_b)
        comparison.headline  # noqa: B018 - computed here, while the spinner is shown
    for path in output or ():
        comparison.save(path, raw_csv=raw_csv)
    if json:
        terminal.print_json(data.json_lines(comparison))
    elif markdown:
        sys.stdout.writelines(comparison_output.markdown(comparison))
    else:
        comparison_output.render(comparison, terminal.output(), top=top, everything=everything)
    terminal.print_written(output or ())
