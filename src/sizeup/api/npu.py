"""The files of models, and models compiled for an Ethos-U."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.api.models import Source
from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.files import is_file
from sizeup.graph import Graph
from sizeup.results.report import Report

if TYPE_CHECKING:
    from sizeup.backends.compiled import NpuFit
    from sizeup.targets import Target


def npu_fit(
    source: Source,
    graph: Graph,
    graph_cost: Cost,
    dtype: DType | None,
    original: Cost | None,
    target: Target | None,
) -> NpuFit | None:
    """The model compiled for the Ethos-U of a target; None if the target has none."""
    if target is None:
        return None
    from sizeup.backends import Needs, backend_of

    if not backend_of(target).compiles_models:
        return None
    file = unchanged_file(source)
    size = None if file is None else file.stat().st_size
    return backend_of(target).compiled(Needs(graph, graph_cost, dtype, size, original, file))


def unchanged_file(source: Source) -> Path | None:
    """The file of a model; None if there is none, or another one than a report was made from."""
    if not isinstance(source, Report):
        return file_of(source)[0]
    from sizeup.results.file_nodes import digest

    path = source.source
    is_same = path is not None and is_file(path) and digest(path) == source.sha256
    return path if is_same else None


def file_of(source: Source) -> tuple[Path | None, str | None]:
    """The absolute path and the digest of a model file; None if the source is not a file."""
    if isinstance(source, Report):
        return source.source, source.sha256
    if not isinstance(source, str | os.PathLike) or not is_file(source):
        return None, None
    from sizeup.results.file_nodes import digest

    path = Path(source).absolute()
    return path, digest(path)
