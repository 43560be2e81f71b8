"""Which targets are clusters of accelerators, which language models are served on; `-d` takes both kinds."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sizeup.errors import TargetError
from sizeup.files import read_settings
from sizeup.settings import parse_toml
from sizeup.targets.table import Table
from sizeup.targets.target_files import BUILT_IN, toml_errors

FOLDER = BUILT_IN / "clusters"
LINKS = "links"  # the file of shipped links
FILE = re.compile(r"(.+\.toml)(?:/([^/]+))?")
_COUNTED = re.compile(r"[0-9]+ ?[xX] ?.+")
_ENGINES = ("sglang", "trtllm", "llamacpp")  # that serve language models alone


def is_cluster(target: str | None, folder: Path | None = None) -> bool:
    """Whether a target is a cluster (a file: relative to `folder`) or an engine of language models alone."""
    stripped = (target or "").strip()
    file = FILE.fullmatch(stripped)
    if file is not None:
        return file[2] in _ENGINES or _is_cluster_file(Path(folder or "", file[1]))
    name, _, engine = stripped.partition("/")
    return bool(_COUNTED.fullmatch(name)) or name.casefold() in shipped_names() or engine in _ENGINES


def _is_cluster_file(path: Path) -> bool:
    try:
        return "cluster" in content_of(path).values
    except TargetError:  # reported by whatever reads the file as a target
        return False


@cache
def shipped_names() -> tuple[str, ...]:
    """The names of the clusters that sizeup knows."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != LINKS))


def content_of(path: Path) -> Table:
    """The content of a file of clusters or links; raises TargetError if it cannot be read."""
    with toml_errors(path):
        content = parse_toml(read_settings(path))
    return Table(content, str(path), "top level", {})
