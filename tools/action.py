"""The steps of action.yml: `python -I tools/action.py cache|check`, with the inputs in the environment.

Only the standard library is used, and no part of an input is evaluated or passed through a shell.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_BAD_INPUT = 2
_VERDICTS = {0: "yes", 1: "no", 3: "undetermined"}
_WILD = "*?["


class InputError(ValueError):
    """An input of the Action cannot be used."""


def models(text: str, folder: Path) -> list[str]:
    """The models of an input that lists names and glob patterns, without duplicates.

    In a multi-line input each line is one name and may contain spaces; a single line is split at white space,
    except within quotes.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    names = [line.strip() for line in lines] if len(lines) > 1 else _words(text, "model", escape="")
    return list(dict.fromkeys(match for name in names if name for match in _expanded(name, folder)))


def options(text: str) -> list[str]:
    """Command-line arguments over any number of lines, quoted as in a POSIX shell."""
    return _words(text.replace("\r\n", "\n").replace("\\\n", " "), "args", escape="\\")


def _words(text: str, name: str, escape: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", escape
    try:
        return list(lexer)
    except ValueError as error:
        raise InputError(f"{name}: {error} in {text!r}") from None


def _expanded(name: str, folder: Path) -> Iterator[str]:
    """The name itself, or the files that match a pattern; symbolic links to folders are not followed."""
    if (folder / name).exists() or not any(sign in name for sign in _WILD):
        yield name
        return
    path = Path(name)
    root = Path(path.anchor) if path.is_absolute() else folder
    try:
        pattern = str(path.relative_to(path.anchor)) if path.is_absolute() else name
        files = sorted(file for file in root.glob(pattern) if file.is_file())
    except (ValueError, NotImplementedError, OSError) as error:
        raise InputError(f"model: {name!r} is not a glob pattern: {error}") from None
    if not files:
        raise InputError(f"model: no file matches {name!r} in {folder}")
    yield from (str(file if path.is_absolute() else file.relative_to(folder)) for file in files)


def check(environment: Mapping[str, str]) -> int:
    """Runs `sizeup check`, writes the summary and the outputs of the step, and returns the exit code."""
    reports = Path(tempfile.mkdtemp(prefix="sizeup-", dir=environment.get("RUNNER_TEMP") or None))
    files = {"json": "check.json", "markdown": "check.md", "junit": "check.xml"}
    paths = {name: reports / file for name, file in files.items()}
    command = ["sizeup", "check", "--github"]
    command += [f"--output={paths['json']}", f"--output={paths['markdown']}", f"--junit={paths['junit']}"]
    for option, name in (("--device", "SIZEUP_TARGET"), ("--budget", "SIZEUP_BUDGET")):
        command += [f"{option}={environment[name]}"] if environment.get(name) else []
    try:
        command += options(environment.get("SIZEUP_ARGS", ""))
        # After `--` a model whose name starts with a dash is not an option.
        command += ["--", *models(environment.get("SIZEUP_MODEL", ""), Path.cwd())]
    except InputError as error:
        print(f"::error title=sizeup check::{_escaped(str(error))}", flush=True)
        code = _BAD_INPUT
    else:
        code = subprocess.run(command, check=False).returncode
    written = {name: str(path) for name, path in paths.items() if path.is_file()}
    # A crash also ends with 1, but writes no report.
    verdict = _VERDICTS.get(code, "error") if "json" in written else "error"
    outputs = {"verdict": verdict, **written}
    _append("GITHUB_OUTPUT", environment, (f"{name}={value}\n" for name, value in outputs.items()))
    if "markdown" in written:
        _append("GITHUB_STEP_SUMMARY", environment, [paths["markdown"].read_text("utf-8")])
    return code


def cache(environment: Mapping[str, str]) -> int:
    """Writes pip's cache folder, and a cache key that covers all inputs of pip's downloads."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pip", "cache", "dir"], check=True, capture_output=True, text=True
    )
    project = Path(__file__).parent.parent / "pyproject.toml"
    digest = hashlib.sha256(project.read_bytes() + environment.get("SIZEUP_EXTRAS", "").encode()).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = f"sizeup-pip-{sys.platform}-{platform.machine()}-{python}-{digest}"
    _append("GITHUB_OUTPUT", environment, [f"folder={done.stdout.strip()}\n", f"key={key}\n"])
    return 0


def _append(name: str, environment: Mapping[str, str], lines: Iterable[str]) -> None:
    """Appends to the file named by an environment variable."""
    if environment.get(name):
        with Path(environment[name]).open("a", encoding="utf-8") as file:
            file.writelines(lines)


def _escaped(text: str) -> str:
    """The text escaped as the data of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit({"cache": cache, "check": check}[sys.argv[1]](os.environ))
