"""Commands and snippets as they were written: in the texts of the older tools, and in our own pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path


def text(shared: Path, number: int) -> str:
    (found,) = (shared / "seeds").glob(f"{number:03d}_*.txt")
    return found.read_text("utf-8")


def blocks(content: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [
        match[1] for match in re.finditer(rf"^```{language}\n(.*?)^```", content, re.DOTALL | re.MULTILINE)
    ]


def commands(content: str) -> list[list[str]]:
    """Every command of the text once, as words; a line that ends with a backslash goes on."""
    joined = "".join(blocks(content, "bash")).replace("\\\n", " ")
    return [list(words) for words in dict.fromkeys(tuple(shlex.split(line)) for line in joined.splitlines())]


def section(content: str, title: str) -> str:
    """What a page has below a heading of the second level."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", content, re.DOTALL | re.MULTILINE)
    return str(found)


def prompts(content: str, script: str) -> list[list[str]]:
    """The arguments of every line that runs a script at a prompt."""
    found = re.findall(rf"^% python {re.escape(script)}(.*)$", content, re.MULTILINE)
    return [shlex.split(line) for line in found]
