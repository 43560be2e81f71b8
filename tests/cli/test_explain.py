"""`sizeup explain --free`: formulas of counts, and of the time on a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run

KEYWORDS = Path("models") / "mlperf_kws_int8.tflite"


@pytest.mark.extras
def test_explain_gives_formulas_of_free_dimensions(run: Run, shared: Path) -> None:
    ended = run("explain", shared / KEYWORDS, "--free", "batch")
    assert ended.code == 0
    assert "MACs                   = 2656768 * batch" in ended.out
    assert "valid for              batch >= 1" in ended.out
    neither = run("explain", shared / KEYWORDS)
    assert (neither.code, neither.out) == (2, "")
    assert "give either OP or --free NAMES" in neither.err
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
    assert "--device and --basis need --free" in one.err
    alone = run("explain", shared / KEYWORDS, "--free", "batch", "--basis", "roofline")
    assert alone.code == 2
    assert "--basis needs a target: add -d TARGET" in alone.err
    nowhere = run("explain", shared / KEYWORDS, "--free", "batch", "-d", "stm32f746/nothing")
    assert nowhere.code == 2


@pytest.mark.extras
def test_train_needs_a_module(run: Run, shared: Path) -> None:
    for command in (("analyze",), ("explain", "0")):
        ended = run(command[0], shared / KEYWORDS, *command[1:], "--train")
        assert (ended.code, ended.out) == (2, "")
        assert "mlperf_kws_int8.tflite has no training mode: --train (train=True) needs" in ended.err
