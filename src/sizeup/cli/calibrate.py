"""`sizeup calibrate`: fit a target to measured latencies."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import TIMED, Bind, Json, bindings
from sizeup.cli.runner import command

_SERVING = "sizeup.serving.cli.calibrate"  # the module of --serving
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
            help="Device that was measured, known or new, e.g. my-board (default: this-machine); with"
            " --serving the cluster and its engine, e.g. 8xh100/vllm.",
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
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model of the --profile, e.g. model.onnx, or of --serving, e.g. config.json.",
        ),
    ] = None,
    serving: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Result of vllm bench serve, sglang.bench_serving or trtllm-bench, e.g. bench.json;"
            " repeatable.",
            show_default=False,
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="LAYOUT", help="Layout of the server of --serving, e.g. tp4,dp2.", show_default=False
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Precision of the weights on that server, e.g. fp8.", show_default=False
        ),
    ] = None,
    kv: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Precision of its key-value cache, e.g. fp8.", show_default=False),
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
    """Calibrate a target with latencies of small networks run on this machine, a CSV table or a profile.

    With --serving, times that `sizeup llm` estimates are corrected by benchmarks of a server:
    sizeup calibrate --serving bench.json --model config.json --device 8xh100/vllm
    """
    from sizeup.api import measure as api
    from sizeup.cli import terminal
    from sizeup.render.console import measurement

    if serving:
        others = {"--csv": csv, "--profile": profile, "--bind": bind}
        options = {"layout": layout, "weights": weights, "kv": kv, "out": output}
        import_module(_SERVING).calibrate(serving, model, device, others, options, as_json=json)
        return
    for name, value in {"--layout": layout, "--weights": weights, "--kv": kv}.items():
        if value is not None:
            raise typer.BadParameter("needs --serving FILE", param_hint=name)
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
        terminal.print_json(calibration.to_dict())
    else:
        measurement.render_calibration(calibration, terminal.output())
