"""Node lists and overrides for ONNX Runtime's static quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizeup.dtypes import DTYPES, DType, precision_name
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.recipes.recipe import (
    Notes,
    Recipe,
    output_dtype,
    reads_unpacked_constants,
    require_format,
    unsupported_error,
    weights_of,
)

KIND = "onnxruntime"
_FLOAT, _INT8 = DTYPES["float32"], DTYPES["int8"]
_TYPES = {"int4": "QInt4", "int8": "QInt8", "int16": "QInt16"}
_MIN_ACTIVATION_BITS = 8  # activations have 8 or 16 bits


def nodes_for_onnxruntime(graph: Graph, assignment: Mapping[int, DType]) -> Recipe:
    """Returns the arguments of `onnxruntime.quantization.quantize_static`: dtypes, and node lists by name."""
    return _ArgumentsBuilder(graph, assignment).recipe()


class _ArgumentsBuilder:
    def __init__(self, graph: Graph, assignment: Mapping[int, DType]) -> None:
        require_format(graph, "onnx", KIND)
        self.graph, self.notes = graph, Notes(graph)
        self.weights: dict[int, DType] = {}
        self.activations: dict[int, DType] = {}
        for index, dtype in assignment.items():
            self._choose(index, dtype)
        self.assigned = assign(graph, self.activations, self.weights)

    def _choose(self, index: int, dtype: DType) -> None:
        op = self.graph.ops[index]
        own = output_dtype(self.graph, self.graph, op)
        if dtype is own:
            self.activations[index] = dtype
            return
        if own is not _FLOAT or reads_unpacked_constants(self.graph, op):
            remedy = "the file stores it at another dtype already, and node lists are for float models"
            raise unsupported_error(self.graph, index, dtype, KIND, remedy)
        if dtype.name not in _TYPES:
            raise unsupported_error(self.graph, index, dtype, KIND, "choose fp32, int16, int8 or int4")
        if weights_of(self.graph, op):
            self.weights[index] = dtype
        self.activations[index] = dtype if dtype.bits >= _MIN_ACTIVATION_BITS else _INT8
        if self.activations[index] is not dtype:
            self.notes.add(f"{precision_name(dtype)} was assigned, but activations are int8", index)

    def recipe(self) -> Recipe:
        dtypes = [output_dtype(self.graph, self.assigned, op) for op in self.graph.ops]
        quantized = [
            index for index, dtype in enumerate(dtypes) if dtype is not None and dtype.name in _TYPES
        ]
        for index in quantized:
            op = self.graph.ops[index]
            if op.name == self.graph.tensors[op.outputs[0]].name:
                self.notes.add("may have no name in the file, but nodes are matched by name", index)
        names = [self.graph.ops[index].name for index in quantized]
        content = {
            "quant_format": "QDQ",
            "per_channel": True,
            "activation_type": "QInt8",
            "weight_type": "QInt8",
            "op_types_to_quantize": sorted({self.graph.ops[index].source for index in quantized}),
            "nodes_to_quantize": names,
            # An empty list of nodes to quantize means all, so the others are also excluded by name.
            "nodes_to_exclude": sorted({op.name for op in self.graph.ops}.difference(names)),
            "extra_options": {
                "QDQKeepRemovableActivations": True,
                "TensorQuantOverrides": {**self._weight_overrides(), **self._activation_overrides(quantized)},
            },
        }
        return Recipe(KIND, content, self.weights, self.activations, self.notes.sentences())

    def _weight_overrides(self) -> dict[str, Any]:
        overrides = {}
        for index, dtype in self.weights.items():
            for tensor in weights_of(self.graph, self.graph.ops[index]):
                if dtype is not _INT8:
                    channels = _channel_axis(self.graph.ops[index], tensor)
                    axis = {} if channels is None else {"axis": channels}
                    overrides[tensor.name] = [{"quant_type": _TYPES[dtype.name], "symmetric": True, **axis}]
        return overrides

    def _activation_overrides(self, quantized: list[int]) -> dict[str, Any]:
        """Returns overrides for tensors that are not int8, or that are read at another dtype than written."""
        readers: dict[int, dict[DType, list[str]]] = {}
        for index in quantized:
            op = self.graph.ops[index]
            dtype = output_dtype(self.graph, self.assigned, op)
            for identity in dict.fromkeys(op.inputs):
                if identity != ABSENT and dtype is not None and self._is_activation(identity):
                    readers.setdefault(identity, {}).setdefault(dtype, []).append(op.name)
        overrides = {}
        for identity, tensor in enumerate(self.graph.tensors):
            override = self._override(self.assigned.tensors[identity].dtype, readers.get(identity, {}))
            if self._is_activation(identity) and override is not None:
                overrides[tensor.name] = [override]
        return overrides

    def _is_activation(self, identity: int) -> bool:
        tensor = self.graph.tensors[identity]
        return tensor.data is None and tensor.dtype is _FLOAT

    def _override(self, written: DType, readers: Mapping[DType, list[str]]) -> dict[str, Any] | None:
        if written.name not in _TYPES:  # float: the widest dtype of its readers
            written = max(readers, key=lambda dtype: dtype.bits, default=_INT8)
        others = [dtype for dtype in readers if dtype is not written]
        if written is _INT8 and not others:
            return None
        override: dict[str, Any] = {"quant_type": _TYPES[written.name]}
        for other in others:
            override["convert"] = {"quant_type": _TYPES[other.name], "recv_nodes": readers[other]}
        return override


def _channel_axis(op: Op, weights: Tensor) -> int | None:
    """Returns the axis of a weight with one scale per output channel; None if there is none."""
    if op.kind == "conv":
        return 0
    if op.kind == "conv_transpose":
        return 1
    contracted = op.attrs.get("contracted")
    if op.kind != "matmul" or contracted is None:
        return None
    dimensions = len(weights.shape or ())
    summed = {axis % dimensions for axis in contracted}
    channels = [axis for axis in range(dimensions) if axis not in summed]
    return channels[-1] if channels else None
