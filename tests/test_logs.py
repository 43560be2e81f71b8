"""Output that agents of CI systems parse: what each takes for a command, and that nothing printed is one."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_commands import commands
from sizeup.logs import annotate, inert, inert_json, inert_output, inert_xml

COMMANDS = (
    "::error::x",
    "  \u3000::add-mask::x",
    "text ##[error]x",
    "###[set-output name=a]x",
    "text ##vso[task.prependpath]x",
    "##teamcity[buildStatus status='SUCCESS']",
    "--- group",
    "+++ group",
    "~~~ group",
    "^^^ +++",
    "x section_start:1:name[collapsed=true]\r\x1b[0K",
    "section_end:1:name\r\x1b[0K",
    "harmless\r::error::x",
    "harmless\r\n\t::error::x",
)


@pytest.mark.parametrize("text", COMMANDS)
def test_commands_are_recognized_and_printed_as_text(text: str) -> None:
    assert commands(text)
    assert commands(inert(text)) == []
    assert inert(text).replace(" ", "") == text.replace(" ", "")


_TEXTS = st.lists(
    st.sampled_from(
        ["#", "##", ":", "::", "[", "]", "vso", "error", "\n", "\r", " ", "\t", "\\", '"', "&", "<", "--- "]
    )
    | st.sampled_from(COMMANDS)
).map("".join)


@given(_TEXTS)
def test_no_text_is_a_command_and_data_keep_their_value(text: str) -> None:
    assert commands(inert(text)) == []
    data = {text: [text, {"key": text}]}
    for indent in (None, 2):
        written = inert_json(json.dumps(data, indent=indent))
        assert json.loads(written) == data
        assert "##" not in written
        assert "::" not in written
    text = text.replace("\r", "").replace("\x1b", "")  # which XML cannot represent
    element = ElementTree.Element("a", {"name": text})
    ElementTree.SubElement(element, "b").text = text
    xml = inert_xml(ElementTree.tostring(element, "unicode"))
    assert "##" not in xml
    assert "::" not in xml
    read = ElementTree.fromstring(xml)
    assert [read.get("name"), read[0].text or ""] == [text, text]


@pytest.mark.parametrize(
    "text", ["# title", "## title", "| --- |", "a::b", "---", "std::vector<##>", "12:00:00 -- 5 + 3"]
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert inert(text) == text


def test_a_long_text_takes_linear_time() -> None:
    for piece in ("\n", " ", "##a", "#", ":", "\t:"):
        assert len(inert(piece * 1_000_000)) >= 1_000_000


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> tuple[io.StringIO, io.StringIO]:
    """What is printed on stdout and on stderr outside of GitHub Actions."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return io.StringIO(), io.StringIO()


def _print_all(arguments: list[str], out: io.StringIO, err: io.StringIO) -> None:
    with redirect_stdout(out), redirect_stderr(err), inert_output(arguments):
        for stream in (sys.stdout, sys.stderr):
            print("::error::x", file=stream)
            stream.writelines(["##vso[x]\n"])
        if "--github" in arguments:
            annotate(["::notice::ours\n"])


TEXT = ": :error::x\n## vso[x]\n"


def test_both_streams_are_inert_everywhere(streams: tuple[io.StringIO, io.StringIO]) -> None:
    out, err = streams
    _print_all([], out, err)
    assert (out.getvalue(), err.getvalue()) == (TEXT, TEXT)


@pytest.mark.parametrize(
    ("arguments", "log"), [([], "err"), (["--github"], "out"), (["--github", "--json"], "err")]
)
def test_commands_are_stopped_on_github_by_a_token_of_each_run(
    streams: tuple[io.StringIO, io.StringIO], monkeypatch: pytest.MonkeyPatch, arguments: list[str], log: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    tokens = set()
    for _ in range(2):
        out, err = io.StringIO(), io.StringIO()
        _print_all(arguments, out, err)
        stopped, other = (out, err) if log == "out" else (err, out)
        assert other.getvalue() == TEXT
        match = re.fullmatch(r"::stop-commands::([0-9a-f]{32})\n(?s:(.*))::\1::\n(.*\n)?", stopped.getvalue())
        assert match is not None
        assert match[2] == TEXT
        assert match[3] == ("::notice::ours\n" if arguments else None)
        tokens.add(match[1])
    assert len(tokens) == 2
