"""Links of the documentation: written for the repository, rewritten for the site in this one place."""

from __future__ import annotations

import posixpath
import re
from importlib.metadata import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Pages of the site that are files of the repository outside docs/.
ROOT_PAGES = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
_PLACEHOLDER = "/OWNER/"  # in the addresses of pyproject.toml, until the project has an owner
_PAGES_BY_FILE = {file: page for page, file in ROOT_PAGES.items()}
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^]]*)\]\((?P<target>[^)\s]+)\)")
_ITEM = re.compile(r"(?P<indent> *)(?P<marker>[-*]|\d+\.) ")


def repository() -> str | None:
    """The address of the repository in the metadata of the package; None if there is none yet."""
    entries = metadata("sizeup").get_all("Project-URL") or []
    addresses = dict(entry.split(", ", 1) for entry in entries)
    address = addresses.get("Repository")
    return None if address is None or _PLACEHOLDER in address else address


def for_site(markdown: str, page: str, source_url: str | None) -> str:
    """A page with links for the site; those to files without a page lead to the repository, if known."""
    parts = _FENCED.split(markdown)
    return "".join(
        part if index % 2 else _LINK.sub(lambda link: _rewritten(link, page, source_url), part)
        for index, part in enumerate(parts)
    )


def _rewritten(link: re.Match[str], page: str, source_url: str | None) -> str:
    target = link["target"]
    if "://" in target or target.startswith("#"):
        return link[0]
    path, hash_, anchor = target.partition("#")
    origin = ROOT_PAGES.get(page, f"docs/{page}")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    there = file[len("docs/") :] if file.startswith("docs/") else _PAGES_BY_FILE.get(file)
    if there is not None:
        relative = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"{link['image']}[{link['text']}]({relative}{hash_}{anchor})"
    return f"[{link['text']}]({source_url}/blob/main/{file})" if source_url else link["text"]


def as_python_markdown(markdown: str) -> str:
    """The text for Python-Markdown, which needs an empty line before lists and indents of four in them."""
    lines: list[str] = []
    width, is_code = 0, False  # width of the marker of the current list; 0 outside of lists
    has_blocks = False  # whether the current item has several blocks
    for line in markdown.split("\n"):
        is_fence = line.lstrip().startswith("```")
        item = None if is_code or is_fence else _ITEM.match(line)
        before = lines[-1] if lines else ""
        if line and not line.startswith(" ") and not is_code and not item and not before:
            width = 0
        if not is_code and before and _starts_block(line, before, bool(item), has_blocks or not width):
            lines.append("")
        has_blocks = not item and (has_blocks or not line)
        if item and not item["indent"]:
            width = len(item["marker"]) + 1
        lines.append(_indented(line if is_code else _unescaped(line), item, width))
        is_code ^= is_fence
    return "\n".join(lines)


def _starts_block(line: str, before: str, is_item: bool, needs_empty_line: bool) -> bool:
    """Whether an empty line must separate a table or a list item from the line before."""
    is_table = line.lstrip().startswith("|") and not before.lstrip().startswith("|")
    return is_table or (is_item and needs_empty_line)


def _unescaped(line: str) -> str:
    """A row of a table, with vertical bars in code spans as they are: there a backslash would be shown."""
    if not line.lstrip().startswith("|"):
        return line
    return re.sub(r"`[^`]+`", lambda span: span[0].replace("\\|", "|"), line)


def _indented(line: str, item: re.Match[str] | None, width: int) -> str:
    if not width or not line.startswith(" "):
        return line
    if item:
        return "    " * (len(item["indent"]) // width) + line.lstrip()
    return " " * (4 - width) + line
