"""A configuration for torchao: what each module's weights and activations become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizeup.dtypes import DTYPES, DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.precision.recipes.recipe import Notes, Recipe, made_type, must_be, refused, weights_of

KIND = "torchao"
_FLOAT, _INT8 = DTYPES["float32"], DTYPES["int8"]
_INTEGERS = ("int8", "int4", "int2")
_LINEAR = "aten.linear"


def config_for_torchao(graph: Graph, chosen: Mapping[int, DType]) -> Recipe:
    """Modules by name, each with the types of its weights and activations as torchao has them.

    A linear layer's activations are quantised to 8 bits as they come. Other modules have their weights
    quantised alone, and compute in float.
    """
    must_be(graph, "torch", KIND)
    notes = Notes(graph)
    weights: dict[int, DType] = {}
    activations: dict[int, DType] = {}
    modules: dict[str, dict[str, Any]] = {}
    for index, dtype in chosen.items():
        op = graph.ops[index]
        held = weights_of(graph, op)
        own = made_type(graph, graph, op)
        if own is not None:
            activations[index] = own  # what lies between modules stays as it is
        if dtype is own:
            continue
        if held and dtype.name not in _INTEGERS:
            raise refused(graph, index, dtype, KIND, "choose fp32, int8, int4 or int2 for it")
        if not held:
            notes.add("multiplies no weights of its own and stays as it is", index)
            continue
        weights[index] = dtype
        linear = op.source == _LINEAR
        read = "int8" if linear else "float32"
        notes.add(f"{precision_name(dtype)} was chosen, but between modules numbers are float", index)
        for tensor in held:
            module, _, parameter = tensor.name.rpartition(".")
            if parameter != "weight":
                remedy = f"torchao quantises modules' `weight`, not {tensor.name!r}"
                raise refused(graph, index, dtype, KIND, remedy)
            entry = {"weights": dtype.name, "activations": read}
            if modules.setdefault(module, entry) != entry:
                raise SizeupError(f"module {module!r} runs more than once, with more than one choice for it")
    return Recipe(KIND, modules, weights, activations, notes.told())
