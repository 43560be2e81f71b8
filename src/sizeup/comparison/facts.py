"""What is compared of operators: their facts as tokens, and their modules' names, equal across formats."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from string import digits
from typing import Any, TypeAlias

from sizeup.cost import Cost
from sizeup.graph import ABSENT, Graph, Op, Shape, name_of

Tokens: TypeAlias = list[int]
Dims: TypeAlias = tuple[int, ...] | None

# Kinds that stand for each other: formats and their converters differ in which of them they write.
_CLASSES = {
    **dict.fromkeys(("relu6", "clamp"), "clamp"),
    **dict.fromkeys(("mean", "global_pool", "pool"), "pool"),
    **dict.fromkeys(("view", "reshape"), "reshape"),
    **dict.fromkeys(("identity", "dropout", "copy"), "identity"),
    **dict.fromkeys(("cast", "quantize", "dequantize", "dynamic_quantize", "fake_quantize"), "conversion"),
    **dict.fromkeys(("transpose", "rearrange"), "transpose"),
    **dict.fromkeys(("embedding", "embedding_lookup", "gather", "gather_dequantize"), "lookup"),
}
_ACTIVATIONS = (
    *("relu", "clamp", "leaky_relu", "prelu", "elu", "sigmoid", "hardsigmoid", "hardswish", "silu", "gelu"),
    *("tanh", "mish", "softplus"),
)
_PRODUCTS = ("conv", "conv_transpose", "matmul", "einsum", "grouped_matmul", "outer", "bilinear")


def class_of(kind: str) -> str:
    """The kind, or what it shares with others that formats write in its place."""
    return _CLASSES.get(kind, kind)


def is_product(kind: str) -> bool:
    """Whether it multiplies and sums, so that a norm or a bias may be folded in."""
    return kind in _PRODUCTS


def dims(shape: Shape | None) -> Dims:
    """Sizes in order of size and without ones: the same wherever a format puts the channels."""
    return None if shape is None else tuple(sorted(each for each in shape if each != 1))


class Interner:
    """Small numbers for what is equal, shared by both models."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, key: Hashable) -> int:
        """The number of a key, a new one where it was not met before."""
        return self._numbers.setdefault(key, len(self._numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """One model as the comparison sees it: columns, one entry an operator."""

    graph: Graph
    cost: Cost
    paths: list[Path]
    own_names: list[str]
    exact: Tokens  # its class, what it makes, and its MACs
    shaped: Tokens  # its kind and its window, whatever its sizes
    classed: Tokens  # its class alone
    has_macs: list[bool]
    maker: dict[int, int]  # of a tensor, the operator
    readers: dict[int, list[int]]  # of a tensor, the operators

    def makers_of(self, index: int) -> list[int]:
        """The operators whose results an operator reads, in the order of its inputs."""
        return [self.maker[each] for each in self.graph.ops[index].inputs if each in self.maker]

    def readers_of(self, index: int) -> list[int]:
        """The operators that read what an operator makes."""
        return [each for made in self.graph.ops[index].outputs for each in self.readers.get(made, ())]


def facts_of(graph: Graph, cost: Cost, intern: Interner) -> Facts:
    """The columns of one model; tokens of two models compare where one interner made both."""
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
    made = tuple(dims(graph.tensors[identity].shape) for identity in op.outputs[:1])
    return ("product" if macs and is_product(op.kind) else class_of(op.kind), made, macs)


def _window(op: Op) -> Iterable[Hashable]:
    groups, kernel = op.attrs.get("groups"), plain(op.attrs.get("kernel"))
    return class_of(op.kind), groups is not None and groups == op.attrs.get("out_channels"), kernel


def plain(value: Any) -> Any:
    """An attribute's value, lists as tuples, so that formats compare."""
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def is_activation(kind: str) -> bool:
    """Whether it changes number by number what one value holds."""
    return class_of(kind) in _ACTIVATIONS


Path: TypeAlias = tuple[str, ...]

_SEPARATORS = re.compile(r"[/.]")
# LiteRT's converter writes the class of a module before its name: torch.nn.modules.conv.Conv2d_0.
# The patterns leave one way to read a text, so that no name, however long, takes long.
_WITH_CLASS = re.compile(r"(?:\w+\.)+[A-Z][^\W_]*_(\w+)")
_CLASS_ALONE = re.compile(r"(?:\w+\.)+[A-Z]\w*")
_SHORTEST = 3  # letters: `n4` is no name that anybody gave


def paths(graph: Graph) -> list[Path]:
    """Of every operator the modules that it is in, without one that all of them are in; () where unknown."""
    found = [_path(op.scope) + _innermost(name_of(graph, op)) for op in graph.ops]
    named = [path for path in found if path]
    common = 0
    while named and all(len(path) > common + 1 and path[common] == named[0][common] for path in named):
        common += 1
    return [path[common:] for path in found]


def _path(scope: str) -> Path:
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        with_class = _WITH_CLASS.fullmatch(part)
        if with_class:
            parts.append(with_class[1])
        elif not _CLASS_ALONE.fullmatch(part):
            parts += [each for each in _SEPARATORS.split(part) if each]
    return tuple(parts)


def _innermost(name: str) -> Path:
    """The module at the end of a name that LiteRT's converter wrote, where other names have the operator."""
    with_class = _WITH_CLASS.fullmatch(name.partition(";")[0].rpartition("/")[2])
    return (with_class[1],) if with_class else ()


def own_names(graph: Graph) -> list[str]:
    """Of every operator the name that somebody gave it; empty where it is a kind and a counter."""
    if graph.format == "torch":
        return [""] * len(graph.ops)
    if graph.format == "tflite":  # where tensors alone have names
        return [_own_name(op, name_of(graph, op)) for op in graph.ops]
    return [_own_name(op, op.name) for op in graph.ops]


def _own_name(op: Op, name: str) -> str:
    base = name.removeprefix("node_").rstrip(digits).strip("_/").lower()
    kinds = {op.kind.lower(), op.source.rpartition(".")[2].lower()}
    return "" if len(base) < _SHORTEST or base in kinds else name
