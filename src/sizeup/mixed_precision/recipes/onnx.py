"""Node lists and overrides for ONNX Runtime's static quantiser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizeup.dtypes import DTYPES, DType, precision_name
from sizeup.graph import ABSENT, Graph, Op, Tensor
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

KIND = "onnxruntime"
_FLOAT, _INT8 = DTYPES["float32"], DTYPES["int8"]
_TYPES = {"int4": "QInt4", "int8": "QInt8", "int16": "QInt16"}
_LEAST_ACTIVATION_BITS = 8  # its activations are of 8 or 16 bits


def nodes_for_onnxruntime(graph: Graph, chosen: Mapping[int, DType]) -> Recipe:
    """The arguments of `onnxruntime.quantization.quantize_static`, types and sets of nodes by name."""
    return _Listing(graph, chosen).recipe()


class _Listing:
    def __init__(self, graph: Graph, chosen: Mapping[int, DType]) -> None:
        must_be(graph, "onnx", KIND)
        self.graph, self.notes = graph, Notes(graph)
        self.weights: dict[int, DType] = {}
        self.activations: dict[int, DType] = {}
        for index, dtype in chosen.items():
            self._choose(index, dtype)
        self.assigned = assign(graph, self.activations, self.weights)

    def _choose(self, index: int, dtype: DType) -> None:
        op = self.graph.ops[index]
        own = made_type(self.graph, self.graph, op)
        if dtype is own:
            self.activations[index] = dtype
            return
        if own is not _FLOAT or reads_unpacked(self.graph, op):
            remedy = "the file holds it at another type already, and node lists are for float models"
            raise refused(self.graph, index, dtype, KIND, remedy)
        if dtype.name not in _TYPES:
            raise refused(self.graph, index, dtype, KIND, "choose fp32, int16, int8 or int4 for it")
        if weights_of(self.graph, op):
            self.weights[index] = dtype
        self.activations[index] = dtype if dtype.bits >= _LEAST_ACTIVATION_BITS else _INT8
        if self.activations[index] is not dtype:
            self.notes.add(f"{precision_name(dtype)} was chosen, but activations are int8", index)

    def recipe(self) -> Recipe:
        types = [made_type(self.graph, self.assigned, op) for op in self.graph.ops]
        quantised = [index for index, each in enumerate(types) if each is not None and each.name in _TYPES]
        for index in quantised:
            op = self.graph.ops[index]
            if op.name == self.graph.tensors[op.outputs[0]].name:
                self.notes.add("may have no name in the file, and nodes are found by name alone", index)
        names = [self.graph.ops[index].name for index in quantised]
        content = {
            "quant_format": "QDQ",
            "per_channel": True,
            "activation_type": "QInt8",
            "weight_type": "QInt8",
            "op_types_to_quantize": sorted({self.graph.ops[index].source for index in quantised}),
            "nodes_to_quantize": names,
            # Without any node to quantise all would be: they are excluded by name too.
            "nodes_to_exclude": sorted({op.name for op in self.graph.ops}.difference(names)),
            "extra_options": {
                "QDQKeepRemovableActivations": True,
                "TensorQuantOverrides": {**self._weight_overrides(), **self._activation_overrides(quantised)},
            },
        }
        return Recipe(KIND, content, self.weights, self.activations, self.notes.told())

    def _weight_overrides(self) -> dict[str, Any]:
        found = {}
        for index, dtype in self.weights.items():
            for tensor in weights_of(self.graph, self.graph.ops[index]):
                if dtype is not _INT8:
                    channels = _channel_axis(self.graph.ops[index], tensor)
                    axis = {} if channels is None else {"axis": channels}
                    found[tensor.name] = [{"quant_type": _TYPES[dtype.name], "symmetric": True, **axis}]
        return found

    def _activation_overrides(self, quantised: list[int]) -> dict[str, Any]:
        """Values that are not int8, or that are read at another type than they were made in."""
        readers: dict[int, dict[DType, list[str]]] = {}
        for index in quantised:
            op = self.graph.ops[index]
            reads = made_type(self.graph, self.assigned, op)
            for identity in dict.fromkeys(op.inputs):
                if identity != ABSENT and reads is not None and self._is_value(identity):
                    readers.setdefault(identity, {}).setdefault(reads, []).append(op.name)
        found = {}
        for identity, tensor in enumerate(self.graph.tensors):
            override = self._override(self.assigned.tensors[identity].dtype, readers.get(identity, {}))
            if self._is_value(identity) and override is not None:
                found[tensor.name] = [override]
        return found

    def _is_value(self, identity: int) -> bool:
        tensor = self.graph.tensors[identity]
        return tensor.data is None and tensor.dtype is _FLOAT

    def _override(self, made: DType, readers: Mapping[DType, list[str]]) -> dict[str, Any] | None:
        if made.name not in _TYPES:  # float: the widest of those that read it
            made = max(readers, key=lambda each: each.bits, default=_INT8)
        others = [each for each in readers if each is not made]
        if made is _INT8 and not others:
            return None
        override: dict[str, Any] = {"quant_type": _TYPES[made.name]}
        for other in others:
            override["convert"] = {"quant_type": _TYPES[other.name], "recv_nodes": readers[other]}
        return override


def _channel_axis(op: Op, weights: Tensor) -> int | None:
    """The axis of a weight that makes output channels, each with a scale of its own."""
    if op.kind == "conv":
        return 0
    if op.kind == "conv_transpose":
        return 1
    contracted = op.attrs.get("contracted")
    if op.kind != "matmul" or contracted is None:
        return None
    dimensions = len(weights.shape or ())
    free = [axis for axis in range(dimensions) if axis not in {each % dimensions for each in contracted}]
    return free[-1] if free else None
