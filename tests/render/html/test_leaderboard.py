"""The leaderboard of a sweep in a real browser: what it ranks, draws and admits, against the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sizeup
from browser import Browser, Opened, opened, titles_in_sight
from sizeup.errors import SizeupError
from sweeps import answers

pytestmark = pytest.mark.extras

TARGETS = ("rpi5/ort", "stm32f746/tflm")
HOSTILE = (
    "</script><script>window.broken = 1</script>",
    '<img src=x onerror="window.broken = 1">',
    "a\x1b[31m",
)


def point(number: int, model: str, target: str, **figures: Any) -> answers.Row:
    usual = {"status": "ok", "fits": True, "ops": 4, "known_ops": 4, "ms": 2.0, "weight_bytes": 4096}
    usual |= {"params": 1000, "macs": 10**6, "peak_bytes": 2048}
    return answers.row_at((model, target, "int8", None, ""), {**usual, **figures}, number)


def rows() -> list[answers.Row]:
    """Twelve models on two targets, among them every kind of doubt, and names that mean harm."""
    page = [
        point(100 * place + number, f"zoo/{name}", target, ms=0.5 + number, params=1000 * (12 - number))
        for place, target in enumerate(TARGETS)
        for number, name in enumerate((*HOSTILE, *(f"net{each}" for each in range(9))))
    ]
    page[3]["fits"], page[3]["ms"] = None, 0.01
    page[4]["known_ops"], page[4]["ms"] = 3, 0.001
    page[5]["ms"] = page[5]["low_ms"] = page[5]["high_ms"] = None
    page[6]["fits"], page[6]["fits_reason"] = False, "RAM: 9 MiB needed, 1 MiB there"
    page.append(point(900, "zoo/broken", TARGETS[0], status="error", error_kind="crash"))
    return page


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    sizeup.query(answers.write(folder / "registry", rows())).save(folder / "board.html")
    return folder / "board.html"


@pytest.fixture(scope="module")
def board(browser: Browser, path: Path) -> Iterator[Opened]:
    page = opened(browser, path)
    yield page
    page.page.close()


def models(page: Any) -> list[str]:
    return [each.strip() for each in page.locator("#table tbody tr[data-row] th").all_inner_texts()]


def test_it_opens_without_complaint_or_request(board: Opened) -> None:
    assert board.complaints == []
    assert board.requests == []
    assert board.page.evaluate("window.broken") is None
    assert board.page.title() == "registry: sizeup leaderboard"


def test_every_target_is_ranked_as_the_rows_say(board: Opened) -> None:
    page = board.page
    for target in TARGETS:
        page.select_option("#target", label=target)
        mine = [row for row in rows() if row["target"] == target]
        ranked = [each[-2] for each in answers.fastest(mine, 99)]
        untimed = [row["model"] for row in answers.options(mine) if row["ms"] is None]
        large = [row["model"] for row in mine if row["fits"] is False]
        expected = [name.removeprefix("zoo/") for name in (*ranked, *untimed, *large)]
        shown = models(page)
        assert shown[-3:] == expected[-3:]
        assert [name for name in shown if name.startswith("net")] == [
            name for name in expected if name.startswith("net")
        ]
        assert len(shown) == len(expected)
    page.select_option("#target", label=TARGETS[0])
    assert "RAM: 9 MiB needed" in page.locator("#table tbody tr[data-row]").last.inner_text()


def test_the_picture_holds_every_point_with_its_range(board: Opened) -> None:
    page = board.page
    page.select_option("#target", label=TARGETS[0])
    traces = page.evaluate(
        "document.getElementById('scatter').data.filter((each) => each.mode === 'markers').map((each) =>"
        " ({name: each.name, y: each.y, up: each.error_y.array, down: each.error_y.arrayminus}))"
    )
    drawn = {
        y: (up, down)
        for each in traces
        for y, up, down in zip(each["y"], each["up"], each["down"], strict=True)
    }
    expected = [row for row in rows() if row["target"] == TARGETS[0] and row["ms"] is not None]
    assert sorted(drawn) == sorted(row["ms"] for row in expected)
    for row in expected:
        up, down = drawn[row["ms"]]
        if row["ms"] in (0.01, 0.001):
            continue  # their range was not moved along with them
        assert up == pytest.approx(row["high_ms"] - row["ms"])
        assert down == pytest.approx(row["ms"] - row["low_ms"])
    assert [re.sub(r" \(.*", "", each["name"]) for each in traces] == [
        "fits",
        "may not fit",
        "incomplete: lower bound",
        "too large",
    ]


def test_choices_narrow_what_is_shown(board: Opened) -> None:
    page = board.page
    page.select_option("#target", label=TARGETS[0])
    page.check("#only-fitting")
    assert "net4" in models(page)
    assert not {"net0", "net1", "net2", "net3"} & set(models(page))
    page.fill("#table input[type=search]", "net8")
    assert models(page) == ["net8"]
    page.fill("#table input[type=search]", "")
    page.uncheck("#only-fitting")
    page.select_option("#size", label="MACs")
    axis = page.evaluate("document.getElementById('scatter').layout.xaxis.title.text")
    assert axis == "MACs"
    page.select_option("#size", label="parameters")


def test_sorting_leaves_what_is_not_known_at_the_end(board: Opened) -> None:
    page = board.page
    page.select_option("#target", label=TARGETS[0])
    for _ in range(2):
        page.click("#table th:has-text('latency') button")
        assert models(page)[-1] == "net2"


def test_it_tells_counts_and_failures_in_words(board: Opened) -> None:
    page = board.page
    page.select_option("#target", label=TARGETS[0])
    assert "12 points; 10 known to fit, 1 too large, 1 undetermined, 1 failed" in page.inner_text("#summary")
    assert "broken" in page.inner_text("#failed")
    assert "All evaluated points are on this page" in page.inner_text("#reading")
    assert "models of zoo/" in page.inner_text("header")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_anybody_can_read_it_on_any_screen(browser: Browser, path: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(browser, path, width=width, color_scheme=scheme)
    try:
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        assert axe.Axe().run(page.page).response["violations"] == []
        page.picture(f"leaderboard-{width}-{scheme}")
        assert page.complaints == []
    finally:
        page.page.close()


def test_telephone_shows_model_latency_and_whether_it_fits_first(browser: Browser, path: Path) -> None:
    narrow, wide = (opened(browser, path, width=width) for width in (390, 1440))
    try:
        assert titles_in_sight(narrow.page, "#table") == ["model", "latency", "fits"]
        assert titles_in_sight(wide.page, "#table")[:3] == ["rank", "model", "latency"]
        # No column is lost for it.
        every = [each.page.locator("#table thead th").all_inner_texts() for each in (narrow, wide)]
        assert sorted(every[0]) == sorted(every[1])
    finally:
        narrow.page.close()
        wide.page.close()


def data_in(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    page: dict[str, Any] = json.loads(
        re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)[0]
    )
    return page


def test_a_long_sweep_makes_a_short_page_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sizeup.sweeps import leaderboard

    monkeypatch.setattr(leaderboard, "MOST_ROWS", 10)
    sizeup.query(answers.write(tmp_path / "registry", rows())).save(tmp_path / "short.html")
    data = data_in(tmp_path / "short.html")
    assert [group["shown"] for group in data["groups"]] == [5, 5]
    text = (tmp_path / "short.html").read_text("utf-8")
    assert "The first 5 points of each target, precision and batch are on this page;" in text
    assert "10 of 24 evaluated points are on this page" in text
    sizeup.query(tmp_path / "registry", top=2).save(tmp_path / "two.html")
    assert [group["shown"] for group in data_in(tmp_path / "two.html")["groups"]] == [2, 2]


def test_a_page_of_sql_is_refused(tmp_path: Path) -> None:
    folder = answers.write(tmp_path / "registry", rows())
    with pytest.raises(SizeupError, match="a leaderboard ranks points; it cannot show a view or SQL"):
        sizeup.query(folder, view="fits").save(tmp_path / "x.html")


def test_it_starts_on_a_target_with_latencies_and_shows_lower_bounds(
    browser: Browser, tmp_path: Path
) -> None:
    """More models fit the target that has lower bounds only, and a plot of it would be empty."""
    bounds = [
        point(number, f"zoo/net{number}", "a/data-sheet", ms=None, low_ms=1.5 + number, high_ms=None)
        for number in range(3)
    ]
    timed = [point(10, "zoo/net0", "b/timed")]
    sizeup.query(answers.write(tmp_path / "registry", bounds + timed)).save(tmp_path / "board.html")
    page = opened(browser, tmp_path / "board.html").page
    try:
        assert page.input_value("#target") == "b/timed"
        assert page.locator("#scatter").is_visible()
        page.select_option("#target", label="a/data-sheet")
        latencies = page.locator("#table tbody tr[data-row] td:nth-of-type(2)").all_inner_texts()
        assert [each.strip() for each in latencies] == ["≥ 1.5 ms", "≥ 2.5 ms", "≥ 3.5 ms"]
        assert not page.locator("#scatter").is_visible()
        page.select_option("#target", label="b/timed")
        assert page.locator("#scatter").is_visible()
    finally:
        page.close()
