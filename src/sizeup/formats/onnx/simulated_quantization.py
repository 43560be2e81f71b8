"""Creates copies of ONNX models with simulated quantization, to be run by ONNX Runtime."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from sizeup.errors import LoadError, WriteError
from sizeup.formats.onnx.external_data import check_external_files
from sizeup.formats.onnx.model import inlined
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.simulated_rounding import (
    Array,
    CalibrationStatistics,
    Rounding,
    Roundings,
    TensorStatistics,
    merge_statistics,
    sample_stride,
)
from sizeup.graph import ABSENT, Graph

_MIN_OPSET = 11  # of Round, and of Clip with limits as inputs
_FLOATS = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}
_PREFIX = "sizeup"  # of the names of added nodes and constants
_MAX_BYTES = (1 << 31) - 1  # of a protobuf message


class OnnxModel:
    """A model with its weights and its functions inlined, from which modified copies are created."""

    def __init__(self, source: Any, graph: Graph) -> None:
        self.graph = graph
        self._proto = inlined(load_with_weights(source))
        self._producers = {name: node for node in self._proto.graph.node for name in node.output if name}
        opsets = self._proto.opset_import
        opset = next((entry.version for entry in opsets if entry.domain in ("", "ai.onnx")), 0)
        if opset < _MIN_OPSET:
            raise LoadError(
                f"the model uses opset {opset}, simulated quantization needs opset {_MIN_OPSET};"
                " convert it with onnx.version_converter.convert_version(model, 13)"
            )

    def digest(self) -> str:
        """A digest of the model."""
        return hashlib.sha256(self._proto.SerializeToString(deterministic=True)).hexdigest()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """The axis of output channels of a weight; None if it has none."""
        reader = self.graph.ops[op]
        axis = 0 if reader.kind == "conv" else operator_of(reader.source).channels
        if reader.source in ("MatMul", "Gemm") and identity in reader.inputs[1:2]:
            node = self._node(op)
            is_transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            axis = 0 if is_transposed else len(self.graph.tensors[identity].shape or ()) - 1
        return axis

    def with_statistics_outputs(self, tensors: Sequence[int], batches: int) -> bytes:
        """A copy whose outputs are minimum, maximum and a sample per tensor, then the computed constants."""
        editor = _Editor(self._proto)
        outputs = []
        for identity in tensors:
            tensor = self.graph.tensors[identity]
            value = editor.cast(tensor.name, "float32", tensor.dtype.name)
            outputs += [editor.node("ReduceMin", [value], keepdims=0)]
            outputs += [editor.node("ReduceMax", [value], keepdims=0)]
            outputs += [editor.sample(value, sample_stride(tensor.elements or 1, batches))]
        for identity in self._computed():
            tensor = self.graph.tensors[identity]
            outputs += [editor.cast(tensor.name, "float32", tensor.dtype.name)]
        return editor.model([*self._proto.graph.node, *editor.nodes], outputs)

    def statistics(self, tensors: Sequence[int], runs: Iterable[Sequence[Array]]) -> CalibrationStatistics:
        """The statistics over all batches, from the outputs of that copy."""
        values: dict[int, TensorStatistics] = {}
        constants = self._constants()
        for outputs in runs:
            for index, identity in enumerate(tensors):
                low, high, sample = outputs[3 * index : 3 * index + 3]
                statistics = TensorStatistics(float(low), float(high), np.asarray(sample, np.float32))
                values[identity] = merge_statistics(values.get(identity), statistics)
            constants |= dict(zip(self._computed(), outputs[3 * len(tensors) :], strict=True))
        return CalibrationStatistics(values, constants)

    def with_rounding(self, roundings: Roundings) -> bytes:
        """A copy with simulated quantization of the produced and the read values."""
        editor = _Editor(self._proto)
        tensors = self.graph.tensors
        readers = {self._node(op).output[0]: op for op, _ in (*roundings.inputs, *roundings.constants)}
        produced = {tensors[identity].name: rounding for identity, rounding in roundings.outputs.items()}
        types = {tensor.name: tensor.dtype.name for tensor in tensors}
        for value in _inputs(self._proto):
            if value.name in produced:
                editor.rename_input(value.name)
                editor.rounded(_wide(value.name), produced[value.name], types[value.name], value.name)
        for node in self._proto.graph.node:
            copy = NodeProto()
            copy.CopyFrom(node)
            if node.output and node.output[0] in readers:
                self._change_inputs(copy, readers[node.output[0]], roundings, editor)
            editor.nodes.append(copy)
            for index, name in enumerate(node.output):
                if name in produced:
                    copy.output[index] = _wide(name)
                    editor.rounded(_wide(name), produced[name], types[name], name)
        return editor.model(editor.nodes)

    def _change_inputs(self, node: NodeProto, op: int, roundings: Roundings, editor: _Editor) -> None:
        for identity in dict.fromkeys(self.graph.ops[op].inputs):
            if identity == ABSENT:
                continue
            tensor, key, new = self.graph.tensors[identity], (op, identity), ""
            if key in roundings.constants:
                new = editor.constant(roundings.constants[key].astype(_numpy_type(tensor.dtype.name)))
            elif key in roundings.inputs:
                new = editor.rounded(tensor.name, roundings.inputs[key], tensor.dtype.name)
            source = self._source(tensor.name)
            indices = [index for index, name in enumerate(node.input) if self._source(name) == source]
            if new and not indices:
                raise WriteError(f"{node.name or node.op_type} does not read {tensor.name!r}")
            for index in indices if new else ():
                node.input[index] = new

    def _source(self, name: str) -> str:
        """The name of a value before Identity nodes, by which exporters give a constant several names."""
        while (node := self._producers.get(name)) is not None and node.op_type == "Identity":
            name = node.input[0]
        return name

    def _node(self, op: int) -> NodeProto:
        name = self.graph.tensors[self.graph.ops[op].outputs[0]].name
        if name not in self._producers:
            raise WriteError(f"no operator of the file produces {name!r}")
        node: NodeProto = self._producers[name]
        return node

    def _constants(self) -> dict[int, Array]:
        """Float constants that ops of the graph read, as float32."""
        constants = {}
        for identity in dict.fromkeys(i for op in self.graph.ops for i in op.inputs if i != ABSENT):
            tensor = self.graph.tensors[identity]
            if tensor.data is not None and tensor.data.read is not None and tensor.dtype.name in _FLOATS:
                constants[identity] = np.asarray(tensor.data.read(), np.float32)
        return constants

    def _computed(self) -> list[int]:
        """Ids of float constants that ops compute from other constants."""
        return [
            identity
            for op in self.graph.ops
            for identity in op.outputs
            if self.graph.tensors[identity].data is not None
            and self.graph.tensors[identity].dtype.name in _FLOATS
        ]


def load_with_weights(source: Any) -> ModelProto:
    """Load a model with all its weights."""
    if isinstance(source, ModelProto):
        return source
    try:
        if isinstance(source, str | os.PathLike):
            check_external_files(Path(source))
            return onnx.load(os.fspath(source))
        if isinstance(source, bytes | bytearray | memoryview):
            return onnx.load_model_from_string(bytes(source))
    except (OSError, DecodeError, ValueError) as error:
        raise LoadError(f"the model cannot be read with its weights: {error}") from error
    raise LoadError(f"{type(source).__name__} is not an ONNX model; give a ModelProto, bytes or a path")


def input_types(model: ModelProto) -> dict[str, np.dtype[Any]]:
    """The dtypes of the inputs by name, in the order of the model."""
    return {
        value.name: np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        for value in _inputs(model)
    }


def fixed_batch(model: ModelProto) -> int | None:
    """The batch size; None if it is not fixed."""
    inputs = _inputs(model)
    dims = inputs[0].type.tensor_type.shape.dim if inputs else ()
    return dims[0].dim_value if dims and dims[0].HasField("dim_value") else None


def _inputs(model: ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def _wide(name: str) -> str:
    """The name of a value before rounding."""
    return f"{_PREFIX}/wide/{name}"


def _numpy_type(name: str) -> Any:
    return helper.tensor_dtype_to_np_dtype(_FLOATS[name])


class _Editor:
    """Adds nodes and constants with unique names to a model."""

    def __init__(self, proto: ModelProto) -> None:
        self._proto = proto
        self.nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: dict[str, str] = {}
        self._count = 0

    def node(self, operator: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        output = output or self._name()
        name = f"{_PREFIX}/{output}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=name, **attributes))
        return output

    def constant(self, numbers: Array) -> str:
        name = self._name()
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name

    def cast(self, value: str, dtype: str, current: str, output: str = "") -> str:
        if dtype == current and not output:
            return value
        return self.node("Cast", [value], output, to=_FLOATS[dtype])

    def sample(self, value: str, step: int) -> str:
        flat = self.node("Reshape", [value, self.constant(np.array([-1]))])
        last = np.iinfo(np.int64).max
        bounds = [np.array([number]) for number in (0, last, 0, step)]
        return self.node("Slice", [flat, *map(self.constant, bounds)])

    def rounded(self, value: str, rounding: Rounding, current: str, output: str = "") -> str:
        """Round a value to the grid of a dtype; returns the name of the result, `output` if given."""
        output = output or self._name()
        if rounding.dtype.family == "float":
            return self.cast(self.cast(value, rounding.dtype.name, ""), current, "", output)
        plain = self.cast(value, "float32", current)
        target = output if current == "float32" else self._name()
        scale = self.constant(np.asarray(rounding.scale, np.float32))
        if rounding.dtype.name == "int8" and not rounding.is_symmetric:
            point = self.constant(np.array(rounding.zero_point, np.int8))
            stored = self.node("QuantizeLinear", [plain, scale, point])
            self.node("DequantizeLinear", [stored, scale, point], target)
        else:
            self._round_in_float(plain, rounding, scale, target)
        return target if target == output else self.cast(target, current, "", output)

    def _round_in_float(self, plain: str, rounding: Rounding, scale: str, target: str) -> None:
        """Round with float arithmetic, for dtypes that runtimes may not support."""
        point, low, high = (
            self.constant(np.array(number, np.float32))
            for number in (rounding.zero_point, rounding.low, rounding.high)
        )
        stored = self.node("Round", [self.node("Div", [plain, scale])])
        stored = self.node("Clip", [self.node("Add", [stored, point]), low, high])
        self.node("Mul", [self.node("Sub", [stored, point]), scale], target)

    def rename_input(self, name: str) -> None:
        self._inputs[name] = _wide(name)

    def model(self, nodes: Sequence[NodeProto], outputs: Sequence[str] = ()) -> bytes:
        model = ModelProto()
        model.CopyFrom(self._proto)
        graph: GraphProto = model.graph
        del graph.node[:]
        graph.node.extend(nodes)
        graph.initializer.extend(self._constants)
        for value in graph.input:
            value.name = self._inputs.get(value.name, value.name)
        if outputs:
            del graph.output[:]
            graph.output.extend(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs
            )
        if model.ByteSize() > _MAX_BYTES:
            raise WriteError("ONNX models over 2 GiB are not supported here; give the PyTorch module")
        content: bytes = model.SerializeToString()
        return content

    def _name(self) -> str:
        self._count += 1
        return f"{_PREFIX}/{self._count}"
