"""The documentation shows what the program really does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.extras
def test_output_in_the_pages_is_current(shared: Path) -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "tools" / "readme.py", "--check"],
        env={**os.environ, "SIZEUP_SHARED": str(shared)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.extras
def test_python_in_the_readme_gives_what_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```pycon\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "readme.txt").write_text("\n".join(blocks), "utf-8")
    command = [sys.executable, "-m", "doctest", str(tmp_path / "readme.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.is_file(), target
        assert not anchor or anchor in anchors(there.read_text("utf-8")), target
