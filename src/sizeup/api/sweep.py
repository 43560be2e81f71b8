"""Sweeps over many models and points."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizeup.api.precision import whole

if TYPE_CHECKING:
    from sizeup.sweeps import Engine, Limits, Progress, Sweep


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str],
    *,
    engine: Engine = "here",
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
    """Evaluate every model of a spec at every point, and keep the rows as Parquet in `out`.

    A spec is a TOML file, or plain data of the same form; `out` a folder or an address of fsspec. What is
    there already is not computed again, errors only with `retry_errors`. The engine is `here`, processes of
    this machine, or `ray`, on this machine or at an `address`. A model that crashes, hangs or is corrupt
    becomes rows that say so, after so many `tries` of so many `seconds` with so much `memory` ("4 GiB");
    with `in_process` models are loaded in this process, where they could end it. With `prune` rows that this
    spec does not plan are removed at the end.
    """
    from sizeup import sweeps

    asked = sweeps.read_spec(spec)
    limits = _limited(asked.limits, seconds, memory, tries)
    done = sweeps.sweep(
        asked,
        out,
        sweeps.SweepOptions(engine, address, workers, limits, retry_errors, in_process, prune),
        progress,
    )
    if compact:
        sweeps.compact(sweeps.Store(out))
    return done


def compact(out: str | os.PathLike[str]) -> int:
    """Write the rows of a store anew, by device and precision and sorted by model; how many there are."""
    from sizeup import sweeps

    return sweeps.compact(sweeps.Store(out))


def _limited(given: Limits, seconds: float | None, memory: int | str | None, tries: int | None) -> Limits:
    """The limits of a spec, but for what is asked for beside it."""
    from sizeup.targets import quantities

    size = whole(quantities.asked(memory, quantities.SIZE))
    return replace(
        given,
        seconds=given.seconds if seconds is None else seconds,
        memory_bytes=given.memory_bytes if size is None else size,
        tries=given.tries if tries is None else tries,
    )
