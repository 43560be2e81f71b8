"""The way of a model through this package: read, expand, bind, infer, build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sizeup.errors import CorruptModel, InvalidGraph, LoadError
from sizeup.formats.onnx.bind import bind
from sizeup.formats.onnx.blocks import FIRST_WITH_DEFAULTS, Block
from sizeup.formats.onnx.build import BlockBuilder, Shared
from sizeup.formats.onnx.functions import inlined
from sizeup.formats.onnx.read import LightModel, read
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
