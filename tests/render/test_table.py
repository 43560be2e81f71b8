"""The table of renderers names functions that exist, for results that exist."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from pkgutil import iter_modules

import pytest

from sizeup import render, results
from sizeup.errors import SizeupError
from sizeup.results.result import Result

pytestmark = pytest.mark.extras

TABLES = ("_PLAIN_DATA", "_FRAMES", "_PICTURES", "_TEXTS", "_PAGES")


def result_classes() -> set[str]:
    packages = (results, import_module("sizeup.serving.results"))
    modules = [
        import_module(f"{package.__name__}.{each.name}")
        for package in packages
        for each in iter_modules(package.__path__)
    ]
    classes = [each for module in modules for _, each in getmembers(module, isclass)]
    return {each.__name__ for each in classes if issubclass(each, Result) and each is not Result}


def test_every_renderer_that_the_tables_name_exists() -> None:
    addresses = {writer.place for writers in render.WRITERS.values() for writer in writers.values()}
    for table in TABLES:
        addresses.update(getattr(render, table).values())
    assert len(addresses) > 30
    for address in addresses:
        module, _, name = address.partition(":")
        path = module if module.startswith("sizeup.") else f"sizeup.render.{module}"
        assert callable(getattr(import_module(path), name)), address


def test_every_result_that_the_tables_name_exists_and_every_result_is_in_one() -> None:
    named = set(render.WRITERS).union(*(getattr(render, table) for table in TABLES))
    assert named == result_classes()


def test_the_longest_ending_decides_and_another_is_refused(tmp_path: Path) -> None:
    assert render._writer("Report", tmp_path / "x.trace.json")[0] == ".trace.json"
    assert render._writer("Report", tmp_path / "x.y.json")[0] == ".json"
    with pytest.raises(SizeupError, match=r"a plan is written as \.json or \.csv; use one of"):
        render.check_path("Plan", tmp_path / "x.txt")
    with pytest.raises(SizeupError, match=": no such folder"):
        render.check_path("Plan", tmp_path / "none" / "x.json")
    with pytest.raises(SizeupError, match="add -d DEVICE"):
        render.check_path("Report", tmp_path / "x.trace.json", timed=False)
