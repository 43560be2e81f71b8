"""`sizeup explain`: how a number is computed."""

from __future__ import annotations

from typing import Annotated

import typer

from sizeup.cli.options import (
    Basis,
    Bind,
    Convention,
    Device,
    Inputs,
    Model,
    Precision,
    Rules,
    Train,
    bindings,
    model_inputs,
)
from sizeup.cli.runner import limited_command

EXAMPLE = "Example: sizeup explain torchvision:resnet50 layer1.0.conv1"


@limited_command
def explain(
    model: Model,
    op: Annotated[
        str | None,
        typer.Argument(
            metavar="OP",
            help="Operator index or name, tensor, module, op kind, or a pattern, e.g. 12 or 'layer1.*'.",
            show_default=False,
        ),
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Instead of OP: print closed forms of the model's cost in these symbolic dimensions,"
            " e.g. batch,height,width, or all.",
            show_default=False,
        ),
    ] = None,
    device: Device = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    train: Train = False,
    rules: Rules = None,
    convention: Convention = None,
    basis: Basis = None,
) -> None:
    """Show how an operator's numbers are computed and why other tools may differ, or print closed forms."""
    from sizeup.api import analyze as analyze_api
    from sizeup.api import models as api
    from sizeup.cli import terminal
    from sizeup.errors import SizeupError
    from sizeup.render.console import closed_forms
    from sizeup.render.console.report import render_explanation

    if (op is None) == (free is None):
        raise SizeupError("give either OP or --free NAMES, e.g. --free batch")
    if op is not None and (device is not None or basis is not None):
        raise SizeupError(
            "--device and --basis need --free; for latency per operator use: sizeup analyze MODEL -d TARGET"
        )
    if basis is not None and device is None:
        raise SizeupError("--basis needs a target: add -d TARGET")
    arguments = model_inputs(input)
    sizes = bindings(bind)
    with terminal.busy(f"reading {terminal.name_of(model)}"):
        for path in rules or ():
            api.load_rules(path)
        if op is None:
            names = True if free == "all" else [name for name in (free or "").split(",") if name]
            forms = analyze_api.explain(
                model,
                **arguments,
                bind=sizes,
                train=train,
                precision=precision,
                free=names,
                target=device,
                basis=basis.value if basis else None,
            )
        else:
            explanation = analyze_api.explain(
                model, op, **arguments, bind=sizes, train=train, precision=precision, convention=convention
            )
    if op is None:
        closed_forms.render(forms, terminal.output())
    else:
        render_explanation(explanation, terminal.output())
