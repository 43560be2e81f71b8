"""Inference of a single node: its output types, and its output values if all inputs are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_shapes

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import SMALL, Array
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.onnx.shape_rules.values import evaluated
from sizeup.formats.onnx.unsafe import needs_a_type
from sizeup.formats.onnx.value_types import ValueType, read, unknown_type

_CASTABLE = float(1 << 31)


class NotInferred(Exception):
    """ONNX's inference rejects a node; the message is its reason."""


_MOST = (1 << 31) - 1  # of ONNX's own tables of operators


class NodeInference:
    """Infers and evaluates single nodes with the opsets of a model."""

    def __init__(self, ir_version: int, opsets: Iterable[OperatorSetIdProto]) -> None:
        self._empty = ModelProto(ir_version=ir_version, opset_import=opsets)
        self._empty.graph.name = "single"
        self.versions: dict[str, int] = {}
        for each in self._empty.opset_import:
            domain = "" if each.domain == "ai.onnx" else each.domain
            if (
                not 1 <= each.version <= _MOST
                or self.versions.setdefault(domain, each.version) != each.version
            ):
                raise CorruptModel(
                    f"operator set {each.version} of {domain or 'the standard operators'}:"
                    " versions start at 1 and have 32 bits, and a file has one of each"
                )

    @property
    def opset(self) -> int:
        """The version of the standard ONNX domain."""
        return self.versions.get("", 1)

    def types(
        self, proto: NodeProto, inputs: Mapping[str, ValueType], values: Mapping[str, Array]
    ) -> list[ValueType]:
        """The output types of a node, from the types and known values of its inputs."""
        if needs_a_type(proto):
            first = inputs.get(proto.input[0]) if proto.input else None
            if first is None or first.proto.WhichOneof("value") is None:
                raise NotInferred("the type of its first input is unknown")
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
        except Exception as error:  # the library has no common base class for its errors
            raise NotInferred(_shortened(error)) from error
        types = {value.name: read(value.type) for value in inferred.graph.output}
        return [types.get(name) or unknown_type() for name in proto.output]

    def values(self, node: Node, inputs: list[Array], outputs: list[ValueType]) -> list[Array] | None:
        """The output values of a node with known inputs; None if random, too large or not evaluated."""
        row = operator_of(node.op)
        if not row.exact or not node.inputs or not all(map(_is_plain, inputs)):
            return None
        for known in outputs:
            if known.shape is None or math.prod(known.shape) > SMALL:
                return None
        if row.of_shapes and all(array.dtype == np.int64 for array in inputs):
            own = evaluated(node, inputs, TensorProto.INT64)
            if own is not None and own.dtype == np.int64 and len(node.outputs) == 1:
                return [own]
        try:
            evaluator = ReferenceEvaluator(node.proto, opsets=self.versions)
            with np.errstate(all="ignore"):
                results = evaluator.run(None, dict(zip(node.inputs, inputs, strict=True)))
        except Exception:  # untrusted files can make the evaluator fail in any way
            return None
        arrays = [np.asarray(result) for result in results if result is not None]
        is_exact = _is_exact(node, inputs) and all(map(_is_plain, arrays))
        return arrays if is_exact and len(arrays) == len(node.outputs) else None


def _is_plain(array: Array) -> bool:
    """Whether runtimes agree on arithmetic with these values."""
    if array.dtype.kind == "f":
        return array.dtype in (np.float32, np.float64) and bool(np.isfinite(array).all())
    return array.dtype.kind in "iub"


def _is_exact(node: Node, inputs: list[Array]) -> bool:
    """Whether the values of a node are those of every runtime: no overflow, no order of additions."""
    values = [np.abs(array.astype(np.float64)) for array in inputs]
    largest = max((float(value.max(initial=0.0)) for value in values), default=0.0)
    if node.op in ("Cast", "CastLike"):  # of floats out of range, processors make different integers
        return largest < _CASTABLE
    if node.op in ("ReduceSum", "ReduceProd", "CumSum"):
        most = values[0].prod() if node.op == "ReduceProd" else values[0].sum()
        limit = 1 << (52 if inputs[0].dtype == np.int64 else 30)
        return inputs[0].dtype.kind == "i" and float(most) < limit
    return node.op not in ("Mod", "Range") or all(array.dtype.kind == "i" for array in inputs)


def shape_value(node: Node, known: ValueType) -> Array | None:
    """The output of a Shape or Size node; None if the shape is unknown."""
    if known.dims is None:
        return None
    if node.op == "Size":
        return None if known.shape is None else np.array(math.prod(known.shape), np.int64)
    end = node.attributes.get("end")
    part = known.dims[slice(node.integer("start"), end if isinstance(end, int) else None)]
    return None if None in part else np.array(part, np.int64)


def _shortened(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:300]
