"""`sizeup precision`: mixed-precision assignment under budgets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.options import (
    Bind,
    Device,
    Inputs,
    Json,
    Model,
    RawCsv,
    Rules,
    Trust,
    bindings,
    model_inputs,
)
from sizeup.cli.runner import INCOMPLETE, limited_command
from sizeup.errors import SizeupError

if TYPE_CHECKING:
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront

EXAMPLE = "Example: sizeup precision model.tflite --weights 256KiB --activations 64KiB -o mixed.json"
_DEFAULT_PRECISIONS = "fp32,fp16,int8,int4,int2"


@limited_command
def precision(
    model: Model,
    weights: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Maximum size of the weights, e.g. 256KiB.", show_default=False),
    ] = None,
    activations: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Maximum size of the activation memory plan, e.g. 64KiB.", show_default=False
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Maximum latency on the target, e.g. 20ms.", show_default=False),
    ] = None,
    energy: Annotated[
        str | None,
        typer.Option(
            metavar="ENERGY", help="Maximum energy per inference on the target, e.g. 3mJ.", show_default=False
        ),
    ] = None,
    device: Device = None,
    precisions: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Precisions to choose from, e.g. fp32,int8.",
            autocompletion=completion.precisions,
        ),
    ] = _DEFAULT_PRECISIONS,
    losses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with the sensitivity of layers, {layer: {precision: loss}}, e.g. losses.json.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure the sensitivity on an .npz file with samples (x) and labels (y), e.g. test.npz.",
        ),
    ] = None,
    front: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="Print the Pareto front over two of: loss, weights, activations, latency, energy,"
            " e.g. loss,weights.",
            autocompletion=completion.axes,
            show_default=False,
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(min=2, metavar="N", help="Maximum number of points of a --front, e.g. 50.")
    ] = 20,
    fits: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Only list the precisions at which each layer's tensors fit this size, e.g. 512KiB.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            metavar="MEASURE",
            help="Size compared with --fits, e.g. peak: tensors (larger of inputs and outputs), sum (both),"
            " working-set or peak.",
        ),
    ] = "tensors",
    sensitivity: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Sensitivity without --data or --losses: weights (rounding error of the weights) or analytic"
            " (from their shapes only), e.g. analytic (default: weights).",
            show_default=False,
        ),
    ] = None,
    gap: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Stop once the loss is proven within this share of the optimum, e.g. 1%."
        ),
    ] = "0%",
    search_limit: Annotated[
        float,
        typer.Option(metavar="S", min=0.1, help="Time limit per assignment in seconds, e.g. 60."),
    ] = 20,
    input: Inputs = None,
    bind: Bind = None,
    trust: Trust = False,
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show at most N layers, e.g. 20.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the precision map as JSON, e.g. mixed.json."
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a recipe for the format's quantizer (ai-edge-quantizer, ONNX Runtime or"
            " torchao), e.g. recipe.json.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Json = False,
    rules: Rules = None,
) -> None:
    """Find the mixed-precision assignment with the lowest loss within your budgets, with a proof."""
    from sizeup import render
    from sizeup.api import models as models_api
    from sizeup.api import precision as api
    from sizeup.checks.limits import parse_share
    from sizeup.cli import terminal
    from sizeup.results.precision import read_losses

    for path in (output, recipe):
        if path is not None:
            render.check_path("PrecisionAssignment" if front is None else "PrecisionFront", path)
    names = [name.strip() for name in precisions.split(",") if name.strip()]
    losses_by_layer = None if losses is None else read_losses(losses)
    arguments = {**model_inputs(input), "bind": bindings(bind), "precisions": names}
    budgets: Any = {"weights": weights, "activations": activations, "latency": latency, "energy": energy}
    search: Any = {"sensitivity": sensitivity, "gap": parse_share(gap, "--gap"), "time_limit": search_limit}
    result: PrecisionAssignment | PrecisionFits | PrecisionFront
    with terminal.steps(f"assigning precisions to {terminal.name_of(model)}") as progress:
        for path in rules or ():
            models_api.load_rules(path)
        if fits is not None:
            _refuse_budgets(budgets)
            result = api.fits(model, fits, **arguments, measure=measure.replace("-", " "), target=device)
        elif front is not None:
            result = api.front(
                model,
                _axes(front),
                **arguments,
                **budgets,
                **search,
                points=points,
                losses=losses_by_layer,
                target=device,
                progress=progress,
            )
        else:
            result = api.choose(
                model,
                **arguments,
                **search,
                **budgets,
                losses=losses_by_layer,
                target=device,
                data=data,
                trusted=trust,
                progress=progress,
            )
    _show(result, output, recipe, json, top, raw_csv)


def _refuse_budgets(budgets: Mapping[str, str | None]) -> None:
    for name, limit in budgets.items():
        if limit is not None:
            raise SizeupError(f"--{name} cannot be combined with --fits, which assigns no precisions")


def _axes(text: str) -> tuple[str, str]:
    first, _, second = text.partition(",")
    return first.strip(), second.strip()


def _show(
    result: PrecisionAssignment | PrecisionFits | PrecisionFront,
    output: Path | None,
    recipe: Path | None,
    as_json: bool,
    top: int | None,
    raw_csv: bool,
) -> None:
    """Write the result to files and print it as JSON or text."""
    from sizeup.cli import terminal
    from sizeup.render.console import precision as console
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits

    if output is not None:
        result.save(output, raw_csv=raw_csv)
    if as_json:
        terminal.print_json(result.to_dict())
    elif isinstance(result, PrecisionAssignment):
        console.render(result, terminal.output(), top)
    elif isinstance(result, PrecisionFits):
        console.render_fits(result, terminal.output(), top)
    else:
        console.render_front(result, terminal.output())
    # Last, so that the result is printed even if the recipe fails.
    if recipe is not None and isinstance(result, PrecisionAssignment):
        for note in result.write_recipe(recipe).notes:
            terminal.print_note(f"{recipe}: {note}")
    terminal.print_written([output, recipe if isinstance(result, PrecisionAssignment) else None])
    if not isinstance(result, PrecisionFits) and result.undetermined_budgets:
        raise typer.Exit(INCOMPLETE)
