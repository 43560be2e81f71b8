"""A device file to fill in, and the command that prints it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from sizeup.targets.device import DEVICE_KINDS, ROLES, UNIT_KINDS

_TEMPLATE = """\
# Replace every ?, delete what you do not know, then: sizeup analyze MODEL -d {file}
[[device]]
name = {name}
title = {title}
kind = "?"  # {kinds}
maker = "?"
runtimes = ["?"]  # the usual one first: {runtimes}
source = "?"  # the address of a data sheet, or "derived: ...", "measured: ..."
# like = "?"  # a similar device of sizeup's, whose values hold for lines that are deleted here
units = [
  # kind: {units}; number types: fp64, fp32, bf16, fp16, int8, ...
  {{ kind = "?", name = "?", peak = {{ fp32 = "? TFLOPS", int8 = "? TOPS" }} }},
]
memories = [
  # role: {roles}
  {{ name = "RAM", role = "ram", size = "? GiB", bandwidth = "? GB/s" }},
]
"""


def template(title: str, runtimes: Sequence[str]) -> str:
    """A device file with a question mark for every value, which is refused until they are replaced."""
    return _TEMPLATE.format(
        file=shlex.quote(f"{slug(title)}.toml"),
        name=json.dumps(slug(title)),
        title=json.dumps(title, ensure_ascii=False).replace("\x7f", "\\u007f"),
        kinds=", ".join(DEVICE_KINDS),
        runtimes=", ".join(runtimes),
        units=", ".join(UNIT_KINDS),
        roles=", ".join(ROLES),
    )


def adding_command(title: str) -> str:
    """What to type to add a device."""
    file = f"{slug(title)}.toml"
    return f"sizeup devices {shlex.quote(title)} --template > {file}, fill it in, and use -d {file}"


def slug(title: str) -> str:
    """A short name for a device: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9+]+", "-", title.casefold()).strip("-") or "device"
