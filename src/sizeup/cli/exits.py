"""How a verb begins and ends: all take `--quiet`; errors become one line on stderr and an exit code."""

from __future__ import annotations

import errno
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from sizeup.cli.device_files import devices_named
from sizeup.errors import Incomplete, SizeupError

FAILED = 1
BAD_INPUT = 2
INCOMPLETE = 3
# As a shell reports a program that a signal ended: SIGINT is 2.
_INTERRUPTED = 128 + 2

_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a verb: whatever it raises on purpose ends the program without a traceback."""

    @functools.wraps(function)
    def run(*args: Any, quiet: bool = False, **kwargs: Any) -> None:
        try:
            # Here and not above: completion and --help do without the packages that this needs.
            from sizeup.cli import terminal

            terminal.set_quiet(quiet)
            with devices_named(kwargs) as arguments:
                function(*args, **arguments)
            sys.stdout.flush()
        except SizeupError as error:
            terminal.complain(str(error))
            raise typer.Exit(INCOMPLETE if isinstance(error, Incomplete) else BAD_INPUT) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            from sizeup.render.console.pipes import PIPE_CLOSED, forget_output

            forget_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            from sizeup.render.console.pipes import forget_output

            forget_output()
            terminal.complain(f"the report could not be written: {error.strerror}")
            raise typer.Exit(BAD_INPUT) from None

    return _with_quiet(run)


def _with_quiet(run: Callable[..., None]) -> Callable[..., None]:
    """The one option that all verbs share, added to what each takes itself."""
    signature = inspect.signature(run, eval_str=True)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Quiet)
    run.__annotations__ = {**run.__annotations__, "quiet": _Quiet}
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), quiet])  # type: ignore[attr-defined]
    return run
