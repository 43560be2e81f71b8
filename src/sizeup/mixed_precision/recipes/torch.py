"""A configuration for torchao: what each module's weights and activations become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.mixed_precision.recipes.recipe import Notes, Recipe, made_type, must_be, refused, weights_of

KIND = "torchao"
_INTEGERS = ("int8", "int4", "int2")
# How many dimensions a weight has by the operator that reads it: linear layers, Conv2d, Embedding.
_DIMENSIONS = {"matmul": 2, "conv": 4, "embedding": 2}


def config_for_torchao(graph: Graph, chosen: Mapping[int, DType]) -> Recipe:
    """Modules by name, each with the types of its weights and activations as torchao has them.

    A linear layer's activations are quantised to 8 bits as they come. Other modules have their weights
    quantised alone, and compute in float.
    """
    must_be(graph, "torch", KIND)
    notes = Notes(graph)
    weights: dict[int, DType] = {}
    activations: dict[int, DType] = {}
    for index, dtype in chosen.items():
        op = graph.ops[index]
        own = made_type(graph, graph, op)
        if own is not None:
            activations[index] = own  # what lies between modules stays as it is
        if dtype is own:
            continue
        if weights_of(graph, op):
            weights[index] = dtype
            notes.add(f"{precision_name(dtype)} was chosen, but between modules numbers are {own}", index)
        else:
            notes.add("multiplies no weights of its own and stays as it is", index)
    return Recipe(KIND, _modules(graph, weights), weights, activations, notes.told())


def _modules(graph: Graph, chosen: Mapping[int, DType]) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any] | None] = {}
    for index, op in enumerate(graph.ops):
        for tensor in weights_of(graph, op):
            module = tensor.name.rpartition(".")[0]
            entry = _entry(graph, index, chosen[index]) if index in chosen else None
            if entries.setdefault(module, entry) != entry:
                raise SizeupError(
                    f"the weights of module {module!r} are read by layers with different choices"
                )
    return {module: entry for module, entry in entries.items() if entry is not None}


def _entry(graph: Graph, index: int, dtype: DType) -> dict[str, Any]:
    op = graph.ops[index]
    held = weights_of(graph, op)
    able = [
        each
        for each in held
        if len(each.shape or ()) == _DIMENSIONS.get(op.kind) and each.name.rpartition(".")[2] == "weight"
    ]
    if len(able) < len(held):
        remedy = "choose fp32: it quantises the `weight` of Linear, Conv2d and Embedding alone"
        raise refused(graph, index, dtype, KIND, remedy)
    if dtype.name not in _INTEGERS:
        raise refused(graph, index, dtype, KIND, "choose fp32, int8, int4 or int2 for it")
    return {"weights": dtype.name, "activations": "int8" if op.kind == "matmul" else "float32"}
