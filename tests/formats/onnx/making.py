"""ONNX models made by hand, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sizeup import cost
from sizeup.formats.onnx import load
from sizeup.graph import Graph, Tensor

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = Sequence[int | str | None] | None

FLOAT, INT8, UINT8, INT32, INT64, BOOL = (
    TensorProto.FLOAT,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.BOOL,
)
MICROSOFT = "com.microsoft"


def value(name: str, shape: Shape = None, element: int = FLOAT) -> onnx.ValueInfoProto:
    """A typed value; a string names a symbolic dimension, None leaves it (or the shape) unknown."""
    return helper.make_tensor_value_info(name, element, shape)


def node(op: str, inputs: str, outputs: str, /, **attributes: Any) -> onnx.NodeProto:
    """An operator; inputs and outputs in one string, '-' for one that is left out."""
    domain, _, name = op.rpartition("::")
    read, made = (["" if each == "-" else each for each in text.split()] for text in (inputs, outputs))
    return helper.make_node(name, read, made, domain=domain, **attributes)


def weight(name: str, *shape: int, dtype: Any = np.float32) -> TensorProto:
    """A constant full of zeros."""
    return numpy_helper.from_array(np.zeros(shape, dtype), name)


def numbers(name: str, content: Any, dtype: Any = np.int64) -> TensorProto:
    """A constant with content."""
    return numpy_helper.from_array(np.array(content, dtype), name)


def graph(
    nodes: Iterable[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto] = (),
    outputs: str | Iterable[onnx.ValueInfoProto] = "y",
    constants: Iterable[TensorProto] = (),
    name: str = "graph",
) -> onnx.GraphProto:
    """A graph; outputs by name have no declared type."""
    listed = (
        [onnx.ValueInfoProto(name=each) for each in outputs.split()] if isinstance(outputs, str) else outputs
    )
    return helper.make_graph(list(nodes), name, list(inputs), list(listed), list(constants))


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto] = (),
    outputs: str | Iterable[onnx.ValueInfoProto] = "y",
    constants: Iterable[TensorProto] = (),
    *,
    opset: int = 21,
    functions: Iterable[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of that graph, with every domain that its operators name."""
    made = graph(nodes, inputs, outputs, constants)
    functions = list(functions)
    domains = {each.domain for each in made.node} | {each.domain for each in functions} | {MICROSOFT}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in domains if each)]
    return helper.make_model(made, opset_imports=opsets, functions=functions, ir_version=10)


def count(source: Any, **options: Any) -> cost.Cost:
    """The cost of a model."""
    return cost.count(load(source, **options))


def tensor(found: Graph, name: str) -> Tensor:
    """The tensor of that name."""
    return next(each for each in found.tensors if each.name == name)


def shapes(found: Graph) -> dict[str, tuple[int, ...] | None]:
    """All shapes by name."""
    return {each.name: each.shape for each in found.tensors}


def roles(found: Graph) -> Mapping[str, str]:
    """What every constant is for."""
    return {each.name: each.data.role for each in found.tensors if each.data is not None}


def branches() -> onnx.ModelProto:
    """Two branches that widen and narrow, a Constant node, and metadata that is not read."""
    generator = np.random.default_rng(0)
    shapes = {"wa": (25, 250), "wb": (25, 250), "va": (250, 5), "vb": (250, 5)}
    weights = [numbers(name, generator.normal(size=shape), np.float32) for name, shape in shapes.items()]
    made = model(
        [
            node("MatMul", "x wa", "a"),
            node("MatMul", "x wb", "b"),
            node("Constant", "", "k", value_float=2.0),
            node("Identity", "va", "va2"),
            node("MatMul", "a va2", "a2"),
            node("MatMul", "b vb", "b2"),
            node("Mul", "a2 k", "a3"),
            node("Add", "a3 b2", "y"),
        ],
        [value("x", (1, 25))],
        [value("y", (1, 5))],
        weights,
    )
    made.producer_name, made.doc_string = "somebody", "about it"
    made.metadata_props.add(key="labels", value="cat,dog")
    made.graph.value_info.append(value("a", (1, 250)))
    return made
