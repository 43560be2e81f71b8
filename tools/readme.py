"""Write into the documentation what its commands really print.

    python tools/readme.py            # rewrite the blocks
    python tools/readme.py --check    # exit 1 where one is out of date
    python tools/readme.py docs/querying.md

A block marked `console` holds a command after `$ ` and its output. Model files that it names are looked
for in the folder `shared/models` beside the project (SIZEUP_SHARED names another place).
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import registry

ROOT = Path(__file__).resolve().parent.parent
MODELS = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "models"
PAGES = (
    "README.md",
    "docs/checking.md",
    "docs/cli.md",
    "docs/comparing.md",
    "docs/free-dimensions.md",
    "docs/json.md",
    "docs/latency.md",
    "docs/measuring.md",
    "docs/memory.md",
    "docs/precision.md",
    "docs/querying.md",
    "docs/targets.md",
)
WIDTH = 88

_BLOCK = re.compile(r"```console\n\$ sizeup (.*)\n(?:.*\n)*?```\n")


# What pages need beside the models, made in a folder of their own: a sweep to ask about.
MADE: dict[str, Callable[[Path], None]] = {"docs/querying.md": registry.make}


def output_of(command: str, folder: Path) -> str:
    """What the command line prints, as wide as a page and without colours."""
    plain = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "sizeup", *shlex.split(command)],
        cwd=folder,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    # A check that says no, or that it cannot tell, is an answer and not a failure.
    if done.returncode not in (0, *((1, 3) if command.startswith("check ") else ())):
        raise SystemExit(f"sizeup {command}: exit code {done.returncode}\n{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def current(text: str, folder: Path = MODELS) -> str:
    """A page with every block as it would be printed now, in that folder."""
    return _BLOCK.sub(
        lambda match: f"```console\n$ sizeup {match[1]}\n{output_of(match[1], folder)}```\n", text
    )


def page_now(name: str, before: str) -> str:
    """A page with every block as it would be printed now, where the page has its files."""
    if name not in MADE:
        return current(before)
    with tempfile.TemporaryDirectory() as scratch:
        MADE[name](Path(scratch))
        return current(before, Path(scratch))


def main() -> int:
    """Rewrite the pages, or with `--check` compare them; names of pages leave out the others."""
    stale = 0
    named = [each for each in sys.argv[1:] if not each.startswith("--")]
    for name in named or PAGES:
        path = ROOT / name
        before = path.read_text("utf-8")
        after = page_now(name, before)
        if "--check" not in sys.argv:
            path.write_text(after, "utf-8")
        elif after != before:
            stale += 1
            print(
                "\n".join(
                    difflib.unified_diff(before.splitlines(), after.splitlines(), name, "now", "", "", 1)
                )
            )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
