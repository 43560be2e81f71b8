"""What a runtime executes as one kernel: operators that it merges, and those that cost it nothing.

A runtime says what it merges by words (`FUSIONS`); what each of them means in a graph is here. An operator
joins the kernel of the one before it only where nobody else reads what lies between them, but for compilers
that make loops: those write what others read, and go on. One pass over the graph; a pattern looks at a few
neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from sizeup.graph import ABSENT, Graph, Op
from sizeup.ops import rule_of

FUSIONS = {
    "constant": "what is computed from constants alone, before the first run",
    "norm": "a convolution and the batch norm after it, folded into its weights",
    "bias": "a matrix product and the addition of a constant after it",
    "add": "a convolution and the addition of another branch after it",
    "activation": "a convolution or matrix product and the activation after it",
    "hardswish": "a convolution and the hard swish after it",
    "pad": "padding and the convolution after it",
    "pool": "a convolution and the pooling after it",
    "quantise": "a change of number type and the operator before it",
    "unshared": "quantised operators alone whose numbers have one reader; the others compute in floats",
    "scale": "a matrix product and the multiplication by a number next to it",
    "gelu": "the primitive operators of a GELU or SiLU",
    "layer_norm": "the primitive operators of a layer norm",
    "attention": "the two products of attention and what lies between them",
    "elementwise": "chains of operators that work number by number",
    "reduction": "such a chain and the norm, softmax or reduction at its end",
    "loop": "all that one nest of loops can compute: number by number, through views, into norms and sums and"
    " on from there, whoever else reads what lies between",
}

# An attribute of conversions that a choice of types by layer adds: both layers compute in the types chosen.
BETWEEN_LAYERS = "between_layers"
_PRODUCTS = ("conv", "conv_transpose", "matmul")
_ACTIVATIONS = ("relu", "clamp", "relu6", "sigmoid", "tanh", "leaky_relu", "hardsigmoid")
_CONVERSIONS = ("quantize", "dequantize", "cast")
# What has quantised kernels, and is left in floats where its numbers are shared.
_QUANTISED = ("conv", "conv_transpose", "add", "mul", "concat", "pool", "global_pool")
_STATIC = ("shape_of",)  # known before the first run
# In a nest of loops: what each number is computed from few others for, what sums up, and what reads windows
# of what lies in memory, so that it opens a nest.
_POINTWISE = ("batch_norm", "copy", "pad", "concat", "repeat", "rearrange", "create", "gather")
_SUMS = (
    *("sum", "mean", "max", "min", "prod", "variance", "norm_reduction", "global_pool"),
    *("layer_norm", "rms_norm", "softmax", "log_softmax"),
)
_WINDOWS = ("pool", "resize")
_WHOLE = ("layer_norm", "rms_norm", "softmax", "log_softmax")  # sums that give back as many numbers
_PERMUTING = ("permute", "transpose", "movedim", "swapaxes", "t", "mT", "numpy_T")


@dataclass(slots=True)
class _Kernel:
    ops: list[int]
    joined: set[str] = field(default_factory=set)
    place: int = 0  # in the order of kernels: all that it reads was made before
    size: int = 0  # steps of its nest of loops; 0 where it is none
    sums: int = 0  # numbers that a sum within it makes; 0 where there is none


def kernels(graph: Graph, fuses: Collection[str] = ()) -> list[tuple[int, ...]]:
    """The operators of each kernel, kernels in the order in which they end.

    An operator that only renames bytes is in none.
    """
    return merged(graph, fuses)[0]


def merged(graph: Graph, fuses: Collection[str] = ()) -> tuple[list[tuple[int, ...]], frozenset[int]]:
    """The kernels, and the changes of number type that a runtime with merged ones still runs apart."""
    fusion = _Fusion(graph, frozenset(fuses))
    return fusion.run(), fusion.apart


class _Fusion:
    def __init__(self, graph: Graph, fuses: frozenset[str]) -> None:
        self.graph = graph
        self.fuses = fuses
        self.maker = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
        self.readers: dict[int, list[int]] = {}
        for index, op in enumerate(graph.ops):
            for identity in dict.fromkeys(op.inputs):
                self.readers.setdefault(identity, []).append(index)
        self.kept = set(graph.outputs)
        self.apart = frozenset(self._apart())
        self.static = self._static()
        self.kernel_of: dict[int, _Kernel] = {}
        self.loops = _Loops(self) if "loop" in fuses else None

    def run(self) -> list[tuple[int, ...]]:
        patterns = {index: tuple(found) for found in self._patterns() for index in found}
        for index, op in enumerate(self.graph.ops):
            if self.is_silent(op):
                continue
            if index in patterns:
                first = patterns[index][0]
                kernel = self.kernel_of.get(first) if first != index else None
                self._put(index, kernel, "pattern")
                continue
            if self.loops is not None and self.loops.takes(op):
                self.loops.put(index, op)
                continue
            joined = None if index in self.apart else next(self._joinable(op), None)
            self._put(index, *(joined or (None, "")))
        found: dict[int, _Kernel] = {id(kernel): kernel for kernel in self.kernel_of.values()}
        return sorted((tuple(sorted(kernel.ops)) for kernel in found.values()), key=lambda ops: ops[-1])

    def _put(self, index: int, kernel: _Kernel | None, how: str) -> None:
        if kernel is None:
            kernel = _Kernel([], place=index)
        kernel.ops.append(index)
        kernel.joined.add(how)
        self.kernel_of[index] = kernel

    def _static(self) -> set[int]:
        """Tensors that are known before a run: constants, and where these are folded also shapes, and what is
        computed from both alone."""
        tensors = self.graph.tensors
        known = {identity for identity, tensor in enumerate(tensors) if tensor.data is not None}
        for index, op in enumerate(self.graph.ops) if "constant" in self.fuses else ():
            if index in self.apart:
                continue
            if op.kind in _STATIC or (op.inputs and all(i == ABSENT or i in known for i in op.inputs)):
                known.update(op.outputs)
        return known

    def _apart(self) -> Iterator[int]:
        """Conversions between layers of chosen types; those of results, and around operators that compute in
        floats, because others read the same numbers."""
        yield from (index for index, op in enumerate(self.graph.ops) if op.attrs.get(BETWEEN_LAYERS))
        if not {"quantise", "unshared"} <= self.fuses:
            return
        for index, op in enumerate(self.graph.ops):
            if op.kind == "dequantize" and op.outputs[0] in self.kept:
                yield index
            before = [self.maker[i] for i in op.inputs if self._is_dequantised(i)]
            if op.kind not in _QUANTISED or not before:
                continue
            after, is_shared = self._conversions_after(op)
            if is_shared or any(self._is_dequantised(i) and len(self.readers[i]) > 1 for i in op.inputs):
                yield from before
                yield from after

    def _is_dequantised(self, identity: int) -> bool:
        return identity in self.maker and self.graph.ops[self.maker[identity]].kind == "dequantize"

    def _conversions_after(self, op: Op) -> tuple[list[int], bool]:
        """The one that quantises a result, by way of an activation or not; whether several read it then."""
        found: list[int] = []
        made = op.outputs[0]
        while len(self.readers.get(made, ())) == 1:
            place = self.readers[made][0]
            reader = self.graph.ops[place]
            if reader.kind not in (*_ACTIVATIONS, "quantize", "dequantize"):
                return found, False
            if reader.kind == "quantize":
                found.append(place)
            made = reader.outputs[0]
        return found, len(self.readers.get(made, ())) > 1

    def is_silent(self, op: Op) -> bool:
        """Whether no kernel runs for it: it renames bytes, or its result is known before the run."""
        rule = rule_of(op.kind)
        return (rule is not None and rule.views) or all(identity in self.static for identity in op.outputs)

    def only_reader(self, identity: int) -> bool:
        return len(self.readers.get(identity, ())) == 1 and identity not in self.kept

    def family(self, op: Op) -> str:
        rule = rule_of(op.kind)
        return "" if rule is None else rule.family

    def _joinable(self, op: Op) -> Iterator[tuple[_Kernel, str]]:
        """Kernels that an operator may join, and by which word; the latest one first."""
        makers = sorted(
            {self.maker[i] for i in op.inputs if i in self.maker and self.only_reader(i)}, reverse=True
        )
        for maker in makers:
            kernel = self.kernel_of.get(maker)
            if kernel is None or kernel.ops[-1] != maker:
                continue
            word = self._word(kernel, op)
            if word in self.fuses:
                yield kernel, word

    def _word(self, kernel: _Kernel, op: Op) -> str:
        """What it would be called if an operator joined a kernel that makes one of its inputs."""
        first, last = self.graph.ops[kernel.ops[0]], self.graph.ops[kernel.ops[-1]]
        if "unshared" in self.fuses and last.kind in _CONVERSIONS and op.kind not in _CONVERSIONS:
            return ""
        if first.kind == "pad" and len(kernel.ops) == 1 and op.kind == "conv":
            return "pad"
        product = next((self.graph.ops[i] for i in kernel.ops if self.graph.ops[i].kind in _PRODUCTS), None)
        if product is not None and not kernel.joined & {"activation", "hardswish"}:
            return self._after_product(kernel, product, op)
        if op.kind in _CONVERSIONS and "quantise" in self.fuses:
            return "quantise"
        if self.family(op) == "elementwise" and self.family(last) == "elementwise":
            return "elementwise"
        if self.family(op) == "reduction" and self.family(last) == "elementwise":
            return "reduction"
        return ""

    def _after_product(self, kernel: _Kernel, product: Op, op: Op) -> str:
        others = [
            i for i in op.inputs if i != ABSENT and self.kernel_of.get(self.maker.get(i, -1)) is not kernel
        ]
        constant = all(i in self.static for i in others)
        if op.kind == "batch_norm" and kernel.joined <= {"", "pad"}:
            return "norm"
        if op.kind == "add" and "add" not in kernel.joined:
            if product.kind == "matmul":
                return "bias" if constant and "bias" not in kernel.joined else ""
            return "bias" if constant else "add"
        if op.kind == "mul" and product.kind == "matmul" and constant and kernel.joined <= {""}:
            return "scale" if all(self.graph.tensors[i].elements == 1 for i in others) else ""
        if op.kind in _CONVERSIONS:
            return "quantise"
        if product.kind == "conv" and op.kind in ("pool", "global_pool"):
            return "pool"
        if product.kind == "conv" and op.kind == "hardswish":
            return "hardswish"
        return "activation" if op.kind in _ACTIVATIONS else ""

    def _patterns(self) -> Iterator[list[int]]:
        """Groups of operators that stand for one known operator; no two share an operator."""
        for index, op in enumerate(self.graph.ops):
            if "gelu" in self.fuses and op.kind == "sigmoid":
                yield from self._silu(index, op)
            if "gelu" in self.fuses and op.kind == "erf":
                yield from self._gelu(index, op)
            if "layer_norm" in self.fuses and op.kind == "sqrt":
                yield from self._layer_norm(index)
            if "attention" in self.fuses and op.kind == "softmax":
                yield from self._attention(index, op)

    def _next(self, index: int) -> tuple[int, Op] | None:
        """The one operator that reads what an operator makes."""
        (made, *more) = self.graph.ops[index].outputs
        if more or not self.only_reader(made):
            return None
        reader = self.readers[made][0]
        return reader, self.graph.ops[reader]

    def _silu(self, index: int, op: Op) -> Iterator[list[int]]:
        """x sigmoid(x)."""
        after = self._next(index)
        if after is not None and after[1].kind == "mul" and op.inputs[0] in after[1].inputs:
            yield [index, after[0]]

    def _gelu(self, index: int, op: Op) -> Iterator[list[int]]:
        """x / sqrt 2, erf, + 1, times x, times 1/2: the last two in either order."""
        scaled = self.maker.get(op.inputs[0])
        if scaled is None or self.graph.ops[scaled].kind not in ("div", "mul"):
            return
        group, place = [scaled, index], index
        for kinds in (("add",), ("mul",), ("mul",)):
            after = self._next(place)
            if after is None or after[1].kind not in kinds:
                return
            place = after[0]
            group.append(place)
        yield group

    def _layer_norm(self, index: int) -> Iterator[list[int]]:
        """Mean, difference, square, mean, + epsilon, root, quotient; then a scale and a shift, or not."""
        group, place = [index], index
        for kinds in (("add",), ("mean", "reduce"), ("pow", "mul", "square"), ("sub",)):
            makers = [self.maker[i] for i in self.graph.ops[place].inputs if i in self.maker]
            place = next((each for each in makers if self.graph.ops[each].kind in kinds), -1)
            if place < 0:
                return
            group.append(place)
        means = [self.maker.get(i, -1) for i in self.graph.ops[place].inputs]
        group += [each for each in means if each >= 0 and self.graph.ops[each].kind in ("mean", "reduce")]
        after = self._next(index)
        if after is None or after[1].kind != "div":
            return
        group.append(after[0])
        for kind in ("mul", "add"):
            after = self._next(group[-1])
            if after is None or after[1].kind != kind:
                break
            group.append(after[0])
        yield sorted(group)

    def _attention(self, index: int, op: Op) -> Iterator[list[int]]:
        """A product, a scale and a mask, the softmax, and the product with the values."""
        after = self._next(index)
        if after is None or after[1].kind != "matmul":
            return
        group = [index, after[0]]
        place = self.maker.get(op.inputs[0])
        while place is not None and self.graph.ops[place].kind in ("div", "mul", "add"):
            group.append(place)
            moving = [i for i in self.graph.ops[place].inputs if i in self.maker and i not in self.static]
            place = self.maker.get(moving[0]) if moving else None
        if place is not None and self.graph.ops[place].kind == "matmul":
            yield sorted([*group, place])


class _Loops:
    """Nests of loops, as a compiler makes them of operators without a product.

    An operator joins the latest kernel that makes one of its inputs, where both take the same steps; all else
    that it reads was made before that kernel, so no order is broken. And a kernel takes in those before it
    that only compute number by number and that nobody else reads.
    """

    def __init__(self, fusion: _Fusion) -> None:
        graph = fusion.graph
        self.fusion, self.tensors = fusion, graph.tensors
        self.root = list(range(len(graph.tensors)))  # the tensor whose bytes a view shows
        self.permuted: set[int] = set()
        self.readers: dict[int, list[int]] = {}
        for index, op in enumerate(graph.ops):
            rule = rule_of(op.kind)
            if rule is not None and rule.views:
                self._follow(op)
                continue
            for identity in op.inputs:
                if identity != ABSENT:
                    self.readers.setdefault(self.root[identity], []).append(index)
        self.kept = {self.root[identity] for identity in graph.outputs}

    def _follow(self, op: Op) -> None:
        source = op.inputs[0]
        turned = op.source.rpartition(".")[2] in _PERMUTING or source in self.permuted
        for identity in op.outputs:
            self.root[identity] = self.root[source]
            if turned:
                self.permuted.add(identity)

    def takes(self, op: Op) -> bool:
        kinds = (*_POINTWISE, *_SUMS, *_WINDOWS)
        return self.fusion.family(op) == "elementwise" or op.kind in kinds

    def put(self, index: int, op: Op) -> None:
        made = [self._maker(i) for i in op.inputs if i != ABSENT]
        makers = {id(kernel): kernel for kernel in made if kernel is not None}
        latest = max(makers.values(), key=lambda kernel: kernel.place, default=None)
        kernel = latest if latest is not None and self._joins(op, latest) else _Kernel([], place=index)
        kernel.ops.append(index)
        kernel.joined.add("loop")
        kernel.size = max(kernel.size, self._steps(op))
        if op.kind in _SUMS and not kernel.sums:
            kernel.sums = self._elements(op.outputs[0])
        self.fusion.kernel_of[index] = kernel
        if op.kind in _WINDOWS:
            return
        for other in makers.values():
            if other is not kernel and other.size and not other.sums and self._is_inner(other, kernel):
                self._take_in(other, kernel)

    def _maker(self, identity: int) -> _Kernel | None:
        return self.fusion.kernel_of.get(self.fusion.maker.get(self.root[identity], -1))

    def _elements(self, identity: int) -> int:
        return self.tensors[identity].elements or 0

    def _steps(self, op: Op) -> int:
        return self._elements(op.inputs[0] if op.kind in _SUMS else op.outputs[0])

    def _joins(self, op: Op, kernel: _Kernel) -> bool:
        """Whether an operator takes the same steps as the kernel that makes one of its inputs."""
        if not kernel.size or op.kind in _WINDOWS:
            return False
        links = [i for i in op.inputs if i != ABSENT and self._maker(i) is kernel]
        if any(i in self.permuted for i in links):
            return False
        steps = self._steps(op)
        if op.kind in _SUMS and kernel.sums:  # along the same axes, as far as sizes tell
            return op.kind not in _WHOLE and self._elements(op.outputs[0]) == kernel.sums
        return steps == kernel.size or (op.kind not in _SUMS and steps == kernel.sums)

    def _is_inner(self, other: _Kernel, kernel: _Kernel) -> bool:
        """Whether a kernel is read by the other one alone."""
        made = {self.root[i] for index in other.ops for i in self.fusion.graph.ops[index].outputs}
        readers = {reader for identity in made for reader in self.readers.get(identity, ())}
        kernels = (self.fusion.kernel_of.get(reader) for reader in readers)
        return made.isdisjoint(self.kept) and all(each is other or each is kernel for each in kernels)

    def _take_in(self, other: _Kernel, kernel: _Kernel) -> None:
        kernel.ops.extend(other.ops)
        for index in other.ops:
            self.fusion.kernel_of[index] = kernel
