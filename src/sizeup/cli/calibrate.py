"""`sizeup calibrate`: make a target from times that were measured on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb
from sizeup.cli.options import TIMED, Bind, bindings

EXAMPLE = "Example: sizeup calibrate --runtime ort, then sizeup analyze model.onnx -d this-machine/ort"


@verb
def calibrate(
    runtime: Annotated[
        str,
        typer.Option(
            help=f"Measured here: {', '.join(TIMED[:-1])} or {TIMED[-1]}; else any known.",
            autocompletion=completion.runtimes,
        ),
    ] = "ort",
    threads: Annotated[int, typer.Option(min=1, help="Threads that the runtime may use.")] = 1,
    device: Annotated[
        str | None,
        typer.Option(
            help="A device that is known, or a new name; without it this-machine.",
            show_default=False,
            autocompletion=completion.devices,
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table with the columns model and latency_ms (or _us, _s)."),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="A profile of ONNX Runtime, benchmark_model or torch.profiler."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="The model of the profile.")] = None,
    bind: Bind = None,
    seconds: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Run every network over and over for so long.")
    ] = 0.4,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .toml file; by default in your folder of targets."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Fit a target to times: of small networks run here, or of a table or a profile from elsewhere."""
    import json as text

    from sizeup.api import measure as api
    from sizeup.cli import terminal
    from sizeup.render.console import measurement

    with terminal.steps(f"calibrating {runtime}") as progress:
        found = api.calibrate(
            runtime,
            device=device,
            csv=csv,
            profile=profile,
            model=model,
            bind=bindings(bind),
            threads=threads,
            seconds=seconds,
            out=output,
            progress=progress,
        )
    if json:
        sys.stdout.write(text.dumps(found.to_dict(), indent=2) + "\n")
    else:
        measurement.render_calibration(found, terminal.output())
