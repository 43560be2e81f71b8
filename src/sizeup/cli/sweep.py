"""`sizeup sweep`: many models at many points, kept as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.clock import since_start
from sizeup.cli.exits import INCOMPLETE, verb

EXAMPLE = "Example: sizeup sweep registry.toml -o results --engine ray"


@verb
def sweep(
    spec: Annotated[
        Path | None,
        typer.Argument(
            metavar="SPEC.toml",
            help="Models, targets, precisions, batches and shapes.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="DIR", help="A folder, or an address such as s3://bucket/sweep."
        ),
    ] = "",
    engine: Annotated[
        str, typer.Option(metavar="here|ray", help="Processes of this machine, or Ray.")
    ] = "here",
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A cluster of Ray; without it, Ray runs on this machine."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Models at a time; by default one for each core.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="S", help="Time for one try of a model.", show_default="300"),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory for one model.", show_default="4GiB")
    ] = None,
    tries: Annotated[
        int | None,
        typer.Option(min=1, help="Tries of a model that crashes or takes too much.", show_default="2"),
    ] = None,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Try again what is an error in the store.")
    ] = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Load models in this process, where they could end it.")
    ] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Sort all rows by device, precision and model at the end.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove rows that this spec does not plan, at the end.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 3 where rows written now are errors.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Evaluate many models at many points, and keep the rows as Parquet. Run again, it goes on."""
    from sizeup.api import sweep as api
    from sizeup.cli import terminal
    from sizeup.render.console import sweep as console

    if not output:
        raise typer.BadParameter("name a folder for the results", param_hint="--output / -o")
    if spec is None and not compact:
        raise typer.BadParameter("name a .toml file, or --compact what is there", param_hint="SPEC.toml")
    if spec is None:
        with terminal.busy(f"sorting {output}"):
            rows = api.compact(output)
        terminal.output().print(f"{rows:,} rows of {output} sorted by device, precision and model")
        return
    with _told_how_to_go_on(), terminal.sweeping(f"starting {spec}") as progress:
        done = api.sweep(
            spec,
            output,
            engine=engine,  # type: ignore[arg-type] # a wrong one is refused in words
            address=address,
            workers=workers,
            seconds=seconds,
            memory=memory,
            tries=tries,
            retry_errors=retry_errors,
            in_process=in_process,
            compact=compact,
            prune=prune,
            progress=progress,
        )
    done = replace(done, seconds=since_start())
    if done.damaged:
        terminal.remark(console.damage(done))
    if json:
        print(console.to_json(done))
    else:
        terminal.output().print(console.text(done), soft_wrap=True)
    if strict and done.errors:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def _told_how_to_go_on() -> Iterator[None]:
    """Whoever stops a sweep need not fear for what it has done."""
    from sizeup.cli import terminal

    try:
        yield
    except KeyboardInterrupt:
        terminal.remark("stopped; what is done is kept, and the same command goes on from there")
        raise
