"""The page of a serving estimate in a real browser, against `sizeup.llm` at the points that it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import published_configs
import sizeup
from browser import Browser, Opened, Page
from sizeup import units
from sizeup.serving.times.estimate import ServingPoint

pytestmark = pytest.mark.extras
Open = Callable[..., Opened]
HOSTILE = '<img src=x onerror="window.broken = 1"> %{x} &amp; \x1b[31m'
LENGTHS: dict[str, Any] = {"input": 1024, "output": 256}


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder


def cards(page: Page) -> dict[str, tuple[str, str]]:
    """Value and detail of each number, by its title."""
    texts = page.eval_on_selector_all(
        "#point > div", "all => all.map(each => [...each.children].map(part => part.textContent))"
    )
    return {title: (value, detail) for title, value, detail in texts}


def point_of(config: Path, target: str, layout: str, input: int, output: int, requests: int) -> ServingPoint:
    return points_of(config, target, layout, input, output, [1, requests])[requests]


def points_of(
    config: Path, target: str, layout: str, input: int, output: int, requests: list[int]
) -> dict[int, ServingPoint]:
    """What `sizeup.llm` returns, by requests; replicas are not part of a layout's text there."""
    factors = layout.rpartition(" x ")[2]
    times = sizeup.llm(
        config, target=target, layout=factors, input=input, output=output, concurrency=requests
    ).times()
    assert times is not None
    return {point.requests: point for point in times.points}


def rate(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def expected(point: ServingPoint) -> dict[str, tuple[str, str]]:
    """What the page shows of a point whose requests all run."""
    times = {}
    for title, time in (("TPOT", point.tpot), ("TTFT", point.ttft)):
        interval = "no interval"
        if time.low is not None and time.high is not None:
            interval = f"90 % interval {units.duration(time.low)} - {units.duration(time.high)}"
        times[title] = (units.duration(time.seconds), interval)
    wait = f"of {point.requests:,} requests; the others wait"
    return {
        **times,
        "tokens/s per user": (rate(point.user_tokens_per_second), ""),
        "tokens/s per GPU": (rate(point.gpu_tokens_per_second), ""),
        "running": (f"{point.running:,}", "all requests" if point.running == point.requests else wait),
        "limited by": (point.limiter, f"{units.duration(point.causes[point.limiter])} per token"),
    }


def test_sliders_show_the_numbers_of_llm(show: Open, configs: Path) -> None:
    config, target = configs / "gpt-oss-120b.json", "2xh100/vllm"
    serving = sizeup.llm(config, target=target, concurrency=[1, 6, 64], **LENGTHS)
    grid = serving.grid()
    assert grid is not None
    shown = show(serving)
    page = shown.page
    place = {"requests": 0, "input": grid.inputs.index(1024), "output": grid.outputs.index(256)}
    axes = {"requests": grid.requests, "input": grid.inputs, "output": grid.outputs}
    layout = str(grid.layouts[0].layout)
    steps: list[tuple[str, Any]] = [
        ("requests", "ArrowRight"), ("requests", "End"), ("input", "ArrowLeft"), ("requests", "ArrowLeft"),
        ("output", "ArrowRight"), ("layout", 1), ("input", "Home"), ("requests", "Home"), ("layout", 2),
        ("output", "End"), ("requests", "ArrowRight"),
    ]  # fmt: skip
    for name, key in steps:
        if name == "layout":
            layout = str(grid.layouts[key].layout)
            page.select_option("#layout", layout)
        else:
            page.focus(f"#{name}")
            page.keyboard.press(key)
            last = len(axes[name]) - 1
            moved = {"ArrowRight": place[name] + 1, "ArrowLeft": place[name] - 1, "Home": 0, "End": last}
            place[name] = min(max(moved[key], 0), last)
            value = f"{axes[name][place[name]]:,}"
            assert page.locator(f"output[for={name}]").inner_text() == value
            assert page.get_attribute(f"#{name}", "aria-valuetext") == value
        values = {each: axes[each][place[each]] for each in axes}
        point, numbers = point_of(config, target, layout, **values), cards(page)
        numbers.pop("rank")
        assert numbers == expected(point)
        bars = page.evaluate("document.getElementById('causes').data.map(each => [each.name, each.y])")
        assert {name: y[place["requests"]] for name, y in bars} == pytest.approx(point.causes, rel=1e-5)
    assert (shown.complaints, shown.requests) == ([], [])


def test_costs_follow_the_sliders(show: Open, configs: Path) -> None:
    config, target = configs / "gpt-oss-120b.json", "2xh100/vllm"
    serving = sizeup.llm(config, target=target, concurrency=[1, 64], price="2.50USD", **LENGTHS)
    grid = serving.grid()
    assert grid is not None
    page = show(serving).page
    place = {"requests": 0, "input": grid.inputs.index(1024), "output": grid.outputs.index(256)}
    axes = {"requests": grid.requests, "input": grid.inputs, "output": grid.outputs}
    layout = str(grid.layouts[0].layout)
    prices = set()
    for name, key, step in (
        ("requests", "ArrowRight", 1), ("input", "ArrowRight", 1), ("output", "ArrowLeft", -1),
        ("layout", "", 1), ("input", "ArrowLeft", -1), ("requests", "ArrowRight", 1),
    ):  # fmt: skip
        if name == "layout":
            layout = str(grid.layouts[step].layout)
            page.select_option("#layout", layout)
        else:
            page.focus(f"#{name}")
            page.keyboard.press(key)
            place[name] += step
        values = {each: axes[each][place[each]] for each in axes}
        point = point_of(config, target, layout, **values)
        # 2.50 USD per GPU and hour, over the tokens of a GPU in an hour.
        output = 2.5 / (3600 * point.gpu_tokens_per_second) * 1e6
        total = output * values["output"] / (values["input"] + values["output"])
        texts = [f"{cost:,.2f} USD" if cost >= 0.995 else f"{cost:.3g} USD" for cost in (output, total)]
        assert cards(page)["per 1 M output tokens"] == (texts[0], f"{texts[1]} per 1 M tokens")
        prices.add(texts[0])
    assert len(prices) == 6
    content = serving.to_dict()["grid"]
    assert len(content["layouts"][0]["cost"]["per_million_tokens"]) == len(content["layouts"][0]["running"])


def test_the_plot_has_one_line_per_layout_and_the_frontier(show: Open, configs: Path) -> None:
    config, target = configs / "gpt-oss-120b.json", "2xh100/vllm"
    page = show(sizeup.llm(config, target=target, **LENGTHS)).page
    frontier, *lines, _ = page.evaluate(
        "document.getElementById('frontier').data.map(each => ({name: each.name, x: each.x, y: each.y,"
        " hover: each.hovertext, symbol: each.marker.symbol, size: each.marker.size}))"
    )
    assert [line["name"] for line in lines] == ["tp2", "dp2", "2 x tp1", "pp2"]
    on_frontier = set()
    for line in lines:
        counts = [int(text.split("<br>")[1].split()[0]) for text in line["hover"]]
        points = points_of(config, target, line["name"], 1024, 256, counts)
        for number, (x, y) in enumerate(zip(line["x"], line["y"], strict=True)):
            name, _, tpot, ttft, _, _, final, *_ = line["hover"][number].split("<br>")
            point = points[counts[number]]
            assert (x, y) == pytest.approx(
                (point.user_tokens_per_second, point.gpu_tokens_per_second), rel=1e-5
            )
            assert name == f"<b>{line['name']}</b>"
            assert tpot.startswith(f"TPOT {units.duration(point.tpot.seconds)} (")
            assert ttft.startswith(f"TTFT {units.duration(point.ttft.seconds)} (")
            assert line["symbol"][number].endswith("-open") == (final == "dominated")
            assert (line["size"][number] > 7) == (final == "frontier")
            if final == "frontier":
                on_frontier.add((x, y))
    assert on_frontier == set(zip(frontier["x"], frontier["y"], strict=True))
    assert frontier["y"] == sorted(frontier["y"])  # slower for a user, more per GPU


def test_lengths_that_do_not_fit_have_no_numbers(show: Open, configs: Path) -> None:
    page = show(sizeup.llm(configs / "llama-3.1-70b.json", target="2xh100/vllm")).page
    for name in ("input", "output"):
        page.focus(f"#{name}")
        page.keyboard.press("End")
    assert cards(page) == {"fits": ("no", "not even one request of these lengths")}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_opens_at_any_width_and_axe_finds_nothing_serious(
    width: int, scheme: str, show: Open, configs: Path
) -> None:
    serving = sizeup.llm(
        configs / "llama-3.1-70b.json", target="8xh100/vllm", concurrency=[1, 8, 64], rate=4.0, **LENGTHS
    )
    shown = show(serving, width=width, color_scheme=scheme)
    page = shown.page
    assert (shown.complaints, shown.requests) == ([], [])
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    traffic = serving.traffic
    assert traffic is not None
    assert traffic.tpot is not None
    bars = page.locator("#arrivals .bars").nth(1)
    assert bars.inner_text().split("\n")[-2:] == ["TPOT p99", units.duration(traffic.tpot.p99)]
    widths = [bar.bounding_box()["width"] for bar in bars.locator("i").all()]
    assert widths[0] / widths[3] == pytest.approx(traffic.tpot.mean / traffic.tpot.p99, rel=0.02)
    shown.picture(f"llm-{width}-{scheme}")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    violations = axe.Axe().run(page).response["violations"]
    assert [each["id"] for each in violations if each["impact"] in ("serious", "critical")] == []


def test_without_scripts_tables_have_the_points(browser: Browser, configs: Path, tmp_path: Path) -> None:
    config, target = configs / "gpt-oss-120b.json", "2xh100/vllm"
    sizeup.llm(config, target=target, concurrency=[1, 6], **LENGTHS).save(tmp_path / "page.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("noscript").inner_text() == "Sliders and plots need JavaScript; the tables do not."
    tables = page.locator("#points table")
    rows = [row.split("\t") for row in tables.nth(0).locator("tbody tr").all_inner_texts()]
    own = next(row for row in rows if [cell.strip() for cell in row[:2]] == ["tp2", "6"])
    point = point_of(config, target, "tp2", 1024, 256, 6)
    assert own[2:6] == [
        units.duration(point.tpot.seconds), units.duration(point.ttft.seconds),
        rate(point.user_tokens_per_second), rate(point.gpu_tokens_per_second),
    ]  # fmt: skip
    causes = [row.split("\t") for row in tables.nth(1).locator("tbody tr").all_inner_texts()]
    line = next(row for row in causes if row[0].strip() == "6")
    assert line[1:] == [units.duration(value) for value in (point.tpot.seconds, *point.causes.values())]
    context.close()


def test_hostile_names_are_text(show: Open, configs: Path, tmp_path: Path) -> None:
    config = tmp_path / f"{HOSTILE}.json"
    config.write_text((configs / "llama-3.1-8b.json").read_text())
    shown = show(sizeup.llm(config, target="h100/vllm"))
    assert (shown.complaints, shown.requests) == ([], [])
    assert shown.page.evaluate("window.broken") is None
    name = HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert shown.page.inner_text("h1").startswith(f"{name} on 1 x h100-sxm")


def test_a_page_of_many_points_is_less_than_two_megabytes(configs: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    counts = [3 + 5 * number for number in range(100)]
    sizeup.llm(configs / "gpt-oss-120b.json", target="8xh100/vllm", concurrency=counts).save(path)
    assert path.stat().st_size < 2_000_000
