"""Checks that a tag may be released; prints what is missing and returns 1, or prints nothing and returns 0.

    python tools/release.py v0.2.0

The release workflow runs it first. The owner of the repository is in one place, `[project.urls]` of
pyproject.toml; until a repository exists it is the placeholder OWNER there and in the examples of the pages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = re.compile(r"\bOWNER\b")


def problems(root: Path, tag: str) -> Iterator[str]:
    """Whatever must be done before this tag is released, one line each."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    version = project["version"]
    if any(PLACEHOLDER.search(url) for url in project["urls"].values()):
        yield "pyproject.toml: replace OWNER in [project.urls] with the account that hosts the repository"
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        if PLACEHOLDER.search(page.read_text("utf-8")):
            yield f"{page.relative_to(root).as_posix()}: replace OWNER, as in [project.urls]"
    if tag != f"v{version}":
        yield f"tag {tag} is not v{version}: set version in pyproject.toml, or delete the tag"
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        yield f"CHANGELOG.md: no section '## [{version}] - YYYY-MM-DD'"
    if not (root / "tests" / "written_by" / version).is_dir():
        yield f"tests/written_by/{version} does not exist: run python tools/written_by.py"


def main(tag: str) -> int:
    """Prints the problems; the exit code."""
    lines = list(problems(ROOT, tag))
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1]))
