"""Graphs of other formats as converters and compilers for microcontrollers write them.

They fold batch norms, additions of constants and ReLUs into the layers before them, and compute the operators
between a DequantizeLinear and a QuantizeLinear in integers, if they read such models at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sizeup.graph import ABSENT, Graph, Op, is_precomputed
from sizeup.ops import has_trait

_LAYERS = ("conv", "conv_transpose", "matmul")
_RELUS = ("relu", "relu6")
_CLIPPED = ((0.0, 6.0), (0.0, 1.0), (-1.0, 1.0))  # limits of activations that kernels fuse


def folded(graph: Graph) -> Graph:
    """The graph with batch norms, additions of constants and ReLUs folded into the layers before them."""
    edit = _Edit(graph)
    for index, op in enumerate(graph.ops):
        if index in edit.dropped or not has_trait(op.kind, "activates") or not op.outputs:
            continue
        last = op.outputs[0]
        for position in edit.chain(index):
            edit.dropped.add(position)
            last = graph.ops[position].outputs[0]
        if last != op.outputs[0]:
            edit.changed[index] = replace(op, outputs=(last, *op.outputs[1:]))
    return edit.apply()


def in_integers(graph: Graph) -> Graph:
    """The graph with the operators between dequantization and quantization in integers.

    An operator is in integers if all that it reads is constant or dequantized, and its readers quantize.
    """
    edit = _Edit(graph)
    source = {op.outputs[0]: op.inputs[0] for op in graph.ops if op.kind == "dequantize"}
    quantized = {index: op.outputs[0] for index, op in enumerate(graph.ops) if op.kind == "quantize"}
    by_integers = {index for index, op in enumerate(graph.ops) if edit.is_quantized(op, source, quantized)}
    for index in by_integers:
        op = graph.ops[index]
        readers = [edit.readers[identity][0] for identity in op.outputs]
        outputs = tuple(quantized[reader] for reader in readers)
        inputs = tuple(source.get(identity, identity) for identity in op.inputs)
        edit.changed[index] = replace(op, inputs=inputs, outputs=outputs)
        edit.dropped.update(readers)
    for index, op in enumerate(graph.ops):
        if op.kind == "dequantize":
            is_output = op.outputs[0] in edit.graph_outputs
            if not is_output and by_integers.issuperset(edit.readers.get(op.outputs[0], ())):
                edit.dropped.add(index)
    return edit.apply()


@dataclass(slots=True)
class _Edit:
    """A change of some ops of a graph: replaced or dropped, by index."""

    graph: Graph
    changed: dict[int, Op] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    readers: dict[int, list[int]] = field(init=False)  # ops that read a tensor
    graph_outputs: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.readers = {}
        for index, op in enumerate(self.graph.ops):
            for identity in dict.fromkeys(op.inputs):
                self.readers.setdefault(identity, []).append(index)
        self.graph_outputs = frozenset(self.graph.outputs)

    def apply(self) -> Graph:
        """The changed graph; the graph itself if nothing changed."""
        if not self.changed:
            return self.graph
        ops = (self.changed.get(index, op) for index, op in enumerate(self.graph.ops))
        kept = tuple(op for index, op in enumerate(ops) if index not in self.dropped)
        return replace(self.graph, ops=kept, recorded_run=None)

    def chain(self, index: int) -> Iterator[int]:
        """The ops after an op that a converter folds into it, up to the first activation."""
        kind, last = self.graph.ops[index].kind, self.graph.ops[index].outputs[0]
        while (position := self._only_reader(last)) is not None:
            op = self.graph.ops[position]
            is_activation = op.kind in _RELUS or _is_clipped(self.graph, op)
            if not is_activation and not (kind in _LAYERS and self._is_folded(op, last)):
                return
            yield position
            if is_activation:
                return
            last = op.outputs[0]

    def _only_reader(self, identity: int) -> int | None:
        readers = self.readers.get(identity, [])
        return readers[0] if len(readers) == 1 and identity not in self.graph_outputs else None

    def _is_folded(self, op: Op, read: int) -> bool:
        """Whether an op is a batch norm, or adds a constant."""
        others = [identity for identity in op.inputs if identity not in (read, ABSENT)]
        are_constant = all(self.graph.tensors[identity].data is not None for identity in others)
        is_first = bool(op.inputs) and (op.inputs[0] == read or op.kind == "add")
        return op.kind in ("batch_norm", "add") and is_first and bool(others) and are_constant

    def is_quantized(self, op: Op, source: dict[int, int], quantized: dict[int, int]) -> bool:
        """Whether an op computes in integers after a conversion."""
        if op.kind in ("quantize", "dequantize") or op.bodies or is_precomputed(self.graph, op):
            return False
        read = [identity for identity in op.inputs if identity != ABSENT]
        is_fed = any(identity in source for identity in read) and all(
            identity in source or self.graph.tensors[identity].data is not None for identity in read
        )
        readers = [self._only_reader(identity) for identity in op.outputs]
        return is_fed and bool(readers) and all(reader in quantized for reader in readers)


def _is_clipped(graph: Graph, op: Op) -> bool:
    """Whether an op clips to the limits of an activation that kernels fuse."""
    if op.kind != "clamp":
        return False
    constants = [graph.tensors[identity] for identity in op.inputs[1:3] if identity != ABSENT]
    if not all(each.data and each.data.read and each.elements == 1 for each in constants):
        return False
    limits = tuple(float(each.data.read().item()) for each in constants if each.data and each.data.read)
    return limits in _CLIPPED or limits == (0.0,)
