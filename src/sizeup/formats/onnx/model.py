"""The way of a model through this package: read, expand functions, bind, infer, build."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from onnx import FunctionProto, ModelProto, NodeProto, inliner

from sizeup.errors import CorruptModel, InvalidGraph, LoadError
from sizeup.formats.onnx.bind import bind
from sizeup.formats.onnx.blocks import FIRST_WITH_DEFAULTS, Block
from sizeup.formats.onnx.build import BlockBuilder, Shared
from sizeup.formats.onnx.read import LightModel, graphs_of, read
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.shapes import Inference
from sizeup.graph import Graph, without_collection

# What broken files make of code that trusts them; the first is also how invalid text shows itself.
_SYMPTOMS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


def graph_of(source: Any, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Graph:
    """The graph of a model; every error says which model."""
    where = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model"
    try:
        with without_collection():
            return _build(read(source), inputs, sizes)
    except LoadError as error:
        raise error.within(where) from error
    except InvalidGraph as error:
        raise CorruptModel(f"{where}: {error}") from error
    except _SYMPTOMS as error:
        raise CorruptModel(f"{where}: cannot be understood ({type(error).__name__}: {error})") from error


def _build(light: LightModel, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Graph:
    model = inlined(light.proto)
    stated = bind(model.graph, inputs, sizes, {each.name for each in model.graph.initializer})
    block = Block(model.graph, light.origins, has_defaults=model.ir_version >= FIRST_WITH_DEFAULTS)
    inference = Inference(model, stated)
    inference.whole(block)
    shared = Shared(inference, Roles(block))
    return BlockBuilder(block, shared).build(light.name, inference.notes)


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
