"""`sizeup calibrate`: fit a target to measured latencies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import TIMED, Bind, Json, bindings
from sizeup.cli.runner import command

EXAMPLE = "Example: sizeup calibrate --runtime ort, then sizeup analyze model.onnx -d this-machine/ort"


@command
def calibrate(
    runtime: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Runtime to calibrate, measured on this machine: {', '.join(TIMED[:-1])} or {TIMED[-1]};"
            " any runtime with --csv or --profile, e.g. tflm.",
            autocompletion=completion.runtimes,
        ),
    ] = "ort",
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Threads of the runtime, e.g. 4.")] = 1,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Device that was measured, known or new, e.g. my-board (default: this-machine).",
            show_default=False,
            autocompletion=completion.devices,
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table with columns model and latency_ms (or latency_us, latency_s), e.g. times.csv.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG",
            help="Profile of ONNX Runtime, benchmark_model or torch.profiler, e.g. profile.json.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model of the --profile, e.g. model.onnx.")
    ] = None,
    bind: Bind = None,
    seconds: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Seconds to run each calibration network for, e.g. 1.")
    ] = 0.4,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Target file to write, e.g. my-board.toml (default: in your folder of targets).",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Calibrate a target with latencies of small networks run on this machine, a CSV table or a profile."""
    import json as text

    from sizeup.api import measure as api
    from sizeup.cli import terminal
    from sizeup.render.console import measurement

    with terminal.steps(f"calibrating {runtime}") as progress:
        calibration = api.calibrate(
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
        sys.stdout.write(text.dumps(calibration.to_dict(), indent=2) + "\n")
    else:
        measurement.render_calibration(calibration, terminal.output())
