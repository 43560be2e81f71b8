"""What docs/coming-from.md tells users of tflite-tools, the DNN analyzer, Tensorscope and counters to run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

import old_texts
from rewrite.test_branches import branches
from sizeup.cli import app, main
from sizeup.compat.tools import TOOLS
from sizeup.formats.torch.zoo import import_torchvision

pytestmark = pytest.mark.extras

ROOT = Path(__file__).resolve().parents[2]
COUNTERS = "fvcore, thop, ptflops, torchinfo"


def page(title: str) -> str:
    return old_texts.section((ROOT / "docs" / "coming-from.md").read_text("utf-8"), title)


@pytest.mark.parametrize(
    ("title", "shows"),
    [
        ("tflite-tools", "2100 (1110, "),
        ("DNN analyzer", "a pass computes 2.66 MMAC"),
        ("Tensorscope", "Estimated forward pass: "),
        (COUNTERS, "28,800 MACs. Four per element"),
    ],
)
def test_the_snippet_of_a_section_runs(
    title: str,
    shows: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.tflite").write_bytes(branches())
    (snippet,) = old_texts.blocks(page(title), "python")
    exec(compile(snippet, title, "exec"), {})
    assert shows in " ".join(capsys.readouterr().out.split())


OLDER = [tool.title for tool in TOOLS]


def now(title: str) -> list[list[str]]:
    """The commands of the row `now` of a section, as words."""
    (row,) = re.findall(r"^\| now \| (.*) \|$", page(title), re.MULTILINE)
    return [shlex.split(command) for command in re.findall(r"`(.*?)`", row)]


@pytest.mark.parametrize("title", OLDER)
def test_every_command_of_today_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if import_torchvision() is None:
        pytest.skip("torchvision is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.tflite").write_bytes(branches())
    commands = now(title)
    assert commands
    for program, verb, *words in commands:
        assert program == "sizeup"
        if verb == "measure":  # which takes seconds by design
            get_command(app).commands[verb].make_context(verb, words)  # type: ignore[attr-defined]
            continue
        with pytest.raises(SystemExit) as ended:
            main([verb, *words])
        assert not ended.value.code


def test_the_commands_of_the_section_on_counters_run(capsys: pytest.CaptureFixture[str]) -> None:
    if import_torchvision() is None:
        pytest.skip("torchvision is not installed")
    commands = old_texts.commands(page(COUNTERS))
    assert len(commands) == 2
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main(command[1:])
        assert not ended.value.code
    printed = " ".join(capsys.readouterr().out.split())
    assert "11.3 G (11,286,254,592) MACs as counted by thop 0.1.1, 64.3 % of the MACs" in printed
    assert "attention_layer -6.29 G, layer_norm +15.1 M" in printed
    assert "thop 0.1.1: 802,816 MACs. Four per element" in printed
