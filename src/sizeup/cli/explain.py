"""`sizeup explain`: where a number comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, Convention, Inputs, Model, Precision, Rules, bindings, model_inputs

EXAMPLE = "Example: sizeup explain torchvision:resnet50 layer1.0.conv1"


@verb
def explain(
    model: Model,
    op: Annotated[
        str,
        typer.Argument(
            metavar="OP",
            help="An operator's index or name, a tensor, a module, a kind, or a pattern such as 'layer1.*'.",
            show_default=False,
        ),
    ],
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    rules: Rules = None,
    convention: Convention = None,
) -> None:
    """Show the formula behind an operator's numbers, and why another tool may show others."""
    from sizeup import api
    from sizeup.cli import terminal
    from sizeup.report.console import render_explanation

    arguments = model_inputs(input)
    bound = bindings(bind)
    with terminal.busy(f"reading {terminal.name_of(model)}"):
        for path in rules or ():
            api.load_rules(path)
        explanation = api.explain(
            model, op, **arguments, bind=bound, precision=precision, convention=convention
        )
    render_explanation(explanation, terminal.output())
