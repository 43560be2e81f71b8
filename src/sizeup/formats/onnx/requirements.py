"""What a model requires of a runtime: each use of an operator, with its opset and dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from onnx import AttributeProto, checker, defs

from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import RemovedTensors, checked_dims
from sizeup.formats.onnx.control_flow import Frame
from sizeup.formats.onnx.shape_inference import Inference
from sizeup.formats.onnx.value_types import dtype_of
from sizeup.graph import OperatorUse, Requirements

_Form: TypeAlias = tuple[Any, ...]
_MOST_VIOLATIONS = 3
_SMALL_ATTRIBUTE = 256  # bytes


def requirements_of(
    main: Block, inference: Inference, ir_version: int, removed: RemovedTensors
) -> Requirements:
    """The requirements of a model with this main graph, including blocks that never run."""
    opsets = inference.node_inference.versions
    uses: set[OperatorUse] = set()
    forms: dict[_Form, Node] = {}
    violations: list[str] = []
    run = {id(main), *(id(block) for flow in inference.flows.values() for _, block, _ in flow.runs)}
    other_bytes = 0
    for block in _with_inner(main):
        frame = inference.frames.get(id(block))
        for node in block.nodes:
            domain, _, name = node.op.rpartition("::")
            dtypes = (_dtypes(frame, node.inputs), _dtypes(frame, node.outputs))
            uses.add(OperatorUse(domain, name, opsets.get(domain, 1), *dtypes))
            forms.setdefault(_form(node), node)
            other_bytes += sum(map(_bytes_of, node.proto.attribute))
        if id(block) not in run:
            other_bytes += sum(_bytes(each.dims, each.element) for each in block.constants.values())
        violations += _false_types(block, frame)
    violations += _violations(forms.values(), opsets, ir_version)
    operators = tuple(sorted(uses))
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
    size = 4 * len(attribute.floats) + 8 * len(attribute.ints) + len(attribute.s)
    size += sum(map(len, attribute.strings))
    sparse = [*attribute.sparse_tensors, attribute.sparse_tensor]  # without one, of no bytes
    tensors = [
        *attribute.tensors,
        attribute.t,
        *(part for each in sparse for part in (each.values, each.indices)),
    ]
    size += sum(_bytes(checked_dims(attribute.name, tuple(each.dims)), each.data_type) for each in tensors)
    return size if size > _SMALL_ATTRIBUTE else 0


def _bytes(dims: Iterable[int], element: int) -> int:
    return (math.prod(dims) * dtype_of(element).bits + 7) // 8


def _dtypes(frame: Frame | None, names: Iterable[str]) -> tuple[str, ...]:
    """The dtypes of tensors; empty for sequences and for types that are not known."""
    if frame is None:
        return ()
    types = (frame.type(name) if name else None for name in names)
    return tuple(
        dtype_of(each.element).name if each is not None and each.element and each.is_tensor else ""
        for each in types
    )


def _form(node: Node) -> _Form:
    """What the definition of an operator is checked against; nodes of one form need one check."""
    attributes = tuple((attribute.name, attribute.type) for attribute in node.proto.attribute)
    return node.op, len(node.inputs), len(node.outputs), attributes


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
