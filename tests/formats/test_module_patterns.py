"""Patterns of module names: the same answers as `re` and `fnmatch`, in linear time."""

from __future__ import annotations

import random
import re
import time
from fnmatch import fnmatchcase

import pytest

from sizeup.formats.module_patterns import ModulePatterns

NAME = "model.layers.12.mlp.experts.0.gate_proj"
LETTERS = "ab.1"


def _expression(source: random.Random, depth: int) -> str:
    choice = source.random()
    if depth == 0 or choice < 0.35:
        return source.choice(("a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", "[a-c]"))
    if choice < 0.6:
        return _expression(source, depth - 1) + _expression(source, depth - 1)
    if choice < 0.75:
        return f"({_expression(source, depth - 1)}|{_expression(source, depth - 1)})"
    return f"(?:{_expression(source, depth - 1)}){source.choice(('*', '+', '?', '*?'))}"


def test_regular_expressions_match_as_in_re() -> None:
    source = random.Random(11)
    for _ in range(2_000):
        expression = _expression(source, 3) + source.choice(("", "$"))
        patterns = ModulePatterns([f"re:{expression}"])
        assert not patterns.unsupported
        for _ in range(4):
            name = "".join(source.choice(LETTERS) for _ in range(source.randrange(7)))
            assert patterns.match(name) == bool(re.match(expression, name)), (expression, name)


def test_stars_match_as_in_fnmatch_up_to_a_component() -> None:
    source = random.Random(12)
    for _ in range(3_000):
        pattern = "".join(source.choice("ab.*") for _ in range(source.randrange(2, 6))).replace("..", ".")
        if "*" not in pattern or pattern.endswith("*"):
            continue
        name = "".join(source.choice("ab.") for _ in range(source.randrange(1, 7)))
        ends = [index for index, letter in enumerate(name) if letter == "."] + [len(name)]
        expected = any(fnmatchcase(name[:end], pattern) for end in ends)
        assert ModulePatterns([pattern]).match(name) == expected, (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("lm_head", False),
        ("model.layers.12", True),
        ("model.layers.1", False),
        ("model.layers.1*", True),
        ("layers.12.mlp", True),
        ("gate_proj", True),
        ("gate", False),
        ("backbone.layers.12.ffn.experts", True),
        ("language_model.model.layers.12.mlp.experts.0", True),
        ("*.mlp.experts.*", True),
        ("model.layers.*.mlp", True),
        ("model.layers.*.self_attn", False),
        (r"re:.*mlp\.(gate|up|down)_proj.*", False),
        (r"re:.*\.experts\.\d+\.(gate|up)_proj$", True),
    ],
)
def test_a_name_is_matched_by(pattern: str, expected: bool) -> None:
    assert ModulePatterns([pattern]).match(NAME) == expected


@pytest.mark.parametrize(
    "expression", [r"(a+)+$", r"(a|a)*$", r"(a|aa)+$", r".*.*.*.*.*.*.*.*=$", r"(.*a){25}"]
)
def test_hostile_expressions_take_linear_time(expression: str) -> None:
    patterns = ModulePatterns([f"re:{expression}", "*a" * 400 + "b"])
    start = time.process_time()
    assert not patterns.match("a" * 2_000 + "!")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "expression", ["(?!x)a", "(a", "a{2}", "[a", "a**", "\\", "*a", "(" * 50, "(?P<n>a)"]
)
def test_unsupported_expressions_are_listed(expression: str) -> None:
    patterns = ModulePatterns([f"re:{expression}", "lm_head"])
    assert patterns.unsupported == [f"re:{expression}"]
    assert patterns.match("lm_head")
