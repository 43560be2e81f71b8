"""The command line: one module per command; `main` maps errors to exit codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.commands import CommandGroup
from sizeup.cli.runner import exit_code
from sizeup.logs import inert_output

__all__ = ["app", "main"]

_INTRODUCTION = """\
sizeup reports what a neural network costs before you deploy it. Examples:

  sizeup demo                                    a tour on a sample model
  sizeup check model.tflite -d stm32f746         does it fit? what would help
  sizeup analyze model.onnx                      cost per operator
  sizeup analyze torchvision:resnet50 --by tree  PyTorch code, cost per module
  sizeup analyze model.onnx -d rpi5/ort          latency on a Raspberry Pi 5
  sizeup analyze model.onnx -o report.html       the report as an HTML page
  sizeup compare old.onnx new.onnx               what changed between two models
  sizeup plan model.tflite                       smallest proven memory plan
  sizeup optimize model.tflite -o less.tflite    same model, less memory
  sizeup precision model.tflite --weights 1MiB   precision per layer
  sizeup tradeoff model.onnx -d rpi5/ort         precisions compared
  sizeup llm config.json -d 8xh100/vllm          serving a language model
  sizeup measure model.onnx                      latency on this machine
  sizeup calibrate --runtime ort                 make this machine a target
  sizeup sweep registry.toml -o results          many models on many targets
  sizeup query results -o board.html             the best of them, as a page
  sizeup explain model.onnx 12                   how a number is computed

All commands: sizeup --help. Options of one: sizeup COMMAND --help.
"""

app = typer.Typer(
    name="sizeup",
    cls=CommandGroup,
    help="Report MACs, memory, latency and fit of a neural network before you deploy it.",
    epilog="Example: sizeup analyze model.onnx --bind batch=1 --precision int8",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its table of five columns cuts names in narrow terminals
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        import sizeup

        typer.echo(f"sizeup {sizeup.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(_INTRODUCTION, nl=False)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    if hasattr(sys.stdout, "reconfigure"):
        # Names in models may contain characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="replace")
    with inert_output(sys.argv[1:] if arguments is None else arguments):
        _run(arguments)


def _run(arguments: list[str] | None) -> None:
    try:
        code = exit_code(lambda: app(arguments, prog_name="sizeup", standalone_mode=False))
    finally:
        if "--install-completion" in (sys.argv if arguments is None else arguments):
            completion.patch_zsh_script(Path.home())
    sys.exit(code)
