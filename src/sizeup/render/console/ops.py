"""The operator reference: cost rules as text."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup.errors import SizeupError
from sizeup.ops import OpRule, cost_rules

if TYPE_CHECKING:
    from rich.console import Console

_FORMATS = ("torch", "onnx", "tflite")
_TITLES = {"torch": "PyTorch", "onnx": "ONNX", "tflite": "TFLite"}
_PREFACE = """\
# Operators

The cost rule of each op kind, and its operator names in each format. Any other operator is reported as
unknown, never as free. `@sizeup.op_rule` adds a cost rule.

This page is generated: `sizeup ops --markdown > docs/operators.md`.
"""


def find(name: str | None = None) -> list[OpRule]:
    """Returns the cost rules of an op kind, family, operator name or pattern; all without a name."""
    known = cost_rules()
    if name is None:
        return list(known)
    matches = [rule for rule in known if name in _names(rule)]
    matches = matches or [
        rule for rule in known if any(_matches(candidate, name) for candidate in _names(rule))
    ]
    if not matches:
        near = difflib.get_close_matches(
            name, [candidate for rule in known for candidate in _names(rule)], 5, 0.5
        )
        nearest = f"; nearest: {', '.join(dict.fromkeys(near))}" if near else ""
        raise SizeupError(f"no cost rule matches {name!r}{nearest}")
    return matches


def _names(rule: OpRule) -> tuple[str, ...]:
    return (rule.kind, rule.family, *rule.torch, *rule.onnx, *rule.tflite)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), pattern.lower())


def markdown(chosen: Sequence[OpRule]) -> Iterator[str]:
    """Yields the reference as a page: one section per family, one line per op kind."""
    yield _PREFACE
    for family in sorted({rule.family for rule in chosen}):
        yield f"\n## {family}\n\n| op kind | cost rule | PyTorch | ONNX | TFLite |\n|---|---|---|---|---|\n"
        for rule in sorted(
            (candidate for candidate in chosen if candidate.family == family),
            key=lambda candidate: candidate.kind,
        ):
            cells = (" ".join(f"`{name}`" for name in getattr(rule, format_)) for format_ in _FORMATS)
            yield f"| `{rule.kind}` | {rule.summary} | {' | '.join(cells)} |\n"


def render(chosen: Sequence[OpRule], console: Console) -> None:
    """Print one line per cost rule, or up to three rules in full."""
    from rich.text import Text

    from sizeup.render.console.layout import print_labeled

    detailed = len(chosen) <= 3
    for family in dict.fromkeys(rule.family for rule in chosen):
        if not detailed:
            console.print(Text(family, style="bold"))
        for rule in (candidate for candidate in chosen if candidate.family == family):
            if not detailed:
                print_labeled(console, rule.kind, rule.summary, width=24)
                continue
            console.print(Text(f"{rule.kind} ({family})", style="bold"))
            print_labeled(console, "cost rule", rule.summary)
            for format_ in _FORMATS:
                print_labeled(console, _TITLES[format_], ", ".join(getattr(rule, format_)) or "-")
