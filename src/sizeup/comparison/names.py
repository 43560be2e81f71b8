"""Names of operators that mean the same in every format: the path of modules, whatever separates it."""

from __future__ import annotations

import re
from string import digits
from typing import TypeAlias

from sizeup.graph import Graph, Op, name_of

Path: TypeAlias = tuple[str, ...]

_SEPARATORS = re.compile(r"[/.]")
# LiteRT's converter writes the class of a module before its name: torch.nn.modules.conv.Conv2d_0.
# The patterns leave one way to read a text, so that no name, however long, takes long.
_WITH_CLASS = re.compile(r"(?:\w+\.)+[A-Z][^\W_]*_(\w+)")
_CLASS_ALONE = re.compile(r"(?:\w+\.)+[A-Z]\w*")
_SHORTEST = 3  # letters: `n4` is no name that anybody gave


def paths(graph: Graph) -> list[Path]:
    """Of every operator the modules that it is in, without one that all of them are in; () where unknown."""
    found = [_path(op.scope) + _innermost(name_of(graph, op)) for op in graph.ops]
    named = [path for path in found if path]
    common = 0
    while named and all(len(path) > common + 1 and path[common] == named[0][common] for path in named):
        common += 1
    return [path[common:] for path in found]


def _path(scope: str) -> Path:
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        with_class = _WITH_CLASS.fullmatch(part)
        if with_class:
            parts.append(with_class[1])
        elif not _CLASS_ALONE.fullmatch(part):
            parts += [each for each in _SEPARATORS.split(part) if each]
    return tuple(parts)


def _innermost(name: str) -> Path:
    """The module at the end of a name that LiteRT's converter wrote, where other names have the operator."""
    with_class = _WITH_CLASS.fullmatch(name.partition(";")[0].rpartition("/")[2])
    return (with_class[1],) if with_class else ()


def own_names(graph: Graph) -> list[str]:
    """Of every operator the name that somebody gave it; empty where it is a kind and a counter."""
    if graph.format == "torch":
        return [""] * len(graph.ops)
    if graph.format == "tflite":  # where tensors alone have names
        return [_own_name(op, name_of(graph, op)) for op in graph.ops]
    return [_own_name(op, op.name) for op in graph.ops]


def _own_name(op: Op, name: str) -> str:
    base = name.removeprefix("node_").rstrip(digits).strip("_/").lower()
    kinds = {op.kind.lower(), op.source.rpartition(".")[2].lower()}
    return "" if len(base) < _SHORTEST or base in kinds else name
