"""From a path, bytes or a model in memory to a light model of our own, its weights left where they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.external import Home, home_of
from sizeup.formats.onnx.constants import Origins, is_small
from sizeup.formats.onnx.wire import Malformed, without_weights

# Smaller files are parsed whole; larger ones than a message may be hold weights that are left out.
_WORTH_A_WALK = 2**20
_LARGEST_MESSAGE = 2**31 - 1
_ADVICE = "save it again with onnx.save(model, path), and check it with onnx.checker.check_model(path)"
_NOT_MODELS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself; fetch it with git lfs pull"),
    (b"<", "a web page or XML, not an ONNX model; download the file itself"),
    (b"PK\x03\x04", "a zip archive, not an ONNX model; unpack it first"),
    (b"\x80\x02", "a Python pickle, not an ONNX model; export the network with torch.onnx.export"),
)


class LightModel(NamedTuple):
    """A model without its large constants, those constants' origins, and a name to show."""

    proto: ModelProto
    origins: Origins
    name: str


def read(source: Any) -> LightModel:
    """Read a model without touching what it is read from."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _light(message_of(path), home_of(path), path.stem)
    if isinstance(source, bytes | bytearray | memoryview):
        return _light(_parsed(bytes(source)), (), "")
    if not isinstance(source, ModelProto):
        source = _proto_of(source)
    return _light(source, (), "")


def message_of(path: Path) -> ModelProto:
    """The message that a file is, without its large constants."""
    return _parsed(_content(path))


def _content(path: Path) -> bytes:
    """The file without its weights; all of it where it is small, or not what it says."""
    try:
        size = path.stat().st_size
        if size > _WORTH_A_WALK and _is_text(path.name):
            try:
                return without_weights(path)
            except Malformed:
                pass  # told in full by whoever parses it
        if size > _LARGEST_MESSAGE:
            raise CorruptModel(f"not an ONNX model, or cut short; {_ADVICE}")
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror or error}") from error


def _is_text(name: str) -> bool:
    """Whether a message can hold a file's name, which need not be valid UTF-8."""
    return not any("\ud800" <= each <= "\udfff" for each in name)


def _parsed(content: bytes) -> ModelProto:
    if not content:
        raise CorruptModel(f"empty; {_ADVICE}")
    for start, what in _NOT_MODELS:
        if content.startswith(start):
            raise CorruptModel(what)
    try:
        model = ModelProto()
        model.ParseFromString(content)
        return model
    except (DecodeError, ValueError, RuntimeError) as error:
        raise CorruptModel(f"not an ONNX model, or cut short ({error}); {_ADVICE}") from error


def _proto_of(source: Any) -> ModelProto:
    """The message behind a model of another in-memory form (onnx_ir)."""
    module = type(source).__module__
    if module.partition(".")[0] == "onnx_ir":
        from importlib import import_module

        proto = import_module("onnx_ir").to_proto(source)
        if isinstance(proto, ModelProto):
            return proto
    raise LoadError(
        f"{module}.{type(source).__qualname__} is not an ONNX model; give a ModelProto, bytes or a path"
    )


def _light(model: ModelProto, home: Home, name: str) -> LightModel:
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise CorruptModel(f"there is no ONNX graph in it; {_ADVICE}")
    origins = Origins(home)
    light = ModelProto(ir_version=model.ir_version, functions=model.functions)
    light.opset_import.extend(model.opset_import)
    source, graph = model.graph, light.graph
    graph.name = source.name or "graph"
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.initializer.extend(origins.stand_in(each) for each in source.initializer)
    graph.initializer.extend(origins.stand_in_for_sparse(each) for each in source.sparse_initializer)
    used = _lighten(graph.node, origins)
    domains = {"", *used}
    for function in light.functions:
        domains |= _lighten(function.node, origins)
    # Models older than the list of operator sets lack it; some exporters forget their own domain.
    listed = {"" if each.domain == "ai.onnx" else each.domain for each in light.opset_import}
    if listed and "" not in listed and used & {"", "ai.onnx"}:
        raise CorruptModel("it has operators of ONNX and does not say of which operator set (opset_import)")
    light.opset_import.extend(OperatorSetIdProto(domain=each, version=1) for each in domains - listed)
    return LightModel(light, origins, name or source.name)


def _lighten(nodes: Iterable[NodeProto], origins: Origins) -> set[str]:
    """Take large constants out of Constant operators and of the graphs that operators carry.

    Comes back with the domains of the operators.
    """
    domains = set()
    for node in nodes:
        domains.add(node.domain)
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.HasField("t") and not is_small(attribute.t.dims):
                    original = TensorProto()
                    original.CopyFrom(attribute.t)
                    attribute.t.CopyFrom(origins.stand_in(original))
        elif has_graphs(node):
            for _, inner in graphs_of(node):
                domains |= _lighten_graph(inner, origins)
    return domains


def _lighten_graph(graph: GraphProto, origins: Origins) -> set[str]:
    light = [origins.stand_in(each) for each in graph.initializer]
    light += [origins.stand_in_for_sparse(each) for each in graph.sparse_initializer]
    if light:
        del graph.initializer[:]
        del graph.sparse_initializer[:]
        graph.initializer.extend(light)
    return _lighten(graph.node, origins)


CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""ONNX's own operators that carry graphs."""


def has_graphs(node: NodeProto) -> bool:
    """Whether the operator may carry graphs: most cannot, and need not be looked through."""
    return node.op_type in CONTROL or bool(node.domain)


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs that an operator carries, by attribute; ONNX's own have them in control flow only."""
    if has_graphs(node):
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.name, attribute.g
            for index, graph in enumerate(attribute.graphs):
                yield f"{attribute.name}.{index}", graph
