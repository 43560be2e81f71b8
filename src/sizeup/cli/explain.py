"""`sizeup explain`: where a number comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import (
    Basis,
    Bind,
    Convention,
    Device,
    Inputs,
    Model,
    Precision,
    Rules,
    bindings,
    model_inputs,
)

EXAMPLE = (
    "Example: sizeup explain torchvision:resnet50 layer1.0.conv1, or --free batch,height,width [-d rpi5/ort]"
)


@verb
def explain(
    model: Model,
    op: Annotated[
        str | None,
        typer.Argument(
            metavar="OP",
            help="An operator's index or name, a tensor, a module, a kind, or a pattern such as 'layer1.*'.",
            show_default=False,
        ),
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Without OP: closed_forms of the whole model in these dimensions, as batch,height,width;"
            " 'all' frees every one.",
            show_default=False,
        ),
    ] = None,
    device: Device = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    rules: Rules = None,
    convention: Convention = None,
    basis: Basis = None,
) -> None:
    """Show the formula behind an operator's numbers, and why another tool may show others."""
    from sizeup.api import analyze as analyze_api
    from sizeup.api import models as api
    from sizeup.cli import terminal
    from sizeup.errors import SizeupError
    from sizeup.render.console import closed_forms
    from sizeup.render.console.report import render_explanation

    if (op is None) == (free is None):
        raise SizeupError("give either an operator, or --free with names of dimensions")
    if op is not None and (device is not None or basis is not None):
        raise SizeupError("--device goes with --free; sizeup analyze -d tells the time of every operator")
    if basis is not None and device is None:
        raise SizeupError("--basis says what a time rests on: name a target with --device")
    arguments = model_inputs(input)
    bound = bindings(bind)
    with terminal.busy(f"reading {terminal.name_of(model)}"):
        for path in rules or ():
            api.load_rules(path)
        if op is None:
            names = True if free == "all" else [each for each in (free or "").split(",") if each]
            forms = analyze_api.explain(
                model,
                **arguments,
                bind=bound,
                precision=precision,
                free=names,
                target=device,
                basis=basis.value if basis else None,
            )
        else:
            explanation = analyze_api.explain(
                model, op, **arguments, bind=bound, precision=precision, convention=convention
            )
    if op is None:
        closed_forms.render(forms, terminal.output())
    else:
        render_explanation(explanation, terminal.output())
