"""Ranking of boards: which runtime counts, what is undetermined, and the order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import sizeup
from networks import three_convolutions
from sizeup import latency, targets
from sizeup.backends import MemoryNeed, MemoryPart
from sizeup.checks import MemoryFit, Needs
from sizeup.checks.ranking import (
    BoardFit,
    Reason,
    _best,
    _memory_fit,
    _memory_reasons,
    _with_latency,
    _with_verdict,
    rank_boards,
)
from sizeup.cli import main
from sizeup.cost import count
from sizeup.render.console.ranking import latency_text
from sizeup.targets import LatencyStanding

RAM = MemoryNeed("ram", 100, (MemoryPart("arena", 50, 50, "a test"),))
FITS = MemoryFit(RAM, None)
UNDETERMINED = MemoryFit(MemoryNeed("ram", 100, (MemoryPart("arena", 50, 200, "a test"),)), None)


def row(runtime: str, low: float | None, high: float | None = None, fit: MemoryFit = FITS) -> BoardFit:
    expected = None if low is None or high is None else (low + high) / 2
    standing: LatencyStanding = (
        "unknown" if low is None else "data sheet only" if high is None else "calibrated"
    )
    return BoardFit(targets.target(f"nano33ble/{runtime}"), fit, fit.fits, (), low, high, expected, standing)


def best(under: float | None, *rows: BoardFit) -> BoardFit:
    return _best([_with_verdict(each, under) for each in rows])


def test_a_lower_bound_does_not_count_if_another_runtime_is_too_slow_for_certain() -> None:
    slow, bound = row("tflm-cmsis-nn", 0.2, 0.4), row("microtvm", 0.01)
    verdict = best(0.1, bound, slow)
    assert verdict.fits is False
    assert verdict.target.runtime.name == "tflm-cmsis-nn"
    assert verdict.reasons == (Reason("latency", "at least 200 ms"),)
    # Without that runtime it is undetermined, never a fit.
    assert best(0.1, bound).fits is None
    # A runtime that is fast enough decides.
    assert best(0.1, slow, row("microtvm", 0.05, 0.08)).target.runtime.name == "microtvm"


def test_reference_kernels_count_only_if_no_other_runtime_can_hold_the_model() -> None:
    slow = row("tflm", 2.0, 3.0)
    assert best(0.1, row("microtvm", 0.01), slow).fits is None
    assert best(None, row("microtvm", 0.01), slow).target.runtime.name == "microtvm"
    too_large = MemoryFit(MemoryNeed("ram", 10, RAM.parts), None)
    verdict = best(0.1, row("microtvm", 0.01, fit=too_large), slow)
    assert (verdict.fits, verdict.target.runtime.name) == (False, "tflm")


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [(1.0, 3.0, (1.0, 3.0, 2.0)), (1.0, None, (1.0, None, None)), (None, None, (2.0, None, None))],
)
def test_a_latency_without_an_interval_is_a_lower_bound(
    low: float | None, high: float | None, bounds: tuple[float | None, ...]
) -> None:
    cost = count(three_convolutions())
    estimate = replace(latency.estimate(cost, targets.target("rpi5/litert")), seconds=2.0, low=low, high=high)
    timed = _with_latency(row("tflm", None), estimate)
    assert (timed.low_seconds, timed.high_seconds, timed.seconds) == bounds


def test_a_reason_has_the_need_and_what_is_usable() -> None:
    """Of 50 to 200 B and 200 B, on boards of 100 B."""
    too_large = MemoryFit(replace(RAM, parts=(MemoryPart("arena", 200, 300, "a test"),)), None)
    assert _memory_reasons(too_large) == (Reason("RAM", "at least 200 B needed, 100 B usable"),)
    assert _memory_reasons(UNDETERMINED) == (Reason("RAM", "50 B to 200 B needed, 100 B usable"),)
    reserved = MemoryFit(
        replace(RAM, parts=(MemoryPart("arena", 50, None, "a test"),), reserve_bytes=9), None
    )
    text = "50 B to an unknown amount needed, 100 B usable, 9 B reserved"
    assert _memory_reasons(reserved) == (Reason("RAM", text),)


def test_of_lower_bounds_the_shortest_counts_and_before_an_unknown_latency() -> None:
    rows = row("tflm-cmsis-nn", None), row("microtvm", 0.02), row("tflm-cmsis-nn", 0.01)
    assert best(None, *rows).low_seconds == 0.01
    assert best(None, *rows[:2]).low_seconds == 0.02


def test_the_application_takes_ram_in_place_of_the_reserve_and_no_flash() -> None:
    """261,632 B of RAM are usable on an Arduino Nano 33 BLE."""
    needs, target = Needs(three_convolutions(), count(three_convolutions())), targets.target("nano33ble/tflm")
    assert target.board is not None
    reserve = targets.MemoryAmounts("a test", 10_000, 20_000, "drivers")
    target = replace(target, board=replace(target.board, reserve=reserve))
    for application, limit, reserved in ((None, 261_632, 10_000), (100_000, 161_632, 0)):
        fit = _memory_fit(needs, target, application)
        assert (fit.ram.limit_bytes, fit.ram.reserve_bytes) == (limit, reserved)
        assert fit.flash is not None
        assert fit.flash.reserve_bytes == 20_000


@pytest.mark.parametrize(("board", "runtime"), [("nano33ble", "microtvm"), ("alif-e7-dk", "tflm-cmsis-nn")])
def test_runtimes_that_read_the_file_count_or_all_if_none_does(board: str, runtime: str) -> None:
    """microTVM reads ONNX files, TFLite Micro does not."""
    graph = replace(three_convolutions(), format="onnx")
    (fit,) = rank_boards(Needs(graph, count(graph)), targets.boards(board))
    assert fit.target.runtime.name == runtime


def test_a_limit_within_the_interval_is_undetermined() -> None:
    verdict = best(0.3, row("tflm", 0.2, 0.4))
    assert verdict.fits is None
    assert verdict.reasons[0].about == "latency"
    assert best(0.4, row("tflm", 0.2, 0.4)).fits is True
    assert best(0.1, row("tflm", None)).fits is None


def test_undetermined_memory_is_no_fit_at_any_latency() -> None:
    verdict = best(None, row("tflm", 0.1, 0.2, UNDETERMINED))
    assert verdict.fits is None
    assert [reason.about for reason in verdict.reasons] == ["RAM"]
    assert best(None, row("tflm", 0.1, 0.2, UNDETERMINED), row("microtvm", 0.01)).fits is True


def test_an_estimate_of_vela_is_no_bound_and_counts_before_one() -> None:
    """It has no interval, so that a limit is neither met nor missed; the CPU does not rule out the NPU."""
    npu = replace(
        row("tflm", None), target=targets.target("alif-e7-dk/tflm-ethos-u"), seconds=0.001, standing="vela"
    )
    assert best(None, row("tflm-cmsis-nn", 0.002), npu).target is npu.target
    assert best(None, npu).fits is True
    assert latency_text(npu) == "1 ms"
    verdict = best(0.1, row("tflm-cmsis-nn", 0.2, 0.4), npu)
    assert (verdict.fits, verdict.target) == (None, npu.target)
    assert verdict.reasons == (Reason("latency", "Vela's estimate has no prediction interval: 1 ms"),)
    assert best(1e-6, npu).fits is None


@pytest.mark.extras
def test_boards_with_an_ethos_u_are_ranked_by_vela(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ethosu", reason="Vela is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = shared / "models" / "tflm_micro_speech.tflite"
    (fit,) = sizeup.rank_targets(path, boards="alif-e7-dk").fits
    latency = sizeup.analyze(path, target=fit.target).latency
    assert latency is not None
    assert (fit.target.runtime.name, fit.standing, fit.seconds) == ("tflm-ethos-u", "vela", latency.seconds)
    assert (fit.low_seconds, fit.high_seconds, fit.caveats) == (None, None, ())
    monkeypatch.setattr("sizeup.runtimes.vela.installed_version", lambda: None)
    (other,) = sizeup.rank_targets(path, boards="alif-e7-dk").fits
    assert other.target.runtime.name == "tflm-cmsis-nn"
    assert "not on the Ethos-U" in other.caveats[-1]
    with pytest.raises(SystemExit):
        main(["devices", "alif-e7-dk", "--for", str(path)])
    assert "pip install 'sizeup[ethos-u]'" in " ".join(capfd.readouterr().out.split())


@pytest.mark.extras
def test_every_verdict_is_that_of_check(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    path = shared / "models" / "mlperf_vww96_int8.tflite"
    report = sizeup.analyze(path)
    ranking = sizeup.rank_targets(path)
    assert {each.board.name for each in ranking.rows} == {board.name for board in targets.boards()}
    assert len(ranking.fits) + len(ranking.undetermined) + len(ranking.unfit) == len(ranking.rows)
    for each in ranking.rows[::12]:
        check = sizeup.check(report, each.target, remedies=False)
        assert check.fits is each.fits, each.target.name
    usable = [each.available_ram_bytes or 0 for each in ranking.fits]
    assert usable == sorted(usable)


@pytest.mark.extras
def test_latency_and_application_narrow_the_ranking(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    report = sizeup.analyze(shared / "models" / "mlperf_kws_int8.tflite")
    every, fast = sizeup.rank_targets(report), sizeup.rank_targets(report, under="20 ms")
    assert {each.board.name for each in fast.fits} < {each.board.name for each in every.fits}
    assert all(each.high_seconds is not None and each.high_seconds <= 0.02 for each in fast.fits)
    large = sizeup.rank_targets(report, boards="nrf52840", ram="250 KiB")
    assert not large.fits
    assert {each.reasons[0].about for each in large.unfit} == {"RAM"}
    assert len(large.rows) == len(targets.boards("nrf52840"))
    prices = {"nano33ble": 30, "pico": 4, "nucleo-l4r5zi": 20}
    names = [each.board.name for each in sizeup.rank_targets(report, prices=prices).fits]
    assert names[:3] == ["pico", "nucleo-l4r5zi", "nano33ble"]


@pytest.mark.extras
def test_the_command_prints_fits_apart_from_undetermined(
    shared: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    monkeypatch.setenv("COLUMNS", "80")
    model = str(shared / "models" / "mlperf_kws_int8.tflite")
    prices = tmp_path / "prices.csv"
    prices.write_text("board,price\npico,4\nnano33ble,25\nunheard-of,1\n", "utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["devices", *arguments])
        captured = capfd.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    code, out, _ = run("--for", model, "--under", "50ms", "--prices", str(prices))
    assert code == 0
    assert max(map(len, out.splitlines()[2:])) <= 80
    first, _, second = out.partition("undetermined, not counted as a fit")
    assert ">=" not in first
    assert ">=" in second
    assert "1 price of unknown boards ignored: unheard-of" in out
    code, out, _ = run("--for", model, "--under", "50ms", "--json")
    content = json.loads(out)
    assert content["fits"]
    assert content["undetermined"]
    assert all(each["fits"] is None and each["reasons"] for each in content["undetermined"])
    code, _, err = run("--under", "50ms")
    assert code == 2
    assert "--under needs a model: add --for MODEL" in err
    code, _, err = run("--for", model, "--under", "50")
    assert code == 2
    assert "--under 50: give a unit, e.g. 50ms" in err
