"""The layers whose number type may be chosen, and which of them a user's mapping names."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sizeup import dtypes
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Op, name_of
from sizeup.ops import rule_of
from sizeup.units import quoted

_MOST_NEAR = 3
_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator that computes with weights, or multiplies: all others follow those that feed them."""

    op: int
    name: str
    kind: str


class Matched(NamedTuple):
    """Number types by operator, and the patterns that named none, each with the nearest names."""

    chosen: dict[int, DType]
    unmatched: dict[str, list[str]]


def layers(graph: Graph) -> tuple[Layer, ...]:
    """The layers of a graph in the order in which they run."""
    return tuple(
        Layer(index, op.scope or name_of(graph, op), op.kind)
        for index, op in enumerate(graph.ops)
        if is_layer(graph, op)
    )


def is_layer(graph: Graph, op: Op) -> bool:
    """Whether its number type is its own to choose: it multiplies, or looks numbers up in a trained table."""
    rule = rule_of(op.kind)
    if (
        rule is None
        or op.bodies
        or (op.outputs and all(graph.tensors[i].data is not None for i in op.outputs))
    ):
        return False
    if rule.macs is not None:
        return True
    tensors = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    return any(each.is_parameter and len(each.shape or ()) > 1 for each in tensors)


def matched(graph: Graph, mapping: Mapping[str, str]) -> Matched:
    """Operators by a mapping of names to precisions, wildcards first: the last that fits counts.

    A pattern names a module with all inside it, an operator, a kind, an operator's number (`#12`), or holds
    wildcards (`features.*.conv`). Only layers follow a module, a kind or a wildcard; an operator that is
    named itself need not be one.
    """
    names = Names(graph)
    chosen: dict[int, DType] = {}
    unmatched: dict[str, list[str]] = {}
    for pattern, precision in sorted(mapping.items(), key=lambda each: not _is_wildcard(each[0])):
        found = names.find(pattern)
        if not found:
            unmatched[pattern] = names.nearest(pattern)
            continue
        chosen.update(dict.fromkeys(found, _precision(pattern, precision)))
    return Matched(chosen, unmatched)


def _precision(pattern: str, precision: str) -> DType:
    try:
        return dtypes.precision(precision)
    except SizeupError as error:
        raise SizeupError(f"{quoted(pattern)}: {error}") from None


def _is_wildcard(pattern: str) -> bool:
    return any(letter in pattern for letter in "*?[")


class Names:
    """What the operators of a graph are called, for looking up patterns."""

    def __init__(self, graph: Graph) -> None:
        self.count = len(graph.ops)
        self.by_name: dict[str, list[int]] = {}
        self.layers: dict[str, list[int]] = {}
        for index, op in enumerate(graph.ops):
            choosable = is_layer(graph, op)
            for name in {name_of(graph, op), op.name}:
                self.by_name.setdefault(name, []).append(index)
            for name in _paths(op.scope) | {op.kind} if choosable else ():
                self.layers.setdefault(name, []).append(index)
            if choosable:
                self.layers.setdefault(name_of(graph, op), []).append(index)

    def find(self, pattern: str) -> list[int]:
        """The operators that a pattern names."""
        if pattern.startswith("#") and pattern[1:].isdecimal():
            place = int(pattern[1:]) if len(pattern) < _LONGEST_NUMBER else self.count
            return [place] if place < self.count else []
        if pattern in self.layers:
            return self.layers[pattern]
        if pattern in self.by_name:
            return self.by_name[pattern]
        return [
            index
            for name, found in self.layers.items()
            if fnmatch.fnmatchcase(name, pattern)
            for index in found
        ]

    def nearest(self, pattern: str) -> list[str]:
        """Names that were perhaps meant."""
        return difflib.get_close_matches(pattern, [*self.layers, *self.by_name], _MOST_NEAR, 0.5)


def _paths(scope: str) -> set[str]:
    """A module and all that hold it: `a.b.c` lies in `a.b` and in `a`."""
    separator = "/" if "/" in scope else "."
    parts = scope.split(separator) if scope else []
    return {separator.join(parts[: depth + 1]) for depth in range(len(parts))}
