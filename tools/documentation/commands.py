"""The page of commands and options, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from documentation.tables import escaped, table

_HEAD = """\
# Commands and options

Every command with all of its arguments and options, generated from the command line: the same text as
`sizeup COMMAND --help`. [The command line](../cli.md) explains the commands with examples of their output.

"""


def commands() -> dict[str, Any]:
    """Every command by its name."""
    from typer.main import get_command

    from sizeup.cli import app

    group: Any = get_command(app)
    return dict(group.commands)


def page() -> Iterator[str]:
    """The page."""
    yield _HEAD
    rows = (
        (f"[`sizeup {name}`](#sizeup-{name})", _text(command.help.partition("\n\n")[0]))
        for name, command in commands().items()
    )
    yield from table(("command", "purpose"), rows)
    for name, command in commands().items():
        yield from _section(name, command)


def _section(name: str, command: Any) -> Iterator[str]:
    yield f"\n## sizeup {name}\n\n{_text(command.help)}\n\n"
    example = re.sub(r"^Example: ", "", command.epilog or "")
    if example:
        yield f"```sh\n{example}\n```\n\n"
    yield from table(("argument or option", "value", "meaning"), map(_row, command.params))


def _row(parameter: Any) -> tuple[str, str, str]:
    is_argument = not parameter.opts[0].startswith("-")
    if is_argument:
        name = parameter.metavar or parameter.name.upper()
        names = f"`{name}`" + ("" if parameter.required else ", optional")
        return names, "", _text(parameter.help or "")
    names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    is_flag = getattr(parameter, "is_flag", False) or parameter.metavar is None
    return names, "" if is_flag else f"`{parameter.metavar}`", _text(parameter.help or "")


def _text(text: str) -> str:
    """Help as Markdown: single line breaks are those of the source, not of the text."""
    paragraphs = text.replace("\b", "").strip().split("\n\n")
    return escaped("\n\n".join(re.sub(r"\s+", " ", paragraph) for paragraph in paragraphs))
