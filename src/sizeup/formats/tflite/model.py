"""One .tflite file: its operator codes and constants, and the graph that each subgraph becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sizeup.errors import CorruptModel
from sizeup.formats.external import Home
from sizeup.formats.tflite.constants import Constants
from sizeup.formats.tflite.limits import DEEPEST_NESTING, MOST_OPERATORS_RUN, Limits
from sizeup.formats.tflite.node import Node
from sizeup.formats.tflite.normalise import normaliser
from sizeup.formats.tflite.schema import operator_names, schema
from sizeup.formats.tflite.subgraph import build
from sizeup.formats.tflite.variables import Variables
from sizeup.graph import Graph
from sizeup.ops import kind_of, rule_of

_SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """What an operator is: its name in the file, our kind, and what brings it into our form."""

    source: str
    kind: str
    normalise: Callable[[Node], None] | None
    computes: bool  # its count needs an input and an output


class Model:
    """The tables of a file, and what all of its subgraphs share."""

    def __init__(self, content: memoryview, name: str, home: Home) -> None:
        self.name = name
        self.root = schema().Model.GetRootAs(content)
        if self.root.Version() != _SCHEMA_VERSION:
            raise CorruptModel(
                f"{name}: schema version {self.root.Version()}; only {_SCHEMA_VERSION} is in use"
            )
        self.limits = Limits(name, len(content))
        self.constants = Constants(self.root, content, self.limits, home)
        self.codes = [
            self._code(index) for index in range(self.limits.length(self.root.OperatorCodesLength()))
        ]
        self.subgraphs = self.limits.length(self.root.SubgraphsLength())
        self.variables = Variables()
        self.notes: list[str] = []
        self._graphs: dict[int, Graph] = {}
        self._runs: dict[int, int] = {}  # operators that one run of a subgraph takes, its callees included
        # Subgraphs that are being read, and the operators of their callees so far.
        self._under_way: dict[int, int] = {}

    def note(self, note: str) -> None:
        """Record an assumption that the reader of a report should see."""
        if note not in self.notes:
            self.notes.append(note)

    def graph(self, index: int) -> Graph:
        """The graph of a subgraph, made once however often it is called."""
        if not 0 <= index < self.subgraphs:
            raise CorruptModel(f"{self.name}: it calls subgraph {index} of {self.subgraphs}")
        if index in self._under_way:
            raise CorruptModel(f"{self.name}: subgraph {index} calls itself")
        if len(self._under_way) >= DEEPEST_NESTING:
            raise CorruptModel(f"{self.name}: subgraphs nested deeper than {DEEPEST_NESTING}")
        if index not in self._graphs:
            self._under_way[index] = 0
            graph = self._graphs[index] = build(self, index)
            self._runs[index] = len(graph.ops) + self._under_way.pop(index)
        if self._under_way:
            self._count_run(self._runs[index])
        return self._graphs[index]

    def _count_run(self, operators: int) -> None:
        """Refuse a file whose subgraphs call one another so often that nobody could run them."""
        caller = next(reversed(self._under_way))
        self._under_way[caller] += operators
        if self._under_way[caller] > max(MOST_OPERATORS_RUN, self.limits.size):
            raise CorruptModel(f"{self.name}: its subgraphs call one another without end")

    def unreached(self) -> list[int]:
        """The subgraphs that no graph made so far has called."""
        return [index for index in range(self.subgraphs) if index not in self._graphs]

    def _code(self, index: int) -> OperatorCode:
        code = self.root.OperatorCodes(index)
        # Codes up to 127 may stand in either field, the larger ones in the newer one only.
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        names = operator_names()
        if builtin == schema().BuiltinOperator.CUSTOM:
            source = self.limits.label(code.CustomCode()) or "CUSTOM"
            kind = None if source in names.values() else kind_of("tflite", source)
        else:
            source = names.get(builtin, f"BUILTIN_{builtin}")
            kind = kind_of("tflite", source)
        if kind is None:
            return OperatorCode(source, _unknown_kind(source), None, computes=False)
        rule = rule_of(kind)
        computes = rule is not None and (rule.macs is not None or rule.elementwise is not None)
        return OperatorCode(source, kind, normaliser(source), computes)


def _unknown_kind(source: str) -> str:
    """The kind of an operator without a rule: its own name, unless that would borrow another's rule."""
    rule = rule_of(source)
    return source if rule is None or rule.family == "own" else f"custom:{source}"
