"""The page of a tradeoff in a real browser, against the table that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import Browser, opened
from sizeup.mixed_precision.accuracy import Accuracy
from sizeup.mixed_precision.figures import Budgets, Figures
from sizeup.mixed_precision.tradeoff import Latency, Point
from sizeup.results.precision import Tradeoff

pytestmark = pytest.mark.extras

HOSTILE = "</script><script>window.broken = 1</script>"


def point(precision: str, share: float, milliseconds: float, accepted: bool | None) -> Point:
    seconds = milliseconds / 1e3
    return Point(
        precision,
        1,
        None,
        Figures(4096, 1024, seconds, seconds),
        Latency(seconds, seconds / 2, 2 * seconds, "roofline", HOSTILE),
        "typical power",
        accuracy=share,
        verdicts={HOSTILE: accepted},
    )


@pytest.fixture(scope="module")
def table() -> Tradeoff:
    points = (
        point("fp32", 0.98, 8.0, False),
        point("int8", 0.97, 2.0, True),
        point("int4", 0.9, 1.5, None),
        Point("int2", 1, None, unsupported="no kernels for int2"),
    )
    return Tradeoff(HOSTILE, "rpi5/ort", Budgets(), points, Accuracy({}, "from a test"))


def test_the_page_shows_the_points_and_runs_nothing_else(
    browser: Browser, table: Tradeoff, tmp_path: Path
) -> None:
    table.save(tmp_path / "page.html")
    shown = opened(browser, tmp_path / "page.html")
    page = shown.page
    assert (shown.complaints, shown.requests) == ([], [])
    assert page.evaluate("window.broken") is None
    rows = [row.split("\t") for row in page.locator("#points tbody tr").all_inner_texts()]
    assert [row[0].strip() for row in rows] == ["int4", "int8", "fp32"]
    assert [row[1:5] for row in rows][1] == ["1", "97.0 %", "2 ms", "1 ms to 4 ms"]
    assert [row[-1] for row in rows] == [f"{HOSTILE} (?)", HOSTILE, "none"]
    assert "no kernels for int2" in page.locator("#unsupported").inner_text()
    drawn = page.evaluate(
        "document.getElementById('scatter').data.map((each) => [each.name, each.x[0], each.y[0],"
        " each.marker.symbol[0].endsWith('open'), each.error_x.array[0]])"
    )
    assert {name: rest for name, *rest in drawn} == {
        "fp32": [0.008, 0.98, True, pytest.approx(0.008)],
        "int8": [0.002, 0.97, False, pytest.approx(0.002)],
        "int4": [0.0015, 0.9, False, pytest.approx(0.0015)],
    }
    page.select_option("#y", "bytes")
    assert page.evaluate("document.getElementById('scatter').data[0].y[0]") == 5120
    # fp32 is rejected, so it is in no card.
    cards = page.locator(".numbers > div").all_inner_texts()
    assert [card.split("\n")[:2] for card in cards][:3] == [
        ["accepted", "1 of 3 points"],
        ["highest accuracy", "97.0 %"],
        ["lowest latency", "1.5 ms"],
    ]
    page.close()
