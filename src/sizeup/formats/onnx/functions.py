"""Model-local functions: every call is replaced by the function's own operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from onnx import FunctionProto, ModelProto, NodeProto, inliner

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.read import graphs_of

_Key: TypeAlias = tuple[str, str, str]
# Functions that call functions multiply: more operators than this are an attack, not a network.
_MOST_OPERATORS = 10_000_000


def inlined(model: ModelProto) -> ModelProto:
    """The model with all calls of its own functions expanded, nested ones too."""
    if not model.functions:
        return model
    functions = {_name(each.domain, each.name, each.overload): each for each in model.functions}
    _check_size(model, functions)
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the library has no one class for what it refuses
        raise CorruptModel(f"the functions of the model cannot be expanded: {error}") from error


def _name(domain: str, name: str, overload: str) -> _Key:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _check_size(model: ModelProto, functions: dict[_Key, FunctionProto]) -> None:
    """Refuse functions that call themselves, and calls that multiply without measure."""
    calls = {key: [c for c in _calls(each.node) if c in functions] for key, each in functions.items()}
    sizes: dict[_Key, int] = {}
    for root in functions:
        _measure(root, calls, functions, sizes)
    whole = sum(sizes.get(call, 1) for call in _calls(model.graph.node))
    if whole > _MOST_OPERATORS:
        raise CorruptModel(f"the functions of the model expand to {whole:,} operators")


def _measure(
    root: _Key,
    calls: dict[_Key, list[_Key]],
    functions: dict[_Key, FunctionProto],
    sizes: dict[_Key, int],
) -> None:
    """Operators of a function once expanded; on a stack of its own, for calls may nest deeply."""
    path, stack = {root}, [(root, iter(calls[root]))]
    while stack:
        key, rest = stack[-1]
        called = next((each for each in rest if each not in sizes), None)
        if called is None:
            sizes[key] = len(functions[key].node) + sum(sizes[each] for each in calls[key])
            stack.pop()
            path.discard(key)
        elif called in path:
            raise CorruptModel(f"function {called[1]!r} of domain {called[0]!r} calls itself")
        else:
            path.add(called)
            stack.append((called, iter(calls[called])))


def _calls(nodes: Iterable[NodeProto]) -> Iterator[_Key]:
    for node in nodes:
        yield _name(node.domain, node.op_type, node.overload)
        for _, graph in graphs_of(node):
            yield from _calls(graph.node)
