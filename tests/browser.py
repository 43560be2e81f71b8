"""A real browser for tests of pages: Chromium of the system, driven by Playwright, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

# Playwright is not everywhere: its types would be.
Page: TypeAlias = Any
Browser: TypeAlias = Any

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "build" / "pages"
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser for all pages of a module; skips where there is none."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    where = shutil.which("chromium")
    if where is None:
        pytest.skip("there is no chromium to open pages with")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page from disk, what its console complained of, and what it asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def picture(self, name: str) -> None:
        """Keep what the page looks like in full."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def opened(browser: Browser, path: Path, *, width: int = 1440, height: int = 900, **options: Any) -> Opened:
    """Open a file in a window of its own, as a double click would; the caller closes the page."""
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    found = Opened(page)

    def hear(message: Any) -> None:
        if message.type in ("error", "warning"):
            found.complaints.append(message.text)

    def note(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            found.requests.append(request.url)

    page.on("console", hear)
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("request", note)
    page.goto(path.as_uri())
    return found


def titles_in_sight(page: Page, table: str) -> list[str]:
    """The columns of a table that can be read in full before anybody scrolls it."""
    seen: list[str] = page.evaluate(
        """selector => {
          const box = document.querySelector(`${selector} .scroll`);
          const end = box.getBoundingClientRect().left + box.clientWidth;
          return [...box.querySelectorAll("thead th")]
            .filter(each => each.getBoundingClientRect().right <= end + 0.5).map(each => each.textContent);
        }""",
        table,
    )
    return seen
