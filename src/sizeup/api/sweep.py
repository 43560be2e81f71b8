"""Sweeps over many models, targets, precisions and shapes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizeup.api.precision import as_int

if TYPE_CHECKING:
    from sizeup.sweeps import Engine, Limits, Progress, Sweep


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str],
    *,
    engine: Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    seconds: float | None = None,
    memory: int | str | None = None,
    tries: int | None = None,
    retry_errors: bool = False,
    in_process: bool = False,
    compact: bool = False,
    prune: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Evaluate every model of a spec at every point, and store the rows as Parquet in `out`.

    `spec` is a TOML file or the same content as a mapping; `out` a folder or an fsspec address. Rows that
    exist are not computed again, except errors with `retry_errors`. `engine` is "local" (processes on this
    machine) or "ray" (on this machine, or the cluster at `address`). A model that crashes, hangs or is
    corrupt becomes error rows after `tries` attempts, each limited to `seconds` and `memory` (e.g. "4 GiB").
    With `in_process` models are loaded in this process and can crash it. `prune` removes rows that are not
    part of the spec.
    """
    from sizeup import sweeps

    parsed = sweeps.read_spec(spec)
    limits = _with_overrides(parsed.limits, seconds, memory, tries)
    result = sweeps.sweep(
        parsed,
        out,
        sweeps.SweepOptions(engine, address, workers, limits, retry_errors, in_process, prune),
        progress,
    )
    if compact:
        sweeps.compact(sweeps.Store(out))
    return result


def compact(out: str | os.PathLike[str]) -> int:
    """Rewrite a store sorted by device, precision and model; returns the number of rows."""
    from sizeup import sweeps

    return sweeps.compact(sweeps.Store(out))


def _with_overrides(
    limits: Limits, seconds: float | None, memory: int | str | None, tries: int | None
) -> Limits:
    """The limits of a spec, overridden by arguments that are not None."""
    from sizeup.checks.limits import parse_limit
    from sizeup.targets import quantities

    size = as_int(parse_limit(memory, quantities.SIZE, "--memory"))
    return replace(
        limits,
        seconds=limits.seconds if seconds is None else seconds,
        memory_bytes=limits.memory_bytes if size is None else size,
        tries=limits.tries if tries is None else tries,
    )
