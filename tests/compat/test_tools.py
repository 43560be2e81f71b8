"""The older tools as a list, and what each prints to somebody who does not know its arguments."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from sizeup.cli import commands
from sizeup.compat.tools import TOOLS

pytestmark = pytest.mark.extras

MODULES = [tool.module for tool in TOOLS]


def ran(module: str, *words: str) -> int:
    """The exit code of `python -m`, run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, *words])
        # Without the copy that other tests imported: it runs as a program of its own.
        patch.delitem(sys.modules, module, raising=False)
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as left:
            return int(left.code or 0)
    return 0


def test_tools_are_listed_with_their_calls_and_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("sizeup.compat") == 0
    printed = capsys.readouterr().out
    for tool in TOOLS:
        assert f"{tool.title}\n  still  {tool.call}\n  now    {tool.now}\n" in printed


@pytest.mark.parametrize("module", MODULES)
def test_a_tool_without_arguments_prints_its_usage(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(f"sizeup.compat.{module}") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: ")
    assert ran(f"sizeup.compat.{module}", "--help") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("usage: ")


def test_every_tool_is_named_wherever_its_users_look() -> None:
    assert set(MODULES) == set(commands._OLDER_TOOLS)
    files = Path(ROOT, "src/sizeup/compat").glob("*.py")
    assert {path.stem for path in files if "__main__" in path.read_text("utf-8")} == {*MODULES, "__main__"}
    readme = Path(ROOT, "README.md").read_text("utf-8")
    page = Path(ROOT, "docs/coming-from.md").read_text("utf-8")
    for tool in TOOLS:
        assert tool.title in readme
        assert f"## {tool.title}\n" in page
