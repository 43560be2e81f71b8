"""From `pip install` to the first answer: runs the pages of docs/start in clean environments, with times.

    python tools/first_answers.py          # or: make first-answers; writes docs/first-answers.md

The wheel is built from this checkout. Versions are those of constraints.txt.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from doctest import DocTestParser
from pathlib import Path

from documentation import sample_files
from documentation.tables import table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "first-answers.md"
USERS = {
    "docs/start/embedded.md": "Embedded engineer",
    "docs/start/pytorch.md": "Model builder in PyTorch",
    "docs/start/inference.md": "Inference engineer",
    "docs/start/registry.md": "Owner of a registry or CI",
}
HEAD = """# From pip install to the first answer

`make first-answers` builds the wheel and, for each of the four [first five minutes](start/embedded.md),
creates an empty virtual environment, installs what the page names and runs its commands. This is the
transcript.

{date}, {cores} cores shared with other work, Python {python}, packages from a mirror without a cache of pip.
"""
_EXTRAS = re.compile(r"^pip install '(sizeup\[[\w,]+\])'$", re.MULTILINE)
_COMMAND = re.compile(r"^(?:```console\n\$ )?(sizeup .*)$", re.MULTILINE)  # with its output, or alone
_EXAMPLE = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """A line that was typed, its output, and the seconds that it took: elapsed, and of CPU time."""

    typed: str
    output: str
    seconds: float
    cpu_seconds: float


def run(typed: str, command: Sequence[str | Path], folder: Path, text: str | None = None) -> Step:
    """Run a command as wide as a page; exit codes other than 0 and 1 (does not fit) end the script."""
    names = ("PATH", "HOME", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "SSL_CERT_FILE")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    start, cpu_start = time.perf_counter(), _cpu_seconds()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "COLUMNS": "88", "NO_COLOR": "1", "PYTHON_BASIC_REPL": "1"},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{typed}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return Step(typed, done.stdout, time.perf_counter() - start, _cpu_seconds() - cpu_start)


def _cpu_seconds() -> float:
    """CPU time of all subprocesses that ended."""
    times = os.times()
    return times.children_user + times.children_system


def steps(page: str, wheel: Path, folder: Path) -> Iterator[Step]:
    """The steps of a page in a new environment."""
    text = (ROOT / page).read_text("utf-8")
    requirement = _EXTRAS.findall(text)[0]
    venv.create(folder / "env", with_pip=True)
    bin_folder = folder / "env" / "bin"
    files = folder / "files"
    files.mkdir()
    if page in sample_files.FILES:
        sample_files.FILES[page](files)
    package = str(wheel) + requirement.removeprefix("sizeup")
    options = ("--quiet", "--no-cache-dir", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    pip = (bin_folder / "pip", "install", *options, package)
    yield run(f"pip install '{requirement}'", pip, files)
    for command in _COMMAND.findall(text):
        yield run(command, (bin_folder / "sizeup", *shlex.split(command)[1:]), files)
    for example in _EXAMPLE.findall(text):
        yield _interactive(example, bin_folder / "python", files)


def _interactive(example: str, python: Path, folder: Path) -> Step:
    """An example typed into Python; its output must be that of the page."""
    parts = DocTestParser().get_examples(example)
    # An empty line ends a block.
    source = "".join(part.source + "\n" * (part.source.count("\n") > 1) for part in parts)
    step = run("python", (python, "-i", "-q"), folder, source)
    if step.output != "".join(part.want for part in parts):
        raise SystemExit(f"other output than on the page:\n{step.output}")
    return replace(step, output=example)


def transcript(user: str, taken: Sequence[Step]) -> Iterator[str]:
    """The section of a user."""
    lines = (
        f"$ {step.typed}\n{step.output}".rstrip()
        + f"\n# {step.seconds:.1f} s, {step.cpu_seconds:.1f} s of CPU time\n"
        for step in taken
    )
    yield f"\n## {user}\n\n```text\n" + "\n".join(lines) + "```\n"


def main() -> None:
    """Write the page."""
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        build = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", scratch, ROOT)
        subprocess.run(build, check=True)
        (wheel,) = Path(scratch).glob("sizeup-*.whl")
        for page, user in USERS.items():
            folder = Path(scratch, Path(page).stem)
            folder.mkdir()
            results[user] = list(steps(page, wheel, folder))
            print(user, [round(step.seconds, 1) for step in results[user]], flush=True)
    rows = (
        (f"[{user}](#{user.lower().replace(' ', '-')})", *_times(taken)) for user, taken in results.items()
    )
    now = datetime.now(timezone.utc).date()
    text = HEAD.format(date=now, cores=os.cpu_count(), python=platform.python_version())
    text += "".join(table(("user", "install", "first answer", "both", "CPU time of both"), rows, "lrrrr"))
    PAGE.write_text(text + "".join("".join(transcript(*each)) for each in results.items()), "utf-8")


def _times(taken: Sequence[Step]) -> tuple[str, ...]:
    install, answer = taken[:2]
    seconds = (install.seconds, answer.seconds, install.seconds + answer.seconds)
    return (*(f"{each:.0f} s" for each in (*seconds, install.cpu_seconds + answer.cpu_seconds)),)


if __name__ == "__main__":
    main()
