"""Device files that a user names as a target: FILE, FILE:DEVICE[/RUNTIME] or FILE/RUNTIME."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sizeup.errors import TargetError
from sizeup.files import is_file
from sizeup.targets.catalog import current_catalog, with_file
from sizeup.targets.runtime import Target
from sizeup.targets.target_files import names_in

_FILE = re.compile(r"(.+?\.(?:toml|json))(?::(.+)|(/[^/]+))?")


class DeviceFile(NamedTuple):
    """FILE, FILE:DEVICE[/RUNTIME] or FILE/RUNTIME as a user types it."""

    file: str
    device: str | None
    runtime: str | None

    def target(self) -> str:
        """The named device, or the only device in the file; raises TargetError if there is no single one."""
        if self.device is not None:
            return self.device
        names = names_in(Path(self.file))
        if len(names) != 1:
            listed = f"contains {', '.join(names) or 'no device'}"
            raise TargetError(f"{self.file}: {listed}; name one: -d '{self.file}:NAME'")
        return names[0] + (self.runtime or "")


def parse_device_file(text: str) -> DeviceFile | None:
    """The device file that a text names; None for a name."""
    match = _FILE.fullmatch(text)
    return None if match is None else DeviceFile(match[1], match[2], match[3])


def check_exists(file: str) -> None:
    """Raises TargetError if there is no such device file."""
    if not is_file(file):
        raise TargetError(f"{file}: no such device file")


def target_or_file(text: str) -> Target:
    """The target of a name, or of a device file."""
    named = parse_device_file(text)
    if named is None:
        return current_catalog().target(text)
    check_exists(named.file)
    file = str(Path(named.file).absolute())  # catalogs are cached by path
    return replace(with_file(file).target(named.target()), file=file)
