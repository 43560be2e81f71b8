"""`sizeup measure`: how long a model takes here, and what a latency means that was measured elsewhere."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb
from sizeup.cli.options import TIMED, Bind, Inputs, Model, Trust, bindings, model_inputs
from sizeup.errors import SizeupError

EXAMPLE = "Example: sizeup measure model.onnx --threads 4"
_THREADS, _SECONDS, _TOP = 1, 3.0, 10


class By(str, Enum):
    """What the time of a run is broken down by."""

    kernel = "kernel"
    module = "module"


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
            help="What this machine is: shows shares of its peaks. With --from, where it was measured"
            " (DEVICE or DEVICE/RUNTIME).",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="KEY=VALUE,...",
            help="Run nothing; report the utilization of DEVICE at latency_ms=12.3[,bandwidth=8GB/s].",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE|FILE",
            help="With --from: precision that was measured, if not the model's own.",
            autocompletion=completion.precisions,
            show_default=False,
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads that the runtime may use.")] = _THREADS,
    seconds: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Run it over and over for so long.")
    ] = _SECONDS,
    profile: Annotated[bool, typer.Option(help="Ask the runtime for the times of its kernels.")] = True,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    by: Annotated[
        By | None, typer.Option(help="What a row of the profile is.", show_default="kernel")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Show so many of the slowest rows.")] = _TOP,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a .json file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Run a model on this machine in a real runtime, in a process of its own, and report how long it takes.

    With --from nothing is run: a latency that you measured elsewhere becomes shares of that device's peaks.
    """
    from sizeup import render
    from sizeup.api import measure as api
    from sizeup.cli import terminal
    from sizeup.render.console import measurement as measured

    if output is not None:
        render.check_path("Measurement", output)
    if given is not None:
        _refuse_with_from({
            "--threads": threads != _THREADS, "--seconds": seconds != _SECONDS, "--no-profile": not profile,
            "--trust": trust, "--top": top != _TOP, "--by": by is not None,
        })  # fmt: skip
        _report_utilization(model, given, device, runtime, precision, model_inputs(input), bind, output, json)
        return
    if precision is not None:
        raise SizeupError("--precision goes with --from; a run has the model's own precision")
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
    if json:
        _print_json(found.to_dict())
    else:
        measured.render(found, terminal.output(), top, by.value if by else None)
    if output is not None:
        found.save(output)
    terminal.tell_written([output])


def _refuse_with_from(options: dict[str, bool]) -> None:
    for name, is_given in options.items():
        if is_given:
            raise SizeupError(f"{name} goes with a run; with --from nothing is run")


def _report_utilization(
    model: str,
    given: str,
    device: str | None,
    runtime: str | None,
    precision: str | None,
    inputs: dict[str, Any],
    bind: list[str] | None,
    output: Path | None,
    as_json: bool,
) -> None:
    import json

    from sizeup.api import measure as api
    from sizeup.cli import terminal
    from sizeup.files import write_text
    from sizeup.latency import parse_measurement
    from sizeup.render.console.measurement import render_utilization
    from sizeup.render.data.measurement import utilization_to_dict

    measurement = parse_measurement(given)
    if device is None:
        raise SizeupError("--from needs -d DEVICE, where it was measured; sizeup devices lists them")
    result = api.utilization(
        model,
        device if runtime is None or "/" in device else f"{device}/{runtime}",
        latency_ms=measurement.latency_ms,
        bandwidth=measurement.bandwidth,
        precision=precision,
        **inputs,
        bind=bindings(bind),
    )
    content = utilization_to_dict(result)
    if as_json:
        _print_json(content)
    else:
        render_utilization(result, terminal.output())
    if output is not None:
        write_text(output, [json.dumps(content, indent=2), "\n"])
    terminal.tell_written([output])


def _print_json(content: dict[str, Any]) -> None:
    import json

    sys.stdout.write(json.dumps(content, indent=2) + "\n")
