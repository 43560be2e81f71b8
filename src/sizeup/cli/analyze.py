"""`sizeup analyze`: what a model costs."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import (
    Basis,
    Bind,
    Convention,
    Device,
    Inputs,
    Model,
    Precision,
    RawCsv,
    Rules,
    bindings,
    model_inputs,
)

if TYPE_CHECKING:
    from sizeup.results.table import By as Rows

EXAMPLE = "Example: sizeup analyze model.onnx -d rpi5/ort -o report.json"


class By(str, Enum):
    """What a row of the table is."""

    op = "op"
    module = "module"
    tree = "tree"
    kind = "kind"
    precision = "precision"


@verb
def analyze(
    model: Model,
    device: Device = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    by: Annotated[
        By | None, typer.Option(help="What a row of the table is; chosen by size without it.")
    ] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Cut module paths after so many names.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Show the costliest rows only.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Columns of the table, as shape,precision,bound. There are shape, input, output, precision,"
            " ops, params, macs, share, elementwise, read, written, intensity, live, tensors, time, bound.",
            show_default=False,
        ),
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Print all columns and full names, wider than the terminal.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a .html, .md, .csv, .json, .trace.json, .overlay.json or .onnx file; repeatable.",
        ),
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Draw memory by operator as .png or .svg, or what x.roofline.png or x.modules.png name;"
            " repeatable.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if part of the model is not counted.")
    ] = False,
    rules: Rules = None,
    convention: Convention = None,
    basis: Basis = None,
    coefficients: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .toml or .json table of ms for 2M MACs by layer and precision."),
    ] = None,
) -> None:
    """Count MACs, parameters and bytes of a model, say what was not counted, and how long a pass takes."""
    if depth is not None and by not in (None, By.module, By.tree):
        raise typer.BadParameter(
            f"a depth cuts modules; it does not go with --by {by.value}", param_hint="--depth"
        )
    from sizeup import render
    from sizeup.api import analyze as api
    from sizeup.api import models as models_api
    from sizeup.cli import terminal
    from sizeup.render import plots
    from sizeup.render.data import report as data

    timed = any(each is not None for each in (device, basis, coefficients))
    chosen: tuple[str, ...] = ()
    rows: Rows | None = by.value if by else None
    if columns is not None:
        from sizeup.render.console import columns as table_columns

        chosen, rows = table_columns.checked(columns, rows, timed=timed)
    for path in output or ():
        render.check_path("Report", path, timed=timed)
    for path in plot or ():
        plots.check(path, timed=timed)
    arguments = model_inputs(input)
    bound = bindings(bind)
    with terminal.busy(f"reading {terminal.name_of(model)}") as now:
        for path in rules or ():
            models_api.load_rules(path)
        report = api.analyze(
            model,
            **arguments,
            bind=bound,
            precision=precision,
            target=device,
            basis=basis.value if basis else None,
            coefficients=coefficients,
            convention=convention,
            strict=strict,
        )
        for path in output or ():
            now(f"writing {path}")
            report.save(path, raw_csv=raw_csv)
        for path in plot or ():
            now(f"drawing {path}")
            report.plot(path)
    if json:
        sys.stdout.writelines(data.json_lines(report))
    else:
        from sizeup.render.console import report as console

        console.render(report, terminal.output(), by=rows, depth=depth, top=top, columns=chosen, wide=wide)
    terminal.tell_written([*(output or ()), *(plot or ())])
