"""Values that shell completion offers; imports nothing heavy, so that it answers quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from sizeup.files import write_text

# The script that typer installs for zsh only registers itself when it is first loaded, and completes nothing.
_REGISTER = "compdef _sizeup_completion sizeup"
_COMPLETE_AND_REGISTER = f"""\
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _sizeup_completion "$@"
fi
{_REGISTER}"""


def devices(incomplete: str) -> list[str]:
    """Names of devices and boards, or after a slash targets of that device."""
    from sizeup import targets
    from sizeup.errors import SizeupError

    name, slash, _ = incomplete.partition("/")
    if not slash:
        names = [*targets.names_of_kind("device"), *targets.names_of_kind("board")]
        return _starting_with(incomplete, names)
    try:
        return _starting_with(incomplete, [f"{name}/{runtime}" for runtime in targets.device(name).runtimes])
    except SizeupError:
        return []


def runtimes(incomplete: str) -> list[str]:
    """Names of runtimes."""
    from sizeup import targets

    return _starting_with(incomplete, targets.names_of_kind("runtime"))


def kinds(incomplete: str) -> list[str]:
    """Kinds of devices."""
    from sizeup import targets

    return _starting_with(incomplete, [kind for kind in targets.DEVICE_CLASSES if " " not in kind])


def precisions(incomplete: str) -> list[str]:
    """Precisions for one name, or for the last name of a comma-separated list."""
    from sizeup.dtypes import PRECISIONS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _starting_with(last, PRECISIONS)]


def axes(incomplete: str) -> list[str]:
    """Pairs of quantities for a Pareto front."""
    quantities = ("loss", "weights", "activations", "latency", "energy")
    return _starting_with(incomplete, [f"{x},{y}" for x in quantities for y in quantities if x != y])


def one_of(*words: str) -> Callable[[str], list[str]]:
    """A completion function that offers these words."""

    def complete(incomplete: str) -> list[str]:
        return _starting_with(incomplete, words)

    return complete


def _starting_with(start: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(start)]


def patch_zsh_script(home: Path) -> None:
    """Change the script installed for zsh so that it completes when it is first loaded."""
    script = home / ".zfunc" / "_sizeup"
    if script.is_file() and _COMPLETE_AND_REGISTER not in (text := script.read_text("utf-8")):
        write_text(script, [text.replace(_REGISTER, _COMPLETE_AND_REGISTER)])
