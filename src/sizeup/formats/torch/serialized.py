"""The program inside a .pt2 file, decoded from its JSON into plain data.

The layout is that of torch/_export/serde/schema.py, major version 8. Nothing in it is looked up, imported
or evaluated: operators stay names, and expressions stay text until a size is asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.torch.size_expressions import SizeExpression, parse_size
from sizeup.graph import Role

_SCHEMA_MAJOR = 8
_DEEPEST_GRAPH = 16  # control flow within control flow
_LARGEST_INTEGER = 1 << 62
_MOST_DIMENSIONS = 64  # torch allows no more

# What reading JSON of another layout raises.
_SCHEMA_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError)

Json: TypeAlias = Mapping[str, Any]


class Reference(NamedTuple):
    """A value of the program, by the name that an input or an earlier node gave it."""

    name: str


class Opaque(NamedTuple):
    """An argument that is never looked up: an operator's name, or an object of a class of the file's."""

    label: str


# A name for each output, None for one that is not kept, or a list for a list of them.
Outputs: TypeAlias = "str | list[Outputs] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One call of the program; `arguments` by name, or in order if they have none."""

    target: str
    arguments: tuple[tuple[str, Any], ...]
    positional: frozenset[int]
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
    with _schema_checked():
        major = _field(_field(document, "schema_version", dict), "major", int)
        if major != _SCHEMA_MAJOR:
            raise LoadError(
                f"written in version {major} of torch's schema, and version {_SCHEMA_MAJOR} is read;"
                " load it and save it again with a current torch"
            )
        module = _field(document, "graph_module", dict)
        graph = _graph(_field(module, "graph", dict), 0)
        signature = _field(module, "signature", dict)
        specs = [_union(each) for each in _field(signature, "input_specs", list)]
        if len(specs) != len(graph.inputs):
            raise CorruptModel(f"{len(specs)} inputs in the signature, {len(graph.inputs)} in the graph")
        inputs = tuple(_input(graph, name, *spec) for name, spec in zip(graph.inputs, specs, strict=True))
        outputs = [_union(each)[0] for each in _field(signature, "output_specs", list)]
        return SerializedProgram(
            graph,
            inputs,
            tuple(place for place, kind in enumerate(outputs[: len(graph.outputs)]) if kind == "user_output"),
            _lower_limits(_field(document, "range_constraints", dict)),
            dict(_hints(graph, inputs)),
        )


@contextmanager
def _schema_checked() -> Iterator[None]:
    try:
        yield
    except _SCHEMA_ERRORS as error:
        raise CorruptModel(
            f"it does not follow torch's schema: {type(error).__name__}: {str(error)[:80]}"
        ) from error


def _field(item: Json, name: str, kind: type) -> Any:
    value = item.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise CorruptModel(f"{name!r} should be of type {kind.__name__}, and is {str(value)[:60]!r}")
    return value


def _text(item: Json, name: str) -> str:
    text: str = _field(item, name, str)
    return text


def _union(item: Any) -> tuple[str, Any]:
    if not isinstance(item, dict) or len(item) != 1:
        raise CorruptModel(f"an object with one key is expected, not {str(item)[:60]!r}")
    return next(iter(item.items()))


def _integer(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise CorruptModel(f"{str(value)[:60]!r} is not an integer of 64 bits")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CorruptModel(f"{str(value)[:60]!r} is not true or false")
    return value


def _float(value: Any) -> float:
    if isinstance(value, str):  # how torch writes what JSON cannot
        value = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptModel(f"{str(value)[:60]!r} is not a number")
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise CorruptModel(f"{str(value)[:60]!r} is not a text")
    return value


def _tensor(value: Any) -> Reference:
    return Reference(_text(value, "name"))


def _symbolic(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A number, or the name of the value that holds it."""

    def decoded(item: Any) -> Any:
        kind, value = _union(item)
        return Reference(_string(value)) if kind == "as_name" else plain(value)

    return decoded


def _optional_tensor(item: Any) -> Reference | None:
    kind, value = _union(item)
    return None if kind == "as_none" else _tensor(value)


def _several(one: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def decoded(items: Any) -> list[Any]:
        if not isinstance(items, list):
            raise CorruptModel(f"{str(items)[:60]!r} is not a list")
        return [one(each) for each in items]

    return decoded


# Numbers of torch/_export/serde/schema.py.
_DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64,
    6: torch.float16, 7: torch.float32, 8: torch.float64, 9: torch.complex32, 10: torch.complex64,
    11: torch.complex128, 12: torch.bool, 13: torch.bfloat16, 28: torch.uint16,
    29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 31: torch.float8_e4m3fnuz, 32: torch.float8_e5m2fnuz,
    33: getattr(torch, "float8_e8m0fnu", torch.uint8), 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
_LAYOUTS = {
    1: torch.sparse_coo, 2: torch.sparse_csr, 3: torch.sparse_csc, 4: torch.sparse_bsr, 5: torch.sparse_bsc,
    7: torch.strided,
}  # fmt: skip
_MEMORY_FORMATS = {
    1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format
}  # fmt: skip
_CPU = torch.device("cpu")

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_tensor": _tensor,
    "as_tensors": _several(_tensor),
    "as_optional_tensor": _optional_tensor,
    "as_optional_tensors": _several(_optional_tensor),
    "as_nested_tensors": _several(_several(_tensor)),
    "as_int": _integer,
    "as_ints": _several(_integer),
    "as_int_lists": _several(_several(_integer)),
    "as_float": _float,
    "as_floats": _several(_float),
    "as_float_lists": _several(_several(_float)),
    "as_complex": lambda value: complex(_float(value["real"]), _float(value["imag"])),
    "as_bool": _boolean,
    "as_bools": _several(_boolean),
    "as_string": _string,
    "as_strings": _several(_string),
    "as_sym_int": _symbolic(_integer),
    "as_sym_ints": _several(_symbolic(_integer)),
    "as_sym_float": _symbolic(_float),
    "as_sym_floats": _several(_symbolic(_float)),
    "as_sym_bool": _symbolic(_boolean),
    "as_sym_bools": _several(_symbolic(_boolean)),
    "as_scalar_type": _DTYPES.__getitem__,
    "as_layout": _LAYOUTS.__getitem__,
    "as_memory_format": _MEMORY_FORMATS.__getitem__,
    # A program for a GPU is read on any machine.
    "as_device": lambda _: _CPU,
    "as_custom_obj": lambda _: Opaque("an object"),
    "as_operator": lambda value: Opaque(_string(value)),
}


def _argument(item: Any, depth: int) -> Any:
    kind, value = _union(item)
    if kind == "as_graph":
        return _graph(_field(value, "graph", dict), depth + 1)
    if kind == "as_string_to_argument" and isinstance(value, dict):
        return {name: _argument(each, depth) for name, each in value.items()}
    if kind not in _DECODERS:
        raise CorruptModel(f"{kind[:60]!r} is not a kind of argument")
    return _DECODERS[kind](value)


def _graph(item: Json, depth: int) -> ProgramGraph:
    if depth > _DEEPEST_GRAPH:
        raise CorruptModel(f"control flow is nested more than {_DEEPEST_GRAPH} deep")
    return ProgramGraph(
        tuple(_input_name(each, place) for place, each in enumerate(_field(item, "inputs", list))),
        tuple(_node(each, depth) for each in _field(item, "nodes", list)),
        tuple(_argument(each, depth) for each in _field(item, "outputs", list)),
        bool(item.get("is_single_tensor_return", False)),
        _field(item, "tensor_values", dict),
        _field(item, "sym_int_values", dict),
    )


def _input_name(item: Any, place: int) -> str:
    kind, value = _union(item)
    if kind in ("as_tensor", "as_custom_obj"):
        return _text(value, "name")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return _text(value, "as_name")
    return f"\0{place}"  # a plain value, which no node refers to


def _node(item: Any, depth: int) -> Node:
    target = _text(item, "target")
    inputs = _field(item, "inputs", list)
    arguments = tuple((_text(each, "name"), _argument(each["arg"], depth)) for each in inputs)
    positional = frozenset(place for place, each in enumerate(inputs) if each.get("kind") == 1)
    metadata = item.get("metadata")
    stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    return Node(target, arguments, positional, _outputs(item, target), _scope(stack))


def _outputs(item: Json, target: str) -> Outputs:
    """How the names of the results lie in what the call returns."""
    patterns = [_pattern(each) for each in _field(item, "outputs", list)]
    if len(patterns) != 1:
        return patterns or None
    # Before torch had the flag, a higher-order operator with one output returned it as it is.
    in_tuple = "torch.ops.higher_order" in target and item.get("is_hop_single_tensor_return") is False
    return patterns if in_tuple and patterns[0] is not None else patterns[0]


def _pattern(item: Any) -> Outputs:
    kind, value = _union(item)
    if kind == "as_tensor":
        return _text(value, "name")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return value["as_name"] if isinstance(value.get("as_name"), str) else None
    if kind in ("as_tensors", "as_optional_tensors"):
        names = _DECODERS[kind](value)
        return [None if each is None else each.name for each in names]
    if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
        return [each.name if isinstance(each, Reference) else None for each in _DECODERS[kind](value)]
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
        field, role = _WEIGHTS[kind]
        return ProgramInput(name, role, _text(spec, field), tensor_meta(graph.tensor_values[name]), None)
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
    kind, value = _union(item)
    if kind == "as_int":
        return _integer(value)
    expression = parse_size(_text(value, "expr_str"))
    return expression if expression.symbols else _integer(expression.evaluate({}))


def tensor_meta(item: Any) -> TensorMeta:
    """What a table of the file says of a tensor."""
    with _schema_checked():
        sizes, strides = (
            tuple(size_of(e) for e in _field(item, name, list)) for name in ("sizes", "strides")
        )
        if len(sizes) > _MOST_DIMENSIONS or len(strides) != len(sizes):
            raise CorruptModel(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
        offset = size_of(item["storage_offset"]) if "storage_offset" in item else 0
        numbers = [each for each in (*sizes, *strides, offset) if isinstance(each, int)]
        if not all(0 <= each < _LARGEST_INTEGER for each in numbers):
            raise CorruptModel("a tensor has a size that is negative or above 2^62")
        return TensorMeta(_DTYPES[_field(item, "dtype", int)], sizes, strides, offset)


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
