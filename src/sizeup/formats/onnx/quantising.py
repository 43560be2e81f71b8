"""ONNX models with numbers as narrower types would hold them: changed copies for a runtime to run."""

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
from sizeup.formats.onnx.model import inlined
from sizeup.formats.onnx.outside import check_files_beside
from sizeup.formats.rounding import Array, Observed, Rounding, Roundings, Seen, merged, sample_step
from sizeup.graph import ABSENT, Graph

_LEAST_OPSET = 11  # of Round, and of Clip with limits that are inputs
_ELEMENTS = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
_FLOATS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, **_ELEMENTS}
_OWN = "sizeup"  # begins the names of all that is added
_LARGEST = (1 << 31) - 1


class OnnxModel:
    """A model with its weights, its functions expanded, from which changed copies are made."""

    def __init__(self, source: Any, graph: Graph) -> None:
        self.graph = graph
        self._proto = inlined(whole(source))
        self._makers = {name: node for node in self._proto.graph.node for name in node.output if name}
        opset = next((each.version for each in self._proto.opset_import if each.domain in ("", "ai.onnx")), 0)
        if opset < _LEAST_OPSET:
            raise LoadError(
                f"its operators are of set {opset}, and rounding needs set {_LEAST_OPSET}:"
                " onnx.version_converter.convert_version(model, 13)"
            )

    def fingerprint(self) -> str:
        """A digest of all that decides what it computes."""
        return hashlib.sha256(self._proto.SerializeToString(deterministic=True)).hexdigest()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Along which axis of a weight each output channel has its own numbers; None where none does."""
        found = self.graph.ops[op]
        axis = {"Conv": 0, "ConvTranspose": 1, "LSTM": 1, "GRU": 1, "RNN": 1, "Gather": 0}.get(found.source)
        if axis is None and found.kind == "conv":
            axis = 0
        if found.source in ("MatMul", "Gemm") and identity in found.inputs[1:2]:
            node = self._node(op)
            transposed = any(each.name == "transB" and each.i for each in node.attribute)
            axis = 0 if transposed else len(self.graph.tensors[identity].shape or ()) - 1
        return axis

    def observing(self, wanted: Sequence[int], batches: int) -> bytes:
        """A copy whose outputs are the least, the greatest and some numbers of each value; then constants."""
        changed = _Changes(self._proto)
        outputs = []
        for identity in wanted:
            tensor = self.graph.tensors[identity]
            numbers = changed.cast(tensor.name, "float32", tensor.dtype.name)
            outputs += [changed.node("ReduceMin", [numbers], keepdims=0)]
            outputs += [changed.node("ReduceMax", [numbers], keepdims=0)]
            outputs += [changed.sample(numbers, sample_step(tensor.elements or 1, batches))]
        for identity in self._computed():
            tensor = self.graph.tensors[identity]
            outputs += [changed.cast(tensor.name, "float32", tensor.dtype.name)]
        return changed.model([*self._proto.graph.node, *changed.made], outputs)

    def observed(self, wanted: Sequence[int], runs: Iterable[Sequence[Array]]) -> Observed:
        """What the outputs of that copy say, over all batches."""
        values: dict[int, Seen] = {}
        constants = self._constants()
        for outputs in runs:
            for place, identity in enumerate(wanted):
                low, high, sample = outputs[3 * place : 3 * place + 3]
                seen = Seen(float(low), float(high), np.asarray(sample, np.float32))
                values[identity] = merged(values.get(identity), seen)
            constants |= dict(zip(self._computed(), outputs[3 * len(wanted) :], strict=True))
        return Observed(values, constants)

    def rounded(self, roundings: Roundings) -> bytes:
        """A copy that computes with rounded numbers: conversions and back where values are made and read."""
        changed = _Changes(self._proto)
        tensors = self.graph.tensors
        places = {self._node(op).output[0]: op for op, _ in (*roundings.read, *roundings.constants)}
        made = {tensors[identity].name: rounding for identity, rounding in roundings.made.items()}
        types = {each.name: each.dtype.name for each in tensors}
        for value in _inputs(self._proto):
            if value.name in made:
                changed.rename_input(value.name)
                changed.rounded(_wide(value.name), made[value.name], types[value.name], value.name)
        for node in self._proto.graph.node:
            copy = NodeProto()
            copy.CopyFrom(node)
            if node.output and node.output[0] in places:
                self._change_inputs(copy, places[node.output[0]], roundings, changed)
            changed.made.append(copy)
            for place, name in enumerate(node.output):
                if name in made:
                    copy.output[place] = _wide(name)
                    changed.rounded(_wide(name), made[name], types[name], name)
        return changed.model(changed.made)

    def _change_inputs(self, node: NodeProto, op: int, roundings: Roundings, changed: _Changes) -> None:
        for identity in dict.fromkeys(self.graph.ops[op].inputs):
            if identity == ABSENT:
                continue
            tensor, key, name = self.graph.tensors[identity], (op, identity), ""
            if key in roundings.constants:
                name = changed.constant(roundings.constants[key].astype(_numpy_type(tensor.dtype.name)))
            elif key in roundings.read:
                name = changed.rounded(tensor.name, roundings.read[key], tensor.dtype.name)
            given = [
                place for place, each in enumerate(node.input) if self._own(each) == self._own(tensor.name)
            ]
            if name and not given:
                raise WriteError(f"{node.name or node.op_type} reads {tensor.name!r} under another name")
            for place in given if name else ():
                node.input[place] = name

    def _own(self, name: str) -> str:
        """What stands behind a name: exporters give one constant several, by operators that do nothing."""
        while (maker := self._makers.get(name)) is not None and maker.op_type == "Identity":
            name = maker.input[0]
        return name

    def _node(self, op: int) -> NodeProto:
        name = self.graph.tensors[self.graph.ops[op].outputs[0]].name
        if name not in self._makers:
            raise WriteError(f"no operator of the file makes {name!r}")
        found: NodeProto = self._makers[name]
        return found

    def _constants(self) -> dict[int, Array]:
        """Real constants that operators of the graph read, as float32."""
        found = {}
        for identity in dict.fromkeys(i for op in self.graph.ops for i in op.inputs if i != ABSENT):
            tensor = self.graph.tensors[identity]
            if tensor.data is not None and tensor.data.read is not None and tensor.dtype.name in _FLOATS:
                found[identity] = np.asarray(tensor.data.read(), np.float32)
        return found

    def _computed(self) -> list[int]:
        """Constants that operators compute from others."""
        return [
            identity
            for op in self.graph.ops
            for identity in op.outputs
            if self.graph.tensors[identity].data is not None
            and self.graph.tensors[identity].dtype.name in _FLOATS
        ]


def whole(source: Any) -> ModelProto:
    """A model with all its weights."""
    if isinstance(source, ModelProto):
        return source
    try:
        if isinstance(source, str | os.PathLike):
            check_files_beside(Path(source))
            return onnx.load(os.fspath(source))
        if isinstance(source, bytes | bytearray | memoryview):
            return onnx.load_model_from_string(bytes(source))
    except (OSError, DecodeError, ValueError) as error:
        raise LoadError(f"the model cannot be read with its weights: {error}") from error
    raise LoadError(f"{type(source).__name__} is no ONNX model with weights; give a ModelProto or a path")


def input_types(model: ModelProto) -> dict[str, np.dtype[Any]]:
    """The inputs in their order, with the number types that they take."""
    return {
        each.name: np.dtype(helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type))
        for each in _inputs(model)
    }


def fixed_batch(model: ModelProto) -> int | None:
    """How many samples it takes at a time; None where any number."""
    inputs = _inputs(model)
    dims = inputs[0].type.tensor_type.shape.dim if inputs else ()
    return dims[0].dim_value if dims and dims[0].HasField("dim_value") else None


def _inputs(model: ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]


def _wide(name: str) -> str:
    return f"{_OWN}/wide/{name}"


def _numpy_type(name: str) -> Any:
    return helper.tensor_dtype_to_np_dtype(_FLOATS[name])


class _Changes:
    """Operators and constants that are added to a model, each under a name of its own."""

    def __init__(self, proto: ModelProto) -> None:
        self._proto = proto
        self.made: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: dict[str, str] = {}
        self._count = 0

    def node(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        output = output or self._name()
        self.made.append(helper.make_node(kind, inputs, [output], name=f"{_OWN}/{output}", **attributes))
        return output

    def constant(self, numbers: Array) -> str:
        name = self._name()
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name

    def cast(self, value: str, kind: str, present: str, output: str = "") -> str:
        if kind == present and not output:
            return value
        return self.node("Cast", [value], output, to=_FLOATS[kind])

    def sample(self, value: str, step: int) -> str:
        flat = self.node("Reshape", [value, self.constant(np.array([-1]))])
        last = np.iinfo(np.int64).max
        bounds = [np.array([each]) for each in (0, last, 0, step)]
        return self.node("Slice", [flat, *map(self.constant, bounds)])

    def rounded(self, value: str, rounding: Rounding, present: str, output: str = "") -> str:
        """The value on the grid of a type, under a name that may be given."""
        output = output or self._name()
        if rounding.dtype.family == "float":
            return self.cast(self.cast(value, rounding.dtype.name, ""), present, "", output)
        plain = self.cast(value, "float32", present)
        target = output if present == "float32" else self._name()
        scale = self.constant(np.asarray(rounding.scale, np.float32))
        if rounding.dtype.name == "int8" and not rounding.restricted:
            point = self.constant(np.array(rounding.zero_point, np.int8))
            stored = self.node("QuantizeLinear", [plain, scale, point])
            self.node("DequantizeLinear", [stored, scale, point], target)
        else:
            self._on_grid(plain, rounding, scale, target)
        return target if target == output else self.cast(target, present, "", output)

    def _on_grid(self, plain: str, rounding: Rounding, scale: str, target: str) -> None:
        """The same for types that a runtime may not have."""
        point, low, high = (
            self.constant(np.array(each, np.float32))
            for each in (rounding.zero_point, rounding.low, rounding.high)
        )
        stored = self.node("Round", [self.node("Div", [plain, scale])])
        stored = self.node("Clip", [self.node("Add", [stored, point]), low, high])
        self.node("Mul", [self.node("Sub", [stored, point]), scale], target)

    def rename_input(self, name: str) -> None:
        self._inputs[name] = _wide(name)

    def model(self, nodes: Sequence[NodeProto], outputs: Sequence[str] = ()) -> bytes:
        made = ModelProto()
        made.CopyFrom(self._proto)
        graph: GraphProto = made.graph
        del graph.node[:]
        graph.node.extend(nodes)
        graph.initializer.extend(self._constants)
        for each in graph.input:
            each.name = self._inputs.get(each.name, each.name)
        if outputs:
            del graph.output[:]
            graph.output.extend(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs
            )
        if made.ByteSize() > _LARGEST:
            raise WriteError("models of more than 2 GiB cannot be changed for a measurement; give the module")
        content: bytes = made.SerializeToString()
        return content

    def _name(self) -> str:
        self._count += 1
        return f"{_OWN}/{self._count}"
