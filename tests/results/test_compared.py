"""The text of a comparison: its headline, its data, and its verdict on latency."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import sizeup
from comparison.edited import Layer, chain
from networks import three_convolutions, with_unknown
from sizeup.render.console import comparison_output as compared_page
from sizeup.render.console.comparison import difference
from sizeup.render.data import comparison as compared_data
from sizeup.results.comparison import Comparison, Total

WIDE = [Layer(0, "conv", 4, 8, 3), Layer(1, "relu", 8, 8), Layer(2, "conv", 8, 4), Layer(3, "tanh")]
LESS = [Layer(0, "conv", 4, 4, 3), Layer(1, "relu", 4, 4), Layer(2, "conv", 4, 4)]
# 64 places: 8 x 36 and 4 x 8 products before, 4 x 36 and 4 x 4 after.
BEFORE, AFTER = 64 * (8 * 36 + 4 * 8), 64 * (4 * 36 + 4 * 4)


@pytest.fixture
def comparison() -> Comparison:
    return sizeup.compare(chain(WIDE), chain(LESS))


def printed(comparison: Comparison, width: int = 80, **options: int | bool) -> list[str]:
    buffer = io.StringIO()
    compared_page.render(comparison, Console(file=buffer, width=width, color_system=None), **options)  # type: ignore[arg-type]
    return buffer.getvalue().splitlines()


def test_sentence_tells_the_differences_in_percent(comparison: Comparison) -> None:
    assert (BEFORE, AFTER) == (20480, 10240)
    # Weights: 8 x 36 + 4 x 8 = 320 numbers, then 160; at the peak 8 + 8 of 64 floats, then 4 + 4.
    assert comparison.headline == (
        "B has 50.0 % fewer MACs, 50.0 % fewer parameters, 50.0 % smaller weights"
        " and 50.0 % less peak memory."
    )


def test_sentence_of_a_model_and_itself() -> None:
    same = sizeup.compare(three_convolutions(), three_convolutions())
    assert same.headline == "B does not differ from A: 3 operators, all the same."
    assert printed(same)[-1].split() == ["operators", "3", "3", "none"]


def test_what_grew_several_times_is_told_as_times() -> None:
    comparison = sizeup.compare(
        chain(LESS), chain([*LESS, replace(WIDE[0], identity=9, kernel=7, size_out=4)])
    )
    # 64 x 4 x 4 x 49 more MACs than 10,240.
    assert f"{1 + 64 * 16 * 49 / AFTER:.2f} times the MACs" in comparison.headline


def test_unknown_operators_are_part_of_the_sentence() -> None:
    comparison = sizeup.compare(three_convolutions(), with_unknown())
    assert comparison.headline.endswith("Not counted: 0 operators of A and 2 of B.")
    only_unknown = sizeup.compare(chain([Layer(0, "mylib.fancy")]), chain([Layer(0, "relu")]))
    macs = next(each for each in only_unknown.totals if each.name == "macs")
    assert (macs.a, macs.b, macs.difference) == (None, 0, None)


def test_terminal_fits_80_columns_and_starts_with_the_verdict(comparison: Comparison) -> None:
    lines = printed(comparison)
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("B has 50.0 % fewer MACs")
    assert any(
        line.strip() == f"MACs         {AFTER - BEFORE:+,} = changed {AFTER - BEFORE:+,}; 0 unexplained"
        for line in lines
    )
    assert any(line.split()[:4] == ["removed", "1", "x", "tanh"] for line in lines)


def test_rows_are_cut_and_complete_on_demand(comparison: Comparison) -> None:
    everything = printed(comparison, everything=True)
    assert sum(line.split()[2:3] == ["changed"] for line in everything) == 3
    assert sum(line.split()[2:3] == ["removed"] for line in everything) == 1
    top = printed(comparison, top=1)
    assert sum(line.split()[2:3] == ["changed"] for line in top) == 1
    assert any("3 more" in line for line in top)


def test_data_hold_every_row_and_add_up(comparison: Comparison) -> None:
    content = json.loads("".join(compared_data.json_lines(comparison)))
    assert content == json.loads(json.dumps(comparison.to_dict()))
    assert content["schema_version"] == 2
    assert content["totals"]["macs"] == {"a": BEFORE, "b": AFTER, "difference": AFTER - BEFORE}
    assert content["macs"]["explained"]["changed"] == AFTER - BEFORE
    assert content["macs"]["unexplained"] == 0
    assert sum(row["b_macs"] - row["a_macs"] for row in content["rows"]) == AFTER - BEFORE
    assert [row["status"] for row in content["rows"]] == ["changed", "changed", "changed", "removed"]
    assert content["rows"][0]["changes"]["output"] == ["1x8x8x8", "1x4x8x8"]
    assert content["a"]["peak_tensors"][0]["bytes"] == 8 * 64 * 4


def test_files_are_as_their_endings_say(comparison: Comparison, tmp_path: Path) -> None:
    for ending in ("json", "csv", "md"):
        comparison.save(tmp_path / f"compared.{ending}")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "compared.csv").read_text())))
    assert [row["status"] for row in rows] == ["changed", "changed", "changed", "removed"]
    assert sum(int(row["b_macs"]) - int(row["a_macs"]) for row in rows) == AFTER - BEFORE
    text = (tmp_path / "compared.md").read_text()
    assert "| MACs | 20.5 k | 10.2 k | -10.2 k (-50.0 %) |" in text
    with pytest.raises(sizeup.SizeupError, match=r"\.json, \.csv or \.md"):
        comparison.save(tmp_path / "compared.html")


def test_notebook_shows_the_sentence_and_escapes_names(comparison: Comparison) -> None:
    strange = sizeup.compare(chain(WIDE, prefix="<b>"), chain(LESS, prefix="<b>"))
    html = strange._repr_html_()
    assert comparison.headline in html
    assert "<b>0" not in html
    assert repr(comparison).startswith("<Comparison of chain and chain: B has")


@pytest.mark.extras
def test_data_frame_has_one_line_a_row(comparison: Comparison) -> None:
    pytest.importorskip("pandas")
    frame = comparison.to_pandas()
    assert list(frame["status"]) == ["changed", "changed", "changed", "removed"]
    assert (frame["b_macs"] - frame["a_macs"]).sum() == AFTER - BEFORE


def timed(layers: list[Layer]) -> sizeup.Report:
    """A report whose time has a wide range, which networks as small as these may not have by themselves."""
    report = sizeup.analyze(chain(layers), target="rpi5/ort")
    assert report.latency is not None
    seconds = report.latency.seconds
    return replace(report, latency=replace(report.latency, low=seconds / 3, high=3 * seconds))


def test_overlapping_ranges_on_one_basis_tell_the_estimated_difference() -> None:
    a, b = map(timed, (WIDE, LESS))
    comparison = sizeup.compare(a, b)
    assert a.latency is not None
    assert b.latency is not None
    assert (a.latency.low or 0) <= (b.latency.high or 0)
    percent = 100 * (1 - b.latency.seconds / a.latency.seconds)
    assert percent > 0
    assert comparison.verdict == "perhaps faster"
    change = f"{percent:.1f} % less latency"
    assert f", and has an estimated {change}, but the prediction intervals overlap." in comparison.headline
    assert any(
        "estimates on one target share most of their error" in line for line in printed(comparison, 200)
    )
    assert sizeup.compare(b, a).verdict == "perhaps slower"
    rows = [row.seconds for row in comparison.rows if row.seconds is not None]
    run = b.latency.overhead_seconds - a.latency.overhead_seconds
    assert sum(rows) + run == pytest.approx(b.latency.seconds - a.latency.seconds)


def test_overlapping_ranges_on_two_bases_cannot_be_compared() -> None:
    a, b = map(timed, (WIDE, LESS))
    assert a.latency is not None
    assert b.latency is not None
    one, other = replace(a.latency, basis="calibrated"), replace(b.latency, basis="roofline")
    comparison = sizeup.compare(replace(a, latency=one), replace(b, latency=other))
    assert comparison.verdict == "undetermined"
    assert "is undetermined: the bases differ, a calibration for A" in comparison.headline


def test_equal_estimates_of_models_that_differ_take_the_same_time() -> None:
    a, b = map(timed, (WIDE, LESS))
    comparison = sizeup.compare(a, replace(b, latency=a.latency))
    assert comparison.verdict == "no difference"
    assert "the estimated latencies are equal" in comparison.headline


def test_ranges_apart_tell_which_is_faster() -> None:
    a = timed(WIDE)
    assert a.latency is not None
    slower = replace(a.latency, seconds=1.0, low=0.9, high=1.1)
    comparison = sizeup.compare(a, replace(a, latency=slower))
    assert comparison.verdict == "slower"
    assert "times slower" in comparison.headline
    back = sizeup.compare(replace(a, latency=slower), a)
    assert back.verdict == "faster"
    words = "B is faster: the prediction intervals do not overlap"
    assert any(words in line for line in printed(back, width=200))


def test_without_a_range_nothing_is_told_of_time() -> None:
    a, b = (sizeup.analyze(chain(each), target="rpi5/ort") for each in (WIDE, LESS))
    assert b.latency is not None
    comparison = sizeup.compare(a, replace(b, latency=replace(b.latency, low=None, high=None)))
    assert comparison.verdict == "undetermined"
    assert "whether it is faster is undetermined" in comparison.headline
    assert any(
        "undetermined: a prediction interval is unknown" in line for line in printed(comparison, width=200)
    )


def test_what_differs_between_two_runs_of_one_model_is_in_its_line() -> None:
    a, b = (sizeup.analyze(chain(WIDE), target=each) for each in ("rpi5/ort", "rpi4/ort"))
    assert printed(sizeup.compare(a, b), width=80)[:2] == [
        "A  chain (torch) on rpi5/ort",
        "B  chain (torch) on rpi4/ort",
    ]
    a, b = (sizeup.analyze(chain(WIDE), precision=each) for each in (None, "int8"))
    assert printed(sizeup.compare(a, b), width=80)[:2] == ["A  chain (torch)", "B  chain (torch) at int8"]


def test_two_precisions_of_one_model_are_compared() -> None:
    a, b = (sizeup.analyze(chain(WIDE), precision=each) for each in ("fp32", "int8"))
    comparison = sizeup.compare(a, b)
    weights = next(each for each in comparison.totals if each.name == "weight_bytes")
    assert (weights.a, weights.b) == (320 * 4, 320)
    assert {change.column for row in comparison.rows for change in row.changes} == {"precision"}


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (100, 90, "-10 (-10.0 %)"),
        (100, 350, "+250 (x 3.50)"),
        (0, 5, "+5"),
        (5, 5, "none"),
        (None, 5, "-"),
    ],
)
def test_differences_in_words(a: int | None, b: int, text: str) -> None:
    assert difference(Total("macs", a, b)) == text
