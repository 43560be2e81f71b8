"""Recipes for ai-edge-quantizer, which quantizes float TFLite files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sizeup.dtypes import DTYPES, DType, precision_name
from sizeup.graph import Graph, Op
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.recipes.ai_edge_quantizer import CAST, OPERATORS, STATIC, Scheme
from sizeup.mixed_precision.recipes.recipe import (
    Notes,
    Recipe,
    output_dtype,
    reads_unpacked_constants,
    require_format,
    unsupported_error,
    weights_of,
)

KIND = "ai-edge-quantizer"
_FLOAT, _INT8 = DTYPES["float32"], DTYPES["int8"]
_OTHER_NAMES = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE"}
_NONE = Scheme("no_quantize", 32)


def recipe_for_ai_edge_quantizer(graph: Graph, assignment: Mapping[int, DType]) -> Recipe:
    """Returns the rules that ai-edge-quantizer reads, one per op, matched by the names of its outputs."""
    return _RecipeBuilder(graph, assignment).recipe()


class _RecipeBuilder:
    def __init__(self, graph: Graph, assignment: Mapping[int, DType]) -> None:
        require_format(graph, "tflite", KIND)
        self.graph, self.notes = graph, Notes(graph)
        self.schemes: dict[int, Scheme] = {}
        self.weights: dict[int, DType] = {}
        self.activations: dict[int, DType] = {}
        for index, dtype in assignment.items():
            self._choose(index, dtype)

    def recipe(self) -> Recipe:
        assigned = self._with_float_fallback()
        rules = [self._rule(index, assigned) for index in range(len(self.graph.ops))]
        for name, identities in (("INPUT", self.graph.inputs), ("OUTPUT", self.graph.outputs)):
            rules.append(self._boundary_rule(name, identities, assigned))
        content = [rule for rule in rules if rule is not None]
        return Recipe(KIND, content, self.weights, self.activations, self.notes.sentences())

    def _choose(self, index: int, dtype: DType) -> None:
        """Selects the scheme of an op, and the dtypes of its weights and activations."""
        op = self.graph.ops[index]
        weights = weights_of(self.graph, op)
        own = output_dtype(self.graph, self.graph, op)
        if own is not None and (
            own is not _FLOAT
            or reads_unpacked_constants(self.graph, op)
            or any(tensor.dtype is not _FLOAT for tensor in weights)
        ):
            if dtype is not own:
                remedy = "the file stores it at another dtype already, and recipes are for float models"
                raise unsupported_error(self.graph, index, dtype, KIND, remedy)
        elif weights:
            scheme = _NONE if dtype is _FLOAT else _scheme(op, dtype)
            if scheme is None:
                raise unsupported_error(self.graph, index, dtype, KIND, _remedy(op))
            self.schemes[index], self.weights[index] = scheme, dtype
            self.activations[index] = _INT8 if scheme.activation_bits else _FLOAT
        else:
            if dtype.family != "float" and dtype.bits > _INT8.bits:
                raise unsupported_error(self.graph, index, dtype, KIND, "choose fp32 or int8")
            self.activations[index] = _FLOAT if dtype.family == "float" else _INT8
        if self.activations.get(index, dtype).bits > dtype.bits:
            wider = self.activations[index]
            self.notes.add(f"{precision_name(dtype)} was assigned, but activations are {wider}", index)

    def _with_float_fallback(self) -> Graph:
        """Returns the graph as written: ops without an int8 kernel, and their followers, stay float."""
        while True:
            assigned = assign(self.graph, self.activations, self.weights)
            without_kernel = [
                index
                for index, op in enumerate(self.graph.ops)
                if output_dtype(self.graph, assigned, op) is _INT8
                and output_dtype(self.graph, self.graph, op) is _FLOAT
                and (_scheme(op, _INT8) is not STATIC or reads_unpacked_constants(self.graph, op))
            ]
            if not without_kernel:
                return assigned
            for index in without_kernel:
                self.activations[index] = _FLOAT
                self.notes.add("stays float: no int8 kernel", index)

    def _rule(self, index: int, assigned: Graph) -> dict[str, Any] | None:
        op = self.graph.ops[index]
        dtype = output_dtype(self.graph, assigned, op)
        if (
            dtype is None
            or output_dtype(self.graph, self.graph, op) is not _FLOAT
            or _name(op) not in OPERATORS
        ):
            return None
        scheme = self.schemes.get(index, _NONE if dtype is _FLOAT else STATIC)
        return _rule_entry(_pattern(self.graph, op), _name(op), scheme)

    def _boundary_rule(self, name: str, identities: Sequence[int], assigned: Graph) -> dict[str, Any] | None:
        """Returns the rule for inputs or outputs; it matches any name, as a signature may hide names."""
        real = [i for i in identities if self.graph.tensors[i].dtype is _FLOAT]
        narrow = [i for i in real if assigned.tensors[i].dtype is _INT8]
        # One rule applies to all, and to those of subgraphs too.
        if not narrow or len(narrow) < len(real) or any(op.bodies for op in self.graph.ops):
            return None
        return _rule_entry(".*", name, STATIC)


def _name(op: Op) -> str:
    return _OTHER_NAMES.get(op.source, op.source)


def _scheme(op: Op, dtype: DType) -> Scheme | None:
    return next((scheme for scheme in OPERATORS.get(_name(op), ()) if scheme.dtype == dtype.name), None)


def _remedy(op: Op) -> str:
    supported = [precision_name(DTYPES[scheme.dtype]) for scheme in OPERATORS.get(_name(op), ())]
    return f"choose {', '.join(['fp32', *supported[:-1]])}{' or ' + supported[-1] if supported else ''}"


def _pattern(graph: Graph, op: Op) -> str:
    """Returns a regular expression that matches only an op's outputs, as the quantizer writes them:
    `name;name;`.

    The first is the op's name. Graph outputs may have another name in the file.
    """
    others = [
        ".*" if identity in graph.outputs else re.escape(graph.tensors[identity].name)
        for identity in op.outputs[1:]
    ]
    return "^" + "".join(f"{name};" for name in (re.escape(op.name), *others)) + "$"


def _rule_entry(pattern: str, operation: str, scheme: Scheme) -> dict[str, Any]:
    rule = {"regex": pattern, "operation": operation, "algorithm_key": scheme.algorithm}
    if scheme is _NONE:
        return rule
    cast = scheme is CAST
    config: dict[str, Any] = {}
    if scheme.activation_bits is not None:
        config["activation_tensor_config"] = _tensor(scheme.activation_bits, False, "TENSORWISE")
    config["weight_tensor_config"] = _tensor(
        scheme.weight_bits, True, "TENSORWISE" if cast else "CHANNELWISE"
    )
    if cast:
        config["weight_tensor_config"]["dtype"] = "FLOAT"
    config |= {"compute_precision": "FLOAT" if cast else "INTEGER", "explicit_dequantize": cast}
    return {**rule, "op_config": config}


def _tensor(bits: int, symmetric: bool, granularity: str) -> dict[str, Any]:
    return {"num_bits": bits, "symmetric": symmetric, "granularity": granularity, "dtype": "INT"}
