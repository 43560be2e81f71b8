"""One operator by itself: the types of its outputs, and their values where all its inputs are certain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_shapes

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import SMALL, Array
from sizeup.formats.onnx.rules.values import evaluated
from sizeup.formats.onnx.unsafe import needs_a_type
from sizeup.formats.onnx.value_types import ValueType, read, unknown

# Operators whose outputs differ from run to run.
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


# What shapes are mostly computed by: by our own arithmetic, for an evaluator takes long to make.
_ARITHMETIC = frozenset(
    {"Add", "Sub", "Mul", "Div", "Gather", "Concat", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Identity"}
)


class NotInferred(Exception):
    """ONNX's inference refuses an operator; the message says why."""


class Solo:
    """Infers and evaluates single operators of a model, under that model's operator sets."""

    def __init__(self, ir_version: int, opsets: Iterable[OperatorSetIdProto]) -> None:
        self._empty = ModelProto(ir_version=ir_version, opset_import=opsets)
        self._empty.graph.name = "single"
        self.versions = {"" if e.domain == "ai.onnx" else e.domain: e.version for e in opsets}

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self.versions.get("", 1)

    def types(
        self, proto: NodeProto, inputs: Mapping[str, ValueType], values: Mapping[str, Array]
    ) -> list[ValueType]:
        """The types of an operator's outputs, from what is known of its inputs."""
        if needs_a_type(proto):
            first = inputs.get(proto.input[0]) if proto.input else None
            if first is None or first.proto.WhichOneof("value") is None:
                raise NotInferred("the type of its first input is not known")
        model = ModelProto()
        model.CopyFrom(self._empty)
        graph = model.graph
        graph.node.append(proto)
        for name, known in inputs.items():
            if known.proto.WhichOneof("value") is not None:
                graph.input.add(name=name, type=known.proto)
        for name in proto.output:
            if name:
                graph.output.add(name=name)
        try:
            graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in values.items())
            inferred = infer_shapes(model, strict_mode=True)
        except Exception as error:  # the library has no one class for what it refuses
            raise NotInferred(_first_line(error)) from error
        found = {value.name: read(value.type) for value in inferred.graph.output}
        return [found.get(name) or unknown() for name in proto.output]

    def values(self, node: Node, inputs: list[Array], outputs: list[ValueType]) -> list[Array] | None:
        """What an operator makes of values that are certain; None where that is not certain, or not small."""
        if "::" in node.op or node.op in RANDOM or not node.inputs:
            return None
        for known in outputs:
            if known.shape is None or math.prod(known.shape) > SMALL:
                return None
        if node.op in _ARITHMETIC and all(each.dtype == np.int64 for each in inputs):
            own = evaluated(node, inputs, TensorProto.INT64)
            if own is not None and own.dtype == np.int64 and len(node.outputs) == 1:
                return [own]
        try:
            evaluator = ReferenceEvaluator(node.proto, opsets=self.versions)
            with np.errstate(all="ignore"):
                results = evaluator.run(None, dict(zip(node.inputs, inputs, strict=True)))
        except Exception:  # an evaluator of files from anywhere may fail in any way: then nothing is certain
            return None
        arrays = [np.asarray(each) for each in results if each is not None]
        return arrays if len(arrays) == len(node.outputs) else None


def shape_value(node: Node, known: ValueType) -> Array | None:
    """What Shape or Size answer for a value of known shape."""
    if known.dims is None:
        return None
    if node.op == "Size":
        return None if known.shape is None else np.array(math.prod(known.shape), np.int64)
    last = node.attributes.get("end")
    part = known.dims[slice(node.integer("start"), last if isinstance(last, int) else None)]
    return None if None in part else np.array(part, np.int64)


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:300]
