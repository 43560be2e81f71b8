"""The summary of a sweep as text and JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.render import envelope
from sizeup.units import duration, plural

if TYPE_CHECKING:
    from sizeup.results.parts import Sweep


def text(sweep: Sweep) -> str:
    """Returns a few lines: what was evaluated, what was written, and which errors occurred."""
    engine = "in local processes" if sweep.engine == "local" else "on Ray"
    summary = f"{plural(sweep.models, 'model')} at {plural(sweep.points, 'point')} each, {engine}"
    lines = [f"{summary}, in {duration(sweep.seconds)}"]
    if sweep.existing:
        lines.append(f"{plural(sweep.existing, 'model')} already had all rows")
    store = _short(sweep.store)
    lines.append(f"{plural(sweep.rows, 'row')} written to {store}, {sweep.errors:,} of them errors")
    for error_type, rows in sweep.error_types.items():
        example = sweep.error_examples.get(error_type)
        lines.append(
            f"  {error_type}: {plural(rows, 'row')}" + (f", for example {example}" if example else "")
        )
    if sweep.errors:
        lines.append("--retry-errors evaluates them again")
    if sweep.caveats:
        lines.append(f"{plural(sweep.caveats, 'row')} with a symbolic batch set to 1 (column caveat)")
    lines += _pruned(sweep)
    among = f" (of {plural(sweep.models - sweep.existing, 'model')} evaluated now)" if sweep.existing else ""
    lines += [f"bind: no model has a dimension {name!r}{among}" for name in sweep.unknown_bind]
    lines.append(f"$ sizeup query {shlex.quote(store)}")
    return "\n".join(lines)


def _pruned(sweep: Sweep) -> Iterator[str]:
    """Yields what was removed, with the first models by name."""
    if sweep.pruned is None:
        return
    pruned = sweep.pruned
    files = plural(pruned.files, "file")
    yield f"{plural(pruned.rows, 'row')} removed that this spec does not plan, and {files}"
    yield from (f"  {model}: {plural(rows, 'row')}" for model, rows in pruned.examples.items())
    if pruned.models > len(pruned.examples):
        yield f"  and {plural(pruned.models - len(pruned.examples), 'other model')}"


def corrupt_shards_text(sweep: Sweep) -> str:
    """Returns the warning on shards that could not be read."""
    others = f" and {plural(sweep.corrupt_shards - 1, 'other file')}" if sweep.corrupt_shards > 1 else ""
    verb = "were" if sweep.corrupt_shards > 1 else "was"
    return f"{_short(sweep.corrupt_shard)}{others} could not be read and {verb} replaced"


def to_json(sweep: Sweep) -> str:
    """Returns the summary as one JSON object."""
    content = {
        "store": sweep.store,
        "engine": sweep.engine,
        "models": sweep.models,
        "points": sweep.points,
        "existing": sweep.existing,
        "rows": sweep.rows,
        "errors": sweep.errors,
        "failed": sweep.failed,
        "error_types": sweep.error_types,
        "error_examples": sweep.error_examples,
        "seconds": sweep.seconds,
        "corrupt_shards": sweep.corrupt_shards,
        "corrupt_shard": sweep.corrupt_shard,
        "pruned": None if sweep.pruned is None else asdict(sweep.pruned),
        "caveats": sweep.caveats,
        "unknown_bind": sweep.unknown_bind,
    }
    return json.dumps({**envelope.head(), "sweep": content}, indent=2)


def _short(address: str) -> str:
    """Returns a path relative to the current folder if it is inside it."""
    path = Path(address)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else address
