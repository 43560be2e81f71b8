"""Writes versions and hashes of what the GitHub Action installs: `python tools/lock.py`, with uv on the path.

The versions are those of constraints.txt, which the tests run with, for all systems and Python 3.11 or newer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "tools" / "action_constraints.txt"
_HEAD = "# What action.yml installs, by version and hash. Written by tools/lock.py.\n"
_OPTIONS = (
    *("--no-config", "--generate-hashes"),
    *("--universal", "--python-version", "3.11", "--constraint", "constraints.txt", "--extra", "all"),
    *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "pyproject.toml", "-"),
)


def main() -> None:
    """Resolve sizeup with all extras, and what builds and installs it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    done = subprocess.run(
        ["uv", "pip", "compile", *_OPTIONS],
        cwd=ROOT,
        input="\n".join(["pip", *build]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    LOCK.write_text(_HEAD + done.stdout, "utf-8")


if __name__ == "__main__":
    main()
