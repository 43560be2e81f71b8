"""Reads a path, bytes or a model in memory into a model without its large weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto

from sizeup.errors import CorruptModel, LoadError
from sizeup.files import read_problem
from sizeup.formats.external import ModelFolders, model_folders
from sizeup.formats.onnx.constants import RemovedTensors, is_small
from sizeup.formats.onnx.wire import Malformed, without_weights
from sizeup.ops import cost_rules

# Smaller files are parsed completely, larger ones without their weights.
_MIN_STRIPPED_BYTES = 2**20
_MAX_MESSAGE_BYTES = 2**31 - 1
_ADVICE = "save it again with onnx.save(model, path), and check it with onnx.checker.check_model(path)"
_NOT_MODELS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself; run: git lfs pull"),
    (b"<", "a web page or XML, not an ONNX model; download the file itself"),
    (b"PK\x03\x04", "a zip archive, not an ONNX model; unpack it first"),
    (b"\x80\x02", "a Python pickle, not an ONNX model; export the network with torch.onnx.export"),
)


class LightModel(NamedTuple):
    """A model without its large constants, the removed constants, and its display name."""

    proto: ModelProto
    removed: RemovedTensors
    name: str


def read(source: Any) -> LightModel:
    """Read a model without modifying the source."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _light(message_of(path), model_folders(path), path.stem, path.name)
    if isinstance(source, bytes | bytearray | memoryview):
        return _light(_parsed(bytes(source)), (), "")
    if not isinstance(source, ModelProto):
        source = _proto_of(source)
    return _light(source, (), "")


def message_of(path: Path) -> ModelProto:
    """The protobuf message in a file, without its large constants."""
    return _parsed(_content(path))


def _content(path: Path) -> bytes:
    """The file without its weights, or the full file if it is small or malformed."""
    try:
        size = path.stat().st_size
        if size > _MIN_STRIPPED_BYTES and _is_text(path.name):
            try:
                return without_weights(path)
            except Malformed:
                pass  # the parser reports the error
        if size > _MAX_MESSAGE_BYTES:
            raise CorruptModel(f"not an ONNX model, or cut short; {_ADVICE}")
        return path.read_bytes()
    except OSError as error:
        raise LoadError(read_problem(error)) from error


def _is_text(name: str) -> bool:
    """Whether a file name is valid Unicode, which a protobuf string must be."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _parsed(content: bytes) -> ModelProto:
    if not content:
        raise CorruptModel(f"empty; {_ADVICE}")
    for start, problem in _NOT_MODELS:
        if content.startswith(start):
            raise CorruptModel(problem)
    try:
        model = ModelProto()
        model.ParseFromString(content)
        return model
    except (DecodeError, ValueError, RuntimeError) as error:
        raise CorruptModel(f"not an ONNX model, or cut short ({error}); {_ADVICE}") from error


def _proto_of(source: Any) -> ModelProto:
    """Convert an onnx_ir model to a protobuf message."""
    module = type(source).__module__
    if module.partition(".")[0] == "onnx_ir":
        from importlib import import_module

        proto = import_module("onnx_ir").to_proto(source)
        if isinstance(proto, ModelProto):
            return proto
    raise LoadError(
        f"{module}.{type(source).__qualname__} is not an ONNX model; give a ModelProto, bytes or a path"
    )


def _light(model: ModelProto, home: ModelFolders, name: str, file: str = "") -> LightModel:
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise CorruptModel(f"it contains no ONNX graph; {_ADVICE}")
    removed = RemovedTensors(home, file)
    if not 0 <= model.ir_version < 1 << 31:
        raise CorruptModel(f"IR version {model.ir_version}: versions start at 1 and have 32 bits; {_ADVICE}")
    light = ModelProto(functions=model.functions)
    if model.HasField("ir_version"):
        light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    source, graph = model.graph, light.graph
    graph.name = source.name or "graph"
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.initializer.extend(removed.placeholder(tensor) for tensor in source.initializer)
    graph.initializer.extend(removed.sparse_placeholder(sparse) for sparse in source.sparse_initializer)
    used = _lighten(graph.node, removed)
    domains = {"", *used}
    for function in light.functions:
        domains |= _lighten(function.node, removed)
    # Very old models have no opset_import, and some exporters omit their own domain.
    listed = {"" if entry.domain == "ai.onnx" else entry.domain for entry in light.opset_import}
    if listed and "" not in listed and used & {"", "ai.onnx"}:
        raise CorruptModel("it has ONNX operators, but opset_import does not list their opset")
    light.opset_import.extend(OperatorSetIdProto(domain=domain, version=1) for domain in domains - listed)
    return LightModel(light, removed, name or source.name)


def _lighten(nodes: Iterable[NodeProto], removed: RemovedTensors) -> set[str]:
    """Remove large constants from Constant nodes and from subgraphs; returns the domains of the nodes."""
    domains = set()
    for node in nodes:
        op_type, domain = node.op_type, node.domain
        domains.add(domain)
        if op_type == "Constant":
            for attribute in node.attribute:
                if attribute.HasField("t") and not is_small(attribute.t.dims):
                    original = TensorProto()
                    original.CopyFrom(attribute.t)
                    attribute.t.CopyFrom(removed.placeholder(original))
        elif domain or op_type in CONTROL:
            for _, inner in graphs_of(node):
                domains |= _lighten_graph(inner, removed)
    return domains


def _lighten_graph(graph: GraphProto, removed: RemovedTensors) -> set[str]:
    light = [removed.placeholder(tensor) for tensor in graph.initializer]
    light += [removed.sparse_placeholder(sparse) for sparse in graph.sparse_initializer]
    if light:
        del graph.initializer[:]
        del graph.sparse_initializer[:]
        graph.initializer.extend(light)
    return _lighten(graph.node, removed)


CONTROL = frozenset(name for rule in cost_rules() if rule.family == "control" for name in rule.onnx)
"""Standard ONNX operators with subgraphs."""


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The subgraphs of a node by attribute name; in the standard domain only control flow has them."""
    if node.domain or node.op_type in CONTROL:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.name, attribute.g
            for index, graph in enumerate(attribute.graphs):
                yield f"{attribute.name}.{index}", graph
