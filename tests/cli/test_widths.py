"""Nothing that is printed is wider than the terminal, whatever the names in a file are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from sizeup.cli import main

pytestmark = pytest.mark.extras
MODELS = ("mlperf_kws_int8.tflite", "mp_hand_landmark_full.tflite", "tflm_person_detect_vela.tflite")
ON_A_MODEL = (
    ["analyze", "MODEL"],
    ["analyze", "MODEL", "--by", "tree", "-d", "rpi5/ort"],
    ["analyze", "MODEL", "--by", "op", "--convention", "thop"],
    ["analyze", "MODEL", "--by", "kind", "--precision", "fp16"],
    ["analyze", "MODEL", "--by", "module"],
    ["explain", "MODEL", "0"],
    ["plan", "MODEL", "--no-reorder", "--search-limit", "1"],
    ["precision", "MODEL", "--fits", "20KiB"],
    ["check", "MODEL", "-d", "stm32f746", "--no-remedies"],
    ["compare", "MODEL", "MODEL"],
)
ALONE: tuple[list[str], ...] = ([], ["devices"], ["devices", "rpi5"], ["devices", "stm32"], ["ops", "conv"])
Printed = Callable[..., str]


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path) -> Printed:
    """What a run of the command line prints on a terminal of some width."""
    pytest.importorskip("ai_edge_litert")
    monkeypatch.chdir(shared / "models")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(arguments: list[str], width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as left:
            main(arguments)
        captured = capfd.readouterr()
        # 'Does not fit' and 'undetermined' are valid results; bad input and crashes are not.
        assert left.value.code in (None, 0, 1, 3), captured.err
        return captured.out

    return run


def widest(text: str) -> str:
    """The longest line that is not a command to be copied, which must not be broken."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("$ ")]
    return max(lines, key=cell_len)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("command", ON_A_MODEL, ids=" ".join)
def test_verbs_keep_to_80_columns(printed: Printed, command: list[str], model: str) -> None:
    line = widest(printed([model if each == "MODEL" else each for each in command], 80))
    assert cell_len(line) <= 80, line


@pytest.mark.parametrize("command", ALONE, ids=" ".join)
def test_lists_keep_to_80_columns(printed: Printed, command: list[str]) -> None:
    line = widest(printed(command, 80))
    assert cell_len(line) <= 80, line


def test_more_room_is_used_for_longer_names_and_more_columns(printed: Printed) -> None:
    model = "mp_hand_landmark_full.tflite"
    narrow, wide, wider = (printed(["analyze", model, "--by", "op", "--top", "5"], n) for n in (80, 120, 200))
    titles = [
        next(line for line in text.splitlines() if line.lstrip().startswith("#"))
        for text in (narrow, wide, wider)
    ]
    counts = [len(line.split()) for line in titles]
    assert counts[0] < counts[1] < counts[2]
    assert "…" in narrow.partition("\n\n")[2]
    assert "…" not in wider.partition("\n\n")[2]
