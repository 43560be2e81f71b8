"""The way of a model through this package: read, expand, bind, infer, build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from onnx import GraphProto

from sizeup.errors import CorruptModel, InvalidGraph, LoadError
from sizeup.formats.onnx.bind import bind
from sizeup.formats.onnx.blocks import Block
from sizeup.formats.onnx.build import BlockBuilder, Shared
from sizeup.formats.onnx.functions import inlined
from sizeup.formats.onnx.read import LightModel, graphs_of, has_graphs, read
from sizeup.formats.onnx.roles import Roles
from sizeup.formats.onnx.shapes import Inference
from sizeup.graph import Graph, without_collection
from sizeup.ops.einsum import is_equation

# What broken files make of code that trusts them; the first is also how invalid text shows itself.
_SYMPTOMS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


def graph_of(source: Any, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Graph:
    """The graph of a model; every error says which model."""
    where = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model"
    try:
        with without_collection():
            return _build(read(source), inputs, sizes)
    except LoadError as error:
        raise type(error)(f"{where}: {error}") from error
    except InvalidGraph as error:
        raise CorruptModel(f"{where}: {error}") from error
    except _SYMPTOMS as error:
        raise CorruptModel(f"{where}: cannot be understood ({type(error).__name__}: {error})") from error


def _build(light: LightModel, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Graph:
    model = inlined(light.proto)
    _refuse_what_onnx_cannot_infer(model.graph)
    bind(model.graph, inputs, sizes, {each.name for each in model.graph.initializer})
    block = Block(model.graph, light.origins)
    inference = Inference(model)
    inference.whole(block)
    shared = Shared(inference, Roles(block))
    return BlockBuilder(block, shared).build(light.name, inference.notes)


def _refuse_what_onnx_cannot_infer(graph: GraphProto) -> None:
    """ONNX's own inference (1.23) never returns from an einsum with a sign that it does not know, and ends
    the process at a Split into another number of parts than it has outputs."""
    for node in graph.node:
        if node.op_type == "Split":
            for attribute in node.attribute:
                if attribute.name == "num_outputs" and attribute.i != len(node.output):
                    raise CorruptModel(
                        f"Split operator {node.name or node.output[0]!r}: num_outputs is {attribute.i}, but"
                        f" it has {len(node.output)} outputs"
                    )
        elif node.op_type == "Einsum":
            for attribute in node.attribute:
                equation = attribute.s.decode("latin-1")
                if attribute.name == "equation" and not is_equation(equation):
                    raise CorruptModel(
                        f"operator {node.name or node.op_type}: {equation!r} is no einsum equation"
                    )
        elif has_graphs(node):
            for _, inner in graphs_of(node):
                _refuse_what_onnx_cannot_infer(inner)
