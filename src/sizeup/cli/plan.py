"""`sizeup plan`: how much memory a model needs, and where to put what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, Inputs, Model, Plot, Precision, RawCsv, Rules, bindings, model_inputs

EXAMPLE = "Example: sizeup plan model.tflite --plot arena.png"


@verb
def plan(
    model: Model,
    reorder: Annotated[bool, typer.Option(help="Look for the order with the least peak.")] = True,
    time_limit: Annotated[float, typer.Option(min=0.0, metavar="S", help="Seconds for each search.")] = 10.0,
    alignment: Annotated[
        int, typer.Option(min=1, max=1 << 30, metavar="N", help="Bytes that every offset is a multiple of.")
    ] = 1,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    top: Annotated[int | None, typer.Option(min=1, help="Show so many of the largest places.")] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .json or .csv file; repeatable."),
    ] = None,
    plot: Plot = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    rules: Rules = None,
) -> None:
    """Find the order and the places of tensors that need the least memory, and prove how low it goes."""
    from sizeup import render
    from sizeup.api import models as models_api
    from sizeup.api import plan as api
    from sizeup.cli import terminal
    from sizeup.render import plots
    from sizeup.render.console import plan as console
    from sizeup.render.data import plan as plan_data

    for path in output or ():
        render.check_path("Plan", path)
    for path in plot or ():
        plots.check(path)
    arguments = model_inputs(input)
    bound = bindings(bind)
    with terminal.searching(f"console {terminal.name_of(model)}", time_limit) as progress:
        for path in rules or ():
            models_api.load_rules(path)
        found = api.plan(
            model,
            **arguments,
            bind=bound,
            precision=precision,
            reorder=reorder,
            alignment=alignment,
            time_limit=time_limit,
            progress=progress,
        )
        for path in output or ():
            found.save(path, raw_csv=raw_csv)
        for path in plot or ():
            found.plot(path)
    if json:
        sys.stdout.writelines(plan_data.json_lines(found))
    else:
        console.render(found, terminal.output(), top=top)
    terminal.tell_written([*(output or ()), *(plot or ())])
