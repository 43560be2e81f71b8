"""`sizeup optimize`: the same model in less memory."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, bindings

EXAMPLE = "Example: sizeup optimize model.tflite -o smaller.tflite --cluster 16"


@verb
def optimize(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A .tflite or .onnx file.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write.", show_default=False)
    ],
    reorder: Annotated[bool, typer.Option(help="Run operators in the order with the least peak.")] = True,
    plan: Annotated[
        bool, typer.Option(help="Store places for tensors, which TFLite Micro follows (.tflite).")
    ] = True,
    cluster: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Leave at most N values in each weight (.tflite)."),
    ] = None,
    pack: Annotated[
        bool, typer.Option("--pack", help="Store weights as code-books, which TFLite Micro decodes.")
    ] = False,
    overlap: Annotated[
        bool,
        typer.Option(
            "--overlap",
            help="Let outputs overlap dying inputs (.tflite). TFLite Micro reference kernels only (not"
            " CMSIS-NN, Ethos-U or other optimised kernels).",
        ),
    ] = False,
    verify: Annotated[bool, typer.Option(help="Run original and result in a real runtime.")] = True,
    time_limit: Annotated[float, typer.Option(min=0.0, metavar="S", help="Seconds for each search.")] = 10.0,
    bind: Bind = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Write a model file that needs less memory, and prove in a real runtime that it computes the same."""
    from sizeup.api import plan as api
    from sizeup.cli import terminal
    from sizeup.render.console import optimize as rewriting

    bound = bindings(bind)
    with terminal.searching(f"rewriting {terminal.name_of(model)}", time_limit) as progress:
        result = api.optimize(
            model,
            output,
            reorder=reorder,
            plan=plan,
            cluster=cluster,
            pack=pack,
            overlap=overlap,
            verify=verify,
            time_limit=time_limit,
            bind=bound,
            progress=progress,
        )
    if json:
        print(json_text.dumps(result.to_dict(), indent=2))
    else:
        rewriting.render(result, terminal.output())
