"""A browser for the tests of pages, and pages that it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import sizeup
from browser import Browser, Opened, Page, chromium, opened

Open: TypeAlias = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as shown:
        yield shown


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Write the page of a result and open it."""
    pages: list[Page] = []

    def write(result: sizeup.Report | sizeup.Serving, **options: Any) -> Opened:
        path = tmp_path / f"{len(pages)}.html"
        result.save(path)
        shown = opened(browser, path, **options)
        pages.append(shown.page)
        return shown

    yield write
    for page in pages:
        page.close()
