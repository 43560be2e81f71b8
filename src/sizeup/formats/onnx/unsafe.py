"""Operators that ONNX's own shape inference (1.23) does not survive: it crashes, or never returns.

Most break ONNX's specification and are refused before it sees them. A few are sound, but must be kept from
it while the type of their input is not known. Each entry was found by fuzzing and has a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from onnx import GraphProto, ModelProto, NodeProto

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.read import graphs_of, has_graphs
from sizeup.ops.matmul import is_equation

_MOST_OUTPUTS = 1 << 20
_MOST_AXES = 1 << 31  # an axis is cut to 32 bits without a check
# It reads the type of their first input without asking whether there is one.
_NEED_A_TYPE = frozenset({"DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"})
_HIDDEN = "sizeup.hidden"


def refuse_unsafe(graph: GraphProto) -> list[NodeProto]:
    """Raise CorruptModel for an operator that no inference survives; the result are those that need a type.

    Graphs within the graph are searched, too.
    """
    typed: list[NodeProto] = []
    for node in graph.node:
        check = _CHECKS.get(node.op_type)
        if check is not None:
            reason = check(node)
            if reason:
                raise CorruptModel(f"operator {node.name or node.op_type}: {reason}")
        elif needs_a_type(node):
            typed.append(node)
        elif has_graphs(node):
            for _, inner in graphs_of(node):
                typed += refuse_unsafe(inner)
    return typed


def needs_a_type(node: NodeProto) -> bool:
    """Whether inference crashes on it unless the type of its first input is known."""
    return node.op_type in _NEED_A_TYPE


@contextmanager
def hidden(model: ModelProto, nodes: Sequence[NodeProto]) -> Iterator[None]:
    """Let inference pass over these operators, as it does over those of domains that it does not know."""
    domains = [node.domain for node in nodes]
    for node in nodes:
        node.domain = _HIDDEN
    model.opset_import.add(domain=_HIDDEN, version=1)
    try:
        yield
    finally:
        del model.opset_import[-1]
        for node, domain in zip(nodes, domains, strict=True):
            node.domain = domain


def _integer(node: NodeProto, name: str) -> int | None:
    return next((each.i for each in node.attribute if each.name == name), None)


def _equation(node: NodeProto) -> str:
    for attribute in node.attribute:
        equation = attribute.s.decode("latin-1")
        if attribute.name == "equation" and not is_equation(equation):
            return f"{equation!r} is no einsum equation"
    return ""


def _batch_dims(node: NodeProto) -> str:
    dims = _integer(node, "batch_dims")
    return f"batch_dims is {dims}, below 0" if dims is not None and dims < 0 else ""


def _num_outputs(node: NodeProto) -> str:
    parts, listed = _integer(node, "num_outputs"), len(node.output)
    is_wrong = parts is not None and not listed <= parts <= _MOST_OUTPUTS
    return f"num_outputs is {parts}, and it has {listed} outputs" if is_wrong else ""


def _ceil_mode(node: NodeProto) -> str:
    mode = _integer(node, "ceil_mode")  # runtimes disagree whether 2 means 1 or 0
    return "" if mode in (None, 0, 1) else f"ceil_mode is {mode}; it is 0 or 1"


def _axis(node: NodeProto) -> str:
    axis = _integer(node, "axis") or 0
    return "" if -_MOST_AXES < axis < _MOST_AXES else f"axis is {axis}, more than any tensor has"


_CHECKS: Mapping[str, Callable[[NodeProto], str]] = {
    "Einsum": _equation,
    "GatherND": _batch_dims,
    "LayerNormalization": _axis,
    "Split": _num_outputs,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool", "QLinearAveragePool"), _ceil_mode),
}
