"""A model as Python sees it: blocks of operators in an order that can run, their constants and names."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import NoReturn

from onnx import AttributeProto, GraphProto, NodeProto

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.constants import Origins, Stored, stored, stored_in_node
from sizeup.formats.onnx.read import CONTROL, graphs_of
from sizeup.formats.onnx.value_types import ValueType, read

# Since this version of the format an initializer is a constant, unless it is listed among the inputs.
FIRST_WITH_DEFAULTS = 4
_ROLE = "pkg.torch.export.graph_signature.InputSpec.kind"


class Node:
    """One operator: its name in the format, what it reads and makes, and the blocks that it runs."""

    __slots__ = ("_attributes", "annotated", "blocks", "inputs", "name", "op", "outputs", "proto", "scope")

    def __init__(self, proto: NodeProto, origins: Origins) -> None:
        domain, op_type = proto.domain, proto.op_type
        self.op = op_type if not domain or domain == "ai.onnx" else f"{domain}::{op_type}"
        self.proto = proto
        self.name = proto.name
        self.scope, self.annotated = scope_of(proto)
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.blocks: dict[str, Block] = {}
        if domain or op_type in CONTROL:
            self.blocks = {name: Block(graph, origins) for name, graph in graphs_of(proto)}
            self._check_body_inputs()
        self._attributes: dict[str, object] | None = None
        # Stack traces and the like: larger than all the rest, and not needed again.
        proto.ClearField("metadata_props")

    def _check_body_inputs(self) -> None:
        """Refuse an initializer for an input of a loop body: the loop passes that input."""
        if self.op in ("Loop", "Scan"):
            for _, graph in graphs_of(self.proto):
                stored_names = {each.name for each in graph.initializer}
                for each in graph.input:
                    if each.name in stored_names:
                        self.refuse(f"input {each.name!r} of its body has an initializer as well")

    @property
    def label(self) -> str:
        """What to call it in a message."""
        return f"{self.op} operator {self.name or (self.outputs[0] if self.outputs else '')!r}"

    @property
    def attributes(self) -> dict[str, object]:
        """Its plain attributes: numbers, strings, and tuples of either."""
        if self._attributes is None:
            self._attributes = {each.name: _plain(each) for each in self.proto.attribute}
        return self._attributes

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers; empty where it is absent."""
        value = self.attributes.get(name, ())
        # A list of the format holds numbers of one type.
        return value if isinstance(value, tuple) and value and isinstance(value[0], int) else ()

    def size(self, name: str, default: int | None = None) -> int:
        """An attribute that is a size or a count: at least 1, so that it cannot lower a total."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int) or value < 1:
            given = "missing" if value is None else f"{value!r}"
            self.refuse(f"attribute {name} is {given}; it must be at least 1")
        return value

    def sizes(self, name: str) -> tuple[int, ...]:
        """An attribute that lists sizes, each at least 1; empty if it is absent."""
        values = self.attributes.get(name, ())
        if not isinstance(values, tuple) or any(not isinstance(each, int) or each < 1 for each in values):
            self.refuse(f"attribute {name} is {values!r}; each entry must be at least 1")
        return values

    def refuse(self, problem: str) -> NoReturn:
        """Raise CorruptModel about this operator."""
        raise CorruptModel(f"{self.label}: {problem}")

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a string."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    @property
    def reads(self) -> list[str]:
        """The names that it needs, those that its blocks take from around them included."""
        if not self.blocks:
            return self.inputs
        return [*self.inputs, *(name for block in self.blocks.values() for name in block.free)]


class Block:
    """A graph of the model: the whole network, or what an operator of control flow runs."""

    __slots__ = ("constants", "declared", "free", "in_order", "inputs", "name", "nodes", "outputs")

    def __init__(self, graph: GraphProto, origins: Origins, *, has_defaults: bool = False) -> None:
        """`has_defaults`: initializers that are inputs too are defaults, not constants."""
        self.name = graph.name
        self.declared: dict[str, ValueType] = {}
        roles: dict[str, str] = {}
        for value in (*graph.input, *graph.output, *graph.value_info):
            self.declared.setdefault(value.name, read(value.type))
            for entry in value.metadata_props:
                if entry.key == _ROLE:
                    roles[value.name] = entry.value
        self.constants: dict[str, Stored] = {
            each.name: stored(each, origins, roles.get(each.name, "")) for each in graph.initializer
        }
        if has_defaults:
            for each in graph.input:
                if (default := self.constants.get(each.name)) is not None:
                    self._check_default(default, self.declared[each.name])
                    self.constants[each.name] = replace(default, overridable=True)
        # Until the third version of the format, constants had to be listed among the inputs too.
        self.inputs = [each.name for each in graph.input if each.name not in self.constants]
        self.outputs = [each.name for each in graph.output]
        nodes = self._operators(graph, origins)
        self.free = self._taken_from_outside(nodes)
        self.nodes = _sorted(nodes)
        self.in_order = self.nodes is nodes
        self._name_copies_of_constants()

    @staticmethod
    def _check_default(default: Stored, declared: ValueType) -> None:
        """Refuse an input whose default does not tell its size: a caller may pass a larger tensor."""
        if declared.shape != default.dims:
            sizes = None if declared.dims is None else list(declared.dims)
            raise CorruptModel(
                f"input {default.name!r} of the shape {sizes} has a default of the shape"
                f" {list(default.dims)}; remove it from the initializers or from the inputs"
            )

    def _operators(self, graph: GraphProto, origins: Origins) -> list[Node]:
        nodes = []
        for proto in graph.node:
            if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx") and len(proto.output) == 1:
                self.constants[proto.output[0]] = stored_in_node(proto, origins)
            else:
                nodes.append(Node(proto, origins))
        return nodes

    def _taken_from_outside(self, nodes: list[Node]) -> list[str]:
        made = {*self.inputs, *self.constants, ""}
        for node in nodes:
            made.update(node.outputs)
        wanted: dict[str, None] = {}
        for names in (*(node.reads for node in nodes), self.outputs):
            for name in names:
                if name not in made:
                    wanted[name] = None
        return list(wanted)

    def _name_copies_of_constants(self) -> None:
        """Exporters that merge equal weights leave an Identity for each: another name, not an operator."""
        if not self.constants:
            return
        kept = []
        results = set(self.outputs)
        for node in self.nodes:
            copied = self.constants.get(node.inputs[0]) if node.op == "Identity" and node.inputs else None
            if copied is not None and node.outputs and node.outputs[0] not in results:
                self.constants[node.outputs[0]] = copied
            else:
                kept.append(node)
        self.nodes = kept


def _plain(attribute: AttributeProto) -> object:
    kind = attribute.type
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.INTS:
        return tuple(attribute.ints)
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.FLOATS:
        return tuple(attribute.floats)
    if kind == AttributeProto.STRING:
        return attribute.s.decode(errors="replace")
    if kind == AttributeProto.STRINGS:
        return tuple(each.decode(errors="replace") for each in attribute.strings)
    return None


def _sorted(nodes: list[Node]) -> list[Node]:
    """The operators so that each comes after those that it reads from, otherwise in the file's order."""
    if len(nodes) == 1 and not set(nodes[0].outputs).intersection(nodes[0].reads):
        return nodes  # most branches are that short
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.outputs:
            if name and maker.setdefault(name, index) != index:
                raise CorruptModel(f"{node.label} makes {name!r}, which another operator makes already")
    sources = [{maker[name] for name in node.reads if name in maker} for node in nodes]
    in_order = all(not before or max(before) < index for index, before in enumerate(sources))
    return nodes if in_order else _reordered(nodes, sources)


def _reordered(nodes: list[Node], sources: list[set[int]]) -> list[Node]:
    waiting = [len(before) for before in sources]
    followers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(sources):
        for each in before:
            followers[each].append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    order: list[Node] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for each in followers[index]:
            waiting[each] -= 1
            if not waiting[each]:
                heapq.heappush(ready, each)
    if len(order) < len(nodes):
        stuck = next(node for node, count in zip(nodes, waiting, strict=True) if count)
        raise CorruptModel(
            f"{stuck.label} waits for a value that needs its own output: the graph has a cycle"
        )
    return order


# Written by torch's exporters of 2.5 and later: a list of module paths, the operator's own name last.
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"


def scope_of(node: NodeProto) -> tuple[str, bool]:
    """The module path, empty at the root, and whether the exporter wrote it down beside the operator."""
    for entry in node.metadata_props:
        if entry.key == _NAME_SCOPES:
            return _from_list(entry.value), True
    name = node.name
    return (from_name(name) if "/" in name else ""), False


def _from_list(text: str) -> str:
    paths = [each.strip().strip("'\"") for each in text.strip("[] ").split(",")]
    path = paths[-2] if len(paths) > 1 else ""
    # A module that is called again is written as name@1.
    return ".".join(part.partition("@")[0] for part in path.split("."))


def from_name(name: str) -> str:
    """The module path in a name such as /layer1/layer1.0/conv1/Conv: layer1.0.conv1.

    A child of a sequence repeats its parent's name (layer1, then layer1.0), so a part that extends the
    one before takes its place.
    """
    parts: list[str] = []
    for part in name.strip("/").split("/")[:-1]:
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        elif part:
            parts.append(part)
    return ".".join(parts)
