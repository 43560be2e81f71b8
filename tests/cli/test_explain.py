"""`sizeup explain --free`: formulas of counts, and of the time on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sizeup.cli import main

KEYWORDS = Path("models") / "mlperf_kws_int8.tflite"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, 80 columns wide."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def ended(*arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        captured = capfd.readouterr()
        return Ended(int(left.value.code or 0), captured.out, captured.err)

    return ended


@pytest.mark.extras
def test_explain_gives_formulas_of_free_dimensions(run: Run, shared: Path) -> None:
    ended = run("explain", shared / KEYWORDS, "--free", "batch")
    assert ended.code == 0
    assert "MACs                   = 2656768 * batch" in ended.out
    assert "holds from             batch 1" in ended.out
    neither = run("explain", shared / KEYWORDS)
    assert (neither.code, neither.out) == (2, "")
    assert "either an operator, or --free" in neither.err
    unknown = run("explain", shared / KEYWORDS, "--free", "height")
    assert unknown.code == 2
    assert "only the batch" in unknown.err


@pytest.mark.extras
def test_explain_gives_formulas_of_the_time_on_a_device(run: Run, shared: Path) -> None:
    ended = run("explain", shared / KEYWORDS, "--free", "batch", "-d", "stm32f746/tflm")
    assert ended.code == 0
    assert "seconds                = 4 * k1 + k2 + 4 * k3 + k4" in ended.out
    by_sheet = run(
        "explain", shared / KEYWORDS, "--free", "batch", "-d", "stm32f746/tflm", "--basis", "roofline"
    )
    assert "basis                  roofline" in by_sheet.out
    assert by_sheet.out != ended.out
    one = run("explain", shared / KEYWORDS, "0", "-d", "stm32f746/tflm")
    assert (one.code, one.out) == (2, "")
    assert "--device goes with --free" in one.err
    alone = run("explain", shared / KEYWORDS, "--free", "batch", "--basis", "roofline")
    assert alone.code == 2
    assert "name a target with --device" in alone.err
    nowhere = run("explain", shared / KEYWORDS, "--free", "batch", "-d", "stm32f746/nothing")
    assert nowhere.code == 2
