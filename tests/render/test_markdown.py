"""Markdown as a renderer reads it: nothing from a model is markup, a link, an image or a mention."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import sizeup
from networks import FLOAT
from sizeup.checks import Limit, Remedy
from sizeup.graph import Graph
from sizeup.render.console.comparison_output import markdown as of_comparison
from sizeup.render.markdown import cell, code, lines, prose
from sizeup.render.markdown import markdown as of_checks
from sizeup.results.check import Check

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = (
    "[link](http://evil.example)",
    "![image](http://evil.example/x.png)",
    "<img src=x onerror=alert(1)>",
    "<!-- comment -->",
    "<https://evil.example>",
    "https://evil.example/?q=1",
    "www.evil.example",
    "mail me@evil.example",
    "@octocat please look",
    "/cc @org/team",
    "fixes #123, GH-12 and gh-7 of owner/repo#5",
    "*emphasis* _emphasis_ **strong** __strong__ ~~gone~~ ~gone~",
    "`code` ``code`` ```",
    "a|b|c \\| d \\",
    "line\nbreak\r\nand\tmore\x00\x1b[31m\u2028",
    "&copy; &#64;octocat &lt;b&gt;",
    "# heading",
    "- item",
    "+ item",
    "1. item",
    "2) item",
    "> quote",
    "---",
    "- - -",
    "***",
    "===",
    "~~~ fence",
    "    code",
    "[ref]: http://evil.example",
    "[^1]: note",
    "- [ ] task",
    "$x^2$ \\(x\\)",
    "| --- | --- |",
    "\\@octocat \\#1",
)
# What GitHub looks for in the text that is shown; a letter must follow at once.
MENTIONED = re.compile(r"@[a-z0-9]|#\d|\bGH-\d|(?:https?|ftp)://|www\.|mailto:\S+@\w", re.IGNORECASE)
INLINE = {"text", "softbreak", "code_inline", "strong_open", "strong_close"}

hostile = st.one_of(
    st.sampled_from(HOSTILE),
    st.text("ab1 \\`*_[](){}<>&|~#!$@:/.-+=\n'\"w", max_size=30),
    st.text(max_size=20),
)


def inlines(text: str) -> Iterator[Token]:
    for token in RENDERER.parse(text):
        yield from token.children or ()


def shape(text: str) -> Counter[str]:
    """How often a page has each kind of block and of inline element, texts apart."""
    blocks = Counter(token.type for token in RENDERER.parse(text))
    blocks.update(token.type for token in inlines(text) if token.type not in ("text", "text_special"))
    return blocks


def assert_harmless(page: str, like: str) -> None:
    """The page is built as the one with a plain name, and no text of it is found by GitHub."""
    assert shape(page) == shape(like)
    for token in inlines(page):
        if token.type == "text":
            assert not MENTIONED.search(token.content), token.content


@given(hostile)
def test_a_cell_is_text_and_nothing_else(name: str) -> None:
    def page(text: str) -> str:
        return f"## {cell(text)}\n\n| a | b |\n|---|---|\n| {cell(text)} | {prose(text)} |\n"

    assert_harmless(page(name), page("name"))


@given(hostile)
def test_a_sentence_is_text_and_nothing_else(name: str) -> None:
    def page(text: str) -> str:
        return f"x\n\n{prose(text)}\n\n- {prose(text)}\n- {prose(text)}: {prose(text)}\n"

    if prose(name):
        assert_harmless(page(name), page("name"))


@pytest.mark.parametrize("name", ["conv_1/weights:0", "a|b\\|c", "x<y>&z", "*`~#!$[0]", "me@host #1 www.x.y"])
def test_what_is_shown_is_the_name(name: str) -> None:
    for text in (cell(name), prose(name)):
        shown = "".join(token.content for token in inlines(f"| a |\n|---|\n| {text} |\n"))[1:]
        assert shown.replace("\u200b", "") == name


@given(st.text("ab` '$;\\", max_size=20), st.text(max_size=10))
def test_a_command_is_shown_letter_by_letter(command: str, more: str) -> None:
    """A backtick that became a quote would end the quoting that a shell needs."""
    text = f"sizeup {command}{''.join(each for each in more if each.isprintable())}x"
    (inline,) = [token for token in inlines(f"- a\n  {code(text)}\n") if token.type == "code_inline"]
    assert inline.content == text


def test_long_names_are_cut_in_their_middle() -> None:
    name = "a" * 500 + "b" * 500
    assert cell(name) == "a" * 39 + "\N{HORIZONTAL ELLIPSIS}" + "b" * 40
    assert prose(f"tensor {name} is large") == f"tensor {cell(name)} is large"
    assert len(prose("word " * 10_000)) == 500
    assert cell("c" * 80) == "c" * 80


def network(name: str) -> Graph:
    builder = sizeup.GraphBuilder(name, "onnx")
    x = builder.input(f"x{name}", (1, 8), FLOAT)
    for number in range(2):
        output = builder.tensor(f"{name}{number}", (1, 8), FLOAT)
        kind = "relu" if number else f"{name}.kind"
        builder.op(kind, [x], [output], name=name, source=name, scope=name)
        x = output
    builder.outputs.append(x)
    builder.note(name)
    return builder.freeze()


def check(name: str) -> Check:
    limits = (Limit("macs", "count", 10, 20, 20, source=name, unknown=(name,)),)
    remedy = Remedy(f"use {name}", f"sizeup optimize {shlex.quote(name[:200])}", (), False, (name,))
    return Check(
        f"m/{name}",
        name,
        "onnx",
        limits=limits,
        remedies=(remedy,),
        is_file=True,
        error="",
        no_baseline_reason=name,
    )


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 10_000, "y z " * 5_000])
def test_no_page_for_a_pull_request_is_more_than_text(name: str) -> None:
    ours, plain = network(name), network("name")
    other = replace(network("other"), ops=network("other").ops[:1])
    pages = [
        ("".join(lines(sizeup.analyze(graph))), "".join(of_comparison(sizeup.compare(graph, other))),
         "".join(of_checks([check(each)])), "".join(of_checks([check(each), check(each)])))
        for graph, each in ((ours, name), (plain, "name"))
    ]  # fmt: skip
    for page, like in zip(*pages, strict=True):
        assert_harmless(page, like)
        assert len(page) < len(like) + 12_000
