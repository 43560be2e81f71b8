"""The graphs of a model as blocks: nodes in topological order, constants and names."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import NoReturn

from onnx import AttributeProto, GraphProto, NodeProto

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.constants import RemovedTensors, StoredTensor, stored, stored_of_node
from sizeup.formats.onnx.read import CONTROL, graphs_of
from sizeup.formats.onnx.value_types import ValueType, read

# Since this IR version an initializer that is also an input is a default value, otherwise a constant.
FIRST_WITH_DEFAULTS = 4
_ROLE = "pkg.torch.export.graph_signature.InputSpec.kind"


class Node:
    """One node: its operator name, inputs, outputs, and the blocks that it runs."""

    __slots__ = ("_attributes", "annotated", "blocks", "inputs", "name", "op", "outputs", "proto", "scope")

    def __init__(self, proto: NodeProto, removed: RemovedTensors) -> None:
        domain, op_type = proto.domain, proto.op_type
        self.op = op_type if not domain or domain == "ai.onnx" else f"{domain}::{op_type}"
        self.proto = proto
        self.name = name = proto.name
        if proto.metadata_props:
            self.scope, self.annotated = scope_of(proto)
            proto.ClearField("metadata_props")  # such as stack traces: larger than the rest
        else:
            self.scope, self.annotated = scope_from_name(name) if "/" in name else "", False
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.blocks: dict[str, Block] = {}
        if domain or op_type in CONTROL:
            self.blocks = {name: Block(graph, removed) for name, graph in graphs_of(proto)}
            self._check_body_inputs()
        self._attributes: dict[str, object] | None = None

    def _check_body_inputs(self) -> None:
        """Reject an initializer for an input of a loop body: the loop passes that input."""
        if self.op in ("Loop", "Scan"):
            for _, graph in graphs_of(self.proto):
                initializers = {tensor.name for tensor in graph.initializer}
                for value in graph.input:
                    if value.name in initializers:
                        self.refuse(f"input {value.name!r} of its body also has an initializer")

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.op} operator {self.name or (self.outputs[0] if self.outputs else '')!r}"

    @property
    def attributes(self) -> dict[str, object]:
        """Its attributes as Python values: numbers, strings, and tuples of either."""
        if self._attributes is None:
            self._attributes = {
                attribute.name: _attribute_value(attribute) for attribute in self.proto.attribute
            }
        return self._attributes

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers; empty if absent."""
        value = self.attributes.get(name, ())
        # All entries of a list have one type.
        return value if isinstance(value, tuple) and value and isinstance(value[0], int) else ()

    def size(self, name: str, default: int | None = None) -> int:
        """An attribute that is a size or a count; raises CorruptModel unless it is at least 1."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int) or value < 1:
            text = "missing" if value is None else f"{value!r}"
            self.refuse(f"attribute {name} is {text}; it must be at least 1")
        return value

    def sizes(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of sizes, each at least 1; empty if absent."""
        values = self.attributes.get(name, ())
        if not isinstance(values, tuple) or any(not isinstance(size, int) or size < 1 for size in values):
            self.refuse(f"attribute {name} is {values!r}; each entry must be at least 1")
        return values

    def refuse(self, problem: str) -> NoReturn:
        """Raise CorruptModel for this node."""
        raise CorruptModel(f"{self.label}: {problem}")

    def text(self, name: str, default: str = "") -> str:
        """A string attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    @property
    def reads(self) -> list[str]:
        """The names of its inputs, including those that its blocks capture."""
        if not self.blocks:
            return self.inputs
        return [*self.inputs, *(name for block in self.blocks.values() for name in block.free)]


class Block:
    """A graph of the model: the main graph, or the body of a control-flow node."""

    __slots__ = ("constants", "declared", "free", "in_order", "inputs", "name", "nodes", "outputs")

    def __init__(self, graph: GraphProto, removed: RemovedTensors, *, has_defaults: bool = False) -> None:
        """`has_defaults`: initializers that are also inputs are default values, not constants."""
        self.name = graph.name
        self.declared: dict[str, ValueType] = {}
        roles: dict[str, str] = {}
        for value in (*graph.input, *graph.output, *graph.value_info):
            self.declared.setdefault(value.name, read(value.type))
            for entry in value.metadata_props:
                if entry.key == _ROLE:
                    roles[value.name] = entry.value
        self.constants: dict[str, StoredTensor] = {}
        for tensor in graph.initializer:
            self._add(tensor.name, stored(tensor, removed, roles.get(tensor.name, "")))
        if has_defaults:
            for value in graph.input:
                if (default := self.constants.get(value.name)) is not None:
                    self._check_default(default, self.declared[value.name])
                    self.constants[value.name] = replace(default, overridable=True)
        # Up to IR version 3, constants had to be listed among the inputs.
        self.inputs = [value.name for value in graph.input if value.name not in self.constants]
        self.outputs = [value.name for value in graph.output]
        nodes = self._nodes_of(graph, removed)
        self.free = self._captured_names(nodes)
        self.nodes = _sorted(nodes)
        self.in_order = self.nodes is nodes
        self._remove_identities_of_constants()

    @staticmethod
    def _check_default(default: StoredTensor, declared: ValueType) -> None:
        """Reject an input whose default has another shape than declared: callers may pass a larger tensor."""
        if declared.shape != default.dims:
            sizes = None if declared.dims is None else list(declared.dims)
            raise CorruptModel(
                f"input {default.name!r} has the shape {sizes}, but its default has the shape"
                f" {list(default.dims)}; remove it from the initializers or from the inputs"
            )

    def _add(self, name: str, constant: StoredTensor) -> None:
        """Runtimes disagree which of several constants of one name counts."""
        if name in self.constants:
            raise CorruptModel(f"{name!r} is defined twice")
        self.constants[name] = constant

    def _nodes_of(self, graph: GraphProto, removed: RemovedTensors) -> list[Node]:
        nodes = []
        for proto in graph.node:
            if proto.attribute:
                _check_attributes(proto)
            if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx") and len(proto.output) == 1:
                self._add(proto.output[0], stored_of_node(proto, removed))
            else:
                nodes.append(Node(proto, removed))
        return nodes

    def _captured_names(self, nodes: list[Node]) -> list[str]:
        """Names that are read but not defined in the block."""
        defined = {*self.inputs, *self.constants, ""}
        for node in nodes:
            defined.update(node.outputs)
        read = [name for node in nodes for name in node.reads if name not in defined]
        read += (name for name in self.outputs if name not in defined)
        return list(dict.fromkeys(read))

    def _remove_identities_of_constants(self) -> None:
        """Replace Identity nodes of constants by a second name. Exporters add them to merge weights."""
        if not self.constants:
            return
        nodes = []
        results = set(self.outputs)
        for node in self.nodes:
            constant = self.constants.get(node.inputs[0]) if node.op == "Identity" and node.inputs else None
            if constant is not None and node.outputs and node.outputs[0] not in results:
                self.constants[node.outputs[0]] = constant
            else:
                nodes.append(node)
        self.nodes = nodes


def _check_attributes(node: NodeProto) -> None:
    """Reject what runtimes refuse: an attribute that is given twice, or that refers to one of a function."""
    attributes, label = node.attribute, node.name or node.op_type
    if len(attributes) > 1 and len({attribute.name for attribute in attributes}) < len(attributes):
        raise CorruptModel(f"operator {label!r} has an attribute twice")
    for attribute in attributes:
        if attribute.ref_attr_name:
            name = attribute.name
            raise CorruptModel(f"operator {label!r}: attribute {name!r} refers to a function, but is in none")


def _attribute_value(attribute: AttributeProto) -> object:
    """The value of an attribute; None for tensors, graphs and other types."""
    type_ = attribute.type
    if type_ == AttributeProto.INT:
        return attribute.i
    if type_ == AttributeProto.INTS:
        return tuple(attribute.ints)
    if type_ == AttributeProto.FLOAT:
        return attribute.f
    if type_ == AttributeProto.FLOATS:
        return tuple(attribute.floats)
    if type_ == AttributeProto.STRING:
        return attribute.s.decode(errors="replace")
    if type_ == AttributeProto.STRINGS:
        return tuple(text.decode(errors="replace") for text in attribute.strings)
    return None


def _sorted(nodes: list[Node]) -> list[Node]:
    """The nodes in topological order, otherwise in file order."""
    if len(nodes) == 1 and not set(nodes[0].outputs).intersection(nodes[0].reads):
        return nodes  # the common case of a branch
    producers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.outputs:
            if name and producers.setdefault(name, index) != index:
                raise CorruptModel(f"{node.label} produces {name!r}, which another operator already produces")
    sources = [{producers[name] for name in node.reads if name in producers} for node in nodes]
    in_order = all(not before or max(before) < index for index, before in enumerate(sources))
    return nodes if in_order else _reordered(nodes, sources)


def _reordered(nodes: list[Node], sources: list[set[int]]) -> list[Node]:
    pending = [len(before) for before in sources]
    readers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(sources):
        for source in before:
            readers[source].append(index)
    ready = [index for index, count in enumerate(pending) if not count]
    schedule: list[Node] = []
    while ready:
        index = heapq.heappop(ready)
        schedule.append(nodes[index])
        for reader in readers[index]:
            pending[reader] -= 1
            if not pending[reader]:
                heapq.heappush(ready, reader)
    if len(schedule) < len(nodes):
        stuck = next(node for node, count in zip(nodes, pending, strict=True) if count)
        raise CorruptModel(f"{stuck.label} depends on its own output: the graph has a cycle")
    return schedule


# Written by torch's exporters since 2.5: a list of module paths, followed by the name of the node.
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"


def scope_of(node: NodeProto) -> tuple[str, bool]:
    """The module path, empty at the root, and whether it comes from metadata of the exporter."""
    for entry in node.metadata_props:
        if entry.key == _NAME_SCOPES:
            return _from_list(entry.value), True
    name = node.name
    return (scope_from_name(name) if "/" in name else ""), False


def _from_list(text: str) -> str:
    paths = [path.strip().strip("'\"") for path in text.strip("[] ").split(",")]
    path = paths[-2] if len(paths) > 1 else ""
    # The second call of a module is written as name@1.
    return ".".join(part.partition("@")[0] for part in path.split("."))


def scope_from_name(name: str) -> str:
    """The module path in a node name: layer1.0.conv1 for /layer1/layer1.0/conv1/Conv.

    A child of a sequence repeats its parent's name (layer1, then layer1.0). A part that extends the previous
    part therefore replaces it.
    """
    parts: list[str] = []
    for part in name.strip("/").split("/")[:-1]:
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        elif part:
            parts.append(part)
    return ".".join(parts)
