"""Loads a model: read, inline functions, bind, infer shapes, build the graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from onnx import FunctionProto, ModelProto, NodeProto, defs, inliner

from sizeup.errors import CorruptModel, InvalidGraph, LoadError
from sizeup.formats.onnx.bind import bind
from sizeup.formats.onnx.blocks import FIRST_WITH_DEFAULTS, Block
from sizeup.formats.onnx.build import BlockBuilder, Shared
from sizeup.formats.onnx.kernels import is_registered
from sizeup.formats.onnx.read import LightModel, graphs_of, read
from sizeup.formats.onnx.requirements import requirements_of
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.shape_inference import Inference
from sizeup.graph import Graph, without_gc

# Exceptions that corrupt files can cause; invalid text raises a ValueError.
_CORRUPTION_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
)
_LONGEST_REASON = 200  # characters


def graph_of(source: Any, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Graph:
    """The graph of a model; errors start with the name of the model."""
    label = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model"
    try:
        with without_gc():
            return _build(read(source), inputs, sizes)
    except LoadError as error:
        raise error.within(label) from error
    except InvalidGraph as error:
        raise CorruptModel(f"{label}: {error}") from error
    except _CORRUPTION_ERRORS as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise CorruptModel(f"{label}: cannot be parsed ({reason})") from error


def _build(light: LightModel, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Graph:
    model = inlined(light.proto)
    user_dims = bind(model.graph, inputs, sizes, {tensor.name for tensor in model.graph.initializer})
    block = Block(model.graph, light.removed, has_defaults=model.ir_version >= FIRST_WITH_DEFAULTS)
    inference = Inference(model, user_dims)
    inference.infer(block)
    shared = Shared(inference, Roles(block))
    graph = BlockBuilder(block, shared).build(light.name, inference.notes)
    requirements = requirements_of(block, inference, model, light.removed)
    return replace(graph, requirements=requirements, missing_files=light.removed.missing_files)


_Key: TypeAlias = tuple[str, str, str]
# Nested functions grow exponentially, and a large one may be called often. So operators and bytes are limited
# to these amounts, or to more if the file has more bytes without its weights.
_MAX_OPERATORS, _BYTES_PER_OPERATOR = 100_000, 10
_MAX_BYTES, _INLINED_PER_BYTE = 1 << 26, 4


def inlined(model: ModelProto) -> ModelProto:
    """The model with all its functions inlined, including nested ones."""
    if not model.functions:
        return model
    functions: dict[_Key, FunctionProto] = {}
    for function in model.functions:
        key = _name(function.domain, function.name, function.overload)
        _check_name(key, key in functions)
        functions[key] = function
    _check_size(model, functions)
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the library has no common base class for its errors
        raise CorruptModel(f"the functions of the model cannot be inlined: {error}") from error


# Domains of the ONNX standard in which runtimes take no other operators.
_STANDARD = ("", "ai.onnx.ml", "ai.onnx.training")


def _check_name(key: _Key, is_known: bool) -> None:
    """Reject a function that a runtime ignores: an operator or another function has its name."""
    domain, name, _ = key
    label = f"function {name!r} of domain {domain!r}"
    if is_known:
        raise CorruptModel(f"{label} is defined twice; rename one of them")
    if domain in _STANDARD or is_registered(domain, name) or defs.has(name, domain):
        raise CorruptModel(
            f"{label} redefines an operator that runtimes know, so they ignore or refuse it;"
            " move the function to another domain"
        )


def _name(domain: str, name: str, overload: str) -> _Key:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _check_size(model: ModelProto, functions: dict[_Key, FunctionProto]) -> None:
    """Reject recursive functions, and models with too many operators after inlining."""
    calls = {
        key: [call for call in _calls(function.node) if call in functions]
        for key, function in functions.items()
    }
    called, size = list(_calls(model.graph.node)), model.ByteSize()
    operators = _measured(functions, calls, {key: len(function.node) for key, function in functions.items()})
    total = sum(operators.get(call, 1) for call in called)
    if total > max(_MAX_OPERATORS, size // _BYTES_PER_OPERATOR):
        raise CorruptModel(f"the functions of the model expand to {total:,} operators")
    own = _measured(functions, calls, {key: function.ByteSize() for key, function in functions.items()})
    total = size + sum(own.get(call, 0) for call in called)
    if total > max(_MAX_BYTES, size * _INLINED_PER_BYTE):
        raise CorruptModel(f"the functions of the model expand to {total:,} bytes")


def _measured(
    functions: Iterable[_Key], calls: dict[_Key, list[_Key]], own: dict[_Key, int]
) -> dict[_Key, int]:
    """The amounts of all functions after inlining."""
    amounts: dict[_Key, int] = {}
    for root in functions:
        _measure(root, calls, own, amounts)
    return amounts


def _measure(
    root: _Key,
    calls: dict[_Key, list[_Key]],
    own: dict[_Key, int],
    sizes: dict[_Key, int],
) -> None:
    """Sum an amount of a function after inlining. Iterative, because calls may be deeply nested."""
    path, stack = {root}, [(root, iter(calls[root]))]
    while stack:
        key, rest = stack[-1]
        called = next((call for call in rest if call not in sizes), None)
        if called is None:
            sizes[key] = own[key] + sum(sizes[call] for call in calls[key])
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
