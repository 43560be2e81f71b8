"""`sizeup plan`: the schedule and the memory plan with the lowest peak."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.options import (
    Bind,
    Inputs,
    Json,
    Model,
    Plot,
    Precision,
    RawCsv,
    Rules,
    bindings,
    device_option,
    model_inputs,
)
from sizeup.cli.runner import limited_command

EXAMPLE = "Example: sizeup plan model.tflite --plot arena.png"


@limited_command
def plan(
    model: Model,
    device: Annotated[
        str | None,
        device_option(
            "Target with TFLite Micro whose kernels to plan for, with their scratch:"
            " DEVICE/RUNTIME, e.g. stm32f746/tflm-cmsis-nn (.tflite)."
        ),
    ] = None,
    reorder: Annotated[bool, typer.Option(help="Search for the schedule with the lowest peak.")] = True,
    search_limit: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Time limit per search in seconds, e.g. 60.")
    ] = 10,
    alignment: Annotated[
        int, typer.Option(min=1, max=1 << 30, metavar="N", help="Alignment of offsets in bytes, e.g. 16.")
    ] = 1,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show the N largest buffers, e.g. 20.")
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a .json or .csv file, e.g. plan.json; repeatable."
        ),
    ] = None,
    plot: Plot = None,
    raw_csv: RawCsv = False,
    json: Json = False,
    rules: Rules = None,
) -> None:
    """Find the schedule and memory plan with the lowest peak, and a proven lower bound for any plan."""
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
    sizes = bindings(bind)
    with terminal.searching(f"planning {terminal.name_of(model)}", search_limit) as progress:
        for path in rules or ():
            models_api.load_rules(path)
        memory_plan = api.plan(
            model,
            **arguments,
            bind=sizes,
            precision=precision,
            reorder=reorder,
            alignment=alignment,
            time_limit=search_limit,
            progress=progress,
            target=device,
        )
        for path in output or ():
            memory_plan.save(path, raw_csv=raw_csv)
        for path in plot or ():
            memory_plan.plot(path)
    if json:
        terminal.print_json(plan_data.json_lines(memory_plan))
    else:
        console.render(memory_plan, terminal.output(), top=top)
    terminal.print_written([*(output or ()), *(plot or ())])
