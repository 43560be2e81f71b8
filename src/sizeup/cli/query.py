"""`sizeup query`: the results of sweeps, asked by views or SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.exits import verb
from sizeup.cli.options import RawCsv

EXAMPLE = "Example: sizeup query results --view fits -d stm32f746 --precision int8 --under 20ms"


@verb
def query(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="The results of a sweep (sizeup sweep -o).", show_default=False),
    ],
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="[SQL]", help="One SELECT from points, or from a view by its name.", show_default=False
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="summary, fits, misfits, fastest, pareto, unknown, errors or regressions.",
            show_default="summary",
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", "-d", metavar="NAME", help="Only this device or target; repeatable."),
    ] = None,
    precision: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Only this precision, or stored; repeatable.")
    ] = None,
    under: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only points of at most this latency, as 20ms.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows; for fits, misfits and fastest of each target, precision and batch.",
            show_default=False,
        ),
    ] = None,
    axes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="What pareto weighs, as ms,peak_bytes or ms,max:accuracy.",
            show_default="ms,weight_bytes",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="An earlier sweep, for regressions (in SQL: before)."),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A .csv or .parquet table with more about models, as accuracy; repeatable.",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write .csv, .parquet or .json, or the leaderboard as .html; repeatable.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Ask the results of a sweep: what fits, what is fastest, what became worse, or any SQL."""
    from sizeup import render
    from sizeup.api import query as api
    from sizeup.cli import terminal
    from sizeup.render.console import query as console
    from sizeup.render.data.query import json_lines

    for path in output or ():
        render.check_path("QueryResult", path)
    if under is not None and under.strip().isdecimal():
        raise typer.BadParameter(f"name its unit, as {under.strip()}ms", param_hint="--under")
    with terminal.busy(f"asking {folder}"):
        answer = api.query(
            folder,
            sql,
            view=view,
            devices=device or (),
            precisions=precision or (),
            under=under,
            top=top,
            axes=axes,
            against=against,
            join=join or (),
        )
        for path in output or ():
            answer.save(path, raw_csv=raw_csv)
    if json:
        sys.stdout.writelines(json_lines(answer))
    elif not output:
        console.render(answer, terminal.output())
    terminal.tell_written(output or ())
