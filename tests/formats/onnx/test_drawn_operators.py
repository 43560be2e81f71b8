"""Operators with attributes drawn at random: shapes and products against what ONNX Runtime makes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from formats.onnx.drawn import flows, fused, layouts, numbers, plain, windows  # noqa: F401 - they register what they draw
from formats.onnx.drawn.case import DRAWS, Case
from formats.onnx.making import BOOL, count, graph, model, node, shapes, value, weight
from formats.onnx.making import numbers as constant
from formats.onnx.test_shapes_against_runtime import plain_session
from sizeup import cost
from sizeup.errors import SizeupError
from sizeup.formats.onnx import load, load_symbolic
from sizeup.graph import Graph
from sizeup.symbolic import SymbolicGraph

# Cases drawn per operator; the seeds are fixed, so that failures can be reproduced.
EACH = 8


def run(case: Case) -> dict[str, tuple[int, ...]] | None:
    """The shapes of all values in the runtime; None if it rejects the model."""
    try:
        session = plain_session(case.model().SerializeToString())
        names = [each.name for each in session.get_outputs()]
        results = session.run(names, case.feeds)
    except Exception:  # the runtime has no common base class for its errors
        return None
    return {name: np.shape(result) for name, result in zip(names, results, strict=True)}


def drawn(name: str) -> list[tuple[Case, dict[str, tuple[int, ...]]]]:
    """Cases of one kind that the runtime takes, with the shapes that it makes."""
    found = []
    for seed in range(EACH):
        case = Case(f"{name} {seed}")
        DRAWS[name](case)
        made = run(case)
        if made is not None:
            found.append((case, made))
    assert len(found) >= EACH // 2, "the runtime refuses most of them: nothing is tested"
    return found


def agreed(case: Case, made: dict[str, tuple[int, ...]], found: Graph) -> None:
    """Every known shape is that of the runtime; only shapes that depend on data are unknown."""
    inferred = {name: shape for name, shape in shapes(found).items() if name in made}
    if case.is_open:
        assert None in shapes(found).values(), case.model()
        inferred = {name: shape for name, shape in inferred.items() if shape is not None}
    assert inferred == {name: shape for name, shape in made.items() if name in inferred}, case.model()


@pytest.mark.parametrize("name", DRAWS)
def test_shapes_and_products_are_those_of_the_runtime(name: str) -> None:
    for case, made in drawn(name):
        agreed(case, made, load(case.model()))
        if case.macs is not None:
            cost = count(case.model())
            assert cost.known.all(), cost.reasons
            assert cost.macs[0] == case.macs(made), case.model()


@pytest.mark.parametrize("name", DRAWS)
def test_closed_forms_are_those_of_the_runtime(name: str) -> None:
    """Closed forms read at one point must be valid at every point that their guards accept."""
    for case, made in drawn(name):
        named, sizes = case.names()
        if not sizes or 0 in sizes.values():
            continue
        free = load_symbolic(case.model(named), True)
        with contextlib.suppress(SizeupError):  # there the model need not fit together
            free.at(**{each: side + case.random.randint(0, 3) for each, side in sizes.items()})
        inferred = {each: shape for each, shape in shapes(free.at(**sizes)).items() if shape is not None}
        assert {each: made[each] for each in inferred if each in made} == {
            each: shape for each, shape in inferred.items() if each in made
        }, case.model(named)


def grid(kind: str) -> onnx.ModelProto:
    """Every window with every border over sides of many lengths, in one model."""
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    for taps, stride, gap, side in itertools.product((1, 2, 3), (1, 2, 3, 4), (1, 2), (2, 5, 6, 9, 10)):
        inputs.append(value(f"x{len(inputs)}", (1, 1, side)))
        for before, after, ceil in itertools.product(range(taps), range(taps), (0, 1)):
            if side + before + after < gap * (taps - 1) + 1:
                continue
            held = {"kernel_shape": [taps], "strides": [stride], "dilations": [gap], "ceil_mode": ceil}
            pads = {"pads": [before, after]}
            nodes.append(node(kind, inputs[-1].name, f"y{len(nodes)}", **held, **pads))
        for mode in ("VALID", "SAME_UPPER", "SAME_LOWER"):
            if gap == 1 and side >= taps and stride <= taps:  # else the runtime refuses
                auto = {"kernel_shape": [taps], "strides": [stride], "ceil_mode": taps % 2, "auto_pad": mode}
                nodes.append(node(kind, inputs[-1].name, f"y{len(nodes)}", **auto))
    # Steps longer than the window, and gaps: the border at the end is less than nothing.
    inputs.append(value("long", (1, 1, 12)))
    held = {"kernel_shape": [2], "strides": [4], "dilations": [3], "auto_pad": "SAME_LOWER"}
    nodes.append(node(kind, "long", f"y{len(nodes)}", **held))
    return model(nodes, inputs, " ".join(each.output[0] for each in nodes))


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_every_window_of_a_pool_has_the_places_of_the_runtime(kind: str) -> None:
    made = grid(kind)
    session = plain_session(made.SerializeToString())
    names = [each.name for each in session.get_outputs()]
    results = session.run(names, {e.name: np.ones(e.shape, np.float32) for e in session.get_inputs()})
    real = {name: result.shape for name, result in zip(names, results, strict=True)}
    assert len(real) > 1000
    assert {name: shape for name, shape in shapes(load(made)).items() if name in real} == real


@pytest.mark.parametrize(("taps", "stride", "side"), [(2, 2, 1), (3, 1, 2), (3, 2, 2), (5, 3, 3), (5, 2, 1)])
def test_a_convolution_whose_window_is_too_large_has_no_shape(taps: int, stride: int, side: int) -> None:
    """ONNX's inference returns no window or one; the runtime rejects it, so the row is unknown."""
    convolved = node("Conv", "x w", "y", strides=[stride])
    made = model(
        [convolved, node("Relu", "y", "z")], [value("x", (1, 3, "side"))], "z", [weight("w", 4, 3, taps)]
    )
    session = plain_session(made.SerializeToString())
    with pytest.raises(Exception, match="Invalid input shape"):
        session.run(None, {"x": np.ones((1, 3, side), np.float32)})
    assert session.run(None, {"x": np.ones((1, 3, taps), np.float32)})[0].shape == (1, 4, 1)
    found = load(made, bind={"side": side})
    assert shapes(found)["y"] is None
    assert any("its window is larger than its padded input" in note for note in found.notes)
    assert not cost.count(found).known.any()
    free = load_symbolic(made, True)
    for each in (1, side, taps, side, taps + stride):  # whatever was read before
        assert shapes(free.at(side=each)) == shapes(load(made, bind={"side": each}))


def classifier(shape: Sequence[int | str], units: int) -> onnx.ModelProto:
    """A pool whose last window would start outside, then rows that match the runtime's output."""
    pooled = node("AveragePool", "x", "p", kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)
    nodes = [pooled, node("Flatten", "p", "f"), node("Gemm", "f w", "y"), node("Relu", "y", "z")]
    return model(nodes, [value("x", shape)], "z", [weight("w", units, 5)])


def test_what_follows_a_pool_has_the_right_sizes() -> None:
    made = classifier((2, 4, 9, 9), 4 * 3 * 3)
    assert shapes(load(made))["p"] == (2, 4, 3, 3)
    assert count(made).total_macs == 2 * 36 * 5
    # Of sizes that it knows beforehand the runtime believes ONNX's inference, and refuses the weights.
    sized_later = classifier(("batch", 4, 9, "width"), 4 * 3 * 3)
    session = plain_session(sized_later.SerializeToString())
    assert session.run(None, {"x": np.ones((2, 4, 9, 9), np.float32)})[0].shape == (2, 5)
    free = load_symbolic(sized_later, True)
    assert shapes(free.at(batch=7, width=9))["p"] == (7, 4, 3, 3)
    assert count_at(free, batch=7, width=9) == 7 * 36 * 5


def count_at(free: SymbolicGraph, **sizes: int) -> int:
    found: int = cost.count(free.at(**sizes)).total_macs
    return found


def test_what_the_file_says_of_a_shape_does_not_win() -> None:
    made = classifier((2, 4, 9, 9), 4 * 3 * 3)
    made.graph.value_info.append(value("p", (2, 4, 4, 4)))
    made.graph.value_info.append(value("f", (2, 64)))
    found = shapes(load(made))
    assert (found["p"], found["f"], found["z"]) == ((2, 4, 3, 3), (2, 36), (2, 5))


def test_a_pool_in_a_branch_has_the_places_of_the_runtime() -> None:
    pooled = node("MaxPool", "x", "p", kernel_shape=[2], strides=[3], ceil_mode=1)
    kept = node("Slice", "x zero three two", "k")
    branches = {"then_branch": graph([pooled], [], "p"), "else_branch": graph([kept], [], "k")}
    constants = [constant("zero", [0]), constant("three", [3]), constant("two", [2])]
    nodes = [node("If", "c", "y", **branches), node("Exp", "y", "z")]
    # Of a size that it knows beforehand the runtime believes ONNX's inference, and then fails.
    made = model(nodes, [value("x", (1, 1, "width")), value("c", (), BOOL)], "z", constants)
    assert shapes(load(made, bind={"width": 9}))["z"] == (1, 1, 3)
    session = plain_session(made.SerializeToString())
    for condition in (True, False):
        feeds = {"x": np.ones((1, 1, 9), np.float32), "c": np.array(condition)}
        assert session.run(None, feeds)[0].shape == (1, 1, 3)


def test_rows_chosen_by_data_leave_no_size_of_the_example() -> None:
    """Rows are selected by their content, then summed: one element per column for any number of rows."""
    nodes = [
        node("Compress", "x keep", "some", axis=0),
        node("ReduceSum", "some axis", "y", keepdims=0),
        node("Exp", "y", "z"),
    ]
    inputs = [value("x", ("rows", "columns")), value("keep", ("rows",), BOOL)]
    free = load_symbolic(model(nodes, inputs, "z", [constant("axis", [0])]), True)
    for rows, columns in ((5, 7), (6, 3)):
        assert shapes(free.at(rows=rows, columns=columns))["z"] == (columns,)
