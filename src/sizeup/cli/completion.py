"""What the shell offers where a value is typed; nothing heavy is loaded, for somebody waits at a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from sizeup.files import write_text

# What zsh loads at the first press of the key must answer it, too; typer's script only registers itself then.
_REGISTERS = "compdef _sizeup_completion sizeup"
_ANSWERS = f"""\
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _sizeup_completion "$@"
fi
{_REGISTERS}"""


def devices(incomplete: str) -> list[str]:
    """Devices, and after a slash the runtimes of the one before it."""
    from sizeup import targets
    from sizeup.errors import SizeupError

    name, slash, _ = incomplete.partition("/")
    if not slash:
        return _beginning(incomplete, targets.listed("device"))
    try:
        return _beginning(incomplete, [f"{name}/{each}" for each in targets.device(name).runtimes])
    except SizeupError:
        return []


def runtimes(incomplete: str) -> list[str]:
    """Runtimes by name."""
    from sizeup import targets

    return _beginning(incomplete, targets.listed("runtime"))


def kinds(incomplete: str) -> list[str]:
    """Kinds of devices."""
    from sizeup import targets

    return _beginning(incomplete, [kind for kind in targets.DEVICE_KINDS if " " not in kind])


def precisions(incomplete: str) -> list[str]:
    """Number types, one or the last of a list."""
    from sizeup.dtypes import PRECISIONS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{each}" for each in _beginning(last, PRECISIONS)]


def axes(incomplete: str) -> list[str]:
    """Two amounts that a choice is between."""
    amounts = ("loss", "weights", "activations", "latency", "energy")
    return _beginning(incomplete, [f"{x},{y}" for x in amounts for y in amounts if x != y])


def one_of(*words: str) -> Callable[[str], list[str]]:
    """What offers these words."""

    def offered(incomplete: str) -> list[str]:
        return _beginning(incomplete, words)

    return offered


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(start)]


def answer_at_once(home: Path) -> None:
    """Let the script that was installed for zsh answer the first press of the key, not only the second."""
    script = home / ".zfunc" / "_sizeup"
    if script.is_file() and _ANSWERS not in (text := script.read_text("utf-8")):
        write_text(script, [text.replace(_REGISTERS, _ANSWERS)])
