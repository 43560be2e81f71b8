"""The choice of number types: equal to the best of all choices, and within its budgets by a second count."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ortools", reason="choosing needs the solvers")
pytest.importorskip("scipy", reason="choosing needs the solvers")

import sizeup
from sizeup.dtypes import DType, dtype, precision, precision_name
from sizeup.errors import NoChoice, SizeupError
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.precision import assign, layers
from sizeup.precision.choose import Budgets, choose, figures_of, front, front_of, with_gains
from sizeup.precision.options import options_of
from sizeup.targets import target

pytestmark = pytest.mark.extras

FLOAT = dtype("float32")
THREE = [precision(each) for each in ("fp32", "int8", "int4")]


def network(widths: list[int], skips: list[bool], pixels: int = 16) -> Graph:
    """Convolutions of given widths, each with a ReLU; where a skip is asked for and fits, a sum after it."""
    made = GraphBuilder("drawn")
    value = made.input("x", (1, widths[0], pixels, pixels), FLOAT)
    channels = widths[0]
    for place, (width, skip) in enumerate(zip(widths, skips, strict=True)):
        name = f"layer{place}"
        weight = made.tensor(f"{name}.weight", (width, channels, 3, 3), FLOAT, Constant("parameter"))
        bias = made.tensor(f"{name}.bias", (width,), FLOAT, Constant("parameter"))
        shape = (1, width, pixels, pixels)
        conv, relu = made.tensor(f"{name}.conv", shape, FLOAT), made.tensor(f"{name}.relu", shape, FLOAT)
        attrs = {"out_channels": width, "kernel": (3, 3)}
        made.op("conv", [value, weight, bias], [conv], attrs, name=name, scope=name)
        made.op("relu", [conv], [relu], name=f"{name}.relu")
        before, value = value, relu
        if skip and width == channels and place:
            value = made.tensor(f"{name}.sum", shape, FLOAT)
            made.op("add", [before, relu], [value], name=f"{name}.add")
        channels = width
    made.outputs.append(value)
    return made.freeze()


def losses(graph: Graph, seed: int) -> dict[str, dict[str, float]]:
    drawn = np.random.default_rng(seed)
    found = {}
    for layer in layers(graph):
        scale = float(drawn.lognormal())
        found[layer.name] = {
            "fp32": 0.0,
            "fp16": 0.001 * scale,
            "int8": 0.1 * scale,
            "int4": scale,
            "int2": 9 * scale,
        }
    return found


def second_count(graph: Graph, chosen: dict[int, DType]) -> tuple[int, int]:
    """Flash by hand from shapes and widths; the arena from the public planner."""
    flash = 0
    for index, op in enumerate(graph.ops):
        if op.kind == "conv":
            bits = chosen[index].bits
            weight, bias = (graph.tensors[i].elements or 0 for i in op.inputs[1:3])
            flash += -(-weight * bits // 8) + bias * (4 if bits <= 8 else bits // 8)
    return flash, sizeup.plan(assign(graph, chosen), reorder=False).arena_bytes


@settings(max_examples=25, deadline=None)
@given(
    widths=st.lists(st.sampled_from([2, 4, 8]), min_size=2, max_size=5),
    seed=st.integers(0, 10**6),
    flash=st.floats(0.1, 1.1),
    arena=st.floats(0.15, 1.1),
    data=st.data(),
)
def test_it_is_the_best_of_all_choices(
    widths: list[int], seed: int, flash: float, arena: float, data: st.DataObject
) -> None:
    skips = data.draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    graph = network(widths, skips)
    options = options_of(graph, THREE)
    table = losses(graph, seed)
    loss = options.losses(table)
    whole = figures_of(options, {layer.op: THREE[0] for layer in options.layers})
    budgets = Budgets(int(flash * whole.flash_bytes), int(arena * whole.arena_bytes))
    best = None
    groups = int(options.group.max()) + 1
    for picks in itertools.product(range(len(THREE)), repeat=groups):
        chosen = options.chosen(np.array([g * len(THREE) + p for g, p in enumerate(picks)]))
        taken = second_count(graph, chosen)
        if taken[0] <= (budgets.flash_bytes or 0) and taken[1] <= (budgets.arena_bytes or 0):
            value = sum(table[layer.name][precision_name(chosen[layer.op])] for layer in options.layers)
            best = value if best is None else min(best, value)
    if best is None:
        with pytest.raises(NoChoice):
            choose(options, loss, budgets)
        return
    found = choose(options, loss, budgets)
    assert found.loss == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert found.proven
    assert (found.figures.flash_bytes, found.figures.arena_bytes) == second_count(graph, found.chosen)
    assert budgets.kept_by(found.figures)


def test_eight_layers_are_the_best_of_all_too() -> None:
    graph = network([4, 8, 8, 4, 8, 8, 4, 4], [False] * 8)
    two = [precision("fp32"), precision("int8")]
    options = options_of(graph, two)
    table = losses(graph, 3)
    loss = options.losses(table)
    whole = figures_of(options, {layer.op: two[0] for layer in options.layers})
    budgets = Budgets(int(0.6 * whole.flash_bytes), int(0.8 * whole.arena_bytes))
    values = []
    for picks in itertools.product(range(2), repeat=8):
        chosen = options.chosen(np.array([2 * g + p for g, p in enumerate(picks)]))
        flash, arena = second_count(graph, chosen)
        if flash <= (budgets.flash_bytes or 0) and arena <= (budgets.arena_bytes or 0):
            values.append(sum(table[each.name][precision_name(chosen[each.op])] for each in options.layers))
    assert choose(options, loss, budgets).loss == pytest.approx(min(values))


def test_layers_whose_results_meet_share_their_type() -> None:
    graph = network([4, 4, 4, 8], [False, True, True, False])
    options = options_of(graph, THREE)
    assert options.group_of.tolist() == [0, 0, 0, 1]
    chosen = options.chosen(np.array([1, 3]))
    assert [precision_name(chosen[layer.op]) for layer in options.layers] == ["int8", "int8", "int8", "fp32"]
    assert [op.kind for op in assign(graph, chosen).ops].count("dequantize") == 1


def test_latency_and_energy_are_kept_and_types_without_kernels_not_offered() -> None:
    graph = network([4, 8, 8, 4], [False] * 4, pixels=32)
    where = target("rpi5/litert-xnnpack")
    options = options_of(graph, [*THREE, precision("int2")], where)
    assert "int2" not in {precision_name(each) for each in options.dtype}
    assert options.seconds is not None
    loss = options.losses(losses(graph, 1))
    free = choose(options, loss, Budgets())
    assert free.loss == 0
    assert free.figures.seconds is not None
    budgets = Budgets(seconds=0.6 * free.figures.seconds)
    found = choose(options, loss, budgets)
    assert found.figures.seconds is not None
    assert found.figures.seconds <= 0.6 * free.figures.seconds
    again = sizeup.estimate(assign(graph, found.chosen), where)
    assert again.seconds == pytest.approx(found.figures.seconds)
    assert found.loss > 0


def test_what_holds_it_back_and_what_more_would_buy_are_told() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE)
    loss = options.losses(losses(graph, 2))
    whole = choose(options, loss, Budgets()).figures
    budgets = Budgets(int(0.5 * whole.flash_bytes), 2 * whole.arena_bytes)
    found = with_gains(options, loss, budgets, choose(options, loss, budgets))
    assert found.binding == ("flash_bytes",)
    assert found.gains is not None
    more = Budgets((budgets.flash_bytes or 0) + 1024, budgets.arena_bytes)
    assert found.gains["flash_bytes"] == pytest.approx(found.loss - choose(options, loss, more).loss)


def test_a_budget_that_nothing_keeps_is_told_with_the_least_that_is_needed() -> None:
    options = options_of(network([4, 8], [False] * 2), THREE)
    loss = options.losses(losses(options.graph, 0))
    with pytest.raises(NoChoice, match=r"keeps the flash within 10 B; the least is"):
        choose(options, loss, Budgets(flash_bytes=10))


def test_a_front_never_gets_worse_with_more() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE)
    loss = options.losses(losses(graph, 2))
    for axis in ("flash_bytes", "arena_bytes"):
        found = front(options, loss, axis, 8)
        taken = [getattr(each.figures, axis) for each in found]
        assert taken == sorted(taken)
        assert [each.loss for each in found] == sorted((each.loss for each in found), reverse=True)
        assert len(found) >= 3
        assert found[-1].loss == 0
        for each in found:
            assert choose(options, loss, Budgets(**{axis: getattr(each.figures, axis)})).loss == each.loss


@pytest.mark.alone
def test_twenty_points_on_fifty_layers_take_seconds() -> None:
    drawn = np.random.default_rng(0)
    graph = network([int(each) for each in drawn.choice([4, 8, 12, 16], 50)], [False] * 50)
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8", "int4", "int2")])
    loss = options.losses(losses(graph, 5))
    started = time.process_time()
    found = front(options, loss, "flash_bytes", 20)
    assert time.process_time() - started < 3.0
    assert len(found) >= 18
    assert all(each.proven for each in found)


def test_a_real_file_fits_where_it_did_not(shared: Path) -> None:
    graph = sizeup.load(shared / "models" / "mlperf_resnet8_fp32.tflite")
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8")])
    loss = options.losses(losses(graph, 0))
    budgets = Budgets(flash_bytes=150_000, arena_bytes=100_000)
    found = choose(options, loss, budgets)
    assert budgets.kept_by(found.figures)
    assert figures_of(options, {layer.op: FLOAT for layer in options.layers}).flash_bytes > 150_000


def linear(*widths: int) -> Graph:
    """Matrix products one after the other."""
    made = GraphBuilder("products")
    value = made.input("x", (1, widths[0]), FLOAT)
    for place, (rows, columns) in enumerate(itertools.pairwise(widths)):
        weight = made.tensor(f"w{place}", (rows, columns), FLOAT, Constant("parameter"))
        result = made.tensor(f"y{place}", (1, columns), FLOAT)
        made.op("matmul", [value, weight], [result], {"contracted": (1,)}, name=f"layer{place}")
        value = result
    made.outputs.append(value)
    return made.freeze()


def test_a_value_that_is_converted_leaves_room_at_once() -> None:
    options = options_of(linear(8, 100, 300, 4), [precision("fp32"), precision("int8")])
    loss = np.array([0, 5, 0, 1, 0, 1], np.float64)
    # 400 B of float32, then 100 B of it in int8 beside 300 B: no more than 500 B at any time.
    found = choose(options, loss, Budgets(arena_bytes=500))
    assert (found.loss, found.figures.arena_bytes) == (2.0, 500)


def test_a_budget_may_be_used_up_entirely() -> None:
    where = target("rpi5/ort")
    options = options_of(linear(64, 64, 64), [precision("fp32"), precision("int8")], where)
    narrow = figures_of(options, {layer.op: precision("int8") for layer in options.layers})
    found = choose(options, np.array([0, 1, 0, 1], np.float64), Budgets(seconds=narrow.seconds))
    assert found.figures.seconds == pytest.approx(narrow.seconds)
    assert not found.proven  # times of mixtures are no sums


def test_what_loses_without_end_is_not_chosen() -> None:
    options = options_of(linear(8, 8, 8), THREE)
    table = {f"layer{n}": {"int8": 1.0, "int4": float("inf")} for n in range(2)}
    found = choose(options, options.losses(table), Budgets(flash_bytes=130))
    assert {precision_name(each) for each in found.chosen.values()} == {"int8"}


def test_what_is_stored_narrow_is_not_widened(shared: Path) -> None:
    graph = sizeup.load(shared / "models" / "mlperf_resnet8_int8.tflite")
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8", "int4")])
    assert {precision_name(each) for each in options.dtype} == {"int8", "int4"}


def test_a_front_may_be_over_any_two_quantities() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE, target("rpi5/litert-xnnpack"))
    loss = options.losses(losses(graph, 2))
    for axes in (("loss", "latency"), ("flash", "latency"), ("arena", "flash"), ("energy", "loss")):
        if "energy" in axes and options.joules is None:
            continue
        found = front_of(options, loss, axes, 6)
        assert found
    with pytest.raises(SizeupError, match="a front is over two of"):
        front_of(options, loss, ("loss", "loss"))
