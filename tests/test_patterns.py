"""Patterns of paths that match in very many ways, and folders that links make endless."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.checks import read_budgets
from sizeup.errors import BudgetError, SizeupError
from sizeup.patterns import Finder, Matcher
from sizeup.sweeps.expand import models_of
from sizeup.sweeps.spec import read_spec
from timing import cpu_seconds

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the file system has symbolic links")


def _models(folder: Path, pattern: str) -> list[str]:
    path = folder / "budgets.toml"
    path.write_text(f'[[budget]]\nmodels = "{pattern}"\nmacs = 1\n', "utf-8")
    return [str(Path(model).relative_to(folder)) for model in read_budgets(path).models()[0]]


def _swept(folder: Path, pattern: str) -> list[str]:
    path = folder / "sweep.toml"
    path.write_text(f'models = ["{pattern}"]\ntargets = ["rpi5/ort"]\n', "utf-8")
    return [model.name for model in models_of(read_spec(path))]


@pytest.mark.alone
@pytest.mark.parametrize("find", [_models, _swept])
def test_many_stars_cost_no_more_than_one(tmp_path: Path, find: object) -> None:
    assert callable(find)
    deep = tmp_path.joinpath(*"abcdefghijklmnopqrstuvwxyz")
    deep.mkdir(parents=True)
    (deep / "m.onnx").touch()
    expected = [str((deep / "m.onnx").relative_to(tmp_path))]

    def seconds(pattern: str) -> float:
        assert find(tmp_path, pattern) == expected
        return min(cpu_seconds(lambda: find(tmp_path, pattern)) for _ in range(5))

    once = seconds("**/*.onnx")
    # Ten parts and not one: each `**/*/` could match in very many ways.
    assert seconds(f"{'**/' * 10}*.onnx") < 20 * once
    assert seconds(f"{'**/*/' * 10}*.onnx") < 40 * once


def test_long_names_and_long_patterns_count_for_more(tmp_path: Path) -> None:
    """Each pattern may compare 100,000,000 pairs of characters in a folder of 3,000 names."""
    for number in range(3_000):
        (tmp_path / f"{'a' * 240}{number}").touch()
    finder = Finder(tmp_path)
    patterns = (f"{'**/' * 10}*{'n' * 140}{number}*.onnx" for number in range(200))
    with pytest.raises(ValueError, match="too many steps"):
        assert not [path for pattern in patterns for path in finder.paths(pattern)]


@pytest.mark.alone
def test_many_patterns_over_many_files_take_time_linear_in_the_files(tmp_path: Path) -> None:
    def seconds(folders: int) -> float:
        home = tmp_path / str(folders)
        for number in range(100 * folders):
            (home / f"f{number % folders}").mkdir(parents=True, exist_ok=True)
            (home / f"f{number % folders}" / f"a_model_with_a_name_{number}.onnx").touch()

        def find() -> None:
            finder = Finder(home)
            for number in range(200):
                assert list(finder.paths(f"**/a_model_with_*_name_{number}.onnx"))
                assert list(finder.paths(f"f{number % folders}/*.onnx"))

        return min(cpu_seconds(find) for _ in range(2))

    assert seconds(200) < 30 * seconds(20)


@pytest.mark.alone
@pytest.mark.parametrize("pattern", [f"{'**/*/' * 10}*.onnx", f"{'*/' * 6}*a*b*c*.onnx", f"**/*{'n' * 140}*"])
def test_names_are_compared_in_linear_time_or_not_at_all(pattern: str) -> None:
    """At ten and a hundred times as many names."""
    name = f"{'abcdefgh/' * 6}{'a' * 100}.onnx"

    def seconds(count: int) -> float:
        return min(
            cpu_seconds(lambda: [Matcher().matches(f"{name}{number}", pattern) for number in range(count)])
            for _ in range(3)
        )

    once = seconds(30)
    assert seconds(300) < 30 * once
    assert seconds(3_000) < 300 * once


def test_very_many_comparisons_are_refused() -> None:
    matcher = Matcher()
    with pytest.raises(ValueError, match="too many steps"):
        any(matcher.matches("a" * 240, f"*{'n' * 900}*") for _ in range(30_000))


def test_links_to_links_end(tmp_path: Path) -> None:
    for level in range(9):
        (tmp_path / f"d{level}").mkdir()
        for number in range(9):
            (tmp_path / f"d{level}" / f"l{number}").symlink_to(f"../d{level + 1}")
    (tmp_path / "d9").mkdir()
    (tmp_path / "d9" / "m.onnx").touch()
    with pytest.raises(BudgetError, match="too many steps"):
        _models(tmp_path, f"d0{'/*' * 9}/m.onnx")
    with pytest.raises(SizeupError, match="too many steps"):
        _swept(tmp_path, f"d0{'/*' * 9}/m.onnx")


def test_a_link_to_a_folder_above_ends(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "m.onnx").touch()
    (tmp_path / "nets" / "loop").symlink_to("..")
    (tmp_path / "nets" / "broken").symlink_to("broken")
    assert _models(tmp_path, "**/m.onnx") == ["nets/m.onnx"]
    assert _swept(tmp_path, "**/m.onnx") == ["nets/m.onnx"]
    assert _models(tmp_path, "nets/loop/nets/*.onnx") == ["nets/loop/nets/m.onnx"]


def test_too_many_and_too_long_patterns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "budgets.toml"
    listed = ", ".join(f'"m{number}*.onnx"' for number in range(1_001))
    path.write_text(f"[[budget]]\nmodels = [{listed}]\nmacs = 1\n", "utf-8")
    with pytest.raises(BudgetError, match="more than 1,000 patterns with wildcards"):
        read_budgets(path)
    with pytest.raises(BudgetError, match="a pattern of more than 1,000 characters"):
        _models(tmp_path, "a*" * 501)


FILES = ["f", "a/f", "ab/f", "a/b/f", "a/ab/f", "a/b/ab/f", "b/b/b/f", "a/b/g", ".a/f", "a/.f", "a/.b/f"]
_part = st.sampled_from(["*", "**", "a", "b", "a*", "?", "[!a]", ".*", "f", "."])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hidden files and a link to a folder."""
    folder = tmp_path_factory.mktemp("tree")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "link").symlink_to("a")
    return folder


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(_part, min_size=1, max_size=4), last=st.sampled_from(["f", "*", "?", ".f"]))
def test_files_are_those_that_python_finds(tree: Path, parts: list[str], last: str) -> None:
    pattern = "/".join((*parts, last))
    ours = {path for path in Finder(tree).paths(pattern) if (tree / path).is_file()}
    theirs = {path for path in tree.glob(pattern) if path.is_file()}
    assert {tree / path for path in ours} == theirs
    shell = {path for path in Finder(tree, as_shell=True).paths(pattern) if (tree / path).is_file()}
    there = glob.glob(pattern, root_dir=tree, recursive=True)  # noqa: PTH207 - the oracle
    assert {os.path.normpath(path) for path in shell} == {
        os.path.normpath(path) for path in there if (tree / path).is_file()
    }
