"""Output without commands of CI systems, whose agents parse what a step prints: names come from model files.

Azure Pipelines looks for `##vso[` and TeamCity for `##teamcity[` anywhere in a line, GitHub Actions for `##[`
anywhere and for `::` after white space at the start of a line (actions/runner, ActionCommand.cs), Buildkite
for the sign of a group there, GitLab for `section_start:1:name\\r\\x1b[0K`. A carriage return ends a line.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from typing import IO, Any, cast

_START = r"(?<![^\r\n])"  # of a line
_COMMAND = re.compile(
    r"(?<=##)(?=\w*\[)"
    rf"|{_START}(?=(?:---|\+\+\+|~~~|\^\^\^) )"
    r"|(?<=\r)(?=\x1b\[0K)"
)
_COLONS = re.compile(rf"{_START}([^\S\r\n]*:)(?=:)")
_ANNOTATIONS: ContextVar[list[str]] = ContextVar("annotations")


def inert(text: str) -> str:
    """Text with a space in everything that an agent takes for a command: `: :error::`, `## vso[...]`."""
    return _COLONS.sub(r"\1 ", _COMMAND.sub(" ", text))


def inert_json(text: str) -> str:
    """JSON text of the same value: `##` and `::` occur in strings alone, which may have escapes."""
    return text.replace("##", r"\u0023\u0023").replace("::", r"\u003a\u003a")


def inert_xml(text: str) -> str:
    """XML text of the same content, for a document without comments and CDATA."""
    return text.replace("##", "&#35;&#35;").replace("::", "&#58;&#58;")


class InertStream:
    """A text stream whose lines are no commands."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text without commands."""
        return self._stream.write(inert(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines without commands."""
        self._stream.writelines(map(inert, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def inert_output(arguments: Sequence[str] = ()) -> Iterator[None]:
    """Print nothing that an agent takes for a command, except the lines of `annotate`.

    On GitHub commands are stopped meanwhile, too, because libraries print past Python's streams. That is
    printed on stderr; with --github on stdout, as annotations are, unless stdout is JSON.
    """
    stdout, stderr = sys.stdout, sys.stderr  # None if closed
    is_annotated = "--github" in arguments
    log = stdout if is_annotated and "--json" not in arguments else stderr
    is_stopped = log is not None and (is_annotated or os.environ.get("GITHUB_ACTIONS") == "true")
    annotations: list[str] = []
    before = _ANNOTATIONS.set(annotations)
    try:
        with (
            _commands_stopped(log) if is_stopped else nullcontext(),
            redirect_stdout(cast(IO[str], stdout and InertStream(stdout))),
            redirect_stderr(cast(IO[str], stderr and InertStream(stderr))),
        ):
            yield
    finally:
        _ANNOTATIONS.reset(before)
        if annotations:
            log.writelines(annotations)


def annotate(lines: Iterable[str]) -> None:
    """Print commands for GitHub Actions once all else is printed."""
    _ANNOTATIONS.get().extend(lines)


@contextmanager
def _commands_stopped(log: IO[str]) -> Iterator[None]:
    token = secrets.token_hex(16)  # which no model can contain
    print(f"::stop-commands::{token}", file=log, flush=True)
    try:
        yield
    finally:
        print(f"::{token}::", file=log, flush=True)
