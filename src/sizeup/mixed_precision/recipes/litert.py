"""Recipes for ai-edge-quantizer, which turns a float TFLite file into a quantised one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sizeup.dtypes import DTYPES, DType, precision_name
from sizeup.graph import Graph, Op
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.recipes.recipe import (
    Notes,
    Recipe,
    made_type,
    must_be,
    reads_unpacked,
    refused,
    weights_of,
)

KIND = "ai-edge-quantizer"
_FLOAT, _INT8 = DTYPES["float32"], DTYPES["int8"]
_OTHER_NAMES = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE"}
_WEIGHTED = ("CONV_2D", "CONV_2D_TRANSPOSE", "DEPTHWISE_CONV_2D", "EMBEDDING_LOOKUP", "FULLY_CONNECTED")
# What ai-edge-quantizer 0.10.0 writes with activations of 8 bits (`static_wi8_ai8` of its default policy).
_STATIC = (
    "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "BROADCAST_TO", "CONCATENATION", "CONV_2D",
    "CONV_2D_TRANSPOSE", "DEPTHWISE_CONV_2D", "DIV", "DYNAMIC_UPDATE_SLICE", "FULLY_CONNECTED", "GATHER",
    "GATHER_ND", "GELU", "HARD_SWISH", "LOGISTIC", "MAXIMUM", "MAX_POOL_2D", "MEAN", "MIRROR_PAD", "MUL",
    "PACK", "PAD", "PADV2", "REDUCE_MIN", "RELU", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR",
    "RSQRT", "SELECT", "SELECT_V2", "SLICE", "SOFTMAX", "SPACE_TO_DEPTH", "SPLIT", "SQRT",
    "SQUARED_DIFFERENCE", "STRIDED_SLICE", "SUB", "SUM", "TANH", "TRANSPOSE", "UNPACK",
)  # fmt: skip
_KNOWN = {*_STATIC, *_WEIGHTED}


class _Way(NamedTuple):
    """One way to quantise an operator: how wide its weights are, and its activations where those are too."""

    algorithm: str
    weight_bits: int
    activation_bits: int | None = None


_NONE = _Way("no_quantize", 32)
_CAST = _Way("float_casting", 16)
_STATIC_8 = _Way("min_max_uniform_quantize", 8, 8)
# By the type that was chosen, the operators that can have weights of that type, and how.
_WAYS: dict[str, dict[str, _Way]] = {
    "float16": dict.fromkeys(_WEIGHTED, _CAST),
    "int8": {
        **dict.fromkeys(_STATIC, _STATIC_8),
        "EMBEDDING_LOOKUP": _Way("min_max_uniform_quantize", 8),
    },
    "int4": {
        **dict.fromkeys(("CONV_2D", "FULLY_CONNECTED"), _Way("min_max_uniform_quantize", 4, 8)),
        "EMBEDDING_LOOKUP": _Way("min_max_uniform_quantize", 4),
    },
    # The quantiser also writes convolutions at 2 bits, but LiteRT 2.3 computes NaN from such files.
    "int2": dict.fromkeys(("EMBEDDING_LOOKUP", "FULLY_CONNECTED"), _Way("min_max_uniform_quantize", 2)),
}


def recipe_for_ai_edge_quantizer(graph: Graph, chosen: Mapping[int, DType]) -> Recipe:
    """A list of rules that ai-edge-quantizer reads, one an operator, found by what the operator makes."""
    return _Writing(graph, chosen).recipe()


class _Writing:
    def __init__(self, graph: Graph, chosen: Mapping[int, DType]) -> None:
        must_be(graph, "tflite", KIND)
        self.graph, self.notes = graph, Notes(graph)
        self.ways: dict[int, _Way] = {}
        self.weights: dict[int, DType] = {}
        self.activations: dict[int, DType] = {}
        for index, dtype in chosen.items():
            self._choose(index, dtype)

    def recipe(self) -> Recipe:
        assigned = self._settled()
        rules = [self._rule(index, assigned) for index in range(len(self.graph.ops))]
        for name, identities in (("INPUT", self.graph.inputs), ("OUTPUT", self.graph.outputs)):
            rules.append(self._end(name, identities, assigned))
        content = [each for each in rules if each is not None]
        return Recipe(KIND, content, self.weights, self.activations, self.notes.told())

    def _choose(self, index: int, dtype: DType) -> None:
        """How an operator will be quantised, and so what its weights and activations will have."""
        op = self.graph.ops[index]
        weights = weights_of(self.graph, op)
        own = made_type(self.graph, self.graph, op)
        if own is not None and (
            own is not _FLOAT
            or reads_unpacked(self.graph, op)
            or any(tensor.dtype is not _FLOAT for tensor in weights)
        ):
            if dtype is not own:
                remedy = "the file holds it at another type already, and recipes are for float models"
                raise refused(self.graph, index, dtype, KIND, remedy)
        elif weights:
            way = _NONE if dtype is _FLOAT else _WAYS.get(dtype.name, {}).get(_name(op))
            if way is None:
                raise refused(self.graph, index, dtype, KIND, _remedy(op))
            self.ways[index], self.weights[index] = way, dtype
            self.activations[index] = _INT8 if way.activation_bits else _FLOAT
        else:
            if dtype.family != "float" and dtype.bits > _INT8.bits:
                raise refused(self.graph, index, dtype, KIND, "choose fp32 or int8")
            self.activations[index] = _FLOAT if dtype.family == "float" else _INT8
        if self.activations.get(index, dtype).bits > dtype.bits:
            wider = self.activations[index]
            self.notes.add(f"{precision_name(dtype)} was chosen, but activations are {wider}", index)

    def _settled(self) -> Graph:
        """The graph as it will be written: what has no kernel for int8 stays float, so what follows too."""
        while True:
            assigned = assign(self.graph, self.activations, self.weights)
            stuck = [
                index
                for index, op in enumerate(self.graph.ops)
                if made_type(self.graph, assigned, op) is _INT8
                and made_type(self.graph, self.graph, op) is _FLOAT
                and (_name(op) not in _STATIC or reads_unpacked(self.graph, op))
            ]
            if not stuck:
                return assigned
            for index in stuck:
                self.activations[index] = _FLOAT
                self.notes.add("stays float, for there is no kernel for int8", index)

    def _rule(self, index: int, assigned: Graph) -> dict[str, Any] | None:
        op = self.graph.ops[index]
        made = made_type(self.graph, assigned, op)
        if made is None or made_type(self.graph, self.graph, op) is not _FLOAT or _name(op) not in _KNOWN:
            return None
        way = self.ways.get(index, _NONE if made is _FLOAT else _STATIC_8)
        return _worded(_pattern(self.graph, op), _name(op), way)

    def _end(self, name: str, identities: Sequence[int], assigned: Graph) -> dict[str, Any] | None:
        """The rule for what enters or leaves: its names are not known, for a signature may hide them."""
        real = [i for i in identities if self.graph.tensors[i].dtype is _FLOAT]
        narrow = [i for i in real if assigned.tensors[i].dtype is _INT8]
        # One rule counts for all, and for the ends of sub-graphs too.
        if not narrow or len(narrow) < len(real) or any(op.bodies for op in self.graph.ops):
            return None
        return _worded(".*", name, _STATIC_8)


def _name(op: Op) -> str:
    return _OTHER_NAMES.get(op.source, op.source)


def _remedy(op: Op) -> str:
    able = [precision_name(DTYPES[name]) for name, names in _WAYS.items() if _name(op) in names]
    return f"choose {', '.join(['fp32', *able[:-1]])}{' or ' + able[-1] if able else ''} for it"


def _pattern(graph: Graph, op: Op) -> str:
    """What matches an operator's outputs and nothing else, as the quantiser writes them: `name;name;`.

    The first is the operator's name. What leaves the graph may have another name in the file.
    """
    others = [
        ".*" if identity in graph.outputs else re.escape(graph.tensors[identity].name)
        for identity in op.outputs[1:]
    ]
    return "^" + "".join(f"{each};" for each in (re.escape(op.name), *others)) + "$"


def _worded(pattern: str, operation: str, way: _Way) -> dict[str, Any]:
    rule = {"regex": pattern, "operation": operation, "algorithm_key": way.algorithm}
    if way is _NONE:
        return rule
    cast = way is _CAST
    config: dict[str, Any] = {}
    if way.activation_bits is not None:
        config["activation_tensor_config"] = _tensor(way.activation_bits, False, "TENSORWISE")
    config["weight_tensor_config"] = _tensor(way.weight_bits, True, "TENSORWISE" if cast else "CHANNELWISE")
    if cast:
        config["weight_tensor_config"]["dtype"] = "FLOAT"
    config |= {"compute_precision": "FLOAT" if cast else "INTEGER", "explicit_dequantize": cast}
    return {**rule, "op_config": config}


def _tensor(bits: int, symmetric: bool, granularity: str) -> dict[str, Any]:
    return {"num_bits": bits, "symmetric": symmetric, "granularity": granularity, "dtype": "INT"}
