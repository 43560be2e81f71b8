"""`sizeup diffusion`: weights, FLOPs and least time of a diffusion transformer on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import Json
from sizeup.cli.runner import command

EXAMPLE = "Example: sizeup diffusion transformer/config.json -d h100 --image-size 1024x1024 --steps 28"


@command
def diffusion(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="The config.json of a transformer of diffusers, or the folder of its pipeline.",
            show_default=False,
        ),
    ],
    device: Annotated[
        str,
        typer.Option(
            "--device",
            "-d",
            metavar="TARGET",
            help="GPU, e.g. h100 or rtx-4090.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ],
    image_size: Annotated[
        str, typer.Option(metavar="WxH", help="Width and height of the image in pixels, e.g. 1024x768.")
    ] = "1024x1024",
    steps: Annotated[
        int, typer.Option(min=1, metavar="N", help="Denoising steps of an image, e.g. 50.")
    ] = 28,
    guidance: Annotated[
        bool, typer.Option("--guidance", help="Classifier-free guidance: two inferences per step.")
    ] = False,
    text_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Tokens of the text instead of the pipeline's default, e.g. 256.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Precision of the weights instead of the checkpoint's, e.g. fp8.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a .json file, e.g. image.json.", show_default=False
        ),
    ] = None,
) -> None:
    """Report weights, FLOPs and the least time per image of a diffusion transformer on a GPU.

    Only the configuration is read; nothing is downloaded or run.
    """
    from sizeup import render
    from sizeup.cli import terminal
    from sizeup.render import envelope
    from sizeup.serving.api import diffusion as api
    from sizeup.serving.render.console import diffusion as console

    for path in file or ():
        render.check_path("Diffusion", path)
    estimate = api.diffusion(
        config, target=device, image_size=image_size, steps=steps, guidance=guidance,
        text_tokens=text_tokens, weights=weights,
    )  # fmt: skip
    for path in file or ():
        estimate.save(path)
    if json:
        terminal.print_json(envelope.json_lines(estimate))
    else:
        console.render(estimate, terminal.output())
    terminal.print_written(file or ())
