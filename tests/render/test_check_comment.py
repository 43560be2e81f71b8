"""The comment of a pull request: failures first, the rest collapsed, and never too long for GitHub."""

from __future__ import annotations

import re

import pytest

from sizeup.checks import Limit
from sizeup.render.markdown import MARKER, MOST, markdown
from sizeup.results.check import Check

_KEPT = Limit("params", "count", 100, 5, 5)
_OVER = Limit("macs", "count", 10, 20, 20)
_OPEN = Limit("latency", "seconds", 0.02, 0.01, 0.03)


def _models(count: int, limit: Limit, name: str = "fits") -> list[Check]:
    return [
        Check(f"models/{name}_{n:04}.onnx", f"{name}_{n:04}", "onnx", limits=(limit,), is_file=True)
        for n in range(count)
    ]


def _comment(checks: list[Check]) -> str:
    text = "".join(markdown(checks))
    assert len(text) < MOST
    assert text.endswith(f"{MARKER}\n")
    assert text.count(MARKER) == 1
    assert text.count("<details>") == text.count("</details>")
    return text


def test_a_thousand_models_are_one_comment_with_failures_first() -> None:
    bad = Check("models/bad.onnx", "bad.onnx", is_file=True, error="not an ONNX model")
    checks = [*_models(990, _KEPT), *_models(5, _OVER, "over"), *_models(4, _OPEN, "open"), bad]
    text = _comment(checks)
    before, _, after = text.partition("<details>")
    named = ", ".join(f"models/over\\_{number:04}.onnx" for number in range(3))
    assert before.startswith(f"## NO: 990 of 1,000 models fit, 5 do not ({named} and 2")
    order = re.findall("^### ([A-Z]+):", before, re.MULTILINE)
    assert order == ["ERROR", *["NO"] * 5, *["UNDETERMINED"] * 4]
    assert "fits\\_" not in before
    assert "over" not in after
    shown = len(re.findall(r"^\| models/fits\\_\d+\.onnx \| YES \|", after, re.MULTILINE))
    assert shown + _left_out("rows", after) == 990
    assert shown > 500


def test_failures_that_have_no_room_are_counted() -> None:
    text = _comment([*_models(1000, _OVER, "over"), *_models(1000, _KEPT)])
    sections = text.count("### NO: ")
    rows = len(re.findall(r"^\| models/over\\_\d+\.onnx \| \*\*NO\*\* \|", text, re.MULTILINE))
    assert sections + rows + _left_out("failing models", text) == 1000
    assert text.count("| YES |") + _left_out("rows", text) == 1000
    assert sections > 10
    assert rows > 10


def _left_out(what: str, text: str) -> int:
    count = re.search(rf"^([\d,]+) {what} omitted", text, re.MULTILINE)
    return 0 if count is None else int(count[1].replace(",", ""))


@pytest.mark.parametrize("name", ["|" * 5000, "<b>" * 5000, "n" * 100_000, "\n\x1b[31m" * 999])
def test_names_cannot_make_it_longer_or_break_out(name: str) -> None:
    layer = Limit(f"macs of layer '{name}'", "count", 10, 20, 20, source=name)
    checks = [
        Check(f"{name}{n}", name, limits=(layer,) * 300, budgets=(name,), error=name * (n % 2))
        for n in range(20)
    ]
    for text in (_comment(checks), _comment(checks[:1])):
        body = text.removesuffix(f"{MARKER}\n")
        assert not re.search("<(?!/?details>|/?summary>)", body)
        for line in body.splitlines():
            if line.startswith("| "):
                assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) in (4, 6)


def test_limits_of_one_model_that_have_no_room_are_counted() -> None:
    text = _comment([Check("m.onnx", "m", limits=(*[_KEPT] * 300, *[_OVER] * 120))])
    assert text.count("**over**") == 100
    assert "320 limits omitted, 20 of them exceeded or undetermined." in text
