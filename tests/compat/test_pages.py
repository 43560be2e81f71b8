"""What docs/coming-from.md tells users of tflite-tools, the DNN analyzer, Tensorscope and counters to run."""

from __future__ import annotations

from pathlib import Path

import pytest

import old_texts
from rewrite.test_branches import branches
from sizeup.cli import main
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
        (COUNTERS, "28,800 MACs. Four for each number"),
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
    assert "11.3 G (11,286,254,592) MACs as thop 0.1.1 counts, 64.3 % of our MACs" in printed
    assert "attention_layer -6.29 G, layer_norm +15.1 M" in printed
    assert "thop 0.1.1: 802,816 MACs. Four for each number" in printed
