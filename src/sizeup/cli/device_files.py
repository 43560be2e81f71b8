"""`-d FILE`: a device from a file of your own, without a change of settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_OPTIONS = ("device", "device_b")
_WRITTEN = re.compile(r"(.+?\.(?:toml|json))(?::(.+)|(/[^/]+))?")


class InFile(NamedTuple):
    """FILE, FILE:DEVICE[/RUNTIME] or FILE/RUNTIME as a user types it."""

    file: str
    device: str | None
    runtime: str | None

    def target(self) -> str:
        """The device that is meant: the one that is named, or the only one of the file."""
        from sizeup import targets
        from sizeup.errors import TargetError

        if self.device is not None:
            return self.device
        names = targets.names_in(Path(self.file))
        if len(names) != 1:
            listed = f"it describes {', '.join(names) or 'no device'}"
            raise TargetError(f"{self.file}: {listed}; name one: -d '{self.file}:NAME'")
        return names[0] + (self.runtime or "")


def in_file(text: Any) -> InFile | None:
    """What a text says of a device file; None if it is the name of a device, or no text."""
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else InFile(match[1], match[2], match[3])


@contextmanager
def devices_named(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a verb with device files replaced by the devices that they mean."""
    places = {name: in_file(arguments.get(name)) for name in _OPTIONS}
    known = {name: place for name, place in places.items() if place is not None}
    with device_files(*(place.file for place in known.values())):
        yield {**arguments, **{name: place.target() for name, place in known.items()}}


@contextmanager
def device_files(*files: str) -> Iterator[None]:
    """Have the devices of these files beside all others, also in subprocesses."""
    if not files:
        yield
        return
    from sizeup.errors import TargetError
    from sizeup.targets import VARIABLE

    for file in files:
        if not Path(file).is_file():
            raise TargetError(f"{file}: there is no such device file")
    before = os.environ.get(VARIABLE)
    # Absolute, because catalogs are kept by the places that they were read from.
    places = [*map(os.path.abspath, files), *([before] if before else [])]
    os.environ[VARIABLE] = os.pathsep.join(places)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        os.environ |= {} if before is None else {VARIABLE: before}
