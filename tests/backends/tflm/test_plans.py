"""Plans of whole models against the real interpreter: random networks, offline plans, called subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

from ai_edge_litert import schema_py_generated as schema

from formats.tflite.factory import File, Subgraph, options, quantized
from micro_interpreter import Measured, measure
from sizeup.backends.overview import overview
from sizeup.backends.tflm import MicroArena, arena
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.dtypes import precision
from sizeup.errors import Incomplete, InvalidPlan


def _real(file: File) -> Measured:
    return measure([file.pack()])[0]


def _predicted(memory: MicroArena) -> Measured:
    return Measured(memory.head_bytes, memory.tail_bytes_64 or 0)


def _random_network(seed: int) -> File:
    """Dense layers and concatenations that read whatever was made before them, in any order."""
    random = np.random.default_rng(seed)
    file = File()
    graph = file.main
    widths = [int(random.integers(1, 120))]
    tensors = [graph.tensor("in", (1, widths[0]))]
    for number in range(int(random.integers(3, 25))):
        left, right = (int(random.integers(len(tensors))) for _ in range(2))
        if random.random() < 0.4 and left != right:
            widths.append(widths[left] + widths[right])
            tensors.append(graph.tensor(f"t{number}", (1, widths[-1])))
            graph.op(
                "CONCATENATION",
                [tensors[left], tensors[right]],
                [tensors[-1]],
                options("ConcatenationOptions", axis=1),
            )
        else:
            widths.append(int(random.integers(1, 120)))
            weights = graph.tensor(
                f"w{number}", (widths[-1], widths[left]), data=_zeros(widths[-1], widths[left])
            )
            tensors.append(graph.tensor(f"t{number}", (1, widths[-1])))
            graph.op(
                "FULLY_CONNECTED",
                [tensors[left], weights, -1],
                [tensors[-1]],
                options("FullyConnectedOptions"),
            )
    graph.ends(tensors[:1], sorted({tensors[-1], tensors[int(random.integers(1, len(tensors)))]}))
    return file


def _zeros(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.zeros(shape, np.float32)


@pytest.mark.slow
def test_random_networks_are_planned_as_by_the_interpreter() -> None:
    files = [_random_network(seed) for seed in range(60)]
    real = measure([file.pack() for file in files])
    assert not any(each.failure for each in real)
    assert [_predicted(arena(file.load())) for file in files] == real
    assert len({each.head for each in real}) > 30  # they do differ


# Offline plans


def _with_plan(file: File, offsets: Sequence[int]) -> File:
    """Write the plan into the file as the interpreter reads it."""
    entry = schema.MetadataT()
    entry.name = "OfflineMemoryAllocation"
    plan = [1, len(file.model.subgraphs), len(offsets), *offsets]
    entry.buffer = file.buffer(np.array(plan, np.int32))
    file.model.metadata = [entry]
    return file


def _chain() -> File:
    file = File()
    tensors = [file.main.tensor(f"t{n}", (4, 40)) for n in range(4)]
    for source, result in pairwise(tensors):
        file.main.op("NEG", [source], [result])
    file.main.ends(tensors[:1], tensors[-1:])
    return file


PLANS = [
    *((-1, -1, -1, -1), (0, 640, 0, 640), (640, 0, 640, 0)),
    *((-1, 4_096, -1, -1), (8, 648, 8, 648), (0, 3_200, -1, -1)),
]


@pytest.mark.parametrize("offsets", PLANS)
def test_an_offline_plan_is_taken_as_given(offsets: tuple[int, ...]) -> None:
    memory = arena(_chain().load(), offsets=offsets)
    assert _predicted(memory) == _real(_with_plan(_chain(), offsets))
    assert all(data in (-1, place) for data, place in zip(offsets, memory.offsets, strict=True))


def test_a_plan_that_overlaps_is_refused_unless_that_is_meant() -> None:
    offsets = (0, 320, 640, 960)
    with pytest.raises(InvalidPlan, match="share bytes"):
        arena(_chain().load(), offsets=offsets)
    with pytest.raises(InvalidPlan, match="lets live tensors overlap: 't0' and 't1'"):
        arena(_chain().load(), offsets=offsets, overlap=True)


def test_an_overlap_that_the_kernels_permit_is_taken_as_given() -> None:
    """The input is 12 B longer, as in a chain of dequantizations read from behind."""
    file = File()
    tensors = [file.main.tensor(f"t{n}", (4, 40)) for n in range(3)]
    for source, result in pairwise(tensors):
        file.main.op("RELU", [source], [result])
    file.main.ends(tensors[:1], tensors[-1:])
    offsets = (32, 16, 0)
    meant = arena(file.load(), offsets=offsets, overlap=True)
    assert (meant.offsets, meant.overlapping_tensors) == (offsets, 2)
    assert _predicted(meant) == _real(_with_plan(file, offsets))


def test_what_the_interpreter_rejects_does_not_depend_on_an_assumed_precision() -> None:
    graph, number = _chain().load(), precision("int8")
    assert overview(graph, number).unsupported_reason is None
    reason = overview(replace(graph, recorded_shapes={0: (1, 40)}), number).unsupported_reason
    assert reason is not None
    assert reason.startswith("it does not infer shapes: 't0'")


@pytest.mark.parametrize("offsets", [(0, 640, 0), (0, 640, 0, 640, 0), (0, 640, 0, -2)])
def test_a_plan_of_the_wrong_form_is_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(InvalidPlan, match="offset"):
        arena(_chain().load(), offsets=offsets)


def _with_state() -> File:
    """One SVDF, whose state outlives a run."""
    file = File()
    graph, scale = file.main, quantized([0.5])
    data = graph.tensor("in", (2, 3), "INT8", quantization=scale)
    features = graph.tensor("features", (8, 3), "INT8", np.zeros(24, np.int8), quantization=scale)
    times = graph.tensor("times", (8, 5), "INT16", np.zeros(40, np.int16), quantization=scale)
    bias = graph.tensor("bias", (4,), "INT32", np.zeros(4, np.int32), quantization=quantized([0.25]))
    state = graph.tensor("state", (2, 40), "INT16", isVariable=True, quantization=scale)
    result = graph.tensor("out", (2, 4), "INT8", quantization=scale)
    graph.op("SVDF", [data, features, times, bias, state], [result], options("SVDFOptions", rank=2))
    graph.ends([data], [result])
    return file


@pytest.mark.parametrize("offset", [-1, 0, 512])
def test_a_state_moves_from_the_tail_to_the_head_where_the_plan_places_it(offset: int) -> None:
    offsets = [-1, -1, -1, -1, offset, -1]
    assert _predicted(arena(_with_state().load(), offsets=offsets)) == _real(
        _with_plan(_with_state(), offsets)
    )


def test_leftovers_of_a_converter_are_planned_before_the_run() -> None:
    """Two tensors that no operator knows need more than the network: 960 + 1,120 against 1,440 bytes."""
    file = _chain()
    file.main.tensor("leftover", (4, 60))
    file.main.tensor("another", (4, 70))
    file.main.table.inputs.append(file.main.tensor("unused input", (4, 50)))
    memory = arena(file.load())
    assert memory.head_bytes == 960 + 1_120
    assert _predicted(memory) == _real(file)


# Called subgraphs


def _negations(graph: Subgraph, count: int) -> None:
    tensors = [graph.tensor(f"t{n}", (4, 40)) for n in range(count + 1)]
    for source, result in pairwise(tensors):
        graph.op("NEG", [source], [result])
    graph.ends(tensors[:1], tensors[-1:])


def _conditional(calls: int) -> File:
    file = File()
    requested = file.main.tensor("asked", (1,), "BOOL")
    tensors = [file.main.tensor(f"t{n}", (4, 40)) for n in range(calls + 1)]
    for source, result in pairwise(tensors):
        choice = options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
        file.main.op("IF", [requested, source], [result], choice)
    file.main.ends([requested, tensors[0]], tensors[-1:])
    _negations(file.subgraph("then"), 1)
    _negations(file.subgraph("else"), 3)
    return file


def _conditional_with_scratch() -> File:
    file = File()
    requested, data = file.main.tensor("asked", (1,), "BOOL"), file.main.tensor("data", (4, 40))
    result = file.main.tensor("result", (4, 1))
    file.main.op(
        "IF", [requested, data], [result], options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    )
    file.main.ends([requested, data], [result])
    for name in ("SUM", "REDUCE_MAX"):
        branch = file.subgraph(name)
        branch_input, branch_output = branch.tensor("given", (4, 40)), branch.tensor("made", (4, 1))
        axis = branch.tensor("axis", (1,), "INT32", np.array([1], np.int32))
        branch.op(name, [branch_input, axis], [branch_output], options("ReducerOptions", keepDims=True))
        branch.ends([branch_input], [branch_output])
    return file


def _loop() -> File:
    file = File()
    count, data = file.main.tensor("count", (1,), "INT32"), file.main.tensor("data", (4, 40))
    counted, result = file.main.tensor("counted", (1,), "INT32"), file.main.tensor("result", (4, 40))
    loop = options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    file.main.op("WHILE", [count, data], [counted, result], loop)
    file.main.ends([count, data], [counted, result])
    condition = file.subgraph("condition")
    number, unused = condition.tensor("number", (1,), "INT32"), condition.tensor("unused", (4, 40))
    limit = condition.tensor("limit", (1,), "INT32", np.array([3], np.int32))
    goes_on = condition.tensor("goes on", (1,), "BOOL")
    condition.op("LESS", [number, limit], [goes_on])
    condition.ends([number, unused], [goes_on])
    body = file.subgraph("body")
    number, body_input = body.tensor("number", (1,), "INT32"), body.tensor("given", (4, 40))
    one = body.tensor("one", (1,), "INT32", np.array([1], np.int32))
    more, half = body.tensor("more", (1,), "INT32"), body.tensor("half", (4, 40))
    body_output = body.tensor("made", (4, 40))
    body.op("ADD", [number, one], [more], options("AddOptions"))
    body.op("NEG", [body_input], [half])
    body.op("ABS", [half], [body_output])
    body.ends([number, body_input], [more, body_output])
    return file


@pytest.mark.parametrize(
    "file",
    [_conditional(1), _conditional(2), _conditional_with_scratch(), _loop()],
    ids=["branches", "the same branches twice", "branches with scratch", "a loop"],
)
def test_called_subgraphs_share_the_plan(file: File) -> None:
    memory = arena(file.load())
    assert _predicted(memory) == _real(file)
    assert memory.notes[-1] == "3 subgraphs are planned together"


def test_an_offline_plan_reaches_into_called_subgraphs() -> None:
    offsets = [-1, -1, -1, 1_600, -1, -1, -1, -1, -1]
    memory = arena(_conditional(1).load(), offsets=offsets)
    assert _predicted(memory) == _real(_with_plan(_conditional(1), offsets))
    assert memory.head_bytes != arena(_conditional(1).load()).head_bytes


# Subgraphs that nothing calls


def _with_entries() -> File:
    """Two branches, and between and behind them entries that the main graph does not call."""
    file = File()
    requested, data = file.main.tensor("asked", (1,), "BOOL"), file.main.tensor("data", (4, 40))
    result = file.main.tensor("result", (4, 40))
    choice = options("IfOptions", thenSubgraphIndex=3, elseSubgraphIndex=1)
    file.main.op("IF", [requested, data], [result], choice)
    file.main.ends([requested, data], [result])
    _negations(file.subgraph("else"), 3)
    _negations(file.subgraph("entry"), 2)
    _negations(file.subgraph("then"), 1)
    _negations(file.subgraph("another entry"), 1)
    return file


@pytest.mark.parametrize("negations", [1, 2, 9])
def test_subgraphs_that_nothing_calls_are_planned_along(negations: int) -> None:
    """Their tensors lie side by side, as if all were in use before the run."""
    file = _chain()
    _negations(file.subgraph("another entry"), negations)
    memory = arena(file.load())
    assert memory.head_bytes == max(2, negations + 1) * 640
    assert _predicted(memory) == _real(file)
    assert memory.notes[-1] == "2 subgraphs are planned together"


def test_called_and_uncalled_subgraphs_are_planned_in_the_order_of_the_file() -> None:
    assert _predicted(arena(_with_entries().load())) == _real(_with_entries())


@pytest.mark.parametrize("moved", [3, 7, 8, 10, 12])
def test_an_offline_plan_counts_subgraphs_that_nothing_calls(moved: int) -> None:
    offsets = [-1] * 14
    offsets[moved] = 16_000
    memory = arena(_with_entries().load(), offsets=offsets)
    assert _predicted(memory) == _real(_with_plan(_with_entries(), offsets))


def test_scratch_of_a_graph_that_nothing_calls_has_no_arena() -> None:
    file = _chain()
    entry = file.subgraph("entry")
    data, tensors = entry.tensor("given", (8, 90)), entry.tensor("made", (8, 1))
    axis = entry.tensor("axis", (1,), "INT32", np.array([1], np.int32))
    entry.op("SUM", [data, axis], [tensors], options("ReducerOptions", keepDims=True))
    entry.ends([data], [tensors])
    assert "ended with -11" in _real(file).failure
    with pytest.raises(Incomplete, match=r"crashes on this model: SUM requests scratch in the graph 'entry'"):
        arena(file.load())


def test_a_subgraph_that_cannot_be_read_leaves_the_arena_unknown() -> None:
    file = _chain()
    broken = file.subgraph("broken")
    broken.op("NEG", [broken.tensor("given", (4,))], [99])
    graph = file.load()
    assert len(graph.ops) == 3
    with pytest.raises(Incomplete, match="another graph of the file"):
        arena(graph)
    assert tflm_arena(graph) is None


def test_an_operator_that_lacks_an_operand_has_no_arena() -> None:
    file = File()
    tensors = [file.main.tensor(f"t{n}", (4, 40)) for n in range(2)]
    file.main.op("SUM", tensors[:1], tensors[1:], options("ReducerOptions"))
    file.main.ends(tensors[:1], tensors[1:])
    with pytest.raises(Incomplete, match="SUM 't1' has no input 1"):
        arena(file.load())


def test_a_shape_that_depends_on_data_is_not_guessed() -> None:
    file = File()
    data = file.main.tensor("data", (4, 40), "BOOL")
    memory = file.main.tensor("found", (1, 2), "INT64", shapeSignature=[-1, 2])
    file.main.op("WHERE", [data], [memory])
    file.main.ends([data], [memory])
    with pytest.raises(Incomplete, match="'found', whose size depends on data"):
        arena(file.load())
