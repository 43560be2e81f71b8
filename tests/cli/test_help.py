"""--help of every command: each option has one sentence, and values have an example or are listed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.main import get_command

from cli.running import Run
from sizeup.cli import app

GROUP: Any = get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
# "e.g. 64KiB", or a list after a colon: "Latency model: calibrated, roofline or coefficients".
_VALUE = r"[\w.-]+(?: \w+)?(?: \([^)]*\))?"
EXAMPLE = re.compile(rf"\be\.g\. \S|: {_VALUE}(?:, {_VALUE})*,? (?:or|and) ")


def parameters(kind: str) -> list[Any]:
    return [
        pytest.param(param, id=f"{name} {param.opts[-1]}")
        for name, command in COMMANDS.items()
        for param in command.params
        if param.param_type_name == kind
    ]


def assert_is_one_sentence(text: str | None) -> None:
    assert text
    assert text[0].isupper()
    assert text.endswith(".")
    assert ". " not in text.replace("e.g. ", "")


@pytest.mark.parametrize("option", parameters("option"))
def test_option_has_one_sentence_and_its_value_an_example(option: Any) -> None:
    assert_is_one_sentence(option.help)
    if not option.is_flag:
        assert option.metavar, "its type would be shown as Python names it"
        assert EXAMPLE.search(option.help) or "|" in option.metavar.replace("TYPE|FILE", "")


@pytest.mark.parametrize("argument", parameters("argument"))
def test_argument_is_explained(argument: Any) -> None:
    assert_is_one_sentence(argument.help)
    assert argument.metavar


@pytest.mark.parametrize("name", COMMANDS)
def test_command_starts_with_one_sentence_and_ends_with_an_example(name: str) -> None:
    command = COMMANDS[name]
    assert_is_one_sentence(" ".join(command.help.partition("\n\n")[0].split()))
    assert command.epilog.startswith(f"Example: sizeup {name}")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_types_of_python_are_not_shown(run: Run, name: str) -> None:
    assert not re.findall(r"<[\w|\[\] ]+>", run(*name.split(), "--help").out)


@pytest.mark.parametrize(
    ("text", "is_example"),
    [
        ("Maximum latency on the target, e.g. 20ms.", True),
        ("Latency model: calibrated, roofline or coefficients.", True),
        ("Precision to assume: fp32, fp16, ..., or a JSON precision map.", True),
        ("Limit on latency.", False),
        ("Choose one or the other.", False),
    ],
)
def test_examples_are_recognized(text: str, is_example: bool) -> None:
    assert bool(EXAMPLE.search(text)) is is_example


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_nothing_is_cut_in_narrow_terminals(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = run(*name.split(), "--help").out
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    command = COMMANDS.get(name, GROUP)
    texts = [command.help, command.epilog, *(getattr(param, "help", None) for param in command.params)]
    texts += [each.help.partition("\n\n")[0] for each in ([] if name else COMMANDS.values())]
    words = {word for each in texts if each for word in each.split()}
    names = {each for param in command.params if param.param_type_name == "option" for each in param.opts}
    assert {each for each in words | names if each not in text} == set()


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_refers_to_no_file_of_the_repository(run: Run, name: str) -> None:
    assert "docs/" not in run(*name.split(), "--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults_are_shown_as_they_are_typed(run: Run, name: str) -> None:
    assert not re.findall(r"default: \(|default: \d+\.0\b", run(name, "--help").out)
