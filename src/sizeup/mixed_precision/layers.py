"""The layers whose dtype can be chosen, and the layers that a precision map names."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sizeup import dtypes
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Op, is_precomputed, name_of
from sizeup.ops import cost_rule_of
from sizeup.patterns import is_wild
from sizeup.units import quoted

_MAX_NEAREST = 3
_LONGEST_NUMBER = 12
_MOST_HINTS = 10  # names that get a suggestion
_MOST_WILD = 1_000  # patterns, each compared with all layers


@dataclass(frozen=True, slots=True)
class Layer:
    """An op with weights, or a product of activations; all other ops follow the dtype of their inputs."""

    op: int
    name: str
    kind: str


class LayerMatch(NamedTuple):
    """Dtypes by op, and the patterns that match nothing, each with the closest names."""

    dtypes: dict[int, DType]
    unmatched: dict[str, list[str]]


def layers(graph: Graph) -> tuple[Layer, ...]:
    """Returns the layers of a graph in execution order."""
    return tuple(
        Layer(index, op.scope or name_of(graph, op), op.kind)
        for index, op in enumerate(graph.ops)
        if is_layer(graph, op)
    )


def is_layer(graph: Graph, op: Op) -> bool:
    """Whether an op has a dtype of choice: it multiplies, or looks values up in a trained table."""
    rule = cost_rule_of(op.kind)
    if rule is None or op.bodies or is_precomputed(graph, op):
        return False
    if rule.macs is not None:
        return True
    tensors = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    return any(tensor.is_parameter and len(tensor.shape or ()) > 1 for tensor in tensors)


def match_layers(graph: Graph, mapping: Mapping[str, Any]) -> LayerMatch:
    """Matches the names in a precision map with ops; wildcards first, so that later exact names override
    them.

    A pattern is a module (with everything in it), an op, an op kind, an op's number (`#12`), or contains
    wildcards (`features.*.conv`). Modules, op kinds and wildcards match layers only; an op named itself need
    not be a layer.
    """
    if sum(map(is_wild, mapping)) > _MOST_WILD:
        raise SizeupError(f"a precision map with more than {_MOST_WILD:,} patterns")
    names = LayerNames(graph)
    dtypes_by_op: dict[int, DType] = {}
    unmatched: dict[str, list[str]] = {}
    for pattern, precision in sorted(mapping.items(), key=lambda item: not is_wild(item[0])):
        ops = names.find(pattern)
        if not ops:
            unmatched[pattern] = names.nearest(pattern) if len(unmatched) < _MOST_HINTS else []
            continue
        dtypes_by_op.update(dict.fromkeys(ops, _precision(pattern, precision)))
    return LayerMatch(dtypes_by_op, unmatched)


def _precision(pattern: str, precision: Any) -> DType:
    try:
        return dtypes.precision(precision)
    except SizeupError as error:
        raise SizeupError(f"{quoted(pattern)}: {error}") from None


class LayerNames:
    """The names of a graph's ops, for looking up patterns."""

    def __init__(self, graph: Graph) -> None:
        self.count = len(graph.ops)
        self.by_name: dict[str, list[int]] = {}
        self.layers: dict[str, list[int]] = {}
        for index, op in enumerate(graph.ops):
            is_choosable = is_layer(graph, op)
            for name in {name_of(graph, op), op.name}:
                self.by_name.setdefault(name, []).append(index)
            for name in _paths(op.scope) | {op.kind} if is_choosable else ():
                self.layers.setdefault(name, []).append(index)
            if is_choosable:
                self.layers.setdefault(name_of(graph, op), []).append(index)

    def find(self, pattern: str) -> list[int]:
        """Returns the ops that match a pattern."""
        if pattern.startswith("#") and pattern[1:].isdecimal():
            number = int(pattern[1:]) if len(pattern) < _LONGEST_NUMBER else self.count
            return [number] if number < self.count else []
        if pattern in self.layers:
            return self.layers[pattern]
        if pattern in self.by_name:
            return self.by_name[pattern]
        if not is_wild(pattern):
            return []
        return [
            index for name, ops in self.layers.items() if fnmatch.fnmatchcase(name, pattern) for index in ops
        ]

    def nearest(self, pattern: str) -> list[str]:
        """Returns the closest known names."""
        return difflib.get_close_matches(pattern, [*self.layers, *self.by_name], _MAX_NEAREST, 0.5)


def _paths(scope: str) -> set[str]:
    """Returns a module and all that contain it: `a.b.c` is in `a.b` and in `a`."""
    separator = "/" if "/" in scope else "."
    parts = scope.split(separator) if scope else []
    return {separator.join(parts[: depth + 1]) for depth in range(len(parts))}
