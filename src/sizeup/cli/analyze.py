"""`sizeup analyze`: the report on one model."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sizeup.cli.options import (
    Basis,
    Bind,
    Convention,
    Device,
    Inputs,
    Json,
    Model,
    Precision,
    RawCsv,
    Rules,
    Train,
    bindings,
    model_inputs,
)
from sizeup.cli.runner import limited_command

if TYPE_CHECKING:
    from sizeup.results.table import By as Rows

EXAMPLE = "Example: sizeup analyze model.onnx -d rpi5/ort -o report.html"


class By(str, Enum):
    """What each row of the table stands for."""

    op = "op"
    module = "module"
    tree = "tree"
    kind = "kind"
    precision = "precision"


@limited_command
def analyze(
    model: Model,
    device: Device = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    train: Train = False,
    by: Annotated[
        By | None,
        typer.Option(
            metavar="ROWS",
            help="One table row per: op, module, tree (nested modules), kind (op kind) or precision"
            ", e.g. module (default: op for small models, module for large ones).",
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Cut module paths after N names, e.g. 2.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show only the N most expensive rows, e.g. 10.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Columns of the table, e.g. shape,precision,macs, out of: shape, input, output, precision,"
            " ops, params, macs, share, elementwise, read, written, intensity, live, tensors, time, bound.",
            show_default=False,
        ),
    ] = None,
    wide: Annotated[
        bool,
        typer.Option("--wide", help="Print all columns and full names, even if wider than the terminal."),
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a .html, .md, .csv, .json, .trace.json, .overlay.json or .onnx file, e.g."
            " report.html; repeatable.",
        ),
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Draw a .png or .svg file, e.g. memory.png (memory per operator), x.roofline.png (roofline)"
            " or x.modules.png (modules); repeatable.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Json = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 if part of the model is not counted.")
    ] = False,
    rules: Rules = None,
    convention: Convention = None,
    basis: Basis = None,
    coefficients: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table of ms per 2 million MACs by layer and precision, e.g. coefficients.toml.",
        ),
    ] = None,
) -> None:
    """Report MACs, parameters, memory and, with -d, latency of a model, and what could not be counted."""
    if depth is not None and by not in (None, By.module, By.tree):
        raise typer.BadParameter(
            f"only valid with --by module or --by tree, not --by {by.value}", param_hint="--depth"
        )
    from sizeup import render
    from sizeup.api import analyze as api
    from sizeup.api import models as models_api
    from sizeup.cli import terminal
    from sizeup.render import plots
    from sizeup.render.data import report as data

    timed = any(option is not None for option in (device, basis, coefficients))
    selected: tuple[str, ...] = ()
    rows: Rows | None = by.value if by else None
    if columns is not None:
        from sizeup.render.console import columns as table_columns

        selected, rows = table_columns.parse_columns(columns, rows, timed=timed)
    for path in output or ():
        render.check_path("Report", path, timed=timed)
    for path in plot or ():
        plots.check(path, timed=timed)
    arguments = model_inputs(input)
    sizes = bindings(bind)
    with terminal.busy(f"reading {terminal.name_of(model)}") as set_status:
        for path in rules or ():
            models_api.load_rules(path)
        report = api.analyze(
            model,
            **arguments,
            bind=sizes,
            train=train,
            precision=precision,
            target=device,
            basis=basis.value if basis else None,
            coefficients=coefficients,
            convention=convention,
            strict=strict,
        )
        for path in output or ():
            set_status(f"writing {path}")
            report.save(path, raw_csv=raw_csv)
        for path in plot or ():
            set_status(f"drawing {path}")
            report.plot(path)
    if json:
        terminal.print_json(data.json_lines(report))
    else:
        from sizeup.render.console import report as console

        console.render(report, terminal.output(), by=rows, depth=depth, top=top, columns=selected, wide=wide)
    terminal.print_written([*(output or ()), *(plot or ())])
