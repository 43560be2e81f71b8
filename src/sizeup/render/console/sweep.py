"""What a sweep did, for people and as data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.render import envelope
from sizeup.units import duration

if TYPE_CHECKING:
    from sizeup.results.parts import Sweep


def text(done: Sweep) -> str:
    """A few lines: how much was asked, how much of it is new, and what went wrong."""
    where = "in processes of this machine" if done.engine == "here" else "on Ray"
    asked = f"{_several(done.models, 'model')} at {_several(done.points, 'point')} each, {where}"
    lines = [f"{asked}, in {duration(done.seconds)}"]
    if done.there:
        lines.append(f"{_several(done.there, 'model')} had all rows there already")
    store = _short(done.store)
    lines.append(f"{_several(done.rows, 'row')} written to {store}, {done.errors:,} of them errors")
    for kind, rows in done.kinds.items():
        example = done.examples.get(kind)
        lines.append(f"  {kind}: {_several(rows, 'row')}" + (f", such as {example}" if example else ""))
    if done.errors:
        lines.append("to retry errors: --retry-errors")
    if done.caveats:
        lines.append(f"{_several(done.caveats, 'row')} with a symbolic batch set to 1 (column caveat)")
    lines += _pruned(done)
    among = f" (of {_several(done.models - done.there, 'model')} evaluated now)" if done.there else ""
    lines += [f"bind: no model has a dimension {name!r}{among}" for name in done.unknown_bind]
    lines.append(f"$ sizeup query {shlex.quote(store)}")
    return "\n".join(lines)


def _pruned(done: Sweep) -> Iterator[str]:
    """What was removed, the first models by name."""
    if done.pruned is None:
        return
    removed = done.pruned
    files = _several(removed.files, "file")
    yield f"{_several(removed.rows, 'row')} removed that this spec does not plan, and {files}"
    yield from (f"  {model}: {_several(rows, 'row')}" for model, rows in removed.examples.items())
    if removed.models > len(removed.examples):
        yield f"  and {_several(removed.models - len(removed.examples), 'other model')}"


def damage(done: Sweep) -> str:
    """What is said of files that could not be read."""
    others = f" and {_several(done.damaged - 1, 'other file')}" if done.damaged > 1 else ""
    verb = "were" if done.damaged > 1 else "was"
    return f"{_short(done.damaged_file)}{others} could not be read and {verb} replaced"


def to_json(done: Sweep) -> str:
    """The same as one JSON object."""
    return json.dumps({**envelope.head(), "sweep": asdict(done)}, indent=2)


def _short(address: str) -> str:
    """A folder below this one as it is typed here."""
    path = Path(address)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else address


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
