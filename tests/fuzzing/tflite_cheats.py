"""Changes of .tflite files that keep what a runtime computes, made to need less in the eyes of a reader.

No change removes or shrinks anything that runs. Which original a file was made of is in its description.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from formats.tflite.factory import File, Subgraph, flatbuffers, options, quantized, schema

_PLAN = "OfflineMemoryAllocation"
_BUILTINS = schema.BuiltinOperator


def seeds(folder: Path) -> list[bytes]:
    """Networks whose numbers depend on every weight and on every input."""
    return list(_seeds())


@functools.cache
def _seeds() -> tuple[bytes, ...]:
    files = (dense(), residual(), residual(is_quantized=True), branches(), folded(), states())
    return tuple(_packed(_tagged(each.model, number)) for number, each in enumerate(files))


def original_of(content: bytes) -> int:
    """The number of the seed that a file was made of."""
    return int(schema.Model.GetRootAs(content).Description() or 0)


def mutate(content: bytes, random: Random) -> bytes:
    """Make some of the changes."""
    number = original_of(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        # A change that finds nothing to change, or cannot be packed, leaves the file as it is.
        with contextlib.suppress(IndexError, TypeError, ValueError):
            random.choice(_CHANGES)(model, random)
            content = _packed(_tagged(model, number))
    return content


def _tagged(model: Any, number: int) -> Any:
    model.description = str(number)
    return model


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


# Originals.


class _Net:
    """A file whose weights are drawn."""

    def __init__(self, seed: int, is_quantized: bool = False) -> None:
        self.file, self._random, self._is_quantized = File(), np.random.default_rng(seed), is_quantized
        self.main = self.file.main

    def value(self, name: str, *shape: int) -> int:
        if not self._is_quantized:
            return self.main.tensor(name, shape)
        return self.main.tensor(name, shape, "INT8", quantization=quantized([0.1]))

    def weights(self, name: str, *shape: int, is_bias: bool = False) -> int:
        if not self._is_quantized:
            return self.main.tensor(name, shape, data=self._random.normal(size=shape).astype(np.float32))
        kind, most, scale = ("INT32", 100, 0.01) if is_bias else ("INT8", 10, 0.1)
        data = self._random.integers(-most, most, size=shape).astype(kind.lower())
        scales = quantized([scale] * shape[0], [0] * shape[0])
        return self.main.tensor(name, shape, kind, data, quantization=scales)

    def convolution(self, name: str, source: int, sides: Sequence[int], read: int, made: int) -> int:
        weights = self.weights(f"{name}/w", made, 3, 3, read)
        bias = self.weights(f"{name}/b", made, is_bias=True)
        out = self.value(name, *sides, made)
        settings = options("Conv2DOptions", strideH=1, strideW=1, padding=schema.Padding.SAME)
        self.main.op("CONV_2D", [source, weights, bias], [out], settings)
        return out

    def dense(self, name: str, source: int, read: int, made: int) -> int:
        weights, out = self.weights(f"{name}/w", made, read), self.value(name, 1, made)
        bias = self.weights(f"{name}/b", made, is_bias=True)
        self.main.op("FULLY_CONNECTED", [source, weights, bias], [out], options("FullyConnectedOptions"))
        return out


def dense() -> File:
    """Two fully connected layers."""
    net = _Net(1)
    x = net.value("x", 1, 64)
    net.main.ends([x], [net.dense("y", net.dense("h", x, 64, 96), 96, 16)])
    return net.file


def residual(*, is_quantized: bool = False) -> File:
    """Convolutions with a value that stays live beside them."""
    net = _Net(2, is_quantized)
    sides = (1, 8, 8)
    x = net.value("x", *sides, 3)
    first = net.convolution("first", x, sides, 3, 8)
    second = net.convolution("second", net.convolution("inner", first, sides, 8, 12), sides, 12, 8)
    total, flat = net.value("total", *sides, 8), net.value("flat", 1, 512)
    net.main.op("ADD", [first, second], [total], options("AddOptions"))
    shape = net.main.tensor("shape", (2,), "INT32", np.array([1, 512], np.int32))
    net.main.op("RESHAPE", [total, shape], [flat], options("ReshapeOptions", newShape=[1, 512]))
    net.main.ends([x], [net.dense("y", flat, 512, 10)])
    return net.file


def branches() -> File:
    """A split whose parts are joined again, and a second output."""
    net = _Net(3)
    x = net.value("x", 1, 4, 4, 8)
    axis = net.main.tensor("axis", (), "INT32", np.array(3, np.int32))
    parts = [net.value(f"part{n}", 1, 4, 4, 4) for n in range(2)]
    net.main.op("SPLIT", [axis, x], parts, options("SplitOptions", numSplits=2))
    made = [net.convolution(f"branch{n}", part, (1, 4, 4), 4, 6) for n, part in enumerate(parts)]
    joined, active = net.value("joined", 1, 4, 4, 12), net.value("active", 1, 4, 4, 12)
    net.main.op("CONCATENATION", made, [joined], options("ConcatenationOptions", axis=3))
    net.main.op("LOGISTIC", [joined], [active])
    net.main.ends([x], [active, made[0]])
    return net.file


def folded() -> File:
    """A matrix product of two inputs, and one with a transposed constant."""
    net = _Net(4)
    x, y = net.value("x", 1, 12, 20), net.value("y", 1, 20, 16)
    product, scores = net.value("product", 1, 12, 16), net.value("scores", 1, 12, 24)
    net.main.op("BATCH_MATMUL", [x, y], [product], options("BatchMatMulOptions"))
    constant = net.weights("w", 1, 16, 24)
    net.main.op("BATCH_MATMUL", [product, constant], [scores], options("BatchMatMulOptions"))
    soft = net.value("soft", 1, 12, 24)
    net.main.op("SOFTMAX", [scores], [soft], options("SoftmaxOptions", beta=1.0))
    net.main.ends([x, y], [soft])
    return net.file


def states() -> File:
    """A branch of control flow whose condition is an input, around dense layers."""
    net = _Net(5)
    flag, x = net.main.tensor("flag", (1,), "BOOL"), net.value("x", 1, 32)
    hidden, out = net.dense("h", x, 32, 48), net.value("y", 1, 48)
    net.main.op("IF", [flag, hidden], [out], options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2))
    for name in ("RELU", "LOGISTIC"):
        inner = net.file.subgraph(name)
        source, middle, made = (inner.tensor(each, (1, 48)) for each in "abc")
        inner.op(name, [source], [middle])
        inner.op("NEG", [middle], [made])
        inner.ends([source], [made])
    net.main.ends([flag, x], [net.dense("z", out, 48, 8)])
    return net.file


# Changes; each takes the model as objects and the random numbers.


def _main(model: Any) -> Any:
    return model.subgraphs[0]


def _listed(values: Any) -> list[int]:
    return [] if values is None else [int(each) for each in values]


def _sized(shape: Any) -> int:
    return int(np.prod(_listed(shape), dtype=np.int64))


def _variable(model: Any, random: Random) -> Any:
    """A tensor that is computed, and neither an input nor an output."""
    graph = _main(model)
    made = {each for operator in graph.operators for each in _listed(operator.outputs)}
    inner = sorted(made - set(_listed(graph.outputs)))
    return graph.tensors[random.choice(inner or sorted(made))]


def _constant(model: Any, random: Random) -> Any:
    return random.choice(
        [each for each in _main(model).tensors if model.buffers[each.buffer].data is not None]
    )


def _buffer(model: Any, content: bytes) -> int:
    made = schema.BufferT()
    made.data = np.frombuffer(content, np.uint8)
    model.buffers.append(made)
    return len(model.buffers) - 1


def _add_metadata(model: Any, name: str, content: bytes) -> None:
    entry = schema.MetadataT()
    entry.name, entry.buffer = name, _buffer(model, content)
    model.metadata = [*(model.metadata or []), entry]


def _plan(model: Any, random: Random) -> None:
    """Place tensors in the arena: on top of each other, anywhere, or only some."""
    count = (
        sum(len(each.tensors) for each in model.subgraphs)
        if random.random() < 0.2
        else len(_main(model).tensors)
    )
    most = random.choice((0, 0, 64, 1024, 65536))
    share = random.choice((0.0, 0.0, 0.3, 0.9))
    offsets = [-1 if random.random() < share else 16 * random.randint(0, most // 16) for _ in range(count)]
    offsets = [-1 if model.buffers[tensor.buffer].data is not None and random.random() < 0.5 else offset
               for offset, tensor in zip(offsets, _main(model).tensors, strict=False)]  # fmt: skip
    head = random.choice(((1, 0), (1, 0), (1, 0), (1, 1), (0, 0), (2, 0)))
    count = len(offsets) if random.random() < 0.9 else random.randint(0, len(offsets) + 1)
    _add_metadata(model, _PLAN, np.array([*head, count, *offsets], np.int32).tobytes())


def _shape(model: Any, random: Random) -> None:
    """Record a shape that a computed tensor does not have."""
    tensor = _variable(model, random)
    shape = _listed(tensor.shape)
    choice = random.randrange(5)
    if choice == 0 and shape:
        shape[random.randrange(len(shape))] = random.choice((0, 1, 2))
    elif choice == 1:
        shape = [1] * len(shape)
    elif choice == 2:
        shape = random.choice(([], [1], [0], shape[1:], shape[::-1]))
    elif choice == 3 and len(shape) > 1:
        shape = [1, _sized(shape)]
    else:
        tensor.hasRank = True
        shape = []
    if random.random() < 0.5:
        tensor.shapeSignature = random.choice((_listed(tensor.shape), [-1] * len(shape), [-1, *shape[1:]]))
    tensor.shape = shape


def _signature(model: Any, random: Random) -> None:
    """Call dimensions dynamic that are not, of any tensor."""
    tensor = random.choice(_main(model).tensors)
    shape = _listed(tensor.shape)
    tensor.shapeSignature = random.choice(
        ([-1] * len(shape), [-1, *shape[1:]], [1] * len(shape), shape[::-1], [0] * len(shape), [])
    )


def _unreachable(model: Any, random: Random) -> None:
    """Add a subgraph that nothing calls, and perhaps a signature that names it."""
    extra = schema.SubGraphT()
    extra.name = random.choice(("main", "other", _main(model).name))
    extra.tensors, extra.operators = [copy.deepcopy(_main(model).tensors[0])], []
    extra.inputs, extra.outputs = [0], [0]
    model.subgraphs.append(extra)
    if random.random() < 0.8:
        _sign(model, len(model.subgraphs) - 1, random)


def _sign(model: Any, index: int, random: Random) -> None:
    entry = schema.SignatureDefT()
    entry.signatureKey = random.choice(("serving_default", "main", "", "x"))
    entry.subgraphIndex = index
    for name in ("inputs", "outputs"):
        mapped = []
        for number, identity in enumerate(_listed(getattr(model.subgraphs[index], name))):
            pair = schema.TensorMapT()
            pair.name, pair.tensorIndex = f"{name}{number}", identity
            mapped.append(pair)
        setattr(entry, name, mapped)
    model.signatureDefs = [entry, *(model.signatureDefs or [])]


def _alias_code(model: Any, random: Random) -> None:
    """Write the number of an operator in one of its two fields alone, or next to a name of its own."""
    code = random.choice(model.operatorCodes)
    builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
    choice = random.randrange(5)
    if choice == 0 and builtin < 127:
        code.builtinCode = random.choice((0, random.randint(0, builtin)))
        code.deprecatedBuiltinCode = builtin
    elif choice == 1:
        code.builtinCode, code.deprecatedBuiltinCode = builtin, random.randint(0, min(builtin, 126))
    elif choice == 2:
        code.customCode = random.choice(("RESHAPE", "Identity", "ethos-u", "TFLite_Detection_PostProcess"))
    elif choice == 3:
        code.version = random.choice((0, 1, 2, 3, 99))
    else:
        model.operatorCodes.append(copy.deepcopy(code))


def _custom_options(model: Any, random: Random) -> None:
    operator = random.choice(_main(model).operators)
    operator.customOptions = list(bytes(random.choice((1, 16, 4096))))
    if random.random() < 0.5:
        operator.largeCustomOptionsOffset, operator.largeCustomOptionsSize = 1, random.choice((1, 1 << 30))


def _intermediates(model: Any, random: Random) -> None:
    operator = random.choice(_main(model).operators)
    operator.intermediates = [random.randrange(len(_main(model).tensors))]


def _variable_flags(model: Any, random: Random) -> None:
    operator = random.choice(_main(model).operators)
    if random.random() < 0.5:
        operator.mutatingVariableInputs = [True] * len(_listed(operator.inputs))
    else:
        random.choice(_main(model).tensors).isVariable = True


def _ends(model: Any, random: Random) -> None:
    """List further tensors as inputs or outputs."""
    graph = _main(model)
    identity = random.randrange(len(graph.tensors))
    if random.random() < 0.5:
        graph.inputs = [*_listed(graph.inputs), identity]
    else:
        graph.outputs = [*_listed(graph.outputs), identity]


def _rename(model: Any, random: Random) -> None:
    """Give tensors the name of another, or one that means something to a reader."""
    names = [each.name for each in _main(model).tensors]
    chosen = random.sample(_main(model).tensors, random.randint(1, len(names)))
    for each in chosen:
        each.name = random.choice((*names, b"", b"scratch", b"persistent", b"x" * 3000, None))


def _quantization(model: Any, random: Random) -> None:
    """Record a quantization that no kernel of this dtype reads."""
    tensor = random.choice(_main(model).tensors)
    if tensor.quantization is None or tensor.type == schema.TensorType.FLOAT32:
        count = random.choice((0, 1, 4))
        tensor.quantization = quantized([0.5] * count, [0] * random.choice((count, 0)), random.randint(-1, 5))
    else:
        tensor.quantization.min, tensor.quantization.max = [0.0], [random.choice((0.0, 1e30))]
        tensor.quantization.quantizedDimension = random.choice((0, 0, 1, 3))


def _sparse(model: Any, random: Random) -> None:
    """Call a dense constant sparse."""
    tensor = _constant(model, random)
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder = [*range(len(_listed(tensor.shape)))]
    sparsity.dimMetadata = []
    for side in _listed(tensor.shape) if random.random() < 0.7 else []:
        entry = schema.DimensionMetadataT()
        entry.denseSize = side
        sparsity.dimMetadata.append(entry)
    tensor.sparsity = sparsity


def _dtype(model: Any, random: Random) -> None:
    """Another dtype of a computed tensor or of a constant."""
    tensor = _variable(model, random) if random.random() < 0.7 else _constant(model, random)
    tensor.type = random.choice((schema.TensorType.INT4, schema.TensorType.INT8, schema.TensorType.FLOAT16,
                                 schema.TensorType.FLOAT32, schema.TensorType.RESOURCE))  # fmt: skip


def _fill_buffer(model: Any, random: Random) -> None:
    """Give a computed tensor content, as a constant has it."""
    tensor = _variable(model, random) if random.random() < 0.7 else random.choice(_main(model).tensors)
    size = random.choice((4 * max(_sized(tensor.shape), 1), 4, 1))
    if model.buffers[tensor.buffer].data is None:
        tensor.buffer = _buffer(model, bytes(min(size, 1 << 16)))


def _outside(model: Any, random: Random) -> None:
    """State a place of a buffer's content outside the FlatBuffer."""
    buffer = random.choice(model.buffers)
    buffer.offset, buffer.size = random.choice((0, 1, 2, 4096)), random.choice((0, 1, 2, 64))


def _describe(model: Any, random: Random) -> None:
    """Metadata that tools write, with any content."""
    names = ("min_runtime_version", "CONVERSION_METADATA", "model_control_dependencies", "TFLITE_METADATA",
             "vela_version", "reduced_precision_support", _PLAN)  # fmt: skip
    _add_metadata(model, random.choice(names), random.choice((b"", b"1.5.0", bytes(64), b"fp16accfp32")))
    model.version = random.choice((3, 3, 3, 0, 2))


def _call(model: Any, random: Random) -> None:
    """Move everything into a subgraph that a branch, a composite or a loop of one pass runs."""
    body = _main(model)
    outer = Subgraph(_opened(model), "main")
    fed = [_added(outer, body.tensors[identity]) for identity in _listed(body.inputs)]
    made = [_added(outer, body.tensors[identity]) for identity in _listed(body.outputs)]
    index = len(model.subgraphs)
    model.subgraphs[0] = outer.table
    model.subgraphs.append(body)
    outer.ends(fed, made)
    random.choice((_branch, _branch, _loop, _loop, _composite))(model, outer, index, random)


def _branch(model: Any, outer: Subgraph, index: int, random: Random) -> None:
    fed, made = outer.table.inputs, outer.table.outputs
    flag = outer.tensor("always", (1,), "BOOL", np.array([True]))
    other = random.choice((index, index + 1))
    outer.op("IF", [flag, *fed], made, options("IfOptions", thenSubgraphIndex=index, elseSubgraphIndex=other))
    if other > index:
        model.subgraphs.append(_trivial(model.subgraphs[index]))


def _loop(model: Any, outer: Subgraph, index: int, random: Random) -> None:
    """The values of the loop are a counter, the inputs and the outputs."""
    fed, made, body = outer.table.inputs, outer.table.outputs, model.subgraphs[index]
    one = _buffer(model, np.array([1], np.int32).tobytes())
    condition = outer.file.subgraph("condition")
    ends = [_counter(condition), *(_added(condition, outer.table.tensors[each]) for each in (*fed, *made))]
    go = condition.tensor("go", (1,), "BOOL")
    condition.op(
        "LESS", [ends[0], condition.tensor("trips", (1,), "INT32", buffer=one)], [go], options("LessOptions")
    )
    condition.ends(ends, [go])
    inner = Subgraph(outer.file, "body")
    inner.table = body
    before, after = _counter(inner), inner.tensor("next", (1,), "INT32")
    inner.op("ADD", [before, inner.tensor("one", (1,), "INT32", buffer=one)], [after], options("AddOptions"))
    unread = [_added(inner, outer.table.tensors[each]) for each in made]
    results = (*_listed(body.inputs), *_listed(body.outputs))
    inner.ends([before, *_listed(body.inputs), *unread], [after, *results])
    start = outer.tensor("start", (1,), "INT32", np.array([0], np.int32))
    zeros = [_added(outer, outer.table.tensors[each]) for each in made]
    for each in zeros:
        outer.table.tensors[each].buffer = _buffer(model, bytes(4 * _sized(outer.table.tensors[each].shape)))
        if outer.table.tensors[each].type == schema.TensorType.INT8:
            outer.table.tensors[each].buffer = _buffer(model, bytes(_sized(outer.table.tensors[each].shape)))
    count, unused = _counter(outer), [_added(outer, outer.table.tensors[each]) for each in fed]
    settings = options("WhileOptions", condSubgraphIndex=len(model.subgraphs) - 1, bodySubgraphIndex=index)
    outer.op("WHILE", [start, *fed, *zeros], [count, *unused, *made], settings)


def _counter(graph: Subgraph) -> int:
    return graph.tensor("i", (1,), "INT32")


def _composite(model: Any, outer: Subgraph, index: int, random: Random) -> None:
    attributes = list(bytes(flexbuffers.Dumps({})))
    settings = options(
        "StableHLOCompositeOptions",
        name="odml.rms_norm",
        decompositionSubgraphIndex=index,
        compositeAttributes=attributes,
    )
    outer.op("STABLEHLO_COMPOSITE", outer.table.inputs, outer.table.outputs, settings)


def _opened(model: Any) -> File:
    """The factory of a model that exists."""
    file = File()
    file.model = model
    return file


def _added(graph: Subgraph, tensor: Any) -> int:
    graph.table.tensors.append(copy.deepcopy(tensor))
    return len(graph.table.tensors) - 1


def _trivial(body: Any) -> Any:
    """A subgraph with the same ends that fills its outputs from constants."""
    made = schema.SubGraphT()
    made.name, made.operators = "trivial", []
    ends = [copy.deepcopy(body.tensors[each]) for each in (*_listed(body.inputs), *_listed(body.outputs))]
    made.tensors = ends
    count = len(_listed(body.inputs))
    made.inputs, made.outputs = [*range(count)], [*range(count, len(ends))]
    return made


def _share(model: Any, random: Random) -> None:
    """Add subgraphs with the content of the main one, or the same constants under further names."""
    if random.random() < 0.5:
        model.subgraphs.append(copy.deepcopy(_main(model)))
    else:
        tensor = copy.deepcopy(_constant(model, random))
        tensor.shape = random.choice(([], [1], _listed(tensor.shape)))
        _main(model).tensors.append(tensor)


def _dead(model: Any, random: Random) -> None:
    """Repeat an operator for an output that nothing reads."""
    graph = _main(model)
    operator = copy.deepcopy(random.choice(graph.operators))
    outputs = [copy.deepcopy(graph.tensors[each]) for each in _listed(operator.outputs)]
    operator.outputs = [len(graph.tensors) + number for number in range(len(outputs))]
    graph.tensors += outputs
    graph.operators.insert(random.choice((len(graph.operators), len(graph.operators) - 1)), operator)


_Change = Callable[[Any, Random], None]
_CHANGES: tuple[_Change, ...] = (
    *(_plan, _plan, _plan, _shape, _shape, _shape, _signature, _unreachable, _alias_code, _alias_code),
    *(_custom_options, _intermediates, _variable_flags, _ends, _rename, _quantization, _sparse, _dtype),
    *(_fill_buffer, _outside, _describe, _call, _call, _share, _dead),
)
