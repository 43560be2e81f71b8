"""What agents of CI systems take for commands in the output of a step."""

from __future__ import annotations

import re


def commands(output: str) -> list[str]:
    """The lines of an output that an agent acts on."""
    # .NET and Java end a line at both; GitLab's sections include a carriage return.
    lines = [line for line in re.split("\r\n|\r|\n", output) if _is_command(line)]
    return lines + re.findall(r"section_(?:start|end):\d+:[\w.-]+(?:\[.*\])?\r\x1b\[0K", output)


def _is_command(line: str) -> bool:
    github = line.lstrip().startswith("::") or "##[" in line
    azure = "##vso[" in line
    teamcity = "##teamcity[" in line
    buildkite = line.startswith(("--- ", "+++ ", "~~~ ", "^^^ "))
    return github or azure or teamcity or buildkite
