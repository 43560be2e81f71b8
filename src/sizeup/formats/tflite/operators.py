"""The operators of a .tflite file as viewers number them."""

from __future__ import annotations

from pathlib import Path

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.nodes import FileNodes
from sizeup.formats.tflite.schema import BROKEN, numbers, schema
from sizeup.graph import ABSENT

_NAMELESS = "main"  # what viewers call a graph without a name


def nodes_of(path: Path) -> FileNodes:
    """The operators of a file's main graph: their places in it, and the tensors that each makes."""
    try:
        table = schema().Model.GetRootAs(path.read_bytes()).Subgraphs(0)
        made = [numbers(table.Operators(place).OutputsAsNumpy()) for place in range(table.OperatorsLength())]
        name = (table.Name() or b"").decode("utf-8", "replace")
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror or error}") from error
    except BROKEN as error:
        raise CorruptModel(f"{path}: the file is damaged: {error}") from error
    outputs = tuple(tuple(each for each in ids if each != ABSENT) for ids in made)
    return FileNodes(name or _NAMELESS, tuple(map(str, range(len(made)))), outputs)
