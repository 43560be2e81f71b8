"""`sizeup measure`: latency on this machine, or utilization from a latency measured elsewhere."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.options import TIMED, Bind, Inputs, Json, Model, Trust, bindings, model_inputs
from sizeup.cli.runner import command
from sizeup.errors import SizeupError

EXAMPLE = "Example: sizeup measure model.onnx --threads 4"
_THREADS, _SECONDS, _TOP = 1, 3, 10


class By(str, Enum):
    """Rows of the profile."""

    kernel = "kernel"
    module = "module"


@command
def measure(
    model: Model,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Runtime to run the model in: {', '.join(TIMED[:-1])} or {TIMED[-1]}"
            ", e.g. ort (default: by model format).",
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
            help="Known device to report utilization for: this machine, or with --from the measured device,"
            " e.g. rpi5.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    measurement: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="KEY=VALUE,...",
            help="Run nothing and report the utilization of --device at a measured latency, e.g."
            " latency_ms=12.3, and optionally bandwidth=8GB/s.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE|FILE",
            help="With --from, the precision that was measured if not the model's own, e.g. int8.",
            autocompletion=completion.precisions,
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, metavar="N", help="Threads of the runtime, e.g. 4.")
    ] = _THREADS,
    seconds: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Seconds to repeat the inference for, e.g. 10.")
    ] = _SECONDS,
    profile: Annotated[bool, typer.Option(help="Also profile the runtime's kernels.")] = True,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    by: Annotated[
        By | None,
        typer.Option(
            metavar="kernel|module",
            help="Rows of the profile, e.g. module (default: kernel).",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Show the N slowest rows, e.g. 20.")] = _TOP,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .json file, e.g. times.json."),
    ] = None,
    json: Json = False,
) -> None:
    """Measure the latency of a model on this machine, in a real runtime.

    With --from nothing is run: a latency measured on another device gives the utilization of that device.
    """
    from sizeup import render
    from sizeup.api import measure as api
    from sizeup.cli import terminal
    from sizeup.render.console import measurement as console

    if output is not None:
        render.check_path("Measurement", output)
    if measurement is not None:
        _refuse_with_from({
            "--threads": threads != _THREADS, "--seconds": seconds != _SECONDS, "--no-profile": not profile,
            "--trust": trust, "--top": top != _TOP, "--by": by is not None,
        })  # fmt: skip
        _report_utilization(
            model, measurement, device, runtime, precision, model_inputs(input), bind, output, json
        )
        return
    if precision is not None:
        raise SizeupError("--precision needs --from; a model is run at its own precision")
    with terminal.timing(f"timing {terminal.name_of(model)}", seconds) as progress:
        result = api.measure(
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
        terminal.print_json(result.to_dict())
    else:
        console.render(result, terminal.output(), top, by.value if by else None)
    if output is not None:
        result.save(output)
    terminal.print_written([output])


def _refuse_with_from(options: dict[str, bool]) -> None:
    for name, is_used in options.items():
        if is_used:
            raise SizeupError(f"{name} cannot be combined with --from, which runs nothing")


def _report_utilization(
    model: str,
    text: str,
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
    from sizeup.logs import inert_json
    from sizeup.render.console.measurement import render_utilization
    from sizeup.render.data.measurement import utilization_to_dict

    measurement = parse_measurement(text)
    if device is None:
        raise SizeupError("--from needs the measured device: add -d DEVICE (sizeup devices lists them)")
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
        terminal.print_json(content)
    else:
        render_utilization(result, terminal.output())
    if output is not None:
        write_text(output, [inert_json(json.dumps(content, indent=2)), "\n"])
    terminal.print_written([output])
