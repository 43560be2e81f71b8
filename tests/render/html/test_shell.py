"""The shell of pages, read as text: what is in it, and that nothing in a model can break out of its data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sizeup
from networks import three_convolutions
from sizeup.errors import SizeupError
from sizeup.render.html.shell import embedded, shell

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    '"onload="alert(1)',
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt;",
    "卷积/输出",
    "مرحبا",
    "a\nb\x1b[31m",
    "\udc80",
    "\u2028",
    "",
    "__proto__",
)


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data


def test_data_comes_back_as_it_went_in_and_begins_no_tag() -> None:
    text = embedded({"names": list(HOSTILE)})
    assert "<" not in text
    assert ">" not in text
    assert json.loads(text) == {"names": list(HOSTILE)}


def test_what_is_no_number_is_refused_rather_than_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded({"seconds": float("nan")})


def test_a_page_is_whole_and_asks_for_nothing() -> None:
    page = Elements(shell("a <b>", '<main id="main"></main>', {"a": 1}))
    assert [attrs for _, attrs in page.tags if {"src"} & set(attrs)] == []
    assert [attrs["href"] for tag, attrs in page.tags if tag == "link"] == ["data:,"]
    assert json.loads(page.scripts[0]) == {"a": 1}


def test_the_policy_names_every_script_and_allows_no_other() -> None:
    page = Elements(shell("title", "", {}))
    [policy] = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv")]
    assert policy is not None
    assert "default-src 'none'" in policy
    digests = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.scripts[1:]]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert "'unsafe-inline'" not in policy.partition("style-src")[0]


def test_a_report_is_saved_as_a_page_by_its_ending(tmp_path: Path) -> None:
    report = sizeup.analyze(three_convolutions())
    report.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "3,276,800" in text
    with pytest.raises(SizeupError, match=r"\.html"):
        report.save(tmp_path / "report.htm")


def test_the_same_report_gives_the_same_page(tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        sizeup.analyze(three_convolutions()).save(tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
