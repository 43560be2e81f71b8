"""Where a verb prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from sizeup.report.text import plain


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the verb's end, which knows the exit code."""
        raise BrokenPipeError


def output() -> Console:
    """The console for results; no colours where they are not wanted or not shown."""
    return _Output(highlight=False, soft_wrap=False)


def complain(message: str) -> None:
    """Say on stderr what is wrong."""
    text = Text("sizeup: ", style="bold red").append(plain(message))
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


@contextlib.contextmanager
def busy(text: str) -> Iterator[None]:
    """Show that work goes on, on terminals only, and keep stdout free of what other code prints."""
    with contextlib.redirect_stdout(sys.stderr):
        # Not Console.is_terminal, which FORCE_COLOR sets: colours may be wanted in a file, a spinner is not.
        if sys.stderr.isatty():
            with Console(stderr=True).status(text):
                yield
        else:
            yield
