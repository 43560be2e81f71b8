"""Operators as other tools see them: with their shapes, and by whether a module of its own ran each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sizeup.cost import Cost
from sizeup.graph import ABSENT, Graph, Op
from sizeup.ops import Call, UnknownShape, call_of, rule_of

WEIGHT = "weight"
"""The name under which PyTorch's own layers keep what they multiply by."""
# Convolutions pad their input, batch norms count their batches.
_BESIDE = frozenset({"pad", "add"})


@dataclass(frozen=True, slots=True)
class Seen:
    """One operator, and what a formula of another tool may ask of it."""

    op: Op
    call: Call
    macs: int  # as we count them
    is_layer: bool  # a module of its own ran it: what tools that hook modules see
    is_plain: bool  # and that does nothing else: one of PyTorch's own classes, not one made from it
    shape_of_weight: tuple[int, ...] | None
    channels_first: bool  # how the format lays out images and filters

    @property
    def read(self) -> int:
        """Numbers in the first input."""
        return self.call.input(0).elements

    @property
    def made(self) -> int:
        """Numbers in the first output."""
        return self.call.output.elements

    @property
    def channels(self) -> int:
        """Of the first input; formulas of tools that know one layout ask for it in that one alone."""
        if not self.channels_first:
            raise UnknownShape
        return self.call.input(0).shape[1]

    @property
    def has_bias(self) -> bool:
        """Whether a product adds a bias, which is its third input."""
        return self.call.given(2)

    @property
    def is_affine(self) -> bool:
        """Whether a norm scales by a weight, which is its second input."""
        return self.call.given(1)

    @property
    def params(self) -> int:
        """Numbers in its weight and its bias."""
        return sum(self.call.input(place).elements for place in (1, 2) if self.call.given(place))

    @property
    def is_block(self) -> bool:
        """Whether it is a whole encoder layer, which PyTorch runs as one operator where no hook looks on."""
        return self.op.kind == "attention_layer" and bool(self.op.attrs.get("hidden"))

    @property
    def name(self) -> str:
        """The name in its format, in small letters, without the underscore of an in-place operator."""
        return self.op.source.removeprefix("aten.").rstrip("_").lower()


Formula: TypeAlias = Callable[[Seen], float]


def seen(cost: Cost) -> Iterator[Seen]:
    """Every operator of a counted graph."""
    graph = cost.graph
    modules = _Modules(graph)
    for op, macs in zip(graph.ops, cost.macs.tolist(), strict=True):
        weight = _weight(graph, op)
        shape = None if weight is None else graph.tensors[weight].shape
        is_layer = modules.runs_as_layer(op)
        is_plain = is_layer and modules.is_plain(op)
        yield Seen(op, call_of(graph, op), macs, is_layer, is_plain, shape, graph.format != "tflite")


def _weight(graph: Graph, op: Op) -> int | None:
    """The tensor that holds an operator's trained weight, where the model keeps it as a parameter."""
    rule = rule_of(op.kind)
    place = None if rule is None else rule.weight
    if place is None or place >= len(op.inputs) or op.inputs[place] == ABSENT:
        return None
    identity = op.inputs[place]
    return identity if graph.tensors[identity].is_parameter else None


def _multiplies(op: Op) -> bool:
    rule = rule_of(op.kind)
    return rule is not None and rule.macs is not None


class _Modules:
    """Tells the operators of layers from those that a model calls as functions.

    Modules that hold other modules call functions; so does one that multiplies by what it keeps under
    another name than `weight`, or by what belongs to a module inside it (nn.MultiheadAttention). Files
    have no modules: there, every operator is what a layer would have run, but for products of two results.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.has_modules = graph.format == "torch"
        scopes = {op.scope for op in graph.ops}
        self.outer = {scope[:end] for scope in scopes for end in range(len(scope)) if scope[end] == "."}
        self.outer |= {""} if scopes - {""} else set()
        self.kinds: dict[str, set[str]] = {scope: set() for scope in scopes}
        for op in graph.ops:
            self.kinds[op.scope].add(op.kind)
        self.functional = {op.scope for op in graph.ops if self._weight_is_elsewhere(op)}

    def runs_as_layer(self, op: Op) -> bool:
        """Whether the operator is all that its module does."""
        if not self.has_modules:
            return not _multiplies(op) or _weight(self.graph, op) is not None
        return op.scope not in self.outer and op.scope not in self.functional

    def is_plain(self, op: Op) -> bool:
        """Whether the operator's module runs nothing else, but for what PyTorch's own layers do beside it."""
        return not self.has_modules or len(self.kinds[op.scope] - _BESIDE) <= 1

    def _weight_is_elsewhere(self, op: Op) -> bool:
        identity = _weight(self.graph, op)
        if identity is None:
            return False
        owner, _, name = self.graph.tensors[identity].name.rpartition(".")
        inside = owner.startswith(f"{op.scope}.") if op.scope else bool(owner)
        return inside or (owner == op.scope and not _is_own_weight(name))


def _is_own_weight(name: str) -> bool:
    return name == WEIGHT or name.startswith("weight_")  # weight_ih_l0 of recurrent layers
