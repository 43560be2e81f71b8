"""Operators that run other subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sizeup.formats.tflite.loops import trips
from sizeup.formats.tflite.node import Node
from sizeup.formats.tflite.schema import numbers
from sizeup.graph import Body


def _if(node: Node) -> None:
    options = node.needed_options("IfOptions")
    node.bodies = (
        node.body("then", options.ThenSubgraphIndex()),
        node.body("else", options.ElseSubgraphIndex()),
    )


def _case(node: Node) -> None:
    options = node.needed_options("StablehloCaseOptions")
    branches = numbers(options.BranchSubgraphIndicesAsNumpy())
    if not branches:
        node.fail("no branches")
    node.model.limits.refer(len(branches))
    node.bodies = tuple(node.body(f"branch {place}", index) for place, index in enumerate(branches))


def _while(table: str) -> Callable[[Node], None]:
    def normalise(node: Node) -> None:
        options = node.needed_options(table)
        condition, body = node.graph(options.CondSubgraphIndex()), node.graph(options.BodySubgraphIndex())
        runs = trips([node.tensors[identity] for identity in node.inputs if identity >= 0], condition, body)
        # The condition is asked once more than the body runs.
        asked = None if runs is None else runs + 1
        node.bodies = (Body("cond", condition, asked), Body("body", body, runs))

    return normalise


def _call(table: str, name: str, index: Callable[[Any], int]) -> Callable[[Node], None]:
    def normalise(node: Node) -> None:
        node.bodies = (node.body(name, index(node.needed_options(table))),)

    return normalise


def _composite(node: Node) -> None:
    """An operator of a higher level, carried along with its decomposition."""
    options = node.needed_options("StableHLOCompositeOptions")
    name = node.model.limits.label(options.Name()) or "composite"
    node.attrs["composite"] = name
    node.bodies = (node.body(name, options.DecompositionSubgraphIndex()),)


NORMALISERS: dict[str, Callable[[Node], None]] = {
    "IF": _if,
    "STABLEHLO_CASE": _case,
    "WHILE": _while("WhileOptions"),
    "STABLEHLO_WHILE": _while("StablehloWhileOptions"),
    "CALL": _call("CallOptions", "callee", lambda options: options.Subgraph()),
    "CALL_ONCE": _call("CallOnceOptions", "initialiser", lambda options: options.InitSubgraphIndex()),
    "STABLEHLO_COMPOSITE": _composite,
}
