"""`sizeup query`: read the results of a sweep by a view or by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.options import Json, RawCsv
from sizeup.cli.runner import command

_FOR_OTHERS = 1 << 29  # bytes, of all except DuckDB
EXAMPLE = "Example: sizeup query results --view fits -d stm32f746 --precision int8 --under 20ms"


@command
def query(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Results of a sweep (sizeup sweep -o DIR), e.g. results.", show_default=False
        ),
    ],
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL",
            help="A SELECT from points, or from a view by its name, e.g. 'SELECT * FROM fits'.",
            show_default=False,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="View to print: summary, fits, misfits, fastest, serving, pareto, unknown, errors or"
            " regressions, e.g. fits (default: summary).",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device", "-d", metavar="NAME", help="Only this device or target, e.g. rpi5/ort; repeatable."
        ),
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE",
            help='Only this precision, e.g. int8 ("stored": as in the model file); repeatable.',
        ),
    ] = None,
    under: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only points whose expected latency is at most this, e.g. 20ms (the upper end of the"
            " interval, high_ms, may be above it).",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Show at most N rows (fits, misfits, fastest: N per target, precision and batch), e.g. 5.",
            show_default=False,
        ),
    ] = None,
    axes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Two columns of the Pareto front, e.g. ms,peak_bytes or ms,max:accuracy (default:"
            " ms,weight_bytes).",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Earlier sweep for the view regressions (table before in SQL), e.g. results-v1.",
        ),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Table with further columns per model, e.g. accuracy.csv (or .parquet); repeatable.",
        ),
    ] = None,
    memory_limit: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Stop a query that needs more memory, e.g. 4GiB."),
    ] = "1GiB",
    time_limit: Annotated[
        str, typer.Option(metavar="TIME", help="Stop a query that takes longer, e.g. 20s.")
    ] = "300s",
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write .csv, .parquet or .json, or the leaderboard as .html, e.g. board.html; repeatable.",
        ),
    ] = None,
    raw_csv: RawCsv = False,
    json: Json = False,
) -> None:
    """Query the results of a sweep: which models fit, which are fastest, which regressed, or any SQL."""
    from sizeup import render
    from sizeup.api import query as api
    from sizeup.checks.limits import parse_limit
    from sizeup.cli import terminal
    from sizeup.render.console import query as console
    from sizeup.render.data.query import json_lines
    from sizeup.targets import quantities

    for path in output or ():
        render.check_path("QueryResult", path)
    most_bytes = parse_limit(memory_limit, quantities.SIZE, "--memory-limit")
    with _memory_limit(int(most_bytes or 0)):
        with terminal.busy(f"querying {folder}"):
            result = api.query(
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
                memory_limit=memory_limit,
                time_limit=time_limit,
            )
            for path in output or ():
                result.save(path, raw_csv=raw_csv)
        if json:
            terminal.print_json(json_lines(result))
        elif not output:
            console.render(result, terminal.output())
    terminal.print_written(output or ())


@contextmanager
def _memory_limit(most_bytes: int) -> Iterator[None]:
    """Limits the memory of this process: DuckDB does not count the values that its functions return."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])  # private writable memory
    except (ModuleNotFoundError, OSError):  # not Linux
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = pages * resource.getpagesize() + most_bytes + _FOR_OTHERS
    try:
        with suppress(ValueError, OSError):  # a lower limit applies already
            resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
