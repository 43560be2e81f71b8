"""What a model requires of a runtime: each use of an operator, with its opset and dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from onnx import AttributeProto, ModelProto, checker, defs

from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import RemovedTensors, checked_dims
from sizeup.formats.onnx.control_flow import Frame
from sizeup.formats.onnx.shape_inference import Inference
from sizeup.formats.onnx.value_types import dtype_of, unknown_type
from sizeup.graph import OperatorUse, Requirements

# What an operator is checked against: its name, the element types of inputs and outputs, its attributes.
_Form: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], tuple[tuple[str, int], ...]]
_MOST_VIOLATIONS = 3
_SMALL_ATTRIBUTE = 256  # bytes
_UNKNOWN = unknown_type()


def requirements_of(
    main: Block, inference: Inference, model: ModelProto, removed: RemovedTensors
) -> Requirements:
    """The requirements of a model with this main graph, including blocks that never run."""
    ir_version = model.ir_version
    opsets = inference.node_inference.versions
    forms: dict[_Form, Node] = {}
    violations = [] if model.HasField("ir_version") else ["it has no IR version"]
    run = {id(main), *(id(block) for flow in inference.flows.values() for _, block, _ in flow.runs)}
    other_bytes = 0
    for block in _with_inner(main):
        frame = inference.frames.get(id(block))
        elements = _Elements(frame)
        for node in block.nodes:
            named: tuple[tuple[str, int], ...] = ()
            if attributes := node.proto.attribute:
                other_bytes += sum(map(_bytes_of, attributes))
                named = tuple([(each.name, each.type) for each in attributes])
            inputs = tuple([elements[name] for name in node.inputs])
            outputs = tuple([elements[name] for name in node.outputs])
            forms.setdefault((node.op, inputs, outputs, named), node)
        if id(block) not in run:
            other_bytes += sum(_bytes(each.dims, each.element) for each in block.constants.values())
        violations += _false_types(block, frame)
    violations += _violations(forms.values(), opsets, ir_version)
    operators = tuple(sorted({_use(form, opsets) for form in forms}))
    return Requirements(
        ir_version, operators, removed.external_bytes, other_bytes, tuple(violations[:_MOST_VIOLATIONS])
    )


def _with_inner(main: Block) -> Iterator[Block]:
    stack = [main]
    while stack:
        block = stack.pop()
        yield block
        stack.extend(inner for node in block.nodes for inner in node.blocks.values())


def _bytes_of(attribute: AttributeProto) -> int:
    """The bytes that an attribute takes in memory; 0 for a small one, as for the operator itself."""
    size = 0
    for field, value in attribute.ListFields():
        if field.name in ("floats", "ints", "s"):
            size += len(value) * (1 if field.name == "s" else 4 if field.name == "floats" else 8)
        elif field.name == "strings":
            size += sum(map(len, value))
        elif field.name in ("t", "tensors", "sparse_tensor", "sparse_tensors"):
            for tensor in value if field.name.endswith("s") else (value,):
                parts = (tensor,) if field.name.startswith("t") else (tensor.values, tensor.indices)
                size += sum(
                    _bytes(checked_dims(attribute.name, tuple(each.dims)), each.data_type) for each in parts
                )
    return size if size > _SMALL_ATTRIBUTE else 0


def _bytes(dims: Iterable[int], element: int) -> int:
    return (math.prod(dims) * dtype_of(element).bits + 7) // 8


class _Elements(dict[str, int]):
    """The element types of values by name; 0 for sequences and for types that are not known."""

    def __init__(self, frame: Frame | None) -> None:
        super().__init__()
        self._frame = frame

    def __missing__(self, name: str) -> int:
        known = self._frame.type(name) if self._frame is not None and name else _UNKNOWN
        element = self[name] = known.element if known.is_tensor else 0
        return element


def _use(form: _Form, opsets: Mapping[str, int]) -> OperatorUse:
    domain, _, name = form[0].rpartition("::")
    inputs, outputs = (tuple(dtype_of(each).name if each else "" for each in part) for part in form[1:3])
    return OperatorUse(domain, name, opsets.get(domain, 1), inputs, outputs)


def _violations(nodes: Iterable[Node], opsets: Mapping[str, int], ir_version: int) -> Iterator[str]:
    """How operators differ from their definitions in ONNX: attributes, and numbers of inputs and outputs."""
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = ir_version, dict(opsets)
    for node in nodes:
        domain, _, name = node.op.rpartition("::")
        if node.blocks or not defs.has(name, opsets.get(domain, 1), domain):
            continue
        try:
            checker.check_node(node.proto, context)
        except checker.ValidationError as error:
            yield f"{node.label}: {' '.join(str(error).split())[:200].partition(' ==>')[0]}"


def _false_types(block: Block, frame: Frame | None) -> Iterator[str]:
    """The values whose declared element type is not that which their operator computes."""
    for name, declared in block.declared.items():
        known = None if frame is None else frame.types.get(name)
        if known is not None and declared.element and known.element not in (0, declared.element):
            declaration, computed = dtype_of(declared.element).name, dtype_of(known.element).name
            yield f"{name!r} is declared as {declaration}, but is {computed}"
