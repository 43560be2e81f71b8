"""Ops as other tools see them: with their shapes, and whether a layer runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sizeup.cost import Cost
from sizeup.graph import ABSENT, Graph, Op
from sizeup.ops import Call, UnknownShape, call_of, cost_rule_of

WEIGHT = "weight"
"""The name of the weight in PyTorch's own layers."""
# Auxiliary ops of PyTorch's own layers: convolutions pad, batch norms count batches.
_AUXILIARY = frozenset({"pad", "add"})


@dataclass(frozen=True, slots=True)
class ObservedOp:
    """One op with the properties that formulas of other tools use."""

    op: Op
    call: Call
    macs: int  # as sizeup counts
    is_layer: bool  # it is all that its module runs, so tools that hook modules count it
    is_plain: bool  # and the module is one of PyTorch's own classes, not a subclass
    shape_of_weight: tuple[int, ...] | None
    channels_first: bool  # the layout of images and filters

    @property
    def input_elements(self) -> int:
        """The number of elements of the first input."""
        return self.call.input(0).elements

    @property
    def output_elements(self) -> int:
        """The number of elements of the first output."""
        return self.call.output.elements

    @property
    def channels(self) -> int:
        """The channels of the first input; raises UnknownShape unless channels are first."""
        if not self.channels_first:
            raise UnknownShape
        return self.call.input(0).shape[1]

    @property
    def has_bias(self) -> bool:
        """Whether a product has a bias, its third input."""
        return self.call.has_input(2)

    @property
    def is_affine(self) -> bool:
        """Whether a norm has a weight, its second input."""
        return self.call.has_input(1)

    @property
    def params(self) -> int:
        """The number of elements of its weight and bias."""
        return sum(self.call.input(position).elements for position in (1, 2) if self.call.has_input(position))

    @property
    def is_encoder_layer(self) -> bool:
        """Whether it is a transformer encoder layer, which PyTorch runs as one op without hooks."""
        return self.op.kind == "attention_layer" and bool(self.op.attrs.get("hidden"))

    @property
    def name(self) -> str:
        """The lowercase name in its format, without the underscore of an in-place op."""
        return self.op.source.removeprefix("aten.").rstrip("_").lower()


Formula: TypeAlias = Callable[[ObservedOp], float]


def observed_ops(cost: Cost) -> Iterator[ObservedOp]:
    """The ops of a graph as other tools see them."""
    graph = cost.graph
    modules = _Modules(graph)
    for op, macs in zip(graph.ops, cost.macs.tolist(), strict=True):
        weight = _weight(graph, op)
        shape = None if weight is None else graph.tensors[weight].shape
        is_layer = modules.runs_as_layer(op)
        is_plain = is_layer and modules.is_plain(op)
        yield ObservedOp(op, call_of(graph, op), macs, is_layer, is_plain, shape, graph.format != "tflite")


def _weight(graph: Graph, op: Op) -> int | None:
    """The weight tensor of an op, if it is a parameter of the model."""
    rule = cost_rule_of(op.kind)
    position = None if rule is None else rule.weight
    if position is None or position >= len(op.inputs) or op.inputs[position] == ABSENT:
        return None
    identity = op.inputs[position]
    return identity if graph.tensors[identity].is_parameter else None


def _multiplies(op: Op) -> bool:
    rule = cost_rule_of(op.kind)
    return rule is not None and rule.macs is not None


class _Modules:
    """Distinguishes ops of layers from those that a model calls as functions.

    Functions are the ops of modules that contain other modules, and of modules that multiply by a parameter
    not named `weight` or by a parameter of a submodule (nn.MultiheadAttention). Files have no modules: their
    ops count as layers, except products of two activations.
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
        self.functional = {op.scope for op in graph.ops if self._has_foreign_weight(op)}

    def runs_as_layer(self, op: Op) -> bool:
        """Whether a layer runs the op."""
        if not self.has_modules:
            return not _multiplies(op) or _weight(self.graph, op) is not None
        return op.scope not in self.outer and op.scope not in self.functional

    def is_plain(self, op: Op) -> bool:
        """Whether the op's module runs nothing else, except auxiliary ops of PyTorch's own layers."""
        return not self.has_modules or len(self.kinds[op.scope] - _AUXILIARY) <= 1

    def _has_foreign_weight(self, op: Op) -> bool:
        identity = _weight(self.graph, op)
        if identity is None:
            return False
        owner, _, name = self.graph.tensors[identity].name.rpartition(".")
        inside = owner.startswith(f"{op.scope}.") if op.scope else bool(owner)
        return inside or (owner == op.scope and not _is_own_weight(name))


def _is_own_weight(name: str) -> bool:
    return name == WEIGHT or name.startswith("weight_")  # weight_ih_l0 of recurrent layers
