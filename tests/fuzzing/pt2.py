"""Exported programs: the JSON of a small .pt2 file is changed field by field, or the archive around it."""

from __future__ import annotations

import copy
import functools
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.values import TEXTS, changed_bytes, integer, number

_SEEDS = (
    *("residual", "tied", "buffers", "lstm", "gru", "branch", "nested_branches", "loop", "scan", "map"),
    *("without_gradients", "trees", "plain_values", "attention", "written_attention", "data_dependent"),
    *("in_place", "split", "unbind", "einsum", "interpolate", "pooling", "padding", "embedding_bag"),
    *("transposed", "activations", "integers", "complex", "sorting", "scatter", "indexing", "constants"),
)
_KINDS = (
    *("as_none", "as_tensor", "as_tensors", "as_int", "as_ints", "as_float", "as_floats", "as_string"),
    *("as_strings", "as_sym_int", "as_sym_ints", "as_scalar_type", "as_memory_format", "as_layout"),
    *("as_device", "as_bool", "as_bools", "as_graph", "as_optional_tensors", "as_custom_obj", "as_operator"),
    *("as_complex", "as_nested_tensors", "as_expr", "as_name", "as_string_to_argument"),
)
_EXPRESSIONS = (
    *("s0", "2*s0", "s0**9999999", "Symbol('s0')", "Max(1, s0)", "FloorDiv(s0, 0)", "Integer(-5)", "1/0"),
    *("(eval)('1')", "().__class__", "Mul(2, 3)", "Pow(10, 8)", "-" * 300 + "1", "(" * 200 + "1" + ")" * 200),
)
_NAMESPACES = ("aten", "prims", "higher_order", "torchvision", "mylib")
Document = dict[str, Any]


def seeds(folder: Path) -> Sequence[bytes]:
    """Small programs without the stack traces that make up most of a file."""
    import torch

    from exported_programs import SAMPLES, export

    contents = []
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's own
        for name in _SEEDS:
            buffer = io.BytesIO()
            torch.export.save(export(SAMPLES[name]), buffer)
            contents.append(_packed(_stripped(buffer.getvalue())))
    return contents


def mutate(content: bytes, random: Random) -> bytes:
    """A copy with fields of its program, or its archive, changed."""
    if random.random() < 0.08:
        return changed_bytes(content, random)
    entries = _unpacked(content)
    name = random.choice([each for each in entries if each.endswith(".json")])
    if random.random() < 0.8:
        name = next(each for each in entries if each.endswith("models/model.json"))
    document = json.loads(entries[name])
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        changes = (*_CHANGES, *_CHANGES_OF_PROGRAMS) if "models/" in name else _CHANGES
        if document:
            random.choice(changes)(document, random)
    entries[name] = json.dumps(document).encode()
    if random.random() < 0.05:
        return _changed_archive(entries, random)
    return _packed(entries)


def _unpacked(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(
    entries: dict[str, bytes], repeated: Sequence[str] = (), compression: int = zipfile.ZIP_STORED
) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        warnings.simplefilter("ignore")  # names that are there twice
        for name in (*entries, *repeated):
            archive.writestr(name, entries[name])
    return buffer.getvalue()


def _stripped(content: bytes) -> dict[str, bytes]:
    entries = {}
    for name, each in _unpacked(content).items():
        if "sample_inputs" in name or "/.data/" in name:
            continue
        if name.endswith("models/model.json"):
            document = json.loads(each)
            for item in _containers(document):
                if isinstance(item, dict) and isinstance(item.get("metadata"), dict):
                    stack = item["metadata"].get("nn_module_stack")
                    item["metadata"] = {"nn_module_stack": stack} if stack else {}
            each = json.dumps(document).encode()
        entries[name] = each
    return entries


def _changed_archive(entries: dict[str, bytes], random: Random) -> bytes:
    names = list(entries)
    choice = random.randrange(5)
    if choice == 0:
        return _packed(entries, repeated=[random.choice(names)])
    if choice == 1:
        return _packed(entries, compression=zipfile.ZIP_DEFLATED)
    if choice == 2:
        del entries[random.choice(names)]
    elif choice == 3:
        name = random.choice(names)
        entries[name] = changed_bytes(entries[name], random)
    else:
        entries[f"x{random.choice(TEXTS)}"] = entries[random.choice(names)]
    return _packed(entries)


def _containers(item: Any) -> list[Any]:
    """Every object and list of a document that holds something."""
    containers, stack = [], [item]
    while stack:
        each = stack.pop()
        if isinstance(each, dict | list) and each:
            containers.append(each)
            stack.extend(each.values() if isinstance(each, dict) else each)
    return containers


def _value(random: Random) -> Any:
    return random.choice(
        (
            integer(random),
            number(random),
            random.choice(TEXTS),
            None,
            True,
            False,
            [],
            {},
            [integer(random)] * 3,
        )
    )


def _place(document: Document, random: Random) -> tuple[Any, Any]:
    container = random.choice(_containers(document) or [document])
    keys = list(container) if isinstance(container, dict) else range(len(container))
    return container, random.choice(list(keys) or [0])


def _replace(document: Document, random: Random) -> None:
    container, key = _place(document, random)
    container[key] = _value(random)


def _remove(document: Document, random: Random) -> None:
    container, key = _place(document, random)
    del container[key]


def _repeat(document: Document, random: Random) -> None:
    container, key = _place(document, random)
    if isinstance(container, list):
        container.insert(random.randrange(len(container) + 1), copy.deepcopy(container[key]))
    else:
        container[random.choice((*_KINDS, *TEXTS))] = copy.deepcopy(container[key])


def _transplant(document: Document, random: Random) -> None:
    (container, key), (other, place) = _place(document, random), _place(document, random)
    container[key] = copy.deepcopy(other[place])


def _retype(document: Document, random: Random) -> None:
    unions = [each for each in _containers(document) if isinstance(each, dict) and len(each) == 1]
    if unions:
        union = random.choice(unions)
        ((_, value),) = union.items()
        union.clear()
        union[random.choice(_KINDS)] = value


def _renumber(document: Document, random: Random) -> None:
    """Another number where there is one, which most often stays valid."""
    places = [
        (each, key)
        for each in _containers(document)
        for key, value in (each.items() if isinstance(each, dict) else enumerate(each))
        if type(value) in (int, float)
    ]
    if places:
        container, key = random.choice(places)
        container[key] = integer(random) if random.random() < 0.9 else number(random)


def _rename_target(document: Document, random: Random) -> None:
    nodes = _nodes(document)
    if nodes:
        target = random.choice(_operators())
        if random.random() < 0.2:
            target = f"torch.ops.{random.choice(_NAMESPACES)}.{random.choice(TEXTS)}.default"
        random.choice(nodes)["target"] = target


def _rename_value(document: Document, random: Random) -> None:
    named = [
        each for each in _containers(document) if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]
    if len(named) > 1:
        random.choice(named)["name"] = random.choice(named)["name"]


def _move_node(document: Document, random: Random) -> None:
    nodes = _nodes(document)
    if len(nodes) > 1:
        nodes.insert(random.randrange(len(nodes)), nodes.pop(random.randrange(len(nodes))))


def _rewrite_expression(document: Document, random: Random) -> None:
    sizes = [each for each in _containers(document) if isinstance(each, dict) and "as_int" in each]
    if sizes:
        size = random.choice(sizes)
        size.clear()
        size["as_expr"] = {"expr_str": random.choice(_EXPRESSIONS), "hint": {"as_int": integer(random)}}


def _nodes(document: Document) -> list[Any]:
    item: Any = document
    for name in ("graph_module", "graph", "nodes"):
        item = item.get(name) if isinstance(item, dict) else None
    return item if isinstance(item, list) and all(isinstance(each, dict) for each in item) else []


@functools.cache
def _operators() -> tuple[str, ...]:
    """Every operator that this torch has, by the name that a program gives it."""
    import torch

    names = (each.replace("::", ".") for each in torch._C._dispatch_get_all_op_names())
    own = [f"torch.ops.{each}" if each.count(".") == 2 else f"torch.ops.{each}.default" for each in names]
    arithmetic = [
        f"_operator.{each}" for each in ("add", "mul", "pow", "mod", "lshift", "getitem", "truediv")
    ]
    return (*sorted(each for each in own if each.startswith("torch.ops.aten.")), *arithmetic)


_Change = Callable[[Document, Random], None]
_CHANGES: tuple[_Change, ...] = (_replace, _remove, _repeat, _transplant, _retype, _renumber, _renumber)
_CHANGES_OF_PROGRAMS: tuple[_Change, ...] = (
    *(_rename_target, _rename_value, _move_node, _rewrite_expression, _renumber, _rename_target),
)
