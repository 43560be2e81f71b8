"""How far an output may reach into its input, against kernels walked by byte and the real interpreter."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

import sizeup
from formats.tflite.factory import File, options
from micro_kernels import Case, Value
from sizeup.backends.tflm import head_buffers
from sizeup.backends.tflm.kernels.overlaps import Windows, flat_distance, padded_distance
from sizeup.backends.tflm.overlap import overlaps
from sizeup.errors import Incomplete
from sizeup.formats import tflite
from sizeup.formats.tflite.write import rewrite

# A kernel, walked: for every number that it writes, in order, those that it reads for it and its place.
Walk = Iterator[tuple[list[int], int]]


def survives(walk: list[tuple[list[int], int]], distance: int, read: int, written: int) -> bool:
    """Whether every read returns the original value with the input at that distance after the output."""
    overwritten: set[int] = set()  # addresses; the output begins at 0
    for sources, result in walk:
        for source in sources:
            begin = distance + source * read
            if not overwritten.isdisjoint(range(begin, begin + read)):
                return False
        overwritten.update(range(result * written, result * written + written))
    return True


def is_least(walk: list[tuple[list[int], int]], distance: int, size: int, read: int, written: int) -> None:
    """Safe from this distance on, and not one byte before, unless nothing is shared there."""
    reach = (max(place for _, place in walk) + 1) * written
    for more in {0, 1, 2, 3, 16, *range(0, max(1, reach - distance + 1), 7)}:
        assert survives(walk, distance + more, read, written)
    if distance > -size:
        assert not survives(walk, distance - 1, read, written)


class Layer(NamedTuple):
    """A convolution as its options say it."""

    batches: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    same: bool
    groups: int
    channels: int  # of the input, in each group
    filters: int  # of the output, in each group
    width: int


def output_size(layer: Layer, axis: int) -> int:
    reach = (layer.kernel[axis] - 1) * layer.dilation[axis] + 1
    numbers = layer.size[axis] if layer.same else layer.size[axis] - reach + 1
    return -(-numbers // layer.stride[axis])


def walked(layer: Layer) -> Walk:
    """Batch, row, column, channel; taps outside the image are skipped."""
    rows, columns = output_size(layer, 0), output_size(layer, 1)
    height, width = layer.size
    top = padding(layer, 0, rows)
    left = padding(layer, 1, columns)
    inputs, outputs = layer.groups * layer.channels, layer.groups * layer.filters
    loops = itertools.product(range(layer.batches), range(rows), range(columns), range(outputs))
    for place, (batch, y, x, channel) in enumerate(loops):
        reads: list[int] = []
        for tap_y, tap_x in itertools.product(range(layer.kernel[0]), range(layer.kernel[1])):
            in_y = y * layer.stride[0] - top + tap_y * layer.dilation[0]
            in_x = x * layer.stride[1] - left + tap_x * layer.dilation[1]
            if 0 <= in_y < height and 0 <= in_x < width:
                pixel = (batch * height + in_y) * width + in_x
                first = pixel * inputs + channel // layer.filters * layer.channels
                reads += range(first, first + layer.channels)
        yield reads, place


def padding(layer: Layer, axis: int, outputs: int) -> int:
    if not layer.same:
        return 0
    reach = (layer.kernel[axis] - 1) * layer.dilation[axis] + 1
    return max(0, (outputs - 1) * layer.stride[axis] + reach - layer.size[axis]) // 2


def pairs(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(least, most), st.integers(least, most))


layers = st.builds(
    Layer,
    st.integers(1, 2),
    pairs(1, 6),
    pairs(1, 4),
    pairs(1, 3),
    pairs(1, 3),
    st.booleans(),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
).filter(lambda layer: min(output_size(layer, 0), output_size(layer, 1)) > 0)


@pytest.mark.slow
@given(layers)
@settings(max_examples=300, deadline=None)
@example(Layer(1, (6, 6), (3, 3), (2, 2), (1, 1), True, 1, 3, 8, 1))
@example(Layer(1, (1, 1), (1, 1), (1, 1), (1, 1), False, 1, 3, 1, 4))
def test_the_distance_of_windows_is_the_least_by_which_no_unread_byte_is_lost(layer: Layer) -> None:
    windows = Windows(
        layer.batches,
        layer.size,
        (output_size(layer, 0), output_size(layer, 1)),
        layer.kernel,
        layer.stride,
        layer.dilation,
        layer.groups * layer.channels,
        layer.groups * layer.filters,
        layer.groups,
        layer.width,
    )
    size = layer.batches * math.prod(layer.size) * layer.groups * layer.channels * layer.width
    is_least(list(walked(layer)), windows.least_distance(), size, layer.width, layer.width)


@given(st.integers(1, 40), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
@settings(deadline=None)
def test_the_distance_number_by_number_is_the_least(elements: int, read: int, written: int) -> None:
    walk = [([number], number) for number in range(elements)]
    is_least(walk, flat_distance(elements, read, written), elements * read, read, written)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4]),
)
@settings(deadline=None)
def test_the_distance_of_padding_is_the_least(axes: list[tuple[int, int, int]], width: int) -> None:
    shape = tuple(size for size, _, _ in axes)
    before = tuple(begin for _, begin, _ in axes)
    output = tuple(map(sum, axes))
    walk: list[tuple[list[int], int]] = []
    read = 0
    for place, index in enumerate(itertools.product(*map(range, output))):
        is_inside = all(b <= i < b + s for i, (s, b, _) in zip(index, axes, strict=True))
        walk.append(([read] if is_inside else [], place))
        read += is_inside
    distance = padded_distance(shape, before, output, width)
    is_least(walk, distance, math.prod(shape) * width, width, width)


def test_a_large_network_takes_no_time(shared: Path) -> None:
    graph = sizeup.load(shared / "models/tflm_mobilenetv2_224.tflite")
    head = head_buffers(graph)
    started = time.perf_counter()
    pairs = overlaps(graph, head)
    assert time.perf_counter() - started < 0.5
    assert len(pairs) > 70


# The same kernels in the real interpreter


def random_weights(*shape: int, kind: str = "INT8", scale: float = 2.0**-6) -> Value:
    generator = np.random.default_rng(len(shape))
    if kind == "FLOAT32":
        return Value(shape, kind, generator.normal(size=shape).astype(np.float32))
    # None is zero: a lost number would not be missed there.
    numbers = generator.integers(30, 101, shape) * generator.choice([-1, 1], shape)
    return Value(shape, kind, numbers.astype(kind.lower()), shape[0], False, scale)


def biases(count: int, kind: str) -> Value:
    number = {"INT8": "INT32", "INT16": "INT64", "FLOAT32": "FLOAT32"}[kind]
    return Value((count,), number, np.zeros(count, number.lower()))


def values(kind: str, *shape: int, scale: float = 2.0**-5, zero: int = 0) -> Value:
    return Value(shape, kind, scale=scale, zero=zero)


def conv(
    kind: str, source: tuple[int, ...], result: tuple[int, ...], filters: tuple[int, ...], **fields: int
) -> Case:
    settings_ = options(
        "Conv2DOptions", **{"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1} | fields
    )
    weights = random_weights(*filters, kind="FLOAT32" if kind == "FLOAT32" else "INT8")
    given_ = [values(kind, *source), weights, biases(filters[0], kind)]
    return Case("CONV_2D", given_, [values(kind, *result)], settings_, f"{kind} {filters}")


def depthwise(kind: str, source: tuple[int, ...], result: tuple[int, ...], filters: tuple[int, ...]) -> Case:
    settings_ = options(
        "DepthwiseConv2DOptions", strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, padding=0,
        depthMultiplier=result[3] // source[3],
    )  # fmt: skip
    weights = random_weights(*filters, kind="FLOAT32" if kind == "FLOAT32" else "INT8")
    given_ = [values(kind, *source), weights._replace(scales=1), biases(filters[3], kind)]
    return Case("DEPTHWISE_CONV_2D", given_, [values(kind, *result)], settings_, f"{kind} {filters}")


def pool(name: str, kind: str, stride: int, padding: int, result: tuple[int, ...]) -> Case:
    settings_ = options(
        "Pool2DOptions", strideH=stride, strideW=stride, filterHeight=3, filterWidth=3, padding=padding
    )
    return Case(name, [values(kind, 1, 8, 8, 16)], [values(kind, *result)], settings_, f"{kind} {stride}")


def dense(kind: str, rows: int, inner: int, units: int) -> Case:
    weights = random_weights(units, inner, kind="FLOAT32" if kind == "FLOAT32" else "INT8", scale=2.0**-8)
    weights = weights._replace(scales=1)
    given_ = [values(kind, rows, inner), weights, biases(units, kind)]
    result = values(kind, rows, units)
    return Case(
        "FULLY_CONNECTED", given_, [result], options("FullyConnectedOptions"), f"{kind} {inner}-{units}"
    )


def binary(name: str, kind: str, *shapes: tuple[int, ...]) -> Case:
    settings_ = options(f"{name.title()}Options")
    given_ = [values(kind, *shape) for shape in shapes]
    return Case(name, given_, [values(kind, *shapes[0], scale=2.0**-4)], settings_, f"{kind} {shapes[1]}")


def unary(name: str, kind: str, result: Value, shape: tuple[int, ...] = (3, 5, 17)) -> Case:
    return Case(name, [values(kind, *shape)], [result], None, f"{kind} {result.kind}")


def pad(name: str, kind: str) -> Case:
    amounts = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32)
    given_ = [values(kind, 1, 6, 7, 16), Value((4, 2), "INT32", amounts)]
    given_ += [Value((1,), kind, np.ones(1, kind.lower()), scale=2.0**-5)] if name == "PADV2" else []
    return Case(name, given_, [values(kind, 1, 9, 10, 16)], None, kind)


KINDS = ("INT8", "INT16", "FLOAT32")
KERNELS = [
    *(conv(kind, (1, 8, 8, 4), (1, 8, 8, 16), (16, 3, 3, 4), padding=0) for kind in KINDS),
    *(
        conv(kind, (1, 9, 9, 8), (1, 4, 4, 8), (8, 3, 3, 8), padding=1, strideH=2, strideW=2)
        for kind in KINDS
    ),
    *(conv(kind, (2, 6, 6, 16), (2, 6, 6, 4), (4, 1, 1, 16), padding=1) for kind in KINDS),
    conv("INT8", (1, 8, 8, 16), (1, 8, 8, 24), (24, 3, 3, 4), padding=0),  # four groups
    conv("INT8", (1, 9, 9, 8), (1, 5, 5, 8), (8, 3, 3, 8), padding=1, dilationHFactor=2, dilationWFactor=2),
    *(depthwise(kind, (1, 8, 8, 16), (1, 8, 8, 16), (1, 3, 3, 16)) for kind in KINDS),
    *(depthwise(kind, (1, 8, 8, 5), (1, 8, 8, 15), (1, 3, 3, 15)) for kind in KINDS),
    *(pool(name, kind, 1, 0, (1, 8, 8, 16)) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D") for kind in KINDS),
    *(pool(name, kind, 2, 1, (1, 3, 3, 16)) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D") for kind in KINDS),
    *(dense(kind, 6, 20, 48) for kind in KINDS),
    *(dense(kind, 6, 48, 20) for kind in KINDS),
    *(binary(name, kind, (4, 5, 16), (4, 5, 16)) for name in ("ADD", "SUB", "MUL") for kind in KINDS),
    *(binary(name, kind, (1, 4, 5, 16), (1, 1, 1, 16)) for name in ("ADD", "SUB", "MUL") for kind in KINDS),
    *(binary(name, "FLOAT32", (4, 5, 16), (1,)) for name in ("ADD", "SUB", "MUL")),
    unary("QUANTIZE", "FLOAT32", values("INT8", 3, 5, 17)),
    unary("QUANTIZE", "INT8", values("INT8", 3, 5, 17, scale=2.0**-4)),
    unary("QUANTIZE", "INT16", values("INT8", 3, 5, 17, scale=2.0**3)),
    unary("QUANTIZE", "INT8", values("INT16", 3, 5, 17)),
    unary("DEQUANTIZE", "INT8", values("FLOAT32", 3, 5, 17)),
    *(unary("RELU", kind, values(kind, 3, 5, 17)) for kind in KINDS),
    *(unary("RELU6", kind, values(kind, 3, 5, 17)) for kind in KINDS),
    unary("LOGISTIC", "FLOAT32", values("FLOAT32", 3, 5, 17)),
    unary("LOGISTIC", "INT8", values("INT8", 3, 5, 17, scale=1 / 256, zero=-128)),
    unary("LOGISTIC", "INT16", values("INT16", 3, 5, 17, scale=2.0**-15)),
    Case(
        "PRELU",
        [values("FLOAT32", 1, 5, 5, 16), Value((1, 1, 16), "FLOAT32", np.full(16, 0.5, np.float32))],
        [values("FLOAT32", 1, 5, 5, 16)],
        note="FLOAT32",
    ),
    Case(
        "PRELU",
        [values("INT8", 1, 5, 5, 16), Value((1, 1, 16), "INT8", np.full(16, 50, np.int8), scale=2.0**-7)],
        [values("INT8", 1, 5, 5, 16)],
        note="INT8",
    ),
    *(pad("PAD", kind) for kind in KINDS),
    *(pad("PADV2", kind) for kind in KINDS),
    *(
        Case(
            "RESHAPE",
            [values(kind, 4, 5, 16), Value((2,), "INT32", np.array([20, 16], np.int32))],
            [values(kind, 20, 16)],
            options("ReshapeOptions", newShape=[20, 16]),
            kind,
        )
        for kind in KINDS
    ),
]


def in_interpreter(content: bytes, inputs: list[Any]) -> bytes:
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
    for place, data in enumerate(inputs):
        interpreter.set_input(data, place)
    interpreter.invoke()
    result: bytes = interpreter.get_output(0).tobytes()
    return result


def random_inputs(case: Case, seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [
        (100 * generator.uniform(-1, 1, value.shape)).astype(value.kind.lower())
        for value in case.inputs
        if value is not None and value.content is None
    ]


def placed(content: bytes, position: int, behind: int) -> bytes:
    """The file with one input at that distance after the output, and no other overlap."""
    graph = tflite.load(content)
    op, offsets = graph.ops[0], [-1] * len(graph.tensors)
    source, result = op.inputs[position], op.outputs[0]
    for place, identity in enumerate(op.inputs):
        if graph.tensors[identity].data is None:
            offsets[identity] = (place + 2) << 16
    # The wider of the two types is the one whose address must be even.
    if graph.tensors[source].dtype.bits > graph.tensors[result].dtype.bits:
        offsets[source], offsets[result] = 1 << 15, (1 << 15) - behind
    else:
        offsets[source], offsets[result] = (1 << 15) + behind, 1 << 15
    return rewrite(content, offline_offsets=offsets)


def overlapped_inputs(case: Case) -> list[int]:
    """Places of inputs that are computed and as large as what becomes of them, or feed windows."""
    given_ = [place for place, value in enumerate(case.inputs) if value is not None and value.content is None]
    is_spread = len(given_) == 2 and case.inputs[0] != case.inputs[1]
    return given_[:1] if is_spread else given_


@pytest.mark.extras
@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.label)
def test_the_interpreter_bears_the_least_distance_and_no_smaller_one(case: Case) -> None:
    content = case.pack()
    graph = tflite.load(content)
    head = head_buffers(graph)
    source_of = {
        graph.ops[0].inputs.index(head.buffers.tensors[each.source][0]): each
        for each in overlaps(graph, head)
    }
    assert sorted(source_of) == overlapped_inputs(case)
    samples = [random_inputs(case, seed) for seed in range(6)]
    expected = [in_interpreter(content, inputs) for inputs in samples]
    # Where a number becomes a narrower one, its last bytes may not matter: nearer by the whole of it.
    width = max(
        graph.tensors[each].dtype.bits // 8 for each in (graph.ops[0].inputs[0], graph.ops[0].outputs[0])
    )
    for position, overlap in source_of.items():
        assert not overlap.in_place or overlap.distance == 0
        for more in (0,) if overlap.in_place else (0, width, 16, 160):
            moved = placed(content, position, overlap.distance + more)
            assert [in_interpreter(moved, inputs) for inputs in samples] == expected
        if not overlap.in_place:
            nearer = placed(content, position, overlap.distance - width)
            assert [in_interpreter(nearer, inputs) for inputs in samples] != expected


# What must never overlap


def chain(*, reused: bool = False, leaves: bool = False) -> File:
    """Two sums of four floats: the second reads the output of the first."""
    file = File()
    data, half, output = (file.main.tensor(name, (4,)) for name in ("data", "half", "made"))
    file.main.op("ADD", [data, data], [half], options("AddOptions"))
    file.main.op("ADD", [half, data if reused else half], [output], options("AddOptions"))
    file.main.ends([data], [half, output] if leaves else [output])
    return file


def names(file: File) -> list[tuple[str, str]]:
    graph = file.load()
    head = head_buffers(graph)
    name = [graph.tensors[held[0]].name if held else "" for held in head.buffers.tensors]
    return [(name[overlap.source], name[overlap.result]) for overlap in overlaps(graph, head)]


def test_an_input_that_dies_may_be_overlapped_also_where_it_is_read_twice_at_once() -> None:
    assert names(chain()) == [("data", "half"), ("half", "made")]


def test_an_input_that_is_needed_later_is_never_overlapped() -> None:
    assert names(chain(reused=True)) == [("half", "made"), ("data", "made")]


def test_an_output_of_the_network_is_never_overlapped_even_by_its_last_operator() -> None:
    assert names(chain(leaves=True)) == [("data", "half")]


def one(name: str, given_: list[Value], result: Value, settings_: Any = None) -> list[int]:
    """The buffers that the output of an operator may overlap."""
    graph = tflite.load(Case(name, given_, [result], settings_).pack())
    return [overlap.source for overlap in overlaps(graph, head_buffers(graph))]


def test_an_input_that_is_spread_over_the_output_is_not_overlapped() -> None:
    large, small = Value((4, 16)), Value((1, 16))
    assert len(one("ADD", [large, large], large, options("AddOptions"))) == 2
    assert len(one("ADD", [large, small], large, options("AddOptions"))) == 1
    with pytest.raises(Incomplete, match="depends on data"):  # a recorded shape that it does not compute
        one("ADD", [small, small], large, options("AddOptions"))


def test_types_that_a_compiler_may_take_for_apart_are_not_overlapped() -> None:
    wide, narrow, byte = Value((4, 16)), Value((4, 16), "INT16"), Value((4, 16), "INT8")
    assert one("QUANTIZE", [wide], narrow) == []
    assert one("DEQUANTIZE", [narrow], wide) == []
    assert len(one("QUANTIZE", [wide], byte)) == 1


def test_types_in_which_no_kernel_was_tried_are_not_overlapped() -> None:
    wide, image = Value((4, 16), "INT32"), Value((4, 16), "UINT8")
    assert one("ADD", [wide, wide], wide, options("AddOptions")) == []
    assert one("QUANTIZE", [image], Value((4, 16), "INT8")) == []


def test_kernels_of_an_unknown_order_are_not_overlapped() -> None:
    data = Value((4, 16))
    axes = Value((2,), "INT32", np.array([1, 0], np.int32))
    assert one("TRANSPOSE", [data, axes], Value((16, 4))) == []
    assert one("SOFTMAX", [data], data, options("SoftmaxOptions", beta=1.0)) == []
    both = Value((4, 32))
    assert one("CONCATENATION", [data, data], both, options("ConcatenationOptions", axis=1)) == []


def test_filters_that_are_computed_are_not_overlapped() -> None:
    data = Value((1, 4, 4, 2))
    settings_ = options(
        "Conv2DOptions", strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, padding=0
    )
    assert one("CONV_2D", [data, Value((2, 1, 1, 2)), Value((2,))], data, settings_) == [0]


def test_a_variable_is_not_overlapped() -> None:
    state = Value((4, 16), variable=True)
    assert one("RELU", [state], Value((4, 16))) == []


def test_an_output_of_a_size_that_no_padding_makes_is_not_overlapped() -> None:
    settings_ = options("Pool2DOptions", strideH=1, strideW=1, filterHeight=2, filterWidth=2, padding=0)
    assert len(one("MAX_POOL_2D", [Value((1, 4, 4, 2))], Value((1, 4, 4, 2)), settings_)) == 1
    with pytest.raises(Incomplete, match="depends on data"):
        one("MAX_POOL_2D", [Value((1, 4, 4, 2))], Value((1, 6, 6, 2)), settings_)


def test_what_called_graphs_hold_is_left_to_the_interpreter() -> None:
    file = File()
    requested, data = file.main.tensor("asked", (1,), "BOOL"), file.main.tensor("data", (4, 40))
    result = file.main.tensor("result", (4, 40))
    choice = options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    file.main.op("IF", [requested, data], [result], choice)
    file.main.ends([requested, data], [result])
    for name in ("then", "else"):
        branch = file.subgraph(name)
        given_, output = branch.tensor("given", (4, 40)), branch.tensor("made", (4, 40))
        branch.op("RELU", [given_], [output])
        branch.ends([given_], [output])
    assert names(file) == []


def test_a_distance_by_hand(shared: Path) -> None:
    """48 x 48 pixels of 8 numbers each become as many of 16, each pixel from its own."""
    graph = sizeup.load(shared / "models/mlperf_vww96_int8.tflite")
    head = head_buffers(graph)
    pairs = {each.result: each.distance for each in overlaps(graph, head)}
    widened = next(op for op in graph.ops if graph.tensors[op.outputs[0]].shape == (1, 48, 48, 16))
    # Before the last pixel 2,303 x 16 are written; its 15th number is written while its 8 are still read.
    expected = 2_303 * 16 + 15 - 2_303 * 8
    assert pairs[head.buffers.buffer_of_tensor[widened.outputs[0]]] == expected


def test_a_computed_filter_is_never_overlapped() -> None:
    """It is read again for every row of the constant data."""
    file = File()
    main = file.main
    x, filters = main.tensor("x", (8, 64)), main.tensor("w", (8, 64))
    data = main.tensor("data", (4, 64), "FLOAT32", np.ones((4, 64), np.float32))
    y = main.tensor("y", (4, 8))
    main.op("RELU", [x], [filters])
    main.op("FULLY_CONNECTED", [data, filters], [y], options("FullyConnectedOptions"))
    main.ends([x], [y])
    graph = tflite.load(file.pack())
    head = head_buffers(graph)
    assert {head.buffers.buffer_of_tensor[filters]}.isdisjoint(each.source for each in overlaps(graph, head))


@pytest.mark.parametrize(
    ("declared", "size", "known"), [(0, 9, True), (0, 7, False), (1, 7, True), (1, 9, False)]
)
def test_an_output_that_its_padding_does_not_make_is_left_alone(
    declared: int, size: int, known: bool
) -> None:
    file = File()
    main = file.main
    x, z = main.tensor("x", (1, 9, 9, 8)), main.tensor("z", (1, 9, 9, 8))
    y = main.tensor("y", (1, size, size, 8))
    main.op("RELU", [x], [z])
    window = options("Pool2DOptions", filterHeight=3, filterWidth=3, strideH=1, strideW=1, padding=declared)
    main.op("MAX_POOL_2D", [z], [y], window)
    main.ends([x], [y])
    graph = tflite.load(file.pack())
    if not known:
        with pytest.raises(Incomplete, match="depends on data"):
            head_buffers(graph)
        return
    head = head_buffers(graph)
    pairs = {(each.source, each.result) for each in overlaps(graph, head)}
    assert (head.buffers.buffer_of_tensor[z], head.buffers.buffer_of_tensor[y]) in pairs
