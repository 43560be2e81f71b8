"""`sizeup precision`: which number type every layer should have."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.exits import verb
from sizeup.cli.options import Bind, Device, Inputs, Model, RawCsv, Rules, Trust, bindings, model_inputs
from sizeup.errors import SizeupError

if TYPE_CHECKING:
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront

EXAMPLE = "Example: sizeup precision model.tflite --weights 256KiB --activations 64KiB -o mixed.json"
_USUAL = "fp32,fp16,int8,int4,int2"


@verb
def precision(
    model: Model,
    weights: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Limit on bytes of weights, as 256KiB.", show_default=False),
    ] = None,
    activations: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Limit on the memory plan of activations, as 64KiB.", show_default=False
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The longest pass on the target, as 20ms.", show_default=False),
    ] = None,
    energy: Annotated[
        str | None,
        typer.Option(metavar="ENERGY", help="The most for a pass there, as 3mJ.", show_default=False),
    ] = None,
    device: Device = None,
    precisions: Annotated[
        str,
        typer.Option(metavar="LIST", help="The types to choose from.", autocompletion=completion.precisions),
    ] = _USUAL,
    losses: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .json file of what layers lose: {layer: {precision: loss}}."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="An .npz file with samples (x) and labels (y): losses are measured on it."
        ),
    ] = None,
    front: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="List the best choices between two of loss, weights, activations, latency and energy.",
            autocompletion=completion.axes,
            show_default=False,
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(min=2, metavar="N", help="The most choices of a --front, as 20.")
    ] = 20,
    fits: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Only list which types of each layer keep what it reads and makes within so much.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(help="What must fit there: tensors (the larger of both), sum, working set or peak."),
    ] = "tensors",
    sensitivity: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Where losses come from without --data or --losses: weights (their rounding, the default) or"
            " analytic (their shapes alone).",
            show_default=False,
        ),
    ] = None,
    gap: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Stop at a choice that is proven to lose at most so much too much, as 1%."
        ),
    ] = "0%",
    time_limit: Annotated[
        float,
        typer.Option(metavar="S", min=0.1, help="Search for so many seconds at most, per choice."),
    ] = 20.0,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    top: Annotated[int | None, typer.Option(min=1, help="Show so many layers.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the mapping as a .json file.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write it for the format's quantiser too: ai-edge-quantizer, ONNX Runtime's or torchao.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    rules: Rules = None,
) -> None:
    """Choose the precision of every layer that loses least and keeps to your budgets, proven."""
    from sizeup import render
    from sizeup.api import models as models_api
    from sizeup.api import precision as api
    from sizeup.checks.limits import share_in
    from sizeup.cli import terminal
    from sizeup.results.precision import read_losses

    for path in (output, recipe):
        if path is not None:
            render.check_path("PrecisionAssignment" if front is None else "PrecisionFront", path)
    kinds = [each.strip() for each in precisions.split(",") if each.strip()]
    given = None if losses is None else read_losses(losses)
    arguments = {**model_inputs(input), "bind": bindings(bind), "precisions": kinds}
    budgets: Any = {"weights": weights, "activations": activations, "latency": latency, "energy": energy}
    search: Any = {"sensitivity": sensitivity, "gap": share_in(gap, "--gap"), "time_limit": time_limit}
    found: PrecisionAssignment | PrecisionFits | PrecisionFront
    with terminal.steps(f"weighing number types of {terminal.name_of(model)}") as progress:
        for path in rules or ():
            models_api.load_rules(path)
        if fits is not None:
            _refuse_budgets(budgets)
            found = api.fits(model, fits, **arguments, measure=measure)
        elif front is not None:
            found = api.front(
                model,
                _axes(front),
                **arguments,
                **budgets,
                **search,
                points=points,
                losses=given,
                target=device,
                progress=progress,
            )
        else:
            found = api.choose(
                model,
                **arguments,
                **search,
                **budgets,
                losses=given,
                target=device,
                data=data,
                trusted=trust,
                progress=progress,
            )
    _show(found, output, recipe, json, top, raw_csv)


def _refuse_budgets(budgets: Mapping[str, str | None]) -> None:
    for name, most in budgets.items():
        if most is not None:
            raise SizeupError(f"--{name} limits a choice; --fits only lists what fits its own size")


def _axes(text: str) -> tuple[str, str]:
    first, _, second = text.partition(",")
    return first.strip(), second.strip()


def _show(
    found: PrecisionAssignment | PrecisionFits | PrecisionFront,
    output: Path | None,
    recipe: Path | None,
    as_json: bool,
    top: int | None,
    raw_csv: bool,
) -> None:
    """Write, then print: JSON alone, or words."""
    import json

    from sizeup.cli import terminal
    from sizeup.render.console import precision as console
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits

    if output is not None:
        found.save(output, raw_csv=raw_csv)
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    elif isinstance(found, PrecisionAssignment):
        console.render(found, terminal.output(), top)
    elif isinstance(found, PrecisionFits):
        console.render_fits(found, terminal.output(), top)
    else:
        console.render_front(found, terminal.output())
    # Last: what a quantiser cannot write does not keep the answer back.
    if recipe is not None and isinstance(found, PrecisionAssignment):
        for note in found.write_recipe(recipe).notes:
            terminal.remark(f"{recipe}: {note}")
    terminal.tell_written([output, recipe if isinstance(found, PrecisionAssignment) else None])
