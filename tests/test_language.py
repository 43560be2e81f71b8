"""Text and names follow the language rules of CONTRIBUTING.md: plain words, one name per concept."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from language import RULES, SUFFIXES, names, phrases, scan

# The commands and words of older tools are fixed; plotly is not ours.
EXEMPT = {"compat", "vendor"}
SOURCES = [
    path
    for path in sorted((ROOT / "src").rglob("*"))
    if path.suffix in SUFFIXES and not EXEMPT.intersection(path.parts)
]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [*SOURCES, *PAGES, *sorted((ROOT / "tools").rglob("*.py"))]


def test_retired_phrases_are_gone_from_messages_help_and_documentation() -> None:
    assert len(SOURCES) > 350
    assert len(PAGES) > 30
    assert [str(finding) for path in TEXTS for finding in phrases(path)] == []


def test_retired_names_are_gone_from_the_code() -> None:
    findings = [finding for path in SOURCES if path.suffix == ".py" for finding in names(path)]
    assert [str(finding) for finding in findings] == []


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('"""None where nobody can tell."""', ["nobody", "None where", "tell"]),
        ("# one row\n# a tensor, beside the weights", ["one row # a tensor", "beside"]),
        ('message = "held " "then"', ['held " "then']),
        ("found = 1\n\n\ndef told(asked): ...", ["found", "told", "asked", "told"]),
        ("class Wish: ...", ["Wish"]),
        ("estimate = 1  # per inference", []),
    ],
)
def test_the_scan_finds_what_is_retired(tmp_path: Path, content: str, texts: list[str]) -> None:
    path = tmp_path / "module.py"
    path.write_text(content)
    assert sorted(finding.text for finding in scan(path)) == sorted(texts)


def test_markdown_may_name_older_words_as_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`cannot tell` is now undetermined: https://example.org/things")
    assert list(scan(page)) == []
    page.write_text("It cannot tell.")
    assert [finding.text for finding in scan(page)] == ["tell"]


def test_every_rule_has_a_replacement() -> None:
    assert all(rule["pattern"] and rule["write"] for rule in RULES["phrase"])
