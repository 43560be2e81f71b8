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


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults_are_shown_as_they_are_typed(run: Run, name: str) -> None:
    assert not re.findall(r"default: \(|default: \d+\.0\b", run(name, "--help").out)
