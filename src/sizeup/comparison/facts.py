"""The properties of ops that are compared: tokens of facts, and module names, independent of the format."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from string import digits
from typing import Any, TypeAlias

from sizeup.cost import Cost
from sizeup.graph import ABSENT, Graph, Op, Shape, name_of
from sizeup.ops import cost_rule_of, has_trait

Tokens: TypeAlias = list[int]
Dims: TypeAlias = tuple[int, ...] | None

_PRODUCTS = ("conv", "matmul")  # families


def class_of(op_kind: str) -> str:
    """The class of equivalent op kinds: formats and converters differ in which of them they write."""
    rule = cost_rule_of(op_kind)
    return op_kind if rule is None else rule.alike or op_kind


def is_product(op_kind: str) -> bool:
    """Whether an op kind is a product, into which a norm or a bias may be folded."""
    rule = cost_rule_of(op_kind)
    return rule is not None and rule.family in _PRODUCTS


def dims(shape: Shape | None) -> Dims:
    """Sizes sorted and without ones: independent of the layout of a format."""
    return None if shape is None else tuple(sorted(size for size in shape if size != 1))


class Interner:
    """Maps equal keys to the same small number, for both models."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, key: Hashable) -> int:
        """The number of a key; a new one for a new key."""
        return self._numbers.setdefault(key, len(self._numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts of one model, as columns with one entry per op."""

    graph: Graph
    cost: Cost
    paths: list[Path]
    own_names: list[str]
    exact: Tokens  # class, output shape and MACs
    shaped: Tokens  # class and kernel size, without tensor sizes
    classed: Tokens  # class only
    has_macs: list[bool]
    producer: dict[int, int]  # the op that produces a tensor
    readers: dict[int, list[int]]  # the ops that read a tensor

    def producers_of(self, index: int) -> list[int]:
        """The ops that produce the inputs of an op, in input order."""
        return [
            self.producer[identity] for identity in self.graph.ops[index].inputs if identity in self.producer
        ]

    def readers_of(self, index: int) -> list[int]:
        """The ops that read the outputs of an op."""
        return [reader for output in self.graph.ops[index].outputs for reader in self.readers.get(output, ())]


def facts_of(graph: Graph, cost: Cost, intern: Interner) -> Facts:
    """The facts of one model; tokens of two models are comparable if they share an interner."""
    macs = cost.macs.tolist()
    readers: dict[int, list[int]] = {}
    for index, op in enumerate(graph.ops):
        for identity in dict.fromkeys(op.inputs):
            if identity != ABSENT:
                readers.setdefault(identity, []).append(index)
    return Facts(
        graph,
        cost,
        paths(graph),
        own_names(graph),
        [intern(_exact(graph, op, count)) for op, count in zip(graph.ops, macs, strict=True)],
        [intern(("shaped", *_window(op))) for op in graph.ops],
        [intern(("class", class_of(op.kind))) for op in graph.ops],
        [count > 0 for count in macs],
        {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs},
        readers,
    )


def _exact(graph: Graph, op: Op, macs: int) -> Hashable:
    output_shape = tuple(dims(graph.tensors[identity].shape) for identity in op.outputs[:1])
    return ("product" if macs and is_product(op.kind) else class_of(op.kind), output_shape, macs)


def _window(op: Op) -> Iterable[Hashable]:
    groups, kernel = op.attrs.get("groups"), plain(op.attrs.get("kernel"))
    return class_of(op.kind), groups is not None and groups == op.attrs.get("out_channels"), kernel


def plain(value: Any) -> Any:
    """An attribute's value with lists as tuples, comparable across formats."""
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def is_activation(op_kind: str) -> bool:
    """Whether an op kind is an activation."""
    return has_trait(op_kind, "activation")


Path: TypeAlias = tuple[str, ...]

_SEPARATORS = re.compile(r"[/.]")
# LiteRT's converter writes the class of a module before its name: torch.nn.modules.conv.Conv2d_0.
# The patterns are unambiguous, so that matching takes linear time.
_WITH_CLASS = re.compile(r"(?:\w+\.)+[A-Z][^\W_]*_(\w+)")
_CLASS_ALONE = re.compile(r"(?:\w+\.)+[A-Z]\w*")
_SHORTEST = 3  # letters: shorter names such as `n4` are generated


def paths(graph: Graph) -> list[Path]:
    """The module path of every op, without a prefix that all share; () if unknown."""
    module_paths = [_path(op.scope) + _converter_module(name_of(graph, op)) for op in graph.ops]
    named = [path for path in module_paths if path]
    common = 0
    while named and all(len(path) > common + 1 and path[common] == named[0][common] for path in named):
        common += 1
    return [path[common:] for path in module_paths]


def _path(scope: str) -> Path:
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        with_class = _WITH_CLASS.fullmatch(part)
        if with_class:
            parts.append(with_class[1])
        elif not _CLASS_ALONE.fullmatch(part):
            parts += [name for name in _SEPARATORS.split(part) if name]
    return tuple(parts)


def _converter_module(name: str) -> Path:
    """The module at the end of a name that LiteRT's converter wrote; () for other names."""
    with_class = _WITH_CLASS.fullmatch(name.partition(";")[0].rpartition("/")[2])
    return (with_class[1],) if with_class else ()


def own_names(graph: Graph) -> list[str]:
    """The name of every op; empty if it is generated from the op kind and a counter."""
    if graph.format == "torch":
        return [""] * len(graph.ops)
    if graph.format == "tflite":  # only tensors have names
        return [_own_name(op, name_of(graph, op)) for op in graph.ops]
    return [_own_name(op, op.name) for op in graph.ops]


def _own_name(op: Op, name: str) -> str:
    base = name.removeprefix("node_").rstrip(digits).strip("_/").lower()
    op_kinds = {op.kind.lower(), op.source.rpartition(".")[2].lower()}
    return "" if len(base) < _SHORTEST or base in op_kinds else name
