"""Generated pages have every name, and links of pages work on the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sizeup
from conftest import ROOT
from documentation import api, commands, links, schemas, tables, validation, worked_examples
from documentation.generated import PAGES
from documentation.text_version import summary
from sizeup.sweeps.schema import FIELDS


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return {name: "".join(generate()) for name, generate in PAGES.items()}


def headings(text: str) -> set[str]:
    return set(re.findall(r"^## (.+)$", text, re.MULTILINE))


def test_every_public_name_has_a_section(generated: dict[str, str]) -> None:
    pages = [generated[f"reference/{name}.md"] for name in ("functions", "classes", "errors")]
    sections = set().union(*map(headings, pages))
    assert {f"sizeup.{name}" for name in sizeup.__all__} <= sections
    assert {f"sizeup.precision.{name}" for name in sizeup.precision.__all__} <= sections
    assert not sections - {f"sizeup.{name}" for name in (*sizeup.__all__, *_precision_names())}


def _precision_names() -> Iterator[str]:
    yield from (f"precision.{name}" for name in sizeup.precision.__all__)


def test_every_public_name_has_a_docstring() -> None:
    assert isinstance(sizeup.precision, ModuleType)
    assert [name for name, value in api.names().items() if not (value.__doc__ or "").strip()] == []


def test_signatures_and_fields_are_those_of_the_source(generated: dict[str, str]) -> None:
    functions, classes = generated["reference/functions.md"], generated["reference/classes.md"]
    assert "    target: str | Target | None = None,\n    basis: Basis | None = None," in functions
    assert "def boards(name: str | None = None) -> list[Board]\n" in functions
    assert "| `budgets` | `tuple[str, ...]` | names of the budgets that apply |\n" in classes
    assert "| `to_dict()` | `dict[str, Any]` |" in classes


def test_every_option_of_every_command_is_listed(generated: dict[str, str]) -> None:
    sections = dict(
        part.split("\n", 1) for part in re.split(r"^## ", generated["reference/commands.md"], flags=re.M)[1:]
    )
    assert sections.keys() == {f"sizeup {name}" for name in commands.commands()}
    for name, command in commands.commands().items():
        for parameter in command.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                assert not option.startswith("-") or f"`{option}`" in sections[f"sizeup {name}"]


def test_every_column_and_key_is_listed(generated: dict[str, str]) -> None:
    text = generated["reference/schemas.md"]
    assert all(f"| `{field.name}` |" in text for field in FIELDS)
    assert "| `totals.macs` | integer or null |" in text
    assert "| `ops[].live_tensors[].bytes` | integer |" in text
    assert "| `schema_version` | `2` |" in text
    assert text.count("\n## ") == len(schemas.DOCUMENTS) + 1


def test_every_op_kind_with_hand_computed_numbers_has_an_example(generated: dict[str, str]) -> None:
    text = generated["reference/worked-examples.md"]
    assert all(f"\n| `{kind}` |" in text for kind in worked_examples.examples())
    assert "| 1x3x8x8, 4x3x3x3, 4 → 1x4x6x6, `out_channels=4` | 3,888 | 144 | 304 | 144 |" in text


def test_proofs_are_those_of_the_pages() -> None:
    head = "| core | models | arena equal | too low | too high |\n|---|--:|--:|--:|--:|\n"
    page = f"{head}| M4 | 5 | 1,003 | 1 | 0 |\n"
    rows = tables.table_with(page, "core", "arena equal")
    assert rows == [{"core": "M4", "models": "5", "arena equal": "1,003", "too low": "1", "too high": "0"}]
    with pytest.raises(LookupError, match="no table with the columns core, seconds"):
        tables.table_with(page, "core", "seconds")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert validation.proof_strip("docs/") in readme
    assert f"knows {len(sizeup.devices())} devices and {len(sizeup.boards())} boards" in readme


def test_every_validation_has_a_table_and_a_section() -> None:
    for each in validation.VALIDATIONS:
        page = (ROOT / "docs" / each.page).read_text("utf-8")
        assert re.search(r"\d", each.result())
        titles = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
        sections = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
        assert not each.section or each.section in sections
        assert all(Path(ROOT, word).exists() for word in each.command.split() if word.endswith(".py"))


@pytest.mark.parametrize(
    ("page", "markdown", "expected"),
    [
        ("index.md", "[a](docs/cli.md#explain)", "[a](cli.md#explain)"),
        ("start/embedded.md", "[a](../boards.md)", "[a](../boards.md)"),
        ("fuzzing.md", "[a](../CONTRIBUTING.md#setup)", "[a](contributing.md#setup)"),
        ("decisions/README.md", "[a](../../CHANGELOG.md)", "[a](../changelog.md)"),
        ("cli.md", "![a](pictures/x.png)", "![a](pictures/x.png)"),
        ("splits.md", "[tests](../tests/x.py)", "[tests](URL/blob/main/tests/x.py)"),
        ("splits.md", "[a](https://x.org) [b](#c)", "[a](https://x.org) [b](#c)"),
        ("index.md", "```md\n[a](docs/cli.md)\n```", "```md\n[a](docs/cli.md)\n```"),
    ],
)
def test_links_are_rewritten_for_the_site(page: str, markdown: str, expected: str) -> None:
    assert links.for_site(markdown, page, "URL") == expected


def test_a_file_without_a_page_is_no_link_if_the_repository_is_unknown() -> None:
    assert links.for_site("[the tests](../tests/x.py)", "splits.md", None) == "the tests"


def test_lists_are_separated_and_indented_as_python_markdown_needs_it() -> None:
    text = "Text:\n- a\n\n  | x |\n  |---|\n- b\n  - c\n\n```\n- no list\n```\n"
    expected = "Text:\n\n- a\n\n    | x |\n    |---|\n\n- b\n    - c\n\n```\n- no list\n```\n"
    assert links.as_python_markdown(text) == expected


def test_bars_in_code_of_tables_have_no_backslash_on_the_site() -> None:
    assert links.as_python_markdown("| `a \\| b` | c \\| d |") == "| `a | b` | c \\| d |"


def test_a_summary_is_the_first_sentence() -> None:
    assert summary("# Title\n\nIt [reads](x.md) a\nfile. More.\n") == "It reads a file."
