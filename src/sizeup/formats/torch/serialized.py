"""The program inside a .pt2 file, decoded from its JSON into plain data.

The layout is that of torch/_export/serde/schema.py, major version 8. Nothing in it is looked up, imported
or evaluated: operators stay names, and expressions stay text until a size is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.torch.json_values import (
    DECODERS,
    DTYPES,
    Json,
    Opaque,
    Reference,
    field,
    integer,
    schema_checked,
    text_field,
    union,
)
from sizeup.formats.torch.size_expressions import SizeExpression, parse_size
from sizeup.graph import Role

_SCHEMA_MAJOR = 8
_DEEPEST_GRAPH = 16  # control flow within control flow
_LARGEST_INTEGER = 1 << 62
_MOST_DIMENSIONS = 64  # torch allows no more

# A name for each output, None for one that is not kept, or a list for a list of them.
Outputs: TypeAlias = "str | list[Outputs] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One call of the program; `arguments` by name, or in order if they have none."""

    target: str
    arguments: tuple[tuple[str, Any], ...]
    outputs: Outputs
    scope: str


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """Nodes in the order in which they run, and what the file says of the tensors between them."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Any, ...]
    is_single: bool  # returns one tensor, not a tuple with one
    tensor_values: Json
    size_values: Json


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """What is known of a tensor without its numbers."""

    dtype: torch.dtype
    sizes: tuple[int | SizeExpression, ...]
    strides: tuple[int | SizeExpression, ...]
    offset: int | SizeExpression


@dataclass(frozen=True, slots=True)
class ProgramInput:
    """One input of a program: a weight (`role` and its own name `target`), a tensor or a plain value."""

    name: str
    role: Role | None
    target: str
    meta: TensorMeta | None
    value: Any  # of an input that is no tensor


@dataclass(frozen=True, slots=True)
class SerializedProgram:
    """A whole program: inputs in the order of the graph's, and which outputs its user gets."""

    graph: ProgramGraph
    inputs: tuple[ProgramInput, ...]
    user_outputs: tuple[int, ...]
    lower_limits: Mapping[str, int]
    hints: Mapping[str, int]


def decode(document: Json) -> SerializedProgram:
    """The program of a JSON document."""
    with schema_checked():
        major = field(field(document, "schema_version", dict), "major", int)
        if major != _SCHEMA_MAJOR:
            raise LoadError(
                f"written in version {major} of torch's schema, and version {_SCHEMA_MAJOR} is read;"
                " load it and save it again with a current torch"
            )
        module = field(document, "graph_module", dict)
        graph = _graph(field(module, "graph", dict), 0)
        signature = field(module, "signature", dict)
        specs = [union(each) for each in field(signature, "input_specs", list)]
        if len(specs) != len(graph.inputs):
            raise CorruptModel(f"{len(specs)} inputs in the signature, {len(graph.inputs)} in the graph")
        inputs = tuple(_input(graph, name, *spec) for name, spec in zip(graph.inputs, specs, strict=True))
        outputs = [union(each)[0] for each in field(signature, "output_specs", list)]
        return SerializedProgram(
            graph,
            inputs,
            tuple(place for place, kind in enumerate(outputs[: len(graph.outputs)]) if kind == "user_output"),
            _lower_limits(field(document, "range_constraints", dict)),
            dict(_hints(graph, inputs)),
        )


def _argument(item: Any, depth: int) -> Any:
    kind, value = union(item)
    if kind == "as_graph":
        return _graph(field(value, "graph", dict), depth + 1)
    if kind == "as_string_to_argument" and isinstance(value, dict):
        return {name: _argument(each, depth) for name, each in value.items()}
    if kind not in DECODERS:
        raise CorruptModel(f"{kind[:60]!r} is not a kind of argument")
    return DECODERS[kind](value)


def _graph(item: Json, depth: int) -> ProgramGraph:
    if depth > _DEEPEST_GRAPH:
        raise CorruptModel(f"control flow is nested more than {_DEEPEST_GRAPH} deep")
    return ProgramGraph(
        tuple(_input_name(each, place) for place, each in enumerate(field(item, "inputs", list))),
        tuple(_node(each, depth) for each in field(item, "nodes", list)),
        tuple(_argument(each, depth) for each in field(item, "outputs", list)),
        bool(item.get("is_single_tensor_return", False)),
        field(item, "tensor_values", dict),
        {
            name: value
            for table in ("sym_int_values", "sym_float_values", "sym_bool_values")
            for name, value in (item.get(table) or {}).items()
        },
    )


def _input_name(item: Any, place: int) -> str:
    kind, value = union(item)
    if kind in ("as_tensor", "as_custom_obj"):
        return text_field(value, "name")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return text_field(value, "as_name")
    return f"\0{place}"  # a plain value, which no node refers to


def _node(item: Any, depth: int) -> Node:
    target = text_field(item, "target")
    inputs = field(item, "inputs", list)
    arguments = tuple((text_field(each, "name"), _argument(each["arg"], depth)) for each in inputs)
    metadata = item.get("metadata")
    stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    return Node(target, arguments, _outputs(item, target), _scope(stack))


def _outputs(item: Json, target: str) -> Outputs:
    """How the names of the results lie in what the call returns."""
    patterns = [_pattern(each) for each in field(item, "outputs", list)]
    if len(patterns) != 1:
        return patterns or None
    # Before torch had the flag, a higher-order operator with one output returned it as it is.
    in_tuple = "torch.ops.higher_order" in target and item.get("is_hop_single_tensor_return") is False
    return patterns if in_tuple and patterns[0] is not None else patterns[0]


def _pattern(item: Any) -> Outputs:
    kind, value = union(item)
    if kind == "as_tensor":
        return text_field(value, "name")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return value["as_name"] if isinstance(value.get("as_name"), str) else None
    if kind in ("as_tensors", "as_optional_tensors"):
        names = DECODERS[kind](value)
        return [None if each is None else each.name for each in names]
    if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
        return [each.name if isinstance(each, Reference) else None for each in DECODERS[kind](value)]
    return None


def _scope(stack: Any) -> str:
    """The path of the innermost module, from `key,path,class;key,path,class`."""
    if not isinstance(stack, str):
        return ""
    parts = stack.rpartition(";")[2].split(",")
    return module_path(parts[1]) if len(parts) > 1 else ""


def module_path(path: str) -> str:
    """The path of a module; torch writes repeated calls of one as path@1, path@2."""
    return "" if path.startswith("_empty_nn_module_stack") else re.sub(r"@\d+", "", path)


# The field that holds a weight's own name, and the role of such an input.
_WEIGHTS: dict[str, tuple[str, Role]] = {
    "parameter": ("parameter_name", "parameter"),
    "buffer": ("buffer_name", "buffer"),
    "tensor_constant": ("tensor_constant_name", "constant"),
}


def _input(graph: ProgramGraph, name: str, kind: str, spec: Any) -> ProgramInput:
    if kind in _WEIGHTS:
        label, role = _WEIGHTS[kind]
        return ProgramInput(name, role, text_field(spec, label), tensor_meta(graph.tensor_values[name]), None)
    if kind == "user_input" and name in graph.tensor_values:
        return ProgramInput(name, None, "", tensor_meta(graph.tensor_values[name]), None)
    if kind == "user_input" and name in graph.size_values:
        return ProgramInput(name, None, "", None, size_of(graph.size_values[name]))
    if kind == "user_input":
        return ProgramInput(name, None, "", None, _argument(spec["arg"], 0))
    if kind == "constant_input":
        return ProgramInput(name, None, "", None, _argument(spec["value"], 0))
    return ProgramInput(name, None, "", None, Opaque(kind))


def size_of(item: Any) -> int | SizeExpression:
    """A size: a number, or an expression of symbols."""
    kind, value = union(item)
    if kind == "as_int":
        return integer(value)
    expression = parse_size(text_field(value, "expr_str"))
    return expression if expression.symbols else integer(expression.evaluate({}))


def tensor_meta(item: Any) -> TensorMeta:
    """What a table of the file says of a tensor."""
    with schema_checked():
        sizes, strides = (tuple(size_of(e) for e in field(item, name, list)) for name in ("sizes", "strides"))
        if len(sizes) > _MOST_DIMENSIONS or len(strides) != len(sizes):
            raise CorruptModel(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
        offset = size_of(item["storage_offset"]) if "storage_offset" in item else 0
        numbers = [each for each in (*sizes, *strides, offset) if isinstance(each, int)]
        if not all(0 <= each < _LARGEST_INTEGER for each in numbers):
            raise CorruptModel("a tensor has a size that is negative or above 2^62")
        return TensorMeta(DTYPES[field(item, "dtype", int)], sizes, strides, offset)


def _lower_limits(ranges: Json) -> dict[str, int]:
    limits = {}
    for name, each in ranges.items():
        lowest = each.get("min_val") if isinstance(each, dict) else None
        if type(lowest) is int and 0 <= lowest < _LARGEST_INTEGER:
            limits[name] = lowest
    return limits


def _hints(graph: ProgramGraph, inputs: tuple[ProgramInput, ...]) -> Iterator[tuple[str, int]]:
    """The sizes that symbols had when the program was exported."""
    for each in inputs:
        items = graph.tensor_values[each.name]["sizes"] if each.meta is not None else []
        for size, item in zip(each.meta.sizes if each.meta else (), items, strict=True):
            hint = item.get("as_expr", {}).get("hint")
            if isinstance(size, SizeExpression) and size.is_symbol and isinstance(hint, dict):
                value = hint.get("as_int")
                if type(value) is int and 0 < value < _LARGEST_INTEGER:
                    yield size.text, value
