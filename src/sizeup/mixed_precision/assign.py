"""A graph at other number types, layer by layer, with the conversions that a mixture needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sizeup.dtypes import BIAS, DType, precision_name
from sizeup.fuse import BETWEEN_LAYERS
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor, check, without_collection
from sizeup.mixed_precision.layers import layers
from sizeup.ops import rule_of

CONVERSIONS = frozenset({"quantize", "dequantize", "cast", "dynamic_quantize"})


_NOTHING: Mapping[int, DType] = MappingProxyType({})


def assign(graph: Graph, chosen: Mapping[int, DType], weights: Mapping[int, DType] = _NOTHING) -> Graph:
    """The same network with operators at the chosen number types, activations and weights.

    A layer without a choice keeps its type, any other operator follows the widest of what feeds it. What is
    read at another type than it was made in is converted by an operator of its own, once for all that read it
    so. What enters the graph has the type of the layers that read it, where they agree. Numbers that are
    neither real nor quantised (indices, masks, shapes) keep theirs. `weights` names the operators whose
    weights, biases apart, are stored at another type than they compute in.
    """
    with without_collection():
        return _Assigned(graph, chosen, weights).graph_at()


class _Assigned:
    def __init__(self, graph: Graph, chosen: Mapping[int, DType], weights: Mapping[int, DType]) -> None:
        self.graph, self.explicit = graph, chosen
        self.stored = {id(graph.ops[index]): dtype for index, dtype in weights.items()}
        own = self._own_types()
        self.chosen = {**own, **chosen}
        # Their weights may be narrower than what they compute in, and stay so.
        self.unchanged = {id(graph.ops[index]) for index in own if index not in chosen}
        # Constants that are unpacked from others before the first run: whoever reads them at another type
        # reads those instead.
        self.unpacking = {
            op.outputs[0]: op for op in graph.ops if op.kind in CONVERSIONS and self._is_constant(op)
        }
        self.tensors: list[Tensor] = list(graph.tensors)
        self.ops: list[Op] = []
        self.at: dict[tuple[int, str], int] = {}  # a tensor at a number type
        self.claimed: set[int] = set()  # constants that somebody reads already
        self.content: dict[tuple[int, str], Constant] = {}
        self.typed: dict[int, DType] = {}  # what every real or quantised value is made in
        self.readers: dict[int, list[int]] = {}
        for index, op in enumerate(graph.ops):
            for identity in dict.fromkeys(op.inputs):
                self.readers.setdefault(identity, []).append(index)

    def graph_at(self) -> Graph:
        for identity in self.graph.inputs:
            if self.graph.tensors[identity].follows_precision:
                self._make(identity, self._wanted(identity) or self.graph.tensors[identity].dtype)
        for index, op in enumerate(self.graph.ops):
            if op.outputs[:1] and op.outputs[0] in self.unpacking:
                continue  # added where somebody reads it
            self._add(op, self._type_of(index, op), index in self.explicit)
        made = replace(
            self.graph, tensors=tuple(self.tensors), ops=tuple(self.ops), offsets=(), run=None, others=()
        )
        check(made)
        return made

    def _own_types(self) -> dict[int, DType]:
        """The layers, each at the type that it has."""
        found = {}
        for layer in layers(self.graph):
            made = [self.graph.tensors[i] for i in self.graph.ops[layer.op].outputs]
            real = next((each for each in made if each.follows_precision), None)
            if real is not None:
                found[layer.op] = real.dtype
        return found

    def _is_constant(self, op: Op) -> bool:
        return all(self.graph.tensors[identity].data is not None for identity in op.outputs)

    def _wanted(self, identity: int) -> DType | None:
        """The one type that all layers want which read a value, directly or through what only follows."""
        found: set[DType] = set()
        stack, seen = [identity], {identity}
        while stack:
            for reader in self.readers.get(stack.pop(), ()):
                if reader in self.chosen:
                    found.add(self.chosen[reader])
                    continue
                tensors, outputs = self.graph.tensors, self.graph.ops[reader].outputs
                fresh = [made for made in outputs if made not in seen and tensors[made].follows_precision]
                seen.update(fresh)
                stack += fresh
        return found.pop() if len(found) == 1 else None

    def _type_of(self, index: int, op: Op) -> DType | None:
        """What an operator computes in; None where it keeps its own types."""
        if op.bodies or op.kind in CONVERSIONS or not self._is_real(op):
            return None
        if index in self.chosen:
            return self.chosen[index]
        rule = rule_of(op.kind)
        fed = [self.typed[i] for i in op.inputs if i in self.typed]
        if fed and rule is not None and rule.views:
            return self.typed.get(op.inputs[0])
        return max(fed, key=lambda each: (each.bits, each.family == "float")) if fed else None

    def _is_real(self, op: Op) -> bool:
        return any(self.graph.tensors[identity].follows_precision for identity in op.outputs)

    def _make(self, identity: int, dtype: DType) -> None:
        tensor = self.graph.tensors[identity]
        self.typed[identity] = dtype
        self.at[identity, dtype.name] = identity
        if dtype is not tensor.dtype:
            self.tensors[identity] = replace(tensor, dtype=dtype, quant=None)

    def _add(self, op: Op, dtype: DType | None, explicit: bool = False) -> None:
        inputs = tuple([self._input(identity, dtype, op, explicit) for identity in op.inputs])
        self.ops.append(op if inputs == op.inputs else replace(op, inputs=inputs))
        for identity in op.outputs:
            tensor = self.graph.tensors[identity]
            if tensor.data is None and tensor.follows_precision:
                self._make(identity, dtype or tensor.dtype)

    def _input(self, identity: int, dtype: DType | None, op: Op, explicit: bool) -> int:
        """What stands where an input was: the same tensor, a constant at another type, or a conversion."""
        unpacking = self.unpacking.get(identity)
        if unpacking is not None and explicit:
            identity = unpacking.inputs[0]
        elif unpacking is not None and identity not in self.claimed:
            self.claimed.add(identity)
            self._add(unpacking, None)
        if identity == ABSENT or not self.graph.tensors[identity].follows_precision:
            return identity
        tensor = self.graph.tensors[identity]
        if unpacking is not None and not explicit:
            return identity
        if tensor.data is not None:
            stored = self.stored.get(id(op)) if tensor.is_parameter and len(tensor.shape or ()) > 1 else None
            given = tensor.dtype if id(op) in self.unchanged else dtype
            return self._constant(identity, tensor, stored or given or tensor.dtype)
        wanted = tensor.dtype if dtype is None else dtype
        return self._converted(identity, wanted, op)

    def _constant(self, identity: int, tensor: Tensor, dtype: DType) -> int:
        if dtype.is_quantised and tensor.is_parameter and len(tensor.shape or ()) <= 1:
            dtype = BIAS
        if dtype.bits == tensor.dtype.bits and dtype.family == tensor.dtype.family:
            dtype = tensor.dtype
        key = (identity, dtype.name)
        if key not in self.at:
            made = tensor if dtype is tensor.dtype else self._retyped(tensor, dtype)
            if identity in self.claimed:
                self.at[key] = len(self.tensors)
                self.tensors.append(made)
            else:
                self.claimed.add(identity)
                self.at[key] = identity
                self.tensors[identity] = made
        return self.at[key]

    def _retyped(self, tensor: Tensor, dtype: DType) -> Tensor:
        """A constant at another type; those that shared their content still do, at each type."""
        assert tensor.data is not None
        data = self.content.setdefault((id(tensor.data), dtype.name), replace(tensor.data, stored_bytes=None))
        return replace(tensor, dtype=dtype, data=data, quant=None)

    def _converted(self, identity: int, dtype: DType, op: Op) -> int:
        key = (identity, dtype.name)
        if key not in self.at:
            tensor = self.tensors[identity]
            name = f"{tensor.name} as {precision_name(dtype)}"
            kind = conversion_kind(tensor.dtype, dtype)
            source = kind.upper() if self.graph.format == "tflite" else ""
            self.at[key] = len(self.tensors)
            self.tensors.append(replace(tensor, name=name, dtype=dtype, quant=None))
            made, attrs = self.at[key], {BETWEEN_LAYERS: True}
            self.ops.append(Op(kind, (identity,), (made,), attrs, source=source, name=name, scope=op.scope))
        return self.at[key]


def conversion_kind(source: DType, made: DType) -> str:
    """The operator that converts one number type to another."""
    if source.family == made.family == "float":
        return "cast"
    return "quantize" if made.family == "int" else "dequantize"
