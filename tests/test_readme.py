"""The documentation shows what the program really does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import readme
from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.extras
@pytest.mark.parametrize("name", [*readme.PAGES, *readme.PICTURES])
def test_output_in_a_page_is_current(shared: Path, name: str) -> None:
    pytest.importorskip("tflite_micro")
    page = (ROOT / name).read_text("utf-8")
    assert readme.page_now(name, page) == page


def test_every_page_with_the_output_of_a_command_is_compared() -> None:
    shown = {page.relative_to(ROOT).as_posix() for page in PAGES if "```console" in page.read_text("utf-8")}
    assert shown <= set(readme.PAGES)


@pytest.mark.extras
def test_python_in_the_readme_gives_what_it_says(tmp_path: Path) -> None:
    text = "".join(
        (ROOT / page).read_text("utf-8")
        for page in ("README.md", "docs/examples.md", "docs/start/pytorch.md")
    )
    blocks = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    (tmp_path / "readme.txt").write_text("\n".join(blocks), "utf-8")
    command = [sys.executable, "-m", "doctest", str(tmp_path / "readme.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def options() -> dict[str, set[str]]:
    """Of every verb what may follow it."""
    from typer.main import get_command

    from sizeup.cli import app

    verbs: Any = get_command(app)
    taken = {
        name: {option for each in verb.params for option in (*each.opts, *each.secondary_opts)}
        for name, verb in verbs.commands.items()
    }
    return {name: {*found, "--help"} for name, found in taken.items()}


COMMAND = re.compile(r"(?:^|`|\$ )sizeup ([a-z]+)\b([^`\n#|]*)", re.MULTILINE)


def test_commands_in_the_pages_have_verbs_and_options_that_there_are() -> None:
    known = options()
    seen = set()
    for page in PAGES:
        for verb, rest in COMMAND.findall(page.read_text("utf-8")):
            given = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+|-[a-z])\b", rest))
            if not given and verb not in known:
                continue  # a sentence that begins with the name
            assert given <= known.get(verb, set()), f"{page.name}: sizeup {verb}{rest}"
            seen.add(verb)
    assert seen == set(known)


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
