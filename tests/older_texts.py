"""The texts of the older tools: what they say to type, read from the texts themselves."""

from __future__ import annotations

import re
from pathlib import Path


def text_of(shared: Path, number: str) -> str:
    """One text by the number that its name begins with."""
    (found,) = (shared / "seeds").glob(f"{number}_*.txt")
    return found.read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    """What stands between lines of three backticks."""
    return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str, script: str) -> list[list[str]]:
    """The arguments of every line that runs a script at a prompt."""
    found = re.findall(rf"^% python {re.escape(script)}(.*)$", text, re.MULTILINE)
    return [line.split() for line in found]
