"""Graphs of other formats as .tflite graphs: the operators that a converter writes, with their tensors.

There are several, since converters choose: that of the style `LEAST` has only what every file must have, the
others what a file may have in addition. The kernels of TFLite Micro state the memory of all, as for a file.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sizeup.backends.tflm.any_order import most_files
from sizeup.backends.tflm.conversion import converted_ops
from sizeup.backends.tflm.kernel import Call
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import Build
from sizeup.backends.tflm.lowerings import lowering_of
from sizeup.backends.tflm.support import RULES
from sizeup.backends.tflm.tail import kernel_bytes, kernel_memory
from sizeup.dtypes import BIAS, DTYPES, DType
from sizeup.errors import Incomplete
from sizeup.graph import ABSENT, Constant, Graph, Op, Quant, Tensor
from sizeup.memory.liveness import tensor_bytes
from sizeup.ops import cost_rule_of, op_kind_of


class Style(NamedTuple):
    """What a converter chooses."""

    is_least: bool = False  # every tensor that can be merged with another one is
    ports: bool = False  # inputs and outputs of a network in integers stay floats
    transposes: bool = False  # inputs, outputs and reshaped tensors keep their layout
    pads: bool = False  # all padding is an operator


LEAST = Style(is_least=True)
_MOST = tuple(Style(False, *choices) for choices in product((True, False), repeat=3))

_PLAIN = "ADD"  # in place of operators that are composed or missing
_FIRST_TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
_LAST_TO_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2)}
_Layer: TypeAlias = "Callable[[_Writer, Op], bool]"
_LAYERS: dict[str, _Layer] = {}


def _layer(op_kind: str) -> Callable[[_Layer], _Layer]:
    """Register a method that writes an op kind; it returns False for an op that is written as any other."""

    def register(method: _Layer) -> _Layer:
        _LAYERS[op_kind] = method
        return method

    return register


def lowered(graph: Graph, precision: DType | None, style: Style, build: Build) -> Graph:
    """The graph as a .tflite graph; raises Incomplete if a shape depends on data."""
    return _Writer(graph, precision, style, build).graph()


def lowered_most(graph: Graph, precision: DType | None, build: Build) -> list[Graph]:
    """The graph in all styles that may have more than the least."""
    has_ports = precision is not None and precision.family == "int"
    styles = [style for style in _MOST if has_ports or not style.ports]
    return [lowered(graph, precision, style, build) for style in styles[: most_files(graph)]]


class _Writer:
    def __init__(self, graph: Graph, precision: DType | None, style: Style, build: Build) -> None:
        self.source, self.precision, self.style, self.build = graph, precision, style, build
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.sizes: list[tuple[int, int]] = []  # of the operators: in the tail, and scratch
        self.at: dict[int, int] = {}  # tensor of the source to tensor of the result
        self.images: set[int] = set()  # tensors of the result with the channels last
        self.transposed: dict[int, int] = {}  # tensors of the result in the other layout
        self.shared: MutableMapping[tuple[int, tuple[int, ...]], int] = {}  # weights that several layers read
        self.chosen: dict[Hashable, int] = {}  # indices of ways, by their signatures
        self.readers: dict[int, list[Op]] = {}
        self.makers: dict[int, Op] = {}
        self.source_ops = converted_ops(graph)
        for op in self.source_ops:
            self.makers.update(dict.fromkeys(op.outputs, op))
            for identity in dict.fromkeys(op.inputs):
                self.readers.setdefault(identity, []).append(op)

    def graph(self) -> Graph:
        inputs = [self._input(identity) for identity in self.source.inputs]
        for op in self.source_ops:
            self._lower(op)
        outputs = [self._output(identity) for identity in self.source.outputs]
        return Graph(
            tuple(self.tensors), tuple(self.ops), tuple(inputs), tuple(outputs), self.source.name, "tflite"
        )

    # Tensors.

    def _dtype(self, tensor: Tensor, *, is_weight: bool = False) -> DType:
        dtype = tensor.dtype
        if self.precision is not None and tensor.follows_precision:
            dtype = self.precision
            if is_weight and dtype.name == "int16":
                return DTYPES["int8"]
        if dtype.family == "int" and dtype.bits < 8 and not is_weight:
            dtype = DTYPES["int8"]
        return DTYPES["int8"] if dtype.name == "uint8" else dtype

    def _new(self, shape: Iterable[int], dtype: DType, scales: int = 1, data: Constant | None = None) -> int:
        quant = None
        if dtype.is_quantized and scales:
            quant = Quant(np.ones(scales), np.zeros(scales, np.int64), None if scales == 1 else 0)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", tuple(shape), dtype, data, quant))
        return len(self.tensors) - 1

    def _constant(self, shape: Iterable[int], dtype: DType, scales: int = 1) -> int:
        return self._new(shape, dtype, scales, Constant("parameter", _no_content))

    def _indices(self, count: int) -> int:
        return self._new((count,), BIAS, 0, Constant("constant", _no_content))

    def _shape(self, identity: int) -> tuple[int, ...]:
        shape = self.tensors[identity].shape
        assert shape is not None
        return shape

    def _foreign(self, identity: int) -> tuple[int, ...]:
        """The shape of a tensor of the source; empty if it is absent or depends on data."""
        return () if identity == ABSENT else self.source.tensors[identity].shape or ()

    def _bytes(self, identity: int) -> int:
        return tensor_bytes(self.tensors[identity])

    def _signature(self, identities: Iterable[int]) -> Hashable:
        """What kernels see of tensors."""
        tensors = (self.tensors[identity] for identity in identities)
        return tuple(
            (each.shape, each.dtype, each.data is None, 0 if each.quant is None else each.quant.scale.size)
            for each in tensors
        )

    # Ports.

    def _input(self, identity: int) -> int:
        tensor = self.source.tensors[identity]
        dtype, shape = self._dtype(tensor), tensor.shape or ()
        is_image = not self.style.transposes and self._is_image(identity)
        if is_image:
            shape = _permuted(shape, _FIRST_TO_LAST)
        if not self._has_float_port(tensor, dtype):
            port = value = self._new(shape, dtype, 0 if self.style.is_least else 1)
        else:
            port = self._new(shape, tensor.dtype)
            value = self._emit("QUANTIZE", [port], shape, dtype)
        self.at[identity] = value
        if is_image:
            self.images.add(value)
        return port

    def _output(self, identity: int) -> int:
        tensor, value = self.source.tensors[identity], self._read(identity, is_image=False)
        dtype = self._dtype(tensor)
        if not self._has_float_port(tensor, dtype):
            return value
        return self._emit("DEQUANTIZE", [value], self._shape(value), tensor.dtype)

    def _has_float_port(self, tensor: Tensor, dtype: DType) -> bool:
        """Whether an input or output of a network in integers is a float."""
        return self.style.ports and tensor.dtype.family == "float" and dtype.family == "int"

    def _is_image(self, identity: int) -> bool:
        """Whether the first operators that read a tensor, through elementwise ones, are those of images."""
        waiting, seen = [identity], set()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            for op in self.readers.get(current, ()):
                if _has_images(op.kind) and op.inputs[0] == current:
                    return True
                if _keeps_layout(op.kind):
                    waiting += op.outputs
        return False

    # Values.

    def _read(self, identity: int, *, is_image: bool | None = None) -> int:
        """A tensor of the result, in a layout: of images, of the source, or as it is."""
        if identity not in self.at:
            tensor = self.source.tensors[identity]
            return self._constant(tensor.shape or (), self._dtype(tensor, is_weight=True))
        value = self.at[identity]
        rank = len(self._shape(value))
        if is_image is None or (value in self.images) == is_image or rank not in _FIRST_TO_LAST:
            return value
        shape = _permuted(self._shape(value), _FIRST_TO_LAST if is_image else _LAST_TO_FIRST)
        if not self.style.transposes:
            if is_image:
                self.tensors[value] = replace(self.tensors[value], shape=shape)
                self.images.add(value)
            return value
        if value not in self.transposed:
            output = self._emit("TRANSPOSE", [value, self._indices(rank)], shape, self.tensors[value].dtype)
            self.transposed |= {value: output, output: value}
            if is_image:
                self.images.add(output)
        return self.transposed[value]

    def _emit(
        self,
        source: str,
        inputs: Sequence[int],
        shape: Iterable[int],
        dtype: DType,
        attrs: dict[str, Any] | None = None,
    ) -> int:
        """Write an operator and return its output."""
        output = self._new(shape, dtype)
        self._write(source, inputs, [output], attrs)
        return output

    def _write(
        self, source: str, inputs: Sequence[int], outputs: Sequence[int], attrs: dict[str, Any] | None = None
    ) -> None:
        op = Op(op_kind_of("tflite", source) or source, tuple(inputs), tuple(outputs), attrs or {}, source)
        size = kernel_bytes(op, self.tensors, self.build)
        if size is None:
            op = replace(op, kind=_PLAIN.lower(), source=_PLAIN)
            size = kernel_bytes(op, self.tensors, self.build) or (0, 0)
        self.ops.append(op)
        self.sizes.append(size)

    def _one_of(self, ways: Sequence[Callable[[], int]], signature: Hashable = None) -> int:
        """Write operators in one of several ways: that with the least or the most memory.

        Of those with the same signature, which states all that the memory of the ways depends on, only the
        first are compared.
        """
        if len(ways) == 1:
            return ways[0]()
        if signature is not None and signature in self.chosen:
            return ways[self.chosen[signature]]()
        tensors, ops, shared = len(self.tensors), len(self.ops), self.shared
        sizes, written = [], []
        for number, way in enumerate(ways):
            self.shared = ChainMap({}, shared)
            output = way()
            computed = sum(
                self._bytes(identity)
                for identity in range(tensors, len(self.tensors))
                if self.tensors[identity].data is None
            )
            tail, scratch = (sum(column) for column in zip(*self.sizes[ops:], strict=True))
            total = tail if self.style.is_least else tail + scratch + computed
            sizes.append((total, scratch + computed, number))
            written.append((output, self.tensors[tensors:], self.ops[ops:], self.sizes[ops:]))
            del self.tensors[tensors:], self.ops[ops:], self.sizes[ops:]
        self.shared = shared
        choice = self.chosen[signature] = (min if self.style.is_least else max)(sizes)[-1]
        if self.style.is_least:  # again, because it may also give computed weights another shape
            return ways[choice]()
        output, new_tensors, new_ops, new_sizes = written[choice]
        self.tensors += new_tensors
        self.ops += new_ops
        self.sizes += new_sizes
        return output

    # Operators.

    def _lower(self, op: Op) -> None:
        if self.style.is_least and self._is_merged(op):
            self._merge(op)
        elif lowering_of(op.kind).fate == "dropped" and op.inputs[:1] and op.inputs[0] in self.at:
            self.at[op.outputs[0]] = self.at[op.inputs[0]]
        elif not (op.kind in _LAYERS and _LAYERS[op.kind](self, op)):
            self._simple(op)

    def _merge(self, op: Op) -> None:
        """Let the result be the input, which is as small as the smaller one of the two."""
        sources = [self.at[identity] for identity in op.inputs if identity in self.at]
        value = sources[0]
        for identity in op.outputs:
            result = self.source.tensors[identity]
            merged = replace(self.tensors[value], shape=result.shape or (), dtype=self._dtype(result))
            if result.shape is not None and tensor_bytes(merged) < self._bytes(value):
                self.tensors[value] = merged
                self.images.discard(value)
            self.at[identity] = value

    def _is_merged(self, op: Op) -> bool:
        computed = [self.at[identity] for identity in op.inputs if identity in self.at]
        if not computed or len(op.outputs) != 1:
            return False
        if lowering_of(op.kind).fate != "written" or (
            op.kind == "pad" and self._is_read_by_windows(op.outputs[0])
        ):
            return True
        if not _is_elementwise(op.kind):
            return False
        if len({*computed}) == 1 and len(computed) < sum(identity != ABSENT for identity in op.inputs):
            return True  # with a constant, which a layer next to it may take
        if len(computed) > 1:
            return len({*computed}) == 1
        # Alone, it stays an operator. Converters replace several by one.
        around = [self.makers.get(op.inputs[0]), *self.readers.get(op.outputs[0], ())]
        return any(other is not None and _is_elementwise(other.kind) for other in around)

    def _is_read_by_windows(self, identity: int) -> bool:
        readers = self.readers.get(identity, ())
        return bool(readers) and all(_has_images(reader.kind) for reader in readers)

    def _simple(self, op: Op) -> None:
        """Write an operator, or one after another, by the names of its cost rule."""
        rule, lowering = cost_rule_of(op.kind), lowering_of(op.kind)
        names = lowering.alternatives or (() if rule is None else rule.tflite)
        known = [name for name in names if name.isupper() and kernel_memory(name, self.build)]
        known = [_PLAIN] if op.kind in _LAYERS or not known else known
        is_image = self._makes_image(op)
        inputs = [
            self._read(each, is_image=is_image if len(self._foreign(each)) in _FIRST_TO_LAST else None)
            for each in op.inputs
            if each != ABSENT
        ] or [self._indices(1)]
        if any(KERNELS[name].reduces_axes for name in known):
            inputs = [inputs[0], self._indices(1 if self.style.is_least else len(self._shape(inputs[0])))]
        outputs = self._outputs(op, is_image=bool(is_image))
        shape = self._shape(outputs[0]) if outputs else ()
        if op.kind == "global_pool" and not self.style.is_least and len(shape) > 1:
            dtype = self.tensors[outputs[0]].dtype
            rows = [partial(self._emit, name, inputs, (shape[0], max(shape[1:])), dtype) for name in known]
            self._write("RESHAPE", [self._one_of(rows), self._indices(len(shape))], outputs)
            return
        *first, last = [[name] for name in lowering.sequence] or [known]
        for (name,) in first:
            shape, dtype = self._shape(outputs[0]), self.tensors[outputs[0]].dtype
            inputs = [self._emit(name, self._operands(name, inputs), shape, dtype), *inputs[1:]]
        attrs = {"kernel": (1, 1), **op.attrs}
        ways = [partial(self._with_floats, name, inputs, outputs, attrs) for name in last]
        if op.kind == "hardswish" and not self.style.is_least:
            ways.append(partial(self._products, inputs[0], outputs))
        self._one_of(ways)

    def _outputs(self, op: Op, *, is_image: bool) -> list[int]:
        """The outputs that a file has, which are not written yet."""
        outputs = []
        for identity in op.outputs:
            tensor = self.source.tensors[identity]
            if tensor.data is not None or (self.style.is_least and not self._is_needed(identity)):
                continue
            shape = tensor.shape or ()
            laid = is_image and len(shape) in _FIRST_TO_LAST
            value = self._new(_permuted(shape, _FIRST_TO_LAST) if laid else shape, self._dtype(tensor))
            self.at[identity] = value
            outputs.append(value)
            if laid:
                self.images.add(value)
        return outputs

    def _with_floats(
        self, source: str, inputs: list[int], outputs: Sequence[int], attrs: dict[str, Any]
    ) -> int:
        """Write an operator; between floats if it has no kernel for the integers."""
        operands = self._operands(source, inputs)
        if self.style.is_least or not self._is_left_in_floats(source, operands, outputs):
            self._write(source, operands, outputs, attrs)
            return 0
        floats = [self._as_float(value) for value in operands]
        output = self._emit(source, floats, self._shape(outputs[0]), DTYPES["float32"], attrs)
        self._write("QUANTIZE", [output], outputs)
        return 0

    def _products(self, value: int, outputs: Sequence[int]) -> int:
        """As x * relu6(x + 3) / 6, with the addition in a second copy of the layer that makes x."""
        last = self.ops[-1] if self.ops else None
        shape, dtype = self._shape(value), self.tensors[value].dtype
        if last is not None and value in last.outputs:
            other = self._emit(last.source, last.inputs, shape, dtype, dict(last.attrs))
        else:
            added = self._emit("ADD", [value, self._indices(1)], shape, dtype)
            other = self._emit("RELU6", [added], shape, dtype)
        product = self._emit("MUL", [value, other], shape, dtype)
        self._write("MUL", [product, self._indices(1)], outputs)
        return 0

    def _is_left_in_floats(self, source: str, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
        """Whether an operator has no kernel for the integers, but one for floats."""
        dtype = self.tensors[outputs[0]].dtype.name if len(outputs) == 1 else ""
        if dtype not in ("int8", "int16"):
            return False
        call = Call(Op(source, tuple(inputs), tuple(outputs), {}, source), self.tensors, self.build)
        with suppress(Incomplete, LookupError, ValueError):
            return any((rule(call) or "").endswith(f", not {dtype}") for rule in RULES.get(source, ()))
        return False

    def _as_float(self, value: int) -> int:
        tensor = self.tensors[value]
        if tensor.data is not None or not tensor.dtype.is_quantized:
            return value
        return self._emit("DEQUANTIZE", [value], self._shape(value), DTYPES["float32"])

    def _operands(self, source: str, inputs: list[int]) -> list[int]:
        """The inputs with the constants that the operator needs: attributes in other formats."""
        kernel = KERNELS[source]
        missing = 0 if self.style.is_least else (kernel.written_inputs or kernel.fewest_inputs) - len(inputs)
        return inputs + [self._indices(4) for _ in range(missing)]

    def _makes_image(self, op: Op) -> bool | None:
        """The layout that an operator reads and writes; None if it takes any."""
        if _has_images(op.kind):
            return True
        if not _keeps_layout(op.kind):
            return False
        images = [identity for identity in op.inputs if self.at.get(identity) in self.images]
        # A merged image may have another shape.
        return any(
            _permuted(self._foreign(each), _FIRST_TO_LAST) == self._shape(self.at[each]) for each in images
        )

    def _is_needed(self, identity: int) -> bool:
        return identity in self.readers or identity in self.source.outputs

    # Layers.

    def _image(self, op: Op, spatial: int) -> tuple[int, tuple[int, int, int, int]] | None:
        """The input of a window and its shape as an image: batch, height, width, channels."""
        if op.inputs[0] not in self.at:
            return None
        foreign = self._foreign(op.inputs[0])
        rank, value = len(foreign), self.at[op.inputs[0]]
        if spatial not in (1, 2) or rank not in (spatial + 1, spatial + 2):
            return None
        if len(self._foreign(op.outputs[0])) != rank:  # a false file
            return None
        if len(self._shape(value)) != rank:  # merged with a tensor of another rank
            if prod(foreign) != prod(self._shape(value)):
                return None
            self.tensors[value] = replace(self.tensors[value], shape=foreign)
            self.images.discard(value)
        value = self._read(op.inputs[0], is_image=True if rank == spatial + 2 else None)
        shape = self._shape(value)
        if rank == spatial + 1:  # without a batch
            shape = (1, *shape[1:], shape[0])
        elif value not in self.images:
            return None
        if spatial == 1:
            shape = (shape[0], 1, *shape[1:])
        image = (shape[0], shape[1], shape[2], shape[3])
        if image != self._shape(value):
            value = self._reshaped(value, image)
        return value, image

    def _reshaped(self, value: int, shape: tuple[int, ...]) -> int:
        """The value in another shape: a copy, unless the shape is the same or everything is merged."""
        if shape == self._shape(value):
            return value
        if self.style.is_least:
            self.tensors[value] = replace(self.tensors[value], shape=shape)
            return value
        return self._emit("RESHAPE", [value, self._indices(len(shape))], shape, self.tensors[value].dtype)

    def _finish(self, op: Op, value: int, spatial: int) -> None:
        """Let an image be the output of an operator, with as many dimensions as that has."""
        foreign = self._foreign(op.outputs[0])
        if len(foreign) == spatial + 2:
            value = self._reshaped(value, _permuted(foreign, _FIRST_TO_LAST))
            self.images.add(value)
        else:
            value = self._reshaped(value, foreign)
        self.at[op.outputs[0]] = value

    def _windowed(
        self,
        source: str,
        image: tuple[int, tuple[int, int, int, int]],
        constants: Sequence[int],
        result: tuple[int, int, int, int],
        dtype: DType,
        attrs: dict[str, Any],
    ) -> int:
        """Write an operator with a window, after the PAD that it may need, and return its output."""
        value, shape = image
        steps, gaps = attrs["stride"], attrs.get("dilation", (1, 1))
        totals = [
            max((count - 1) * step + (taps - 1) * gap + 1 - side, 0)
            for count, step, taps, gap, side in zip(
                result[1:3], steps, attrs["kernel"], gaps, shape[1:3], strict=True
            )
        ]
        is_same = all(
            count == -(-side // step)
            for count, step, side in zip(result[1:3], steps, shape[1:3], strict=True)
        )
        padding = "same" if any(totals) and is_same and not self.style.pads else "valid"
        attrs = {**attrs, "padding": padding}
        if self.style.is_least or padding == "same" or not any(totals):
            return self._emit(source, [value, *constants], result, dtype, attrs)

        def padded(rows: int, columns: int) -> int:
            larger = (shape[0], shape[1] + rows, shape[2] + columns, shape[3])
            output = self._emit("PAD", [value, self._indices(8)], larger, self.tensors[value].dtype)
            return self._emit(source, [output, *constants], result, dtype, attrs)

        # Rows that no window reaches may be padded as well.
        choices = [
            sorted({total, total + step - 1} if total else {0})
            for total, step in zip(totals, steps, strict=True)
        ]
        ways = [partial(padded, *margins) for margins in product(*choices)]
        return self._one_of(
            ways, (source, self._signature([value, *constants]), result, dtype, *attrs.values())
        )

    def _weights(self, op: Op, shape: tuple[int, ...], channels: int) -> list[int]:
        """Weights and bias with scales per channel, and a scale per tensor at the least."""
        tensor = self.source.tensors[op.inputs[1]]
        dtype = self._dtype(tensor, is_weight=True)
        scales = 1 if self.style.is_least else channels
        key = (op.inputs[1], shape)
        if op.inputs[1] in self.at:
            self.shared[key] = self._laid_out(self.at[op.inputs[1]], shape)
        elif not self.style.is_least or key not in self.shared:
            self.shared[key] = self._constant(shape, dtype, scales)
        weights = [self.shared[key]]
        if not self.style.is_least or (len(op.inputs) > 2 and op.inputs[2] != ABSENT):
            is_float = dtype.family == "float"
            bias = dtype if is_float else DTYPES["int64"] if self._is_16_bit(op) else BIAS
            weights.append(self._constant((channels,), bias, scales))
        return weights

    def _layer_signature(
        self, op: Op, value: int, result: tuple[int, ...], attrs: dict[str, Any]
    ) -> Hashable:
        """All that the memory of a layer with weights depends on."""
        weights = op.inputs[1]
        computed = [self.at[weights]] if weights in self.at else []
        constant = self._foreign(weights), self._dtype(self.source.tensors[weights], is_weight=True)
        has_bias = op.inputs[2:3] not in ((), (ABSENT,))
        read = self._signature([value, *computed])
        return op.kind, read, constant, has_bias, result, self._output_dtype(op), *attrs.values()

    def _laid_out(self, value: int, shape: tuple[int, ...]) -> int:
        """Computed weights in the order of the dimensions that a kernel takes."""
        if not self.style.is_least:
            return self._emit("TRANSPOSE", [value, self._indices(4)], shape, self.tensors[value].dtype)
        self.tensors[value] = replace(self.tensors[value], shape=shape)
        self.images.discard(value)
        return value

    def _is_16_bit(self, op: Op) -> bool:
        return self._dtype(self.source.tensors[op.outputs[0]]).name == "int16"

    @_layer("conv")
    def _conv(self, op: Op) -> bool:
        """A convolution; False if it is none of images or rows."""
        weights = self._foreign(op.inputs[1]) if len(op.inputs) > 1 else ()
        spatial = len(weights) - 2
        window = self._image(op, spatial)
        if window is None:
            return False
        image, groups = window[1], int(op.attrs.get("groups", 1))
        taps = _pair(None, weights[2:])
        steps, gaps = (_pair(op.attrs.get(name), (1,) * spatial) for name in ("stride", "dilation"))
        result = self._result(op, spatial)
        filters, dtype = weights[0], self._output_dtype(op)
        attrs = {"stride": steps, "dilation": gaps, "groups": groups, "kernel": taps, "out_channels": filters}

        def plain() -> int:
            constants = self._weights(op, (filters, *taps, weights[1]), filters)
            return self._windowed("CONV_2D", window, constants, result, dtype, attrs)

        def depthwise() -> int:
            constants = self._weights(op, (1, *taps, filters), filters)
            return self._windowed("DEPTHWISE_CONV_2D", window, constants, result, dtype, attrs)

        ways = [plain] if groups != image[3] else [depthwise] if groups > 1 else [plain, depthwise]
        self._finish(op, self._one_of(ways, self._layer_signature(op, window[0], result, attrs)), spatial)
        return True

    @_layer("conv_transpose")
    def _conv_transpose(self, op: Op) -> bool:
        weights = self._foreign(op.inputs[1]) if len(op.inputs) > 1 else ()
        spatial = len(weights) - 2
        window = self._image(op, spatial)
        if window is None:
            return False
        (value, image), result = window, self._result(op, spatial)
        taps = _pair(None, weights[2:])
        between = [
            max(-(-(count + 2 * (extent - 1)) // max(side - 1, 1)), 1)
            for count, extent, side in zip(result[1:3], taps, image[1:3], strict=True)
        ]
        steps = _pair(op.attrs.get("stride"), between[-spatial:])
        shape = (result[3], *taps, image[3])
        dtype = self._output_dtype(op)
        attrs = {"stride": steps, "padding": "same", "kernel": taps, "in_channels": image[3]}
        whole = result
        if self.style.pads:  # which are cut off afterwards
            height, width = (
                max((side - 1) * step + extent, count)
                for side, step, extent, count in zip(image[1:3], steps, taps, result[1:3], strict=True)
            )
            whole = (result[0], height, width, result[3])

        def transposed() -> int:
            operands = [value, *self._weights(op, shape, result[3]), self._indices(4)]
            output = self._emit("TRANSPOSE_CONV", operands, whole, dtype, attrs)
            if whole == result:
                return output
            return self._emit("STRIDED_SLICE", [output, *(self._indices(4) for _ in range(3))], result, dtype)

        def convolution() -> int:
            constants = self._weights(op, shape, result[3])
            return self._windowed(
                "CONV_2D", window, constants, result, dtype, {**attrs, "groups": 1, "out_channels": result[3]}
            )

        self._finish(
            op, self._one_of([transposed, convolution] if max(steps) == 1 else [transposed]), spatial
        )
        return True

    @_layer("pool")
    def _pool(self, op: Op) -> bool:
        spatial = len(self._foreign(op.inputs[0])) - 2
        kernel = op.attrs.get("kernel")
        window = self._image(op, spatial) if kernel else None
        if window is None:
            return False
        taps = _pair(kernel, (1,) * spatial)
        attrs = {
            "stride": _pair(op.attrs.get("stride") or kernel, taps[-spatial:]),
            "kernel": taps,
            "taps": prod(taps),
        }
        result, dtype = self._result(op, spatial), self._output_dtype(op)
        ways: list[Callable[[], int]] = [
            partial(self._windowed, source, window, [], result, dtype, attrs)
            for source in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        ]

        def corrected() -> int:
            """An average that counts padding, as one that does not, with its edges multiplied."""
            output = ways[0]()
            for axis in (1, 2):
                inner = max(result[axis] - 2, 1)
                parts: list[int] = []
                for size in (1, inner, 1):
                    shape = (*result[:axis], size, *result[axis + 1 :])
                    part = self._emit(
                        "STRIDED_SLICE", self._operands("STRIDED_SLICE", [output]), shape, dtype
                    )
                    is_edge = len(parts) != 1
                    parts.append(
                        self._emit("MUL", [part, self._indices(1)], shape, dtype) if is_edge else part
                    )
                output = self._emit("CONCATENATION", parts, result, dtype)
            return output

        is_average = any(name in op.source.lower() for name in ("average", "avg"))
        if is_average and max(taps) > 1 and not self.style.is_least:
            ways.append(corrected)
        self._finish(op, self._one_of(ways), spatial)
        return True

    def _result(self, op: Op, spatial: int) -> tuple[int, int, int, int]:
        """The shape of an output as an image."""
        shape = self._foreign(op.outputs[0])
        if len(shape) == spatial + 1:
            shape = (1, *shape)
        sides = shape[2:] if spatial == 2 else (1, *shape[2:])
        return shape[0], sides[0], sides[1], shape[1]

    def _output_dtype(self, op: Op) -> DType:
        return self._dtype(self.source.tensors[op.outputs[0]])

    @_layer("matmul")
    def _matmul(self, op: Op) -> bool:
        """A product with constant weights, or of two computed matrices."""
        left, right = (*op.inputs, ABSENT, ABSENT)[:2]
        result, dtype = self._foreign(op.outputs[0]), self._output_dtype(op)
        if left not in self.at or not result or right == ABSENT:
            return False
        rows = self._read(left, is_image=False)
        columns, count = result[-1], prod(self._foreign(right))
        is_dense = right not in self.at and len(self._foreign(right)) <= 2

        def dense() -> int:
            weights = self._weights(op, (columns, count // max(columns, 1)), columns)
            output = self._emit("FULLY_CONNECTED", [rows, *weights], result, dtype, {"contracted": (-1,)})
            if self.style.transposes and len(result) > 2:
                output = self._emit("RESHAPE", [output, self._indices(len(result))], result, dtype)
            return output

        def batched() -> int:
            # A right operand that is not transposed is copied to the tail.
            attrs = {"adjoint": (False, self.style.is_least), "contracted": (-1,)}
            operand = self._read(right) if other == ABSENT else other
            return self._emit("BATCH_MATMUL", [rows, operand], result, dtype, attrs)

        other = self._read(right, is_image=False) if right in self.at or not is_dense else ABSENT
        # Only a MatMul: converters write FULLY_CONNECTED for linear layers.
        may_be_batched = len(result) > 2 and "matmul" in op.source.lower()
        ways = [batched] if not is_dense else [dense, batched] if may_be_batched else [dense]
        output = self._one_of(ways)
        added = op.inputs[2] if len(op.inputs) > 2 else ABSENT
        if added != ABSENT and not self.style.is_least and (added in self.at or not is_dense):
            output = self._emit("ADD", [output, self._read(added)], result, dtype)
        self.at[op.outputs[0]] = output
        return True


def _no_content() -> Any:
    return np.zeros(0)


def _is_elementwise(kind: str) -> bool:
    rule = cost_rule_of(kind)
    return rule is not None and rule.family == "elementwise"


def _has_images(kind: str) -> bool:
    return lowering_of(kind).layout == "images"


def _keeps_layout(kind: str) -> bool:
    lowering = lowering_of(kind)
    return lowering.layout == "kept" or lowering.fate == "dropped" or _is_elementwise(kind)


def _permuted(shape: Sequence[int], order: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order[len(shape)]) if len(shape) in order else tuple(shape)


def _pair(value: Any, default: Sequence[int]) -> tuple[int, int]:
    """Two numbers, for height and width, of one or two."""
    numbers = [int(number) for number in value] if isinstance(value, list | tuple) else []
    if isinstance(value, int):
        numbers = [value] * len(default)
    numbers = numbers or [*default]
    if len(numbers) == 1 and len(default) == 2:
        numbers *= 2
    return (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
