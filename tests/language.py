"""Finds words in text and identifiers that the language rules of the project retire (``language.toml``).

``python tests/language.py PATH...`` prints each place and what to write instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("language.toml").read_text("utf-8"))
# Between two words may be white space, the start of a comment line, or the seam of two string literals.
_BREAK = r"""(?:\s|["']\s*[fr]?["']|\n\s*#)+"""
_PHRASES = [(re.compile(rule["pattern"].replace(" ", _BREAK)), rule["write"]) for rule in RULES["phrase"]]
_ADDRESS = re.compile(r"https?://\S+")
_CODE = re.compile(r"`[^`\n]+`")  # in Markdown: commands, keys and older names, which are not prose
_NAMES = frozenset(RULES["names"]["retired"])
_WORDS = frozenset(RULES["names"]["words"])


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule."""

    path: Path
    line: int
    text: str
    write: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}: write {self.write}"


def phrases(path: Path) -> Iterator[Finding]:
    """Retired phrases in the text of a file."""
    text = path.read_text("utf-8")
    for pattern in (_ADDRESS, _CODE) if path.suffix == ".md" else (_ADDRESS,):
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    for pattern, write in _PHRASES:
        for match in pattern.finditer(text):
            yield Finding(path, text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), write)


def names(path: Path) -> Iterator[Finding]:
    """Retired identifiers that a Python file binds."""
    bound = [(1, path.stem if path.name != "__init__.py" else path.parent.name)]
    bound += [place for node in ast.walk(ast.parse(path.read_text("utf-8"))) for place in _bound(node)]
    for line, name in sorted(bound):
        words = _WORDS.intersection(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
        if name.lstrip("_") in _NAMES or words:
            yield Finding(path, line, name, "the noun of its type, or the name in docs/glossary.md")


def _bound(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.lineno, node.name
    elif isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
    elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
        yield node.lineno, node.name


def scan(path: Path) -> Iterator[Finding]:
    """All findings in a file."""
    yield from phrases(path)
    if path.suffix == ".py":
        yield from names(path)


def main(arguments: list[str]) -> int:
    """Prints the findings in the files named, or in those below the folders named."""
    count = 0
    for argument in arguments:
        root = Path(argument)
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in SUFFIXES and "vendor" not in path.parts:
                for finding in scan(path):
                    sys.stdout.write(f"{finding}\n")
                    count += 1
    sys.stdout.write(f"{count} findings\n")
    return 1 if count else 0


SUFFIXES = (".py", ".md", ".js", ".toml")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
