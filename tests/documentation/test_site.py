"""The built site: complete, readable on a phone, searchable, and without anything from elsewhere."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from browser import Browser, chromium

SITE = Path(os.environ.get("SIZEUP_SITE", "site"))
pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif("SIZEUP_SITE" not in os.environ, reason="no site: make site, and SIZEUP_SITE=site"),
]
_TAGS = ("table", "tr", "li", "ul", "ol", "pre", "h1", "h2", "h3", "img")


def texts() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.md"))


def counts(text: str) -> dict[str, int]:
    return {tag: len(re.findall(rf"<{tag}[ >]", text)) for tag in _TAGS}


def article(page: Path) -> str:
    """The content of a page as HTML, without the theme around it."""
    content = page.read_text("utf-8")
    content = content[content.index('<article class="md-content__inner') : content.index("</article>")]
    return re.sub(r"<(?:nav|aside|form).*?</(?:nav|aside|form)>", "", content, flags=re.DOTALL)


def page_of(text: Path) -> Path:
    folder = text.with_suffix("")
    return folder.parent / "index.html" if folder.name in ("index", "README") else folder / "index.html"


def test_every_page_has_the_blocks_of_its_markdown() -> None:
    markdown = MarkdownIt("commonmark").enable("table")
    assert len(texts()) > 50
    for text in texts():
        expected = counts(markdown.render(text.read_text("utf-8")))
        content = article(page_of(text))
        assert counts(content) == expected, text.name
        assert not re.findall(r"<td[^>]*>(?:(?!</td>).)*\\\|", content), text.name


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in SITE.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe)\b[^>]*\bsrc=\"([^\"]+)|<link\b[^>]*\bhref=\"([^\"]+)",
            path.read_text("utf-8"),
        )
        assert not [url for pair in loaded for url in pair if "//" in url], path
    for path in (*SITE.rglob("*.svg"), *(SITE / "stylesheets").iterdir()):
        assert "url(http" not in path.read_text("utf-8"), path


def test_llms_txt_lists_pages_that_exist() -> None:
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", (SITE / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert sorted(SITE / name for name in listed) == texts()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen_and_ask_no_other_server(browser: Browser, address: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for name in ("", "memory/", "devices/", "reference/commands/", "reference/classes/", "other-tools/"):
        page.goto(address + name, wait_until="networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert requests
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []
    page.close()


@pytest.mark.parametrize(("words", "title"), [("arena size", "arena"), ("rank_targets", "Python functions")])
def test_search_has_hits(browser: Browser, address: str, words: str, title: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    for _ in range(20):  # in some loads the theme's worker misses its index, and shows nothing until a reload
        page.goto(address, wait_until="networkidle")
        page.fill(".md-search__input", words)
        page.wait_for_timeout(2_000)
        if page.locator(".md-search-result__item").count():
            break
    hits = page.eval_on_selector_all(".md-search-result__item h1", "all => all.map(hit => hit.textContent)")
    assert any(title in hit for hit in hits)
    page.close()
