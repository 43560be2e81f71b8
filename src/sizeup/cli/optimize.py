"""`sizeup optimize`: rewrite a model file so that it needs less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.options import Bind, Json, bindings, device_option
from sizeup.cli.runner import limited_command

EXAMPLE = "Example: sizeup optimize model.tflite -d stm32f746/tflm-cmsis-nn -o smaller.tflite"


@limited_command
def optimize(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Model to read: a .tflite or .onnx file.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write, e.g. smaller.tflite.", show_default=False
        ),
    ],
    device: Annotated[
        str | None,
        device_option(
            "Target whose kernels the schedule and the memory plan are chosen for: DEVICE,"
            " DEVICE/RUNTIME or a device file, e.g. stm32f746/tflm-cmsis-nn (default: TFLite Micro's"
            " reference kernels)."
        ),
    ] = None,
    reorder: Annotated[
        bool, typer.Option(help="Store the schedule with the lowest peak activation memory.")
    ] = True,
    plan: Annotated[
        bool, typer.Option(help="Store a memory plan in the file, which TFLite Micro uses (.tflite).")
    ] = True,
    cluster: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Cluster each weight tensor to at most N distinct values, e.g. 16 (.tflite).",
        ),
    ] = None,
    pack: Annotated[
        bool,
        typer.Option(
            "--pack",
            help="Compress clustered weights to lookup tables, which TFLite Micro decodes (.tflite).",
        ),
    ] = False,
    overlap: Annotated[
        bool,
        typer.Option(
            "--overlap",
            help="Let outputs reuse the memory of inputs that are no longer needed:"
            " TFLite Micro reference kernels only (not CMSIS-NN, Ethos-U or other optimized kernels).",
        ),
    ] = False,
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            help="Execute the segments that set the peak in strips, if that needs a smaller arena (.tflite).",
        ),
    ] = False,
    max_extra_macs: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Limit of the MACs that --split may add, by default 5%, e.g. 10%.",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option(help="Run the original and the result in a real runtime and compare the outputs.")
    ] = True,
    search_limit: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Time limit per search in seconds, e.g. 60.")
    ] = 10,
    bind: Bind = None,
    json: Json = False,
) -> None:
    """Write a model file that needs less memory, and verify its outputs in a real runtime."""
    from sizeup.api import plan as api
    from sizeup.checks.limits import parse_share
    from sizeup.cli import terminal
    from sizeup.render.console import optimize as rewriting

    sizes = bindings(bind)
    if max_extra_macs is not None and not split:
        raise typer.BadParameter("needs --split", param_hint="--max-extra-macs")
    extra_macs = parse_share("5%" if max_extra_macs is None else max_extra_macs, "--max-extra-macs")
    with terminal.searching(f"rewriting {terminal.name_of(model)}", search_limit) as progress:
        result = api.optimize(
            model,
            output,
            reorder=reorder,
            plan=plan,
            cluster=cluster,
            pack=pack,
            overlap=overlap,
            verify=verify,
            time_limit=search_limit,
            bind=sizes,
            progress=progress,
            target=device,
            split=split,
            max_extra_macs=extra_macs,
        )
    if json:
        terminal.print_json(result.to_dict())
    else:
        rewriting.render(result, terminal.output())
