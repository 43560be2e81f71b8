"""Kernel fusion: which ops a runtime runs as one kernel, and which need no kernel.

A runtime lists its fusions by name (`FUSIONS`). An op is fused into the kernel before it only if no other op
reads the tensor between them, except for compilers that generate loop nests: those also write tensors that
others read. The graph is traversed once, and a pattern inspects only a few neighbors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from sizeup.graph import ABSENT, Graph, Op
from sizeup.ops import cost_rule_of, cost_rules, has_trait
from sizeup.ops.layout import PERMUTING

FUSIONS = {
    "constant": "ops on constants only, computed before the first inference",
    "norm": "a convolution and the batch norm after it, folded into its weights",
    "bias": "a matrix product and the addition of a constant after it",
    "add": "a convolution and the addition of another branch after it",
    "activation": "a convolution or matrix product and the activation after it",
    "hardswish": "a convolution and the hard swish after it",
    "pad": "padding and the convolution after it",
    "pool": "a convolution and the pooling after it",
    "quantize": "a dtype conversion and the op before it",
    "unshared": "quantized ops only if their tensors have one reader; the others compute in floats",
    "scale": "a matrix product and the multiplication by a scalar next to it",
    "gelu": "the primitive ops of a GELU or SiLU",
    "layer_norm": "the primitive ops of a layer norm",
    "attention": "the two products of attention and the ops between them",
    "elementwise": "chains of elementwise ops",
    "reduction": "such a chain and the norm, softmax or reduction at its end",
    "loop": "all that one loop nest can compute: elementwise ops, through aliases, into norms and reductions"
    " and on from there, even if other ops read the tensors between",
}

# An attribute of the conversions that a mixed-precision assignment adds between layers of different dtypes.
BETWEEN_LAYERS = "between_layers"
_PRODUCTS = frozenset(rule.kind for rule in cost_rules() if rule.macs and "activates" in rule.traits)
_CONVERSIONS = ("quantize", "dequantize", "cast")
_STATIC = ("shape_of",)  # known before the first inference
# Op kinds in a loop nest that read windows of a tensor in memory and so start a new nest.
_WINDOWS = ("pool", "resize")
_NORMS = frozenset(rule.kind for rule in cost_rules() if {"reduces", "keeps_shape"} <= {*rule.traits})


@dataclass(slots=True)
class _Kernel:
    """A kernel under construction."""

    ops: list[int]
    fusions: set[str] = field(default_factory=set)
    position: int = 0  # position in the order of kernels: its inputs are computed before
    iterations: int = 0  # iterations of its loop nest; 0 if it is none
    reduced: int = 0  # output elements of its reduction; 0 if it has none


def kernels(graph: Graph, fuses: Collection[str] = ()) -> list[tuple[int, ...]]:
    """The ops of each kernel, in order of completion; aliasing ops are in none."""
    return kernels_and_conversions(graph, fuses)[0]


def kernels_and_conversions(
    graph: Graph, fuses: Collection[str] = ()
) -> tuple[list[tuple[int, ...]], frozenset[int]]:
    """The kernels, and the dtype conversions that the runtime does not fuse."""
    fusion = _Fusion(graph, frozenset(fuses))
    return fusion.run(), fusion.unfused


class _Fusion:
    """The kernels of a graph for a set of fusions."""

    def __init__(self, graph: Graph, fuses: frozenset[str]) -> None:
        self.graph = graph
        self.fuses = fuses
        self.producer = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
        self.readers: dict[int, list[int]] = {}
        for index, op in enumerate(graph.ops):
            for identity in dict.fromkeys(op.inputs):
                self.readers.setdefault(identity, []).append(index)
        self.outputs = set(graph.outputs)
        self.unfused = frozenset(self._unfused_conversions())
        self.static = self._static()
        self.kernel_of: dict[int, _Kernel] = {}
        self.loops = _Loops(self) if "loop" in fuses else None

    def run(self) -> list[tuple[int, ...]]:
        patterns = {index: tuple(group) for group in self._patterns() for index in group}
        for index, op in enumerate(self.graph.ops):
            if self.needs_no_kernel(op):
                continue
            if index in patterns:
                first = patterns[index][0]
                kernel = self.kernel_of.get(first) if first != index else None
                self._add(index, kernel, "pattern")
                continue
            if self.loops is not None and self.loops.accepts(op):
                self.loops.add(index, op)
                continue
            candidate = None if index in self.unfused else next(self._candidates(op), None)
            self._add(index, *(candidate or (None, "")))
        unique: dict[int, _Kernel] = {id(kernel): kernel for kernel in self.kernel_of.values()}
        return sorted((tuple(sorted(kernel.ops)) for kernel in unique.values()), key=lambda ops: ops[-1])

    def _add(self, index: int, kernel: _Kernel | None, fusion: str) -> None:
        if kernel is None:
            kernel = _Kernel([], position=index)
        kernel.ops.append(index)
        kernel.fusions.add(fusion)
        self.kernel_of[index] = kernel

    def _static(self) -> set[int]:
        """Tensors known before an inference: constants, and with constant folding also shapes and all results
        of these."""
        tensors = self.graph.tensors
        known = {identity for identity, tensor in enumerate(tensors) if tensor.data is not None}
        for index, op in enumerate(self.graph.ops) if "constant" in self.fuses else ():
            if index in self.unfused:
                continue
            if op.kind in _STATIC or (op.inputs and all(i == ABSENT or i in known for i in op.inputs)):
                known.update(op.outputs)
        return known

    def _unfused_conversions(self) -> Iterator[int]:
        """Conversions that are not fused: those between layers of a mixed-precision assignment, of outputs,
        and around ops that compute in floats because their tensors have several readers."""
        yield from (index for index, op in enumerate(self.graph.ops) if op.attrs.get(BETWEEN_LAYERS))
        if not {"quantize", "unshared"} <= self.fuses:
            return
        for index, op in enumerate(self.graph.ops):
            if op.kind == "dequantize" and op.outputs[0] in self.outputs:
                yield index
            before = [self.producer[i] for i in op.inputs if self._is_dequantized(i)]
            if not has_trait(op.kind, "integer") or not before:
                continue
            after, is_shared = self._conversions_after(op)
            if is_shared or any(self._is_dequantized(i) and len(self.readers[i]) > 1 for i in op.inputs):
                yield from before
                yield from after

    def _is_dequantized(self, identity: int) -> bool:
        return identity in self.producer and self.graph.ops[self.producer[identity]].kind == "dequantize"

    def _conversions_after(self, op: Op) -> tuple[list[int], bool]:
        """The quantization of a result, directly or after an activation; and whether several ops read it."""
        conversions: list[int] = []
        output = op.outputs[0]
        while len(self.readers.get(output, ())) == 1:
            index = self.readers[output][0]
            reader = self.graph.ops[index]
            if reader.kind not in ("quantize", "dequantize") and not has_trait(reader.kind, "folded"):
                return conversions, False
            if reader.kind == "quantize":
                conversions.append(index)
            output = reader.outputs[0]
        return conversions, len(self.readers.get(output, ())) > 1

    def needs_no_kernel(self, op: Op) -> bool:
        """Whether an op needs no kernel: it is an alias, or its result is known before the inference."""
        rule = cost_rule_of(op.kind)
        return (rule is not None and rule.views) or all(identity in self.static for identity in op.outputs)

    def has_one_reader(self, identity: int) -> bool:
        return len(self.readers.get(identity, ())) == 1 and identity not in self.outputs

    def family(self, op: Op) -> str:
        rule = cost_rule_of(op.kind)
        return "" if rule is None else rule.family

    def _candidates(self, op: Op) -> Iterator[tuple[_Kernel, str]]:
        """Kernels that an op can be fused into, with the fusion; the latest kernel first."""
        producers = {self.producer[i] for i in op.inputs if i in self.producer and self.has_one_reader(i)}
        for producer in sorted(producers, reverse=True):
            kernel = self.kernel_of.get(producer)
            if kernel is None or kernel.ops[-1] != producer:
                continue
            fusion = self._fusion(kernel, op)
            if fusion in self.fuses:
                yield kernel, fusion

    def _fusion(self, kernel: _Kernel, op: Op) -> str:
        """The fusion that adds an op to the kernel of one of its inputs; empty if there is none."""
        first, last = self.graph.ops[kernel.ops[0]], self.graph.ops[kernel.ops[-1]]
        if "unshared" in self.fuses and last.kind in _CONVERSIONS and op.kind not in _CONVERSIONS:
            return ""
        if first.kind == "pad" and len(kernel.ops) == 1 and op.kind == "conv":
            return "pad"
        product = next((self.graph.ops[i] for i in kernel.ops if self.graph.ops[i].kind in _PRODUCTS), None)
        if product is not None and not kernel.fusions & {"activation", "hardswish"}:
            return self._after_product(kernel, product, op)
        if op.kind in _CONVERSIONS and "quantize" in self.fuses:
            return "quantize"
        if self.family(op) == "elementwise" and self.family(last) == "elementwise":
            return "elementwise"
        if self.family(op) == "reduction" and self.family(last) == "elementwise":
            return "reduction"
        return ""

    def _after_product(self, kernel: _Kernel, product: Op, op: Op) -> str:
        others = [
            i for i in op.inputs if i != ABSENT and self.kernel_of.get(self.producer.get(i, -1)) is not kernel
        ]
        constant = all(i in self.static for i in others)
        if op.kind == "batch_norm" and kernel.fusions <= {"", "pad"}:
            return "norm"
        if op.kind == "add" and "add" not in kernel.fusions:
            if product.kind == "matmul":
                return "bias" if constant and "bias" not in kernel.fusions else ""
            return "bias" if constant else "add"
        if op.kind == "mul" and product.kind == "matmul" and constant and kernel.fusions <= {""}:
            return "scale" if all(self.graph.tensors[i].elements == 1 for i in others) else ""
        if op.kind in _CONVERSIONS:
            return "quantize"
        if product.kind == "conv" and op.kind in ("pool", "global_pool"):
            return "pool"
        if product.kind == "conv" and op.kind == "hardswish":
            return "hardswish"
        return "activation" if has_trait(op.kind, "folded") else ""

    def _patterns(self) -> Iterator[list[int]]:
        """Disjoint groups of ops that together compute one known op."""
        for index, op in enumerate(self.graph.ops):
            if "gelu" in self.fuses and op.kind == "sigmoid":
                yield from self._silu(index, op)
            if "gelu" in self.fuses and op.kind == "erf":
                yield from self._gelu(index, op)
            if "layer_norm" in self.fuses and op.kind == "sqrt":
                yield from self._layer_norm(index)
            if "attention" in self.fuses and op.kind == "softmax":
                yield from self._attention(index, op)

    def _only_reader(self, index: int) -> tuple[int, Op] | None:
        """The only reader of an op's output; None if there are several."""
        (output, *more) = self.graph.ops[index].outputs
        if more or not self.has_one_reader(output):
            return None
        reader = self.readers[output][0]
        return reader, self.graph.ops[reader]

    def _silu(self, index: int, op: Op) -> Iterator[list[int]]:
        """x sigmoid(x)."""
        after = self._only_reader(index)
        if after is not None and after[1].kind == "mul" and op.inputs[0] in after[1].inputs:
            yield [index, after[0]]

    def _gelu(self, index: int, op: Op) -> Iterator[list[int]]:
        """x / sqrt 2, erf, + 1, times x, times 1/2, the last two in either order."""
        scaled = self.producer.get(op.inputs[0])
        if scaled is None or self.graph.ops[scaled].kind not in ("div", "mul"):
            return
        group, last = [scaled, index], index
        for op_kinds in (("add",), ("mul",), ("mul",)):
            after = self._only_reader(last)
            if after is None or after[1].kind not in op_kinds:
                return
            last = after[0]
            group.append(last)
        yield group

    def _layer_norm(self, index: int) -> Iterator[list[int]]:
        """Mean, difference, square, mean, + epsilon, root, quotient; optionally a scale and a shift."""
        group, current = [index], index
        for op_kinds in (("add",), ("mean", "reduce"), ("pow", "mul", "square"), ("sub",)):
            producers = [self.producer[i] for i in self.graph.ops[current].inputs if i in self.producer]
            current = next((i for i in producers if self.graph.ops[i].kind in op_kinds), -1)
            if current < 0:
                return
            group.append(current)
        means = [self.producer.get(i, -1) for i in self.graph.ops[current].inputs]
        group += [i for i in means if i >= 0 and self.graph.ops[i].kind in ("mean", "reduce")]
        after = self._only_reader(index)
        if after is None or after[1].kind != "div":
            return
        group.append(after[0])
        for op_kind in ("mul", "add"):
            after = self._only_reader(group[-1])
            if after is None or after[1].kind != op_kind:
                break
            group.append(after[0])
        yield sorted(group)

    def _attention(self, index: int, op: Op) -> Iterator[list[int]]:
        """A product, a scale and a mask, the softmax, and the product with the values."""
        after = self._only_reader(index)
        if after is None or after[1].kind != "matmul":
            return
        group = [index, after[0]]
        current = self.producer.get(op.inputs[0])
        while current is not None and self.graph.ops[current].kind in ("div", "mul", "add"):
            group.append(current)
            inputs = self.graph.ops[current].inputs
            variable = [i for i in inputs if i in self.producer and i not in self.static]
            current = self.producer.get(variable[0]) if variable else None
        if current is not None and self.graph.ops[current].kind == "matmul":
            yield sorted([*group, current])


class _Loops:
    """Loop nests, as a compiler generates them for ops without a product.

    An op is fused into the latest kernel that computes one of its inputs if both have the same iterations.
    Its other inputs were computed before that kernel, so the order stays valid. A kernel also absorbs earlier
    kernels that are purely elementwise and have no other reader.
    """

    def __init__(self, fusion: _Fusion) -> None:
        graph = fusion.graph
        self.fusion, self.tensors = fusion, graph.tensors
        self.root = list(range(len(graph.tensors)))  # the tensor that an alias shares bytes with
        self.permuted: set[int] = set()
        self.readers: dict[int, list[int]] = {}
        for index, op in enumerate(graph.ops):
            rule = cost_rule_of(op.kind)
            if rule is not None and rule.views:
                self._track_alias(op)
                continue
            for identity in op.inputs:
                if identity != ABSENT:
                    self.readers.setdefault(self.root[identity], []).append(index)
        self.outputs = {self.root[identity] for identity in graph.outputs}

    def _track_alias(self, op: Op) -> None:
        source = op.inputs[0]
        is_permuted = op.source in PERMUTING or source in self.permuted
        for identity in op.outputs:
            self.root[identity] = self.root[source]
            if is_permuted:
                self.permuted.add(identity)

    def accepts(self, op: Op) -> bool:
        is_pointwise = self.fusion.family(op) == "elementwise" or has_trait(op.kind, "pointwise")
        return is_pointwise or has_trait(op.kind, "reduces") or op.kind in _WINDOWS

    def add(self, index: int, op: Op) -> None:
        input_kernels = [self._producer_kernel(i) for i in op.inputs if i != ABSENT]
        producers = {id(kernel): kernel for kernel in input_kernels if kernel is not None}
        latest = max(producers.values(), key=lambda kernel: kernel.position, default=None)
        kernel = latest if latest is not None and self._can_fuse(op, latest) else _Kernel([], position=index)
        kernel.ops.append(index)
        kernel.fusions.add("loop")
        kernel.iterations = max(kernel.iterations, self._iterations(op))
        if has_trait(op.kind, "reduces") and not kernel.reduced:
            kernel.reduced = self._elements(op.outputs[0])
        self.fusion.kernel_of[index] = kernel
        if op.kind in _WINDOWS:
            return
        for other in producers.values():
            if (
                other is not kernel
                and other.iterations
                and not other.reduced
                and self._is_inner(other, kernel)
            ):
                self._absorb(other, kernel)

    def _producer_kernel(self, identity: int) -> _Kernel | None:
        return self.fusion.kernel_of.get(self.fusion.producer.get(self.root[identity], -1))

    def _elements(self, identity: int) -> int:
        return self.tensors[identity].elements or 0

    def _iterations(self, op: Op) -> int:
        return self._elements(op.inputs[0] if has_trait(op.kind, "reduces") else op.outputs[0])

    def _can_fuse(self, op: Op, kernel: _Kernel) -> bool:
        """Whether an op has the same iterations as the kernel of one of its inputs."""
        if not kernel.iterations or op.kind in _WINDOWS:
            return False
        links = [i for i in op.inputs if i != ABSENT and self._producer_kernel(i) is kernel]
        if any(i in self.permuted for i in links):
            return False
        iterations = self._iterations(op)
        if has_trait(op.kind, "reduces") and kernel.reduced:  # along the same axes, judging by sizes
            return op.kind not in _NORMS and self._elements(op.outputs[0]) == kernel.reduced
        return iterations == kernel.iterations or (
            not has_trait(op.kind, "reduces") and iterations == kernel.reduced
        )

    def _is_inner(self, other: _Kernel, kernel: _Kernel) -> bool:
        """Whether only the other kernel reads a kernel's outputs."""
        written = {self.root[i] for index in other.ops for i in self.fusion.graph.ops[index].outputs}
        readers = {reader for identity in written for reader in self.readers.get(identity, ())}
        kernels = (self.fusion.kernel_of.get(reader) for reader in readers)
        return written.isdisjoint(self.outputs) and all(k is other or k is kernel for k in kernels)

    def _absorb(self, other: _Kernel, kernel: _Kernel) -> None:
        kernel.ops.extend(other.ops)
        for index in other.ops:
            self.fusion.kernel_of[index] = kernel
