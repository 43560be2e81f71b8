"""A model of 5,000 operators: its page opens, scrolls, sorts and computes quickly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sizeup
from browser import Opened, chromium, opened
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder
from timing import undisturbed

pytestmark = [pytest.mark.extras, pytest.mark.alone, pytest.mark.both_cores]
FLOAT = dtype("float32")
LENGTH = 5_000


def long() -> Graph:
    """Blocks of a convolution, an activation, a gate and a sum, in modules of fifty blocks."""
    builder = GraphBuilder("long", "onnx")
    x = builder.input("x", (1, 16, 16, 16), FLOAT)
    for block in range(LENGTH // 5):
        scope = f"stage{block // 50}.block{block % 50}"
        weight = builder.tensor(f"{scope}.weight", (16, 16, 1, 1), FLOAT, Constant("parameter"))
        outputs = [
            builder.tensor(f"{scope}.{name}", (1, 16, 16, 16), FLOAT) for name in ("c", "r", "s", "m", "o")
        ]
        builder.op("conv", [x, weight], [outputs[0]], {"out_channels": 16}, scope=scope)
        builder.op("relu", [outputs[0]], [outputs[1]], scope=scope)
        builder.op("sigmoid", [outputs[1]], [outputs[2]], scope=scope)
        builder.op("mul", [outputs[1], outputs[2]], [outputs[3]], scope=scope)
        builder.op("add", [outputs[3], x], [outputs[4]], scope=scope)
        x = outputs[4]
    builder.outputs.append(x)
    return builder.freeze()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "report.html"
    report = sizeup.analyze(long(), target="rpi5/ort")
    with undisturbed() as taken:
        report.save(path)
    # 0.6 s on an idle core; separate estimates per precision took 1.7 s.
    assert taken.seconds < 4
    return path


@pytest.fixture(scope="module")
def opened_page(path: Path) -> Iterator[Opened]:
    with chromium() as browser:
        started = time.monotonic()
        page = opened(browser, path)
        assert time.monotonic() - started < 15
        yield page


def test_it_opens_without_complaint(opened_page: Opened, path: Path) -> None:
    assert opened_page.complaints == []
    assert opened_page.requests == []
    assert path.stat().st_size < 5_000_000
    assert "5,000 operators" in opened_page.page.inner_text("#operator-table .table-count")


def test_it_scrolls_to_the_last_row_with_few_rows_in_the_page(opened_page: Opened) -> None:
    page = opened_page.page
    started = time.monotonic()
    page.evaluate("document.querySelector('#operator-table .scroll').scrollTop = 1e9")
    page.wait_for_selector(f"#operator-table tr[data-row='{LENGTH - 1}']")
    assert time.monotonic() - started < 5
    assert page.locator("#operator-table tbody tr").count() < 60
    assert page.get_attribute(f"#operator-table tr[data-row='{LENGTH - 1}']", "aria-rowindex") == str(
        LENGTH + 1
    )


def test_sorting_filtering_following_and_asking_what_if_are_quick(opened_page: Opened) -> None:
    page = opened_page.page
    started = time.monotonic()
    page.click("#operator-table th:has-text('time') button")
    page.fill("#operator-table input[type=search]", "stage3.block7 sigmoid")
    assert page.locator("#operator-table tr[data-row]").count() == 1
    page.evaluate("sizeup.model.follow([sizeup.model.outputs(2500)[0]])")
    page.select_option("#all-types", label="int8")
    weights = page.get_attribute("#what-if dd[data-key=weights]", "data-value")
    assert time.monotonic() - started < 15
    assert float(weights) == LENGTH // 5 * 16 * 16
