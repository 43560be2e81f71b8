"""`sizeup measure`: how long a model takes in a real runtime, here and now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb
from sizeup.cli.options import TIMED, Bind, Inputs, Model, Trust, bindings, model_inputs

EXAMPLE = "Example: sizeup measure model.onnx --threads 4"


@verb
def measure(
    model: Model,
    runtime: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(TIMED[:-1])} or {TIMED[-1]}; by default the usual one of the format.",
            autocompletion=completion.one_of(*TIMED),
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            "-d",
            metavar="DEVICE",
            help="What this machine is: shows which share of its rates is attained.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads that the runtime may use.")] = 1,
    seconds: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Run it over and over for so long.")
    ] = 3.0,
    profile: Annotated[bool, typer.Option(help="Ask the runtime for the times of its kernels.")] = True,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    top: Annotated[int, typer.Option(min=1, help="Show so many of the slowest kernels.")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a .json file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Run a model on this machine in a real runtime, in a process of its own, and say how long it takes."""
    import json as text

    from sizeup import api
    from sizeup.cli import terminal
    from sizeup.report import measured

    if output is not None:
        measured.check_path(output)
    with terminal.timing(f"timing {terminal.name_of(model)}", seconds) as progress:
        found = api.measure(
            model,
            **model_inputs(input),
            bind=bindings(bind),
            runtime=runtime,
            device=device,
            threads=threads,
            seconds=seconds,
            profile=profile,
            trusted=trust,
            progress=progress,
        )
    if output is not None:
        found.save(output)
    if json:
        sys.stdout.write(text.dumps(found.to_dict(), indent=2) + "\n")
    else:
        measured.render(found, terminal.output(), top)
    terminal.tell_written([output])
