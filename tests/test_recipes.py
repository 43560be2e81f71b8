"""Every recipe of CONTRIBUTING.md works on a copy of the tree in as few files as stated, with a safeguard."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import sizeup
from recipes import RECIPES, Edit, Recipe

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
pytestmark = [pytest.mark.extras, pytest.mark.slow]


def copy_of_tree(folder: Path) -> Path:
    """The package as it is tested, and its tests without recorded outputs."""
    ignored = shutil.ignore_patterns("__pycache__", "golden", "written_by")
    shutil.copytree(Path(sizeup.__file__).parent, folder / "src" / "sizeup", ignore=ignored)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(folder: Path, recipe: Recipe, words: Sequence[str]) -> tuple[int, str]:
    command = [sys.executable, *(recipe.use if word == "@use" else word for word in words)]
    paths = os.pathsep.join(map(str, (folder / "src", folder / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return result.returncode, " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe.edits[0].path for recipe in RECIPES])
def test_a_recipe_works_and_a_mistake_in_it_is_noticed(recipe: Recipe, tmp_path: Path) -> None:
    assert len({edit.path for edit in recipe.edits}) == recipe.files
    folder = copy_of_tree(tmp_path / "right")
    shutil.copytree(folder, tmp_path / "wrong")
    code, before = run(folder, recipe, ("-c", "@use"))
    assert code != 0 or recipe.expected not in before, "it works without the recipe"
    for edit in recipe.edits:
        edit.apply(folder)
    code, output = run(folder, recipe, ("-c", "@use"))
    assert (code, recipe.expected in output) == (0, True), output
    for edit in recipe.edits:
        (recipe.mistake if edit.path == recipe.mistake.path else edit).apply(tmp_path / "wrong")
    code, output = run(tmp_path / "wrong", recipe, recipe.notice)
    assert (code != 0, recipe.noticed in output) == (True, True), output


def test_every_recipe_is_a_section_that_names_its_files() -> None:
    text = PAGE.read_text("utf-8")
    pattern = re.compile(r"^## (Adding .*?)\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
    sections = dict(pattern.findall(text))
    for recipe in RECIPES:
        text = sections[recipe.section]
        assert f"{recipe.files} file" in text, recipe.section
        for edit in recipe.edits:
            names = {edit.path, edit.path.removeprefix("src/sizeup/"), str(Path(edit.path).parent.name)}
            assert any(name in text for name in names), (recipe.section, edit.path)


def test_an_edit_that_finds_no_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    with pytest.raises(AssertionError, match="two"):
        Edit("a.py", "three", after="two").apply(tmp_path)
