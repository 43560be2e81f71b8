"""The command line: one file a verb, and what happens when something goes wrong."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import (
    analyze,
    calibrate,
    check,
    compare,
    completion,
    devices,
    explain,
    measure,
    ops,
    optimize,
    plan,
    precision,
    query,
    sweep,
    tradeoff,
)
from sizeup.cli.exits import BAD_INPUT
from sizeup.cli.verbs import MISUSE, Verbs, correction

__all__ = ["app", "main"]

# Beyond the verbs' own codes: 1 is kept for checks that fail, so a crash must not look like one.
_CRASHED = 70

_HINT = """\
sizeup tells what a neural network costs before you deploy it. Try

  sizeup check model.tflite -d stm32f746         does it fit? what would make it
  sizeup analyze model.onnx                      what it costs, by operator
  sizeup analyze torchvision:resnet50 --by tree  PyTorch code, by module
  sizeup analyze model.onnx -d rpi5/ort          how long it takes there
  sizeup analyze model.onnx -o report.html       the same as a page to look at
  sizeup compare old.onnx new.onnx               what was added or changed
  sizeup plan model.tflite                       the least memory, proven
  sizeup optimize model.tflite -o less.tflite    the same model in less memory
  sizeup precision model.tflite --weights 1MiB   which layers at which width
  sizeup tradeoff model.onnx -d rpi5/ort         precisions compared
  sizeup measure model.onnx                      how long it takes here
  sizeup calibrate --runtime ort                 make this machine a target
  sizeup sweep registry.toml -o results          many models on many targets
  sizeup query results -o board.html             the best of them, as a page
  sizeup explain model.onnx 12                   where a number comes from

sizeup --help lists all verbs, sizeup VERB --help all options of one.
"""

app = typer.Typer(
    name="sizeup",
    cls=Verbs,
    help="Size up a neural network before you deploy it.",
    epilog="Example: sizeup analyze model.onnx --bind batch=1 --precision int8",
    pretty_exceptions_enable=False,
)
app.command("analyze", epilog=analyze.EXAMPLE)(analyze.analyze)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("check", epilog=check.EXAMPLE)(check.check)
app.command("compare", epilog=compare.EXAMPLE)(compare.compare)
app.command("plan", epilog=plan.EXAMPLE)(plan.plan)
app.command("measure", epilog=measure.EXAMPLE)(measure.measure)
app.command("calibrate", epilog=calibrate.EXAMPLE)(calibrate.calibrate)
app.command("precision", epilog=precision.EXAMPLE)(precision.precision)
app.command("tradeoff", epilog=tradeoff.EXAMPLE)(tradeoff.tradeoff)
app.command("optimize", epilog=optimize.EXAMPLE)(optimize.optimize)
app.command("sweep", epilog=sweep.EXAMPLE)(sweep.sweep)
app.command("query", epilog=query.EXAMPLE)(query.query)
app.command("ops", epilog=ops.EXAMPLE)(ops.ops)
app.command("devices", epilog=devices.EXAMPLE)(devices.devices)


def _print_version(wanted: bool) -> None:
    if wanted:
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
        typer.echo(_HINT, nl=False)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        # A name in a model may hold letters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = app(arguments, prog_name="sizeup", standalone_mode=False)
    except MISUSE as error:
        from sizeup.cli.terminal import complain

        complain(*correction(error))
        sys.exit(BAD_INPUT)
    except Exception:
        traceback.print_exc()
        print(
            "sizeup: this is a fault of sizeup itself; please report it with the lines above", file=sys.stderr
        )
        sys.exit(_CRASHED)
    finally:
        if "--install-completion" in (sys.argv if arguments is None else arguments):
            completion.answer_at_once(Path.home())
    sys.exit(code or 0)
