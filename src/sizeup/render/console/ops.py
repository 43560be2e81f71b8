"""The operator reference: what the table of rules says, for people."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup.errors import SizeupError
from sizeup.ops import OpRule, rules

if TYPE_CHECKING:
    from rich.console import Console

_FORMATS = ("torch", "onnx", "tflite")
_TITLES = {"torch": "PyTorch", "onnx": "ONNX", "tflite": "TFLite"}
_PREFACE = """\
# Operators

What `sizeup` knows of each kind of operator, and the names under which the formats know it. An operator
that is not here is reported as unknown, never as free; `@sizeup.op_rule` adds one from outside.

This page is made from the rules: `sizeup ops --markdown > docs/operators.md`.
"""


def find(name: str | None = None) -> list[OpRule]:
    """The rules of a kind, a family, a format's own operator name, or a pattern; all without a name."""
    known = rules()
    if name is None:
        return list(known)
    found = [rule for rule in known if name in _names(rule)]
    found = found or [rule for rule in known if any(_alike(each, name) for each in _names(rule))]
    if not found:
        near = difflib.get_close_matches(name, [each for rule in known for each in _names(rule)], 5, 0.5)
        nearest = f"; nearest: {', '.join(dict.fromkeys(near))}" if near else ""
        raise SizeupError(f"no rule knows an operator {name!r}{nearest}")
    return found


def _names(rule: OpRule) -> tuple[str, ...]:
    return (rule.kind, rule.family, *rule.torch, *rule.onnx, *rule.tflite)


def _alike(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), pattern.lower())


def markdown(chosen: Sequence[OpRule]) -> Iterator[str]:
    """The reference as a page: one section a family, one line a kind."""
    yield _PREFACE
    for family in sorted({rule.family for rule in chosen}):
        yield f"\n## {family}\n\n| kind | rule | PyTorch | ONNX | TFLite |\n|---|---|---|---|---|\n"
        for rule in sorted((each for each in chosen if each.family == family), key=lambda each: each.kind):
            cells = (" ".join(f"`{name}`" for name in getattr(rule, format_)) for format_ in _FORMATS)
            yield f"| `{rule.kind}` | {rule.summary} | {' | '.join(cells)} |\n"


def render(chosen: Sequence[OpRule], console: Console) -> None:
    """Print a line a kind, or everything about the few that were asked for."""
    from rich.text import Text

    from sizeup.render.console.layout import print_labelled

    detailed = len(chosen) <= 3
    for family in dict.fromkeys(rule.family for rule in chosen):
        if not detailed:
            console.print(Text(family, style="bold"))
        for rule in (each for each in chosen if each.family == family):
            if not detailed:
                print_labelled(console, rule.kind, rule.summary, width=24)
                continue
            console.print(Text(f"{rule.kind} ({family})", style="bold"))
            print_labelled(console, "rule", rule.summary)
            for format_ in _FORMATS:
                print_labelled(console, _TITLES[format_], ", ".join(getattr(rule, format_)) or "-")
