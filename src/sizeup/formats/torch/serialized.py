"""Decode the program of a .pt2 file from JSON to plain data.

The schema is torch/_export/serde/schema.py, major version 8. Nothing is resolved, imported or evaluated:
operators stay names, and expressions stay text until a size is needed.
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
_DEEPEST_GRAPH = 16  # levels of nested control flow
_LARGEST_INTEGER = 1 << 62
_MOST_DIMENSIONS = 64  # limit of torch

# An output name, None for an unused output, or a list of these.
Outputs: TypeAlias = "str | list[Outputs] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One call of the program; `arguments` are (name, value), with empty names for positional ones."""

    target: str
    arguments: tuple[tuple[str, Any], ...]
    outputs: Outputs
    scope: str


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """Nodes in execution order, and the declared metadata of their tensors and sizes."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Any, ...]
    is_single: bool  # returns one tensor, not a tuple of one
    tensor_values: Json
    size_values: Json


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """The dtype, sizes, strides and offset of a tensor."""

    dtype: torch.dtype
    sizes: tuple[int | SizeExpression, ...]
    strides: tuple[int | SizeExpression, ...]
    offset: int | SizeExpression


@dataclass(frozen=True, slots=True)
class ProgramInput:
    """One input of a program: a weight (with `role` and name `target`), a tensor or a plain value."""

    name: str
    role: Role | None
    target: str
    meta: TensorMeta | None
    value: Any  # if it is not a tensor


@dataclass(frozen=True, slots=True)
class SerializedProgram:
    """A program: inputs in the order of the graph, and the indices of user outputs."""

    graph: ProgramGraph
    inputs: tuple[ProgramInput, ...]
    user_outputs: tuple[int, ...]
    lower_limits: Mapping[str, int]
    hints: Mapping[str, int]


def decode(document: Json) -> SerializedProgram:
    """Decode the program of a JSON document."""
    with schema_checked():
        major = field(field(document, "schema_version", dict), "major", int)
        if major != _SCHEMA_MAJOR:
            raise LoadError(
                f"schema version {major} is not supported (expected {_SCHEMA_MAJOR});"
                " load it and save it again with a current torch"
            )
        module = field(document, "graph_module", dict)
        graph = _graph(field(module, "graph", dict), 0)
        signature = field(module, "signature", dict)
        specs = [union(item) for item in field(signature, "input_specs", list)]
        if len(specs) != len(graph.inputs):
            raise CorruptModel(f"{len(specs)} inputs in the signature but {len(graph.inputs)} in the graph")
        inputs = tuple(_input(graph, name, *spec) for name, spec in zip(graph.inputs, specs, strict=True))
        outputs = [union(item)[0] for item in field(signature, "output_specs", list)][: len(graph.outputs)]
        return SerializedProgram(
            graph,
            inputs,
            tuple(index for index, variant in enumerate(outputs) if variant == "user_output"),
            _lower_limits(field(document, "range_constraints", dict)),
            dict(_hints(graph, inputs)),
        )


def _argument(item: Any, depth: int) -> Any:
    variant, value = union(item)
    if variant == "as_graph":
        return _graph(field(value, "graph", dict), depth + 1)
    if variant == "as_string_to_argument" and isinstance(value, dict):
        return {name: _argument(entry, depth) for name, entry in value.items()}
    if variant not in DECODERS:
        raise CorruptModel(f"unknown argument type {variant[:60]!r}")
    return DECODERS[variant](value)


def _graph(item: Json, depth: int) -> ProgramGraph:
    if depth > _DEEPEST_GRAPH:
        raise CorruptModel(f"control flow is nested more than {_DEEPEST_GRAPH} levels")
    return ProgramGraph(
        tuple(_input_name(entry, index) for index, entry in enumerate(field(item, "inputs", list))),
        tuple(_node(entry, depth) for entry in field(item, "nodes", list)),
        tuple(_argument(entry, depth) for entry in field(item, "outputs", list)),
        bool(item.get("is_single_tensor_return", False)),
        field(item, "tensor_values", dict),
        {
            name: value
            for table in ("sym_int_values", "sym_float_values", "sym_bool_values")
            for name, value in (item.get(table) or {}).items()
        },
    )


def _input_name(item: Any, index: int) -> str:
    variant, value = union(item)
    if variant in ("as_tensor", "as_custom_obj"):
        return text_field(value, "name")
    if variant in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return text_field(value, "as_name")
    return f"\0{index}"  # a plain value, which no node refers to


def _node(item: Any, depth: int) -> Node:
    target = text_field(item, "target")
    inputs = field(item, "inputs", list)
    arguments = tuple((text_field(entry, "name"), _argument(entry["arg"], depth)) for entry in inputs)
    metadata = item.get("metadata")
    stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    return Node(target, arguments, _outputs(item, target), _scope(stack))


def _outputs(item: Json, target: str) -> Outputs:
    """Return the names of the outputs in the structure that the call returns."""
    patterns = [_pattern(entry) for entry in field(item, "outputs", list)]
    if len(patterns) != 1:
        return patterns or None
    # Without the flag (older torch), a higher-order operator returns a single output unwrapped.
    in_tuple = "torch.ops.higher_order" in target and item.get("is_hop_single_tensor_return") is False
    return patterns if in_tuple and patterns[0] is not None else patterns[0]


def _pattern(item: Any) -> Outputs:
    variant, value = union(item)
    if variant == "as_tensor":
        return text_field(value, "name")
    if variant in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return value["as_name"] if isinstance(value.get("as_name"), str) else None
    if variant in ("as_tensors", "as_optional_tensors"):
        names = DECODERS[variant](value)
        return [None if reference is None else reference.name for reference in names]
    if variant in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
        return [
            reference.name if isinstance(reference, Reference) else None
            for reference in DECODERS[variant](value)
        ]
    return None


def _scope(stack: Any) -> str:
    """Return the path of the innermost module from `key,path,class;key,path,class`."""
    if not isinstance(stack, str):
        return ""
    parts = stack.rpartition(";")[2].split(",")
    return module_path(parts[1]) if len(parts) > 1 else ""


def module_path(path: str) -> str:
    """Return the path of a module without the suffixes @1, @2 of repeated calls."""
    return "" if path.startswith("_empty_nn_module_stack") else re.sub(r"@\d+", "", path)


# Field with the name of a weight, and the role of the input.
_WEIGHTS: dict[str, tuple[str, Role]] = {
    "parameter": ("parameter_name", "parameter"),
    "buffer": ("buffer_name", "buffer"),
    "tensor_constant": ("tensor_constant_name", "constant"),
}


def _input(graph: ProgramGraph, name: str, variant: str, spec: Any) -> ProgramInput:
    if variant in _WEIGHTS:
        label, role = _WEIGHTS[variant]
        return ProgramInput(name, role, text_field(spec, label), tensor_meta(graph.tensor_values[name]), None)
    if variant == "user_input" and name in graph.tensor_values:
        return ProgramInput(name, None, "", tensor_meta(graph.tensor_values[name]), None)
    if variant == "user_input" and name in graph.size_values:
        return ProgramInput(name, None, "", None, size_of(graph.size_values[name]))
    if variant == "user_input":
        return ProgramInput(name, None, "", None, _argument(spec["arg"], 0))
    if variant == "constant_input":
        return ProgramInput(name, None, "", None, _argument(spec["value"], 0))
    return ProgramInput(name, None, "", None, Opaque(variant))


def size_of(item: Any) -> int | SizeExpression:
    """Decode a size: a number, or an expression of symbols."""
    variant, value = union(item)
    if variant == "as_int":
        return integer(value)
    expression = parse_size(text_field(value, "expr_str"))
    return expression if expression.symbols else integer(expression.evaluate({}))


def tensor_meta(item: Any) -> TensorMeta:
    """Decode the metadata of a tensor."""
    with schema_checked():
        sizes, strides = (tuple(size_of(e) for e in field(item, name, list)) for name in ("sizes", "strides"))
        if len(sizes) > _MOST_DIMENSIONS or len(strides) != len(sizes):
            raise CorruptModel(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
        offset = size_of(item["storage_offset"]) if "storage_offset" in item else 0
        numbers = [number for number in (*sizes, *strides, offset) if isinstance(number, int)]
        if not all(0 <= number < _LARGEST_INTEGER for number in numbers):
            raise CorruptModel("a tensor size is out of range (0 to 2^62)")
        return TensorMeta(DTYPES[field(item, "dtype", int)], sizes, strides, offset)


def _lower_limits(ranges: Json) -> dict[str, int]:
    limits = {}
    for name, bounds in ranges.items():
        lowest = bounds.get("min_val") if isinstance(bounds, dict) else None
        if type(lowest) is int and 0 <= lowest < _LARGEST_INTEGER:
            limits[name] = lowest
    return limits


def _hints(graph: ProgramGraph, inputs: tuple[ProgramInput, ...]) -> Iterator[tuple[str, int]]:
    """Yield the symbols with their sizes at export."""
    for program_input in inputs:
        items = graph.tensor_values[program_input.name]["sizes"] if program_input.meta is not None else []
        for size, item in zip(program_input.meta.sizes if program_input.meta else (), items, strict=True):
            hint = item.get("as_expr", {}).get("hint")
            if isinstance(size, SizeExpression) and size.is_symbol and isinstance(hint, dict):
                value = hint.get("as_int")
                if type(value) is int and 0 < value < _LARGEST_INTEGER:
                    yield size.text, value
