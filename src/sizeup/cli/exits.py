"""How a verb ends: errors become one line on stderr and an exit code."""

from __future__ import annotations

import errno
import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from sizeup.errors import Incomplete, SizeupError

FAILED = 1
BAD_INPUT = 2
INCOMPLETE = 3
# As a shell reports a program that a signal ended: SIGINT is 2.
_INTERRUPTED = 128 + 2

_Parameters = ParamSpec("_Parameters")


def verb(function: Callable[_Parameters, None]) -> Callable[_Parameters, None]:
    """Make a function a verb: whatever it raises on purpose ends the program without a traceback."""

    @functools.wraps(function)
    def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        try:
            function(*args, **kwargs)
            sys.stdout.flush()
        except SizeupError as error:
            # Here and not above: completion and --help do without the packages that this needs.
            from sizeup.cli.terminal import complain

            complain(str(error))
            raise typer.Exit(INCOMPLETE if isinstance(error, Incomplete) else BAD_INPUT) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            from sizeup.report.pipes import PIPE_CLOSED, forget_output

            forget_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            from sizeup.cli.terminal import complain
            from sizeup.report.pipes import forget_output

            forget_output()
            complain(f"the report could not be written: {error.strerror}")
            raise typer.Exit(BAD_INPUT) from None

    return run
