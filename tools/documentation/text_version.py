"""The site for language models: llms.txt (https://llmstxt.org), and every page as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the navigation with its pages: title and path of each."""

    title: str
    pages: tuple[tuple[str, str], ...]


def sections(items: Sequence[Any]) -> list[Section]:
    """The top sections of MkDocs' navigation, each with all pages below it."""
    return [Section(item.title, tuple(_pages(item))) for item in items if item.children]


def _pages(item: Any) -> Iterator[tuple[str, str]]:
    if item.children:
        for child in item.children:
            yield from _pages(child)
    elif hasattr(item, "file"):  # else MkDocs warns of a page that does not exist
        yield item.title or "", item.file.src_uri


def write(folder: Path, head: str, parts: Sequence[Section], texts: Mapping[str, str]) -> None:
    """Write llms.txt and the pages, with the texts of all pages by path."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    lines = [head]
    for part in parts:
        lines.append(f"\n## {part.title}\n\n")
        for title, name in part.pages:
            lines.append(f"- [{title or heading(texts[name])}]({name}): {summary(texts[name])}\n")
    (folder / "llms.txt").write_text("".join(lines), "utf-8")


def heading(text: str) -> str:
    """The title of a page."""
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1] if match else ""


def summary(text: str) -> str:
    """The first sentence of a page, as plain text."""
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r"#|\||```|!\[|<!--|- ", paragraph.strip()):
            plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"\s+", " ", paragraph)).strip(" *")
            return re.split(r"(?<=[.:?!]) ", plain)[0]
    return ""
