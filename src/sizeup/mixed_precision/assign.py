"""A graph with another dtype per layer, including the conversions between layers of different dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sizeup.dtypes import BIAS, DType, precision_name
from sizeup.fusion import BETWEEN_LAYERS
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor, check, without_gc
from sizeup.mixed_precision.layers import layers
from sizeup.ops import cost_rule_of, cost_rules

CONVERSIONS = frozenset(rule.kind for rule in cost_rules() if rule.latency == "quantize")
_NONE: Mapping[int, DType] = MappingProxyType({})


def assign(graph: Graph, assignment: Mapping[int, DType], weights: Mapping[int, DType] = _NONE) -> Graph:
    """Returns the same network with the activations and weights of ops at the assigned dtypes.

    A layer without an assignment keeps its dtype. Any other op follows the widest of its inputs. A tensor
    that is read at another dtype is converted by a separate op, once per dtype. A graph input has the dtype
    of the layers that read it, if they agree. Tensors that are neither real nor quantized (indices, masks,
    shapes) keep their dtype. `weights` maps ops to a storage dtype for their weights (not biases) that
    differs from the dtype they compute in.
    """
    with without_gc():
        return _Assigner(graph, assignment, weights).build()


class _Assigner:
    def __init__(self, graph: Graph, assignment: Mapping[int, DType], weights: Mapping[int, DType]) -> None:
        self.graph, self.explicit = graph, assignment
        self.stored = {id(graph.ops[index]): dtype for index, dtype in weights.items()}
        own_dtypes = self._own_dtypes()
        self.assignment = {**own_dtypes, **assignment}
        # Their weights may be narrower than the dtype they compute in, and stay so.
        self.unchanged = {id(graph.ops[index]) for index in own_dtypes if index not in assignment}
        # Constants that are unpacked from others before the first run: ops with another dtype read the
        # packed constant instead.
        self.unpacking = {
            op.outputs[0]: op for op in graph.ops if op.kind in CONVERSIONS and self._is_constant(op)
        }
        self.tensors: list[Tensor] = list(graph.tensors)
        self.ops: list[Op] = []
        self.at: dict[tuple[int, str], int] = {}  # (tensor, dtype name) to tensor
        self.claimed: set[int] = set()  # constants that an op reads already
        self.content: dict[tuple[int, str], Constant] = {}
        self.dtype_of: dict[int, DType] = {}  # of every real or quantized tensor that an op writes
        self.readers: dict[int, list[int]] = {}
        for index, op in enumerate(graph.ops):
            for identity in dict.fromkeys(op.inputs):
                self.readers.setdefault(identity, []).append(index)

    def build(self) -> Graph:
        for identity in self.graph.inputs:
            if self.graph.tensors[identity].follows_precision:
                self._set_dtype(identity, self._readers_dtype(identity) or self.graph.tensors[identity].dtype)
        for index, op in enumerate(self.graph.ops):
            if op.outputs[:1] and op.outputs[0] in self.unpacking:
                continue  # added at its first reader
            self._add(op, self._op_dtype(index, op), index in self.explicit)
        graph = replace(
            self.graph,
            tensors=tuple(self.tensors),
            ops=tuple(self.ops),
            offsets=(),
            recorded_run=None,
            other_graphs=(),
        )
        check(graph)
        return graph

    def _own_dtypes(self) -> dict[int, DType]:
        """Returns the dtype that each layer has in the graph."""
        dtypes = {}
        for layer in layers(self.graph):
            outputs = [self.graph.tensors[i] for i in self.graph.ops[layer.op].outputs]
            real = next((tensor for tensor in outputs if tensor.follows_precision), None)
            if real is not None:
                dtypes[layer.op] = real.dtype
        return dtypes

    def _is_constant(self, op: Op) -> bool:
        return all(self.graph.tensors[identity].data is not None for identity in op.outputs)

    def _readers_dtype(self, identity: int) -> DType | None:
        """Returns the one dtype at which layers read a tensor, also through other ops; else None."""
        dtypes: set[DType] = set()
        stack, seen = [identity], {identity}
        while stack:
            for reader in self.readers.get(stack.pop(), ()):
                if reader in self.assignment:
                    dtypes.add(self.assignment[reader])
                    continue
                tensors, outputs = self.graph.tensors, self.graph.ops[reader].outputs
                fresh = [i for i in outputs if i not in seen and tensors[i].follows_precision]
                seen.update(fresh)
                stack += fresh
        return dtypes.pop() if len(dtypes) == 1 else None

    def _op_dtype(self, index: int, op: Op) -> DType | None:
        """Returns the dtype an op computes in; None if it keeps its own dtypes."""
        if op.bodies or op.kind in CONVERSIONS or not self._follows_precision(op):
            return None
        if index in self.assignment:
            return self.assignment[index]
        rule = cost_rule_of(op.kind)
        input_dtypes = [self.dtype_of[i] for i in op.inputs if i in self.dtype_of]
        if input_dtypes and rule is not None and rule.views:
            return self.dtype_of.get(op.inputs[0])
        return max(
            input_dtypes, key=lambda candidate: (candidate.bits, candidate.family == "float"), default=None
        )

    def _follows_precision(self, op: Op) -> bool:
        return any(self.graph.tensors[identity].follows_precision for identity in op.outputs)

    def _set_dtype(self, identity: int, dtype: DType) -> None:
        tensor = self.graph.tensors[identity]
        self.dtype_of[identity] = dtype
        self.at[identity, dtype.name] = identity
        if dtype is not tensor.dtype:
            self.tensors[identity] = replace(tensor, dtype=dtype, quant=None)

    def _add(self, op: Op, dtype: DType | None, explicit: bool = False) -> None:
        inputs = tuple([self._input(identity, dtype, op, explicit) for identity in op.inputs])
        self.ops.append(op if inputs == op.inputs else replace(op, inputs=inputs))
        for identity in op.outputs:
            tensor = self.graph.tensors[identity]
            if tensor.data is None and tensor.follows_precision:
                self._set_dtype(identity, dtype or tensor.dtype)

    def _input(self, identity: int, dtype: DType | None, op: Op, explicit: bool) -> int:
        """Returns the tensor to read as an input: itself, a constant at another dtype, or a conversion."""
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
            computed = tensor.dtype if id(op) in self.unchanged else dtype
            return self._constant(identity, tensor, stored or computed or tensor.dtype)
        target = tensor.dtype if dtype is None else dtype
        return self._converted(identity, target, op)

    def _constant(self, identity: int, tensor: Tensor, dtype: DType) -> int:
        if dtype.is_quantized and tensor.is_parameter and len(tensor.shape or ()) <= 1:
            dtype = BIAS
        if dtype.bits == tensor.dtype.bits and dtype.family == tensor.dtype.family:
            dtype = tensor.dtype
        key = (identity, dtype.name)
        if key not in self.at:
            constant = tensor if dtype is tensor.dtype else self._constant_at(tensor, dtype)
            if identity in self.claimed:
                self.at[key] = len(self.tensors)
                self.tensors.append(constant)
            else:
                self.claimed.add(identity)
                self.at[key] = identity
                self.tensors[identity] = constant
        return self.at[key]

    def _constant_at(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Returns a constant at another dtype; constants with shared content still share it."""
        assert tensor.data is not None
        data = self.content.setdefault(
            (id(tensor.data), dtype.name), replace(tensor.data, stored_bytes=None, scale_bytes=0)
        )
        return replace(tensor, dtype=dtype, data=data, quant=None)

    def _converted(self, identity: int, dtype: DType, op: Op) -> int:
        key = (identity, dtype.name)
        if key not in self.at:
            tensor = self.tensors[identity]
            name = f"{tensor.name} as {precision_name(dtype)}"
            op_kind = conversion_op_kind(tensor.dtype, dtype)
            source = op_kind.upper() if self.graph.format == "tflite" else ""
            self.at[key] = len(self.tensors)
            self.tensors.append(replace(tensor, name=name, dtype=dtype, quant=None))
            output, attrs = (self.at[key],), {BETWEEN_LAYERS: True}
            self.ops.append(Op(op_kind, (identity,), output, attrs, source=source, name=name, scope=op.scope))
        return self.at[key]


def conversion_op_kind(source: DType, target: DType) -> str:
    """Returns the op kind that converts one dtype to another."""
    if source.family == target.family == "float":
        return "cast"
    return "quantize" if target.family == "int" else "dequantize"
