"""`sizeup demo`: a tour on a model that ships with the package."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.runner import FAILED, command

EXAMPLE = "Example: sizeup demo -o tour"

SAMPLE = Path(__file__).with_name("sample.tflite")  # written by tools/sample_model.py
_TARGET = "nrf52832"  # it has 64 KiB of RAM, less than the sample needs


@command
def demo(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files, e.g. tour.")
    ] = Path("sizeup-demo"),
) -> None:
    """Show what sizeup does on a sample model: count, check, optimize, check again, write an HTML page."""
    from sizeup.cli import terminal
    from sizeup.errors import SizeupError, WriteError
    from sizeup.files import make_folder, write_bytes
    from sizeup.formats.tflite import schema

    schema.schema()  # raises if it is not installed
    model, smaller, page = (
        shlex.quote(str(output / name)) for name in ("sample.tflite", "smaller.tflite", "report.html")
    )
    try:
        make_folder(output)
        write_bytes(output / "sample.tflite", SAMPLE.read_bytes())
    except WriteError as error:
        raise WriteError(f"{error}; use -o DIR") from None
    steps = (
        ("What does the model cost?", f"analyze {model} --top 3", 0),
        ("Does it fit a microcontroller with 64 KiB of RAM?", f"check {model} -d {_TARGET}", FAILED),
        ("Apply the remedy.", f"optimize {model} -d {_TARGET} -o {smaller}", 0),
        ("Does it fit now?", f"check {smaller} -d {_TARGET}", 0),
        (
            "How long does it take? The whole report is also written as an HTML page.",
            f"analyze {smaller} -d {_TARGET} --top 3 -o {page}",
            0,
        ),
    )
    commands = context.find_root().command
    for number, (question, step, expected) in enumerate(steps, 1):
        terminal.output().print(f"{number}. {question}", style="bold")
        sys.stdout.write(f"$ sizeup {step}\n")
        sys.stdout.flush()
        code = commands.main(shlex.split(step), prog_name="sizeup", standalone_mode=False)
        if (code or 0) != expected:
            raise SizeupError(f"`sizeup {step}` ended with exit code {code}, not {expected}")
        sys.stdout.write("\n")
    sys.stdout.write(
        f"Open {page}. Next: sizeup check YOUR_MODEL -d YOUR_DEVICE; sizeup devices lists them.\n"
    )
