"""`sizeup sweep`: evaluate many models at many points and store the rows as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli.clock import since_start
from sizeup.cli.commands import USAGE_ERROR
from sizeup.cli.options import Json
from sizeup.cli.runner import INCOMPLETE, command

EXAMPLE = "Example: sizeup sweep registry.toml -o results --workers 8"


@command
def sweep(
    spec: Annotated[
        Path | None,
        typer.Argument(
            metavar="SPEC.toml",
            help="Sweep spec: models, targets, precisions, batch sizes and shapes, e.g. models.toml (optional"
            " with --compact).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder or fsspec address for the results, e.g. results or s3://bucket/sweep.",
        ),
    ] = "",
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="Run in processes on this machine, or on Ray, e.g. ray.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Ray cluster to use, e.g. head:6379 (default: Ray runs on this machine).",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of models evaluated in parallel, e.g. 8 (default: one per core).",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="S",
            help="Time limit in seconds per attempt to evaluate a model, e.g. 60 (default: 300).",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory limit per model, e.g. 8GiB (default: 4GiB).", show_default=False
        ),
    ] = None,
    tries: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Attempts for a model that crashes or exceeds a limit, e.g. 3 (default: 2).",
            show_default=False,
        ),
    ] = None,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Retry points that ended in an error.")
    ] = False,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Load models in this process, without protection from crashes."),
    ] = False,
    compact: Annotated[
        bool,
        typer.Option("--compact", help="Afterwards, rewrite all rows sorted by device, precision and model."),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Afterwards, remove rows that are not part of this spec.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 if any row written by this run is an error.")
    ] = False,
    json: Json = False,
) -> None:
    """Evaluate many models on many targets and store the rows as Parquet; an interrupted sweep resumes."""
    from sizeup.api import sweep as api
    from sizeup.cli import terminal
    from sizeup.render.console import sweep as console

    missing = ["SPEC.toml"] * (spec is None and not compact) + ["-o DIR"] * (not output)
    if missing:
        raise USAGE_ERROR(f"missing {' and '.join(missing)}")
    if spec is None:
        with terminal.busy(f"sorting {output}"):
            rows = api.compact(output)
        terminal.output().print(
            f"sorted {rows:,} rows of {output} by device, precision and model", markup=False
        )
        return
    with _resume_hint(), terminal.sweeping(f"starting {spec}") as progress:
        result = api.sweep(
            spec,
            output,
            engine=engine,  # type: ignore[arg-type] # sweeps.sweep rejects unknown engines
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
    result = replace(result, seconds=since_start())
    if result.corrupt_shards:
        terminal.print_note(console.corrupt_shards_text(result))
    if json:
        terminal.print_json([console.to_json(result), "\n"])
    else:
        terminal.output().print(console.text(result), soft_wrap=True, markup=False)
    if strict and result.errors:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def _resume_hint() -> Iterator[None]:
    """Print how to resume if the sweep is interrupted."""
    from sizeup.cli import terminal

    try:
        yield
    except KeyboardInterrupt:
        terminal.print_note("interrupted; finished rows are stored, run the same command again to resume")
        raise
