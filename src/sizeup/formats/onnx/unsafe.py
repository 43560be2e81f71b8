"""Nodes that make ONNX's shape inference (1.23) crash or hang.

Most violate the ONNX specification and are rejected before inference. A few are valid, but must be hidden
from it while the type of their input is unknown. Each entry was found by fuzzing and has a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from onnx import GraphProto, ModelProto, NodeProto

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.read import CONTROL, graphs_of
from sizeup.ops import names_of
from sizeup.ops.handlers import Handlers
from sizeup.ops.matmul import is_equation

_MAX_OUTPUTS = 1 << 20
_MAX_AXIS = 1 << 31  # an axis is truncated to 32 bits without a check
# Inference reads the type of their first input without checking that it exists.
_NEED_A_TYPE = frozenset({"DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"})
_HIDDEN = "sizeup.hidden"


def refuse_unsafe(graph: GraphProto) -> list[NodeProto]:
    """Raises CorruptModel for unsafe nodes; returns the nodes that need a type. Searches subgraphs too."""
    typed: list[NodeProto] = []
    for node in graph.node:
        op_type = node.op_type
        check = _CHECKS.get(op_type)
        if check is not None:
            reason = check(node)
            if reason:
                raise CorruptModel(f"operator {node.name or op_type}: {reason}")
        elif op_type in _NEED_A_TYPE:
            typed.append(node)
        elif op_type in CONTROL or node.domain:
            for _, inner in graphs_of(node):
                typed += refuse_unsafe(inner)
    return typed


def needs_a_type(node: NodeProto) -> bool:
    """Whether inference crashes on the node unless the type of its first input is known."""
    return node.op_type in _NEED_A_TYPE


@contextmanager
def hidden(model: ModelProto, nodes: Sequence[NodeProto]) -> Iterator[None]:
    """Move these nodes to an unknown domain, which inference skips."""
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


_CHECKS = Handlers[Callable[[NodeProto], str]]()
# Named without their domain.
_POOLS = [name.rpartition("::")[2] for name in names_of("onnx", "pool")]


def _integer(node: NodeProto, name: str) -> int | None:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), None)


@_CHECKS("Einsum")
def _equation(node: NodeProto) -> str:
    for attribute in node.attribute:
        equation = attribute.s.decode("latin-1")
        if attribute.name == "equation" and not is_equation(equation):
            return f"{equation!r} is not an einsum equation"
    return ""


@_CHECKS("GatherND")
def _batch_dims(node: NodeProto) -> str:
    dims = _integer(node, "batch_dims")
    return f"batch_dims is {dims}, below 0" if dims is not None and dims < 0 else ""


@_CHECKS("Split")
def _num_outputs(node: NodeProto) -> str:
    parts, listed = _integer(node, "num_outputs"), len(node.output)
    is_wrong = parts is not None and not listed <= parts <= _MAX_OUTPUTS
    return f"num_outputs is {parts}, but it has {listed} outputs" if is_wrong else ""


@_CHECKS(*_POOLS)
def _ceil_mode(node: NodeProto) -> str:
    mode = _integer(node, "ceil_mode")  # runtimes disagree on other values
    return "" if mode in (None, 0, 1) else f"ceil_mode is {mode}; it must be 0 or 1"


@_CHECKS("LayerNormalization")
def _axis(node: NodeProto) -> str:
    axis = _integer(node, "axis") or 0
    return "" if -_MAX_AXIS < axis < _MAX_AXIS else f"axis {axis} is out of range"
