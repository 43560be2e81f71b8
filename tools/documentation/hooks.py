"""Hooks of MkDocs: pages that are generated or outside docs/, links between them, and llms.txt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# MkDocs runs this file by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from documentation import links, text_version
from documentation.generated import PAGES

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

_texts: dict[str, str] = {}  # of every page, as Markdown for the site
_sections: list[text_version.Section] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of docs/decisions to the navigation."""
    decisions = sorted(path.name for path in Path(config.docs_dir, "decisions").glob("[0-9]*.md"))
    config.nav = _expanded(config.nav, [f"decisions/{name}" for name in decisions])
    return config


def _expanded(nav: Any, decisions: list[str]) -> Any:
    if isinstance(nav, list):
        return [_expanded(entry, decisions) for entry in nav]
    if nav == {"Decisions": "decisions/README.md"}:
        return {"Decisions": ["decisions/README.md", *decisions]}
    return (
        {title: _expanded(entry, decisions) for title, entry in nav.items()} if isinstance(nav, dict) else nav
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages that are not in docs/: those of the repository's root and generated ones."""
    from mkdocs.structure.files import File

    for page, file in links.ROOT_PAGES.items():
        text = (links.ROOT / file).read_text("utf-8")
        if page == "index.md":  # the site has a navigation instead of the list of pages
            text = text.partition("\n## Documentation")[0]
        files.append(File.generated(config, page, content=text))
    for page, generate in PAGES.items():
        files.append(File.generated(config, page, content="".join(generate())))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Remember the order of pages for llms.txt."""
    _sections[:] = text_version.sections(nav.items)
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the site, and the syntax of GitHub for Python-Markdown."""
    name = page.file.src_uri
    text = links.for_site(markdown, name, links.repository())
    _texts[name] = text
    return links.as_python_markdown(text)


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt, and every page as Markdown next to its HTML."""
    description = str(config.site_description)
    text_version.write(Path(config.site_dir), f"# {config.site_name}\n\n> {description}\n", _sections, _texts)
