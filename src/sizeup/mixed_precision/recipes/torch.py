"""Configurations for torchao: the dtypes of each module's weights and activations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.mixed_precision.recipes.recipe import (
    Notes,
    Recipe,
    output_dtype,
    require_format,
    unsupported_error,
    weights_of,
)

KIND = "torchao"
_INTEGERS = ("int8", "int4", "int2")
# Dimensions of a weight by op kind: Linear, Conv2d, Embedding.
_DIMENSIONS = {"matmul": 2, "conv": 4, "embedding": 2}


def config_for_torchao(graph: Graph, assignment: Mapping[int, DType]) -> Recipe:
    """Returns modules by name, each with its weight and activation dtypes as torchao names them.

    Activations of linear layers are quantized to 8 bits dynamically. Other modules have only their weights
    quantized, and compute in float.
    """
    require_format(graph, "torch", KIND)
    notes = Notes(graph)
    weights: dict[int, DType] = {}
    activations: dict[int, DType] = {}
    for index, dtype in assignment.items():
        op = graph.ops[index]
        own = output_dtype(graph, graph, op)
        if own is not None:
            activations[index] = own  # tensors between modules keep their dtype
        if dtype is own:
            continue
        if weights_of(graph, op):
            weights[index] = dtype
            notes.add(f"{precision_name(dtype)} was assigned, but tensors between modules are {own}", index)
        else:
            notes.add("has no weights and stays unchanged", index)
    return Recipe(KIND, _modules(graph, weights), weights, activations, notes.sentences())


def _modules(graph: Graph, assignment: Mapping[int, DType]) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any] | None] = {}
    for index, op in enumerate(graph.ops):
        for tensor in weights_of(graph, op):
            module = tensor.name.rpartition(".")[0]
            entry = _entry(graph, index, assignment[index]) if index in assignment else None
            if entries.setdefault(module, entry) != entry:
                raise SizeupError(
                    f"the weights of module {module!r} are read by layers with different precisions"
                )
    return {module: entry for module, entry in entries.items() if entry is not None}


def _entry(graph: Graph, index: int, dtype: DType) -> dict[str, Any]:
    op = graph.ops[index]
    tensors = weights_of(graph, op)
    supported = [
        tensor
        for tensor in tensors
        if len(tensor.shape or ()) == _DIMENSIONS.get(op.kind) and tensor.name.rpartition(".")[2] == "weight"
    ]
    if len(supported) < len(tensors):
        remedy = "choose fp32: torchao quantizes only the `weight` of Linear, Conv2d and Embedding"
        raise unsupported_error(graph, index, dtype, KIND, remedy)
    if dtype.name not in _INTEGERS:
        raise unsupported_error(graph, index, dtype, KIND, "choose fp32, int8, int4 or int2")
    return {"weights": dtype.name, "activations": "int8" if op.kind == "matmul" else "float32"}
