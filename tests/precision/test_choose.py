"""Mixed-precision assignments: equal to the best of all, and within budgets by a second count."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ortools", reason="choosing needs the solvers")
pytest.importorskip("scipy", reason="choosing needs the solvers")

import sizeup
from sizeup.dtypes import DType, dtype, precision, precision_name
from sizeup.errors import NoAssignment, SizeupError
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.mixed_precision import assign, layers
from sizeup.mixed_precision.choose import Search, find_assignment, front_over_budget, pareto_front, with_gains
from sizeup.mixed_precision.figures import Budgets, figures_of
from sizeup.mixed_precision.live_bytes import LiveBytes
from sizeup.mixed_precision.losses import analytic_losses, weight_rounding_losses
from sizeup.mixed_precision.options import options_of
from sizeup.targets import target
from timing import undisturbed

pytestmark = pytest.mark.extras

FLOAT = dtype("float32")
THREE = [precision(each) for each in ("fp32", "int8", "int4")]


def network(widths: list[int], skips: list[bool], pixels: int = 16) -> Graph:
    """Convolutions of given widths, each with a ReLU; where a skip is asked for and fits, a sum after it."""
    builder = GraphBuilder("drawn")
    value = builder.input("x", (1, widths[0], pixels, pixels), FLOAT)
    channels = widths[0]
    for place, (width, skip) in enumerate(zip(widths, skips, strict=True)):
        name = f"layer{place}"
        weight = builder.tensor(f"{name}.weight", (width, channels, 3, 3), FLOAT, Constant("parameter"))
        bias = builder.tensor(f"{name}.bias", (width,), FLOAT, Constant("parameter"))
        shape = (1, width, pixels, pixels)
        conv, relu = (
            builder.tensor(f"{name}.conv", shape, FLOAT),
            builder.tensor(f"{name}.relu", shape, FLOAT),
        )
        attrs = {"out_channels": width, "kernel": (3, 3)}
        builder.op("conv", [value, weight, bias], [conv], attrs, name=name, scope=name)
        builder.op("relu", [conv], [relu], name=f"{name}.relu")
        before, value = value, relu
        if skip and width == channels and place:
            value = builder.tensor(f"{name}.sum", shape, FLOAT)
            builder.op("add", [before, relu], [value], name=f"{name}.add")
        channels = width
    builder.outputs.append(value)
    return builder.freeze()


def losses(graph: Graph, seed: int) -> dict[str, dict[str, float]]:
    drawn = np.random.default_rng(seed)
    by_layer = {}
    for layer in layers(graph):
        scale = float(drawn.lognormal())
        by_layer[layer.name] = {
            "fp32": 0.0,
            "fp16": 0.001 * scale,
            "int8": 0.1 * scale,
            "int4": scale,
            "int2": 9 * scale,
        }
    return by_layer


def second_count(graph: Graph, chosen: dict[int, DType]) -> tuple[int, int]:
    """Flash by hand from shapes and widths; the arena from the public planner."""
    flash = 0
    for index, op in enumerate(graph.ops):
        if op.kind == "conv":
            bits = chosen[index].bits
            weight, bias = (graph.tensors[i].elements or 0 for i in op.inputs[1:3])
            flash += -(-weight * bits // 8) + bias * (4 if bits <= 8 else bits // 8)
    return flash, sizeup.plan(assign(graph, chosen), reorder=False).plan_bytes


@settings(max_examples=25, deadline=None)
@given(
    widths=st.lists(st.sampled_from([2, 4, 8]), min_size=2, max_size=5),
    seed=st.integers(0, 10**6),
    weights=st.floats(0.1, 1.1),
    activations=st.floats(0.15, 1.1),
    data=st.data(),
)
def test_it_is_the_best_of_all_choices(
    widths: list[int], seed: int, weights: float, activations: float, data: st.DataObject
) -> None:
    skips = data.draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    graph = network(widths, skips)
    options = options_of(graph, THREE)
    table = losses(graph, seed)
    loss = options.losses(table)
    whole = figures_of(options, {layer.op: THREE[0] for layer in options.layers})
    budgets = Budgets(int(weights * whole.weight_bytes), int(activations * whole.activation_bytes))
    best = None
    groups = int(options.group.max()) + 1
    for picks in itertools.product(range(len(THREE)), repeat=groups):
        chosen = options.assignment_of(np.array([g * len(THREE) + p for g, p in enumerate(picks)]))
        taken = second_count(graph, chosen)
        if taken[0] <= (budgets.weight_bytes or 0) and taken[1] <= (budgets.activation_bytes or 0):
            value = sum(table[layer.name][precision_name(chosen[layer.op])] for layer in options.layers)
            best = value if best is None else min(best, value)
    if best is None:
        with pytest.raises(NoAssignment):
            find_assignment(options, loss, budgets)
        return
    assignment = find_assignment(options, loss, budgets)
    assert assignment.loss == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert assignment.is_proven
    assert (assignment.figures.weight_bytes, assignment.figures.activation_bytes) == second_count(
        graph, assignment.dtypes
    )
    assert budgets.met_by(assignment.figures)


def test_eight_layers_are_the_best_of_all_too() -> None:
    graph = network([4, 8, 8, 4, 8, 8, 4, 4], [False] * 8)
    two = [precision("fp32"), precision("int8")]
    options = options_of(graph, two)
    table = losses(graph, 3)
    loss = options.losses(table)
    whole = figures_of(options, {layer.op: two[0] for layer in options.layers})
    budgets = Budgets(int(0.6 * whole.weight_bytes), int(0.8 * whole.activation_bytes))
    values = []
    for picks in itertools.product(range(2), repeat=8):
        chosen = options.assignment_of(np.array([2 * g + p for g, p in enumerate(picks)]))
        flash, arena = second_count(graph, chosen)
        if flash <= (budgets.weight_bytes or 0) and arena <= (budgets.activation_bytes or 0):
            values.append(sum(table[each.name][precision_name(chosen[each.op])] for each in options.layers))
    assert find_assignment(options, loss, budgets).loss == pytest.approx(min(values))


WHERE = target("ryzen-9-7950x/openvino")
RUNS = [precision(each) for each in ("fp32", "fp16", "int8")]  # what it has convolutions for


@settings(max_examples=20, deadline=None)
@given(
    widths=st.lists(st.sampled_from([2, 4, 8]), min_size=2, max_size=6),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_sums_and_steps_are_what_the_mixture_itself_takes(
    widths: list[int], seed: int, data: st.DataObject
) -> None:
    skips = data.draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    options = options_of(network(widths, skips, pixels=128), RUNS, WHERE)
    drawn = np.random.default_rng(seed)
    types = drawn.integers(len(RUNS), size=int(options.group.max()) + 1)
    chosen = options.assignment_of(np.arange(len(types)) * len(RUNS) + types)
    live = sizeup.memory.usage(assign(options.graph, chosen)).live_bytes
    fullest = int(live.max())
    for most, is_crowded in ((fullest, False), (fullest - 1, True)):
        steps = LiveBytes(options.graph, options.typing, options.offered).exceeding(most)
        assert any(over[tuple(types[list(groups)])] for groups, over in steps) == is_crowded
    assert options.is_additive


@settings(max_examples=15, deadline=None)
@given(
    widths=st.lists(st.sampled_from([2, 4, 8]), min_size=2, max_size=4),
    activations=st.floats(0.2, 1.1),
    seconds=st.floats(0.2, 1.1),
    data=st.data(),
)
def test_tied_losses_with_limits_of_time_and_arena_are_solved_exactly(
    widths: list[int], activations: float, seconds: float, data: st.DataObject
) -> None:
    skips = data.draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    options = options_of(network(widths, skips, pixels=128), RUNS, WHERE)
    table = {each.name: {"fp32": 0.0, "fp16": 1e-7, "int8": 1e-3} for each in options.layers}
    loss = options.losses(table)
    whole = figures_of(options, {layer.op: RUNS[0] for layer in options.layers})
    budgets = Budgets(
        activation_bytes=int(activations * whole.activation_bytes), seconds=seconds * (whole.seconds or 0)
    )
    values = []
    for picks in itertools.product(range(len(RUNS)), repeat=int(options.group.max()) + 1):
        rows = np.arange(len(picks)) * len(RUNS) + np.array(picks)
        if budgets.met_by(figures_of(options, options.assignment_of(rows))):
            values.append(float(loss[rows].sum()))
    if not values:
        with pytest.raises(NoAssignment):
            find_assignment(options, loss, budgets)
        return
    assignment = find_assignment(options, loss, budgets)
    assert assignment.loss == pytest.approx(min(values), rel=1e-9, abs=1e-15)
    assert assignment.is_proven


def test_a_layer_computes_in_its_type_whatever_is_before_and_after_it() -> None:
    graph = linear(64, 64, 64, 64)
    kinds = [precision(each) for each in ("int8", "fp32", "int8")]
    types = {layer.op: kind for layer, kind in zip(layers(graph), kinds, strict=True)}
    mixed = sizeup.estimate(assign(graph, types), WHERE)
    names = [mixed.work.names[each] for each in mixed.work.class_index.tolist()]
    assert names.count("linear") == 1
    assert names.count("linear.int8") == 2


def test_layers_whose_results_meet_share_their_type() -> None:
    graph = network([4, 4, 4, 8], [False, True, True, False])
    options = options_of(graph, THREE)
    assert options.group_of.tolist() == [0, 0, 0, 1]
    chosen = options.assignment_of(np.array([1, 3]))
    assert [precision_name(chosen[layer.op]) for layer in options.layers] == ["int8", "int8", "int8", "fp32"]
    assert [op.kind for op in assign(graph, chosen).ops].count("dequantize") == 1


def test_latency_and_energy_are_kept_and_types_without_kernels_not_offered() -> None:
    graph = network([4, 8, 8, 4], [False] * 4, pixels=32)
    where = target("rpi5/litert-xnnpack")
    options = options_of(graph, [*THREE, precision("int2")], where)
    assert "int2" not in {precision_name(each) for each in options.dtype}
    assert options.seconds is not None
    loss = options.losses(losses(graph, 1))
    free = find_assignment(options, loss, Budgets())
    assert free.loss == 0
    assert free.figures.seconds is not None
    budgets = Budgets(seconds=0.6 * free.figures.seconds)
    assignment = find_assignment(options, loss, budgets)
    assert assignment.figures.seconds is not None
    assert assignment.figures.seconds <= 0.6 * free.figures.seconds
    again = sizeup.estimate(assign(graph, assignment.dtypes), where)
    assert again.seconds == pytest.approx(assignment.figures.seconds)
    assert assignment.loss > 0


def test_what_holds_it_back_and_what_more_would_buy_are_told() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE)
    loss = options.losses(losses(graph, 2))
    whole = find_assignment(options, loss, Budgets()).figures
    budgets = Budgets(int(0.5 * whole.weight_bytes), 2 * whole.activation_bytes)
    assignment = with_gains(options, loss, budgets, find_assignment(options, loss, budgets))
    assert assignment.binding == ("weight_bytes",)
    assert assignment.gains is not None
    more = Budgets((budgets.weight_bytes or 0) + 1024, budgets.activation_bytes)
    assert assignment.gains["weight_bytes"] == pytest.approx(
        assignment.loss - find_assignment(options, loss, more).loss
    )


def test_a_budget_that_nothing_keeps_is_told_with_the_least_that_is_needed() -> None:
    options = options_of(network([4, 8], [False] * 2), THREE)
    loss = options.losses(losses(options.graph, 0))
    with pytest.raises(NoAssignment, match=r"keeps weights within 10 B; the minimum is"):
        find_assignment(options, loss, Budgets(weight_bytes=10))


def test_a_front_never_gets_worse_with_more() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE)
    loss = options.losses(losses(graph, 2))
    for axis in ("weight_bytes", "activation_bytes"):
        assignments = front_over_budget(options, loss, axis, 8)
        taken = [getattr(each.figures, axis) for each in assignments]
        assert taken == sorted(taken)
        assert [each.loss for each in assignments] == sorted(
            (each.loss for each in assignments), reverse=True
        )
        assert len(assignments) >= 3
        assert assignments[-1].loss == 0
        for each in assignments:
            assert (
                find_assignment(options, loss, Budgets(**{axis: getattr(each.figures, axis)})).loss
                == each.loss
            )


def test_budgets_hold_for_a_whole_front() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE)
    loss = options.losses(losses(graph, 2))
    whole = find_assignment(options, loss, Budgets()).figures
    budgets = Budgets(int(0.7 * whole.weight_bytes), int(0.6 * whole.activation_bytes))
    assignments = pareto_front(options, loss, ("loss", "weights"), 8, budgets=budgets)
    assert len(assignments) >= 2
    assert all(budgets.met_by(each.figures) for each in assignments)
    assert assignments[-1].loss == find_assignment(options, loss, budgets).loss
    with pytest.raises(NoAssignment, match="keeps weights within 10 B; the minimum is"):
        pareto_front(options, loss, ("loss", "weights"), 8, budgets=Budgets(10))


@pytest.mark.alone
def test_twenty_points_on_fifty_layers_take_seconds() -> None:
    drawn = np.random.default_rng(0)
    graph = network([int(each) for each in drawn.choice([4, 8, 12, 16], 50)], [False] * 50)
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8", "int4", "int2")])
    loss = options.losses(losses(graph, 5))
    with undisturbed() as taken:
        assignments = front_over_budget(options, loss, "weight_bytes", 20)
    assert taken.seconds < 3.0
    assert len(assignments) >= 18
    assert all(each.is_proven for each in assignments)


def test_a_real_file_fits_where_it_did_not(shared: Path) -> None:
    graph = sizeup.load(shared / "models" / "mlperf_resnet8_fp32.tflite")
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8")])
    loss = options.losses(losses(graph, 0))
    budgets = Budgets(weight_bytes=150_000, activation_bytes=100_000)
    assignment = find_assignment(options, loss, budgets)
    assert budgets.met_by(assignment.figures)
    assert figures_of(options, {layer.op: FLOAT for layer in options.layers}).weight_bytes > 150_000


def test_a_search_that_ends_early_says_how_near_it_is() -> None:
    graph = network([4, 8, 12, 16] * 10, [False] * 40)
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8", "int4", "int2")])
    loss = options.losses(losses(graph, 6))
    whole = figures_of(options, {}).weight_bytes
    budgets = Budgets(int(0.2 * whole))
    exact, near = (
        find_assignment(options, loss, budgets),
        find_assignment(options, loss, budgets, Search(gap=0.2)),
    )
    assert exact.is_proven
    assert near.gap is not None
    assert near.gap <= 0.2
    assert exact.loss <= near.loss <= 1.25 * exact.loss


def test_layers_of_many_inputs_lose_more_where_only_shapes_are_known() -> None:
    graph = linear(8, 4096, 16)
    table = analytic_losses(graph, [precision(each) for each in ("fp32", "int8", "int4")])
    (few, many) = table.values()
    assert few["fp32"] == many["fp32"] == 0
    assert 0 < few["int8"] < few["int4"]
    # Rows of the first weights hold 4,096 numbers, those of the second 16.
    assert few["int8"] > many["int8"]
    with pytest.raises(SizeupError, match="--sensitivity analytic"):
        weight_rounding_losses(graph, THREE)


def test_expected_noise_is_that_of_drawn_weights(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).normal(size=(64, 512))
    builder = GraphBuilder("drawn")
    value = builder.input("x", (1, 64), FLOAT)
    weight = builder.tensor("w", (64, 512), FLOAT, Constant("parameter", read=lambda: drawn))
    result = builder.tensor("y", (1, 512), FLOAT)
    builder.op("matmul", [value, weight], [result], {"contracted": (1,)}, name="layer")
    builder.outputs.append(result)
    graph, kinds = builder.freeze(), [precision(each) for each in ("fp16", "int8", "int4")]
    (real,), (expected,) = (
        weight_rounding_losses(graph, kinds).values(),
        analytic_losses(graph, kinds).values(),
    )
    for name, noise in real.items():
        assert expected[name] == pytest.approx(noise, rel=0.35)


@pytest.mark.alone
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50", "bert"])
def test_real_networks_take_seconds(name: str) -> None:
    graph = real_network(name)
    kinds = [precision(each) for each in ("fp32", "fp16", "int8", "int4", "int2")]
    with undisturbed() as taken:
        options, losses_now = options_of(graph, kinds, WHERE), weight_rounding_losses(graph, kinds)
        loss, whole = options.losses(losses_now), figures_of(options, {})
        narrow = figures_of(options, dict.fromkeys((layer.op for layer in options.layers), precision("int8")))
        assert whole.seconds
        assert narrow.seconds
        assert whole.joules
        assert narrow.joules
        for budgets in (
            Budgets(weight_bytes=int(0.45 * whole.weight_bytes)),
            Budgets(
                weight_bytes=int(0.3 * whole.weight_bytes), activation_bytes=int(0.3 * whole.activation_bytes)
            ),
            Budgets(seconds=(whole.seconds + narrow.seconds) / 2),
            Budgets(joules=(whole.joules + narrow.joules) / 2),
        ):
            assert find_assignment(options, loss, budgets).is_proven
    assert taken.seconds < 5.0
    for axes in itertools.combinations(("loss", "weights", "activations", "latency"), 2):
        with undisturbed() as taken:
            assert len(pareto_front(options, loss, axes, 20)) >= (2 if "loss" in axes else 1)
        assert taken.seconds < 60.0


def real_network(name: str) -> Graph:
    """A network of the model zoos with random weights."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    zoo = pytest.importorskip("sizeup.formats.torch.zoo").import_torchvision()
    if name == "bert":  # transformers imports torchvision, and fails if that fails
        transformers = pytest.importorskip("transformers")
        module = transformers.BertModel(transformers.BertConfig()).eval()
        return sizeup.load(module, (torch.zeros(1, 128, dtype=torch.int64),))
    if zoo is None:
        pytest.skip("torchvision is not installed")
    return sizeup.load(getattr(zoo.models, name)(weights=None).eval(), (1, 3, 224, 224))


def linear(*widths: int) -> Graph:
    """Matrix products one after the other."""
    builder = GraphBuilder("products")
    value = builder.input("x", (1, widths[0]), FLOAT)
    for place, (rows, columns) in enumerate(itertools.pairwise(widths)):
        weight = builder.tensor(f"w{place}", (rows, columns), FLOAT, Constant("parameter"))
        result = builder.tensor(f"y{place}", (1, columns), FLOAT)
        builder.op("matmul", [value, weight], [result], {"contracted": (1,)}, name=f"layer{place}")
        value = result
    builder.outputs.append(value)
    return builder.freeze()


def product(builder: GraphBuilder, value: int, columns: int, name: str) -> int:
    """A matrix product with its own weights."""
    rows, length = builder.tensors[value].shape or (0, 0)
    weight = builder.tensor(f"{name}.weight", (length, columns), FLOAT, Constant("parameter"))
    result = builder.tensor(name, (rows, columns), FLOAT)
    builder.op("matmul", [value, weight], [result], {"contracted": (1,)}, name=name)
    return result


def two_readers() -> Graph:
    builder = GraphBuilder("two layers read one input, none the other")
    builder.input("unread", (4, 512), FLOAT)
    value = builder.input("x", (4, 512), FLOAT)
    builder.outputs += [product(builder, value, 512, "first"), product(builder, value, 512, "second")]
    return builder.freeze()


def beside_an_activation() -> Graph:
    builder = GraphBuilder("what enters is also an output, through an activation")
    value = builder.input("x", (1, 64), FLOAT)
    result = builder.tensor("r", (1, 64), FLOAT)
    builder.op("relu", [value], [result], name="relu")
    builder.outputs += [result, product(builder, value, 16, "layer"), product(builder, result, 48, "other")]
    return builder.freeze()


def largest_places() -> Graph:
    builder = GraphBuilder("indices of the maxima, next to a layer")
    value = product(builder, builder.input("x", (4, 128), FLOAT), 256, "first")
    rows = builder.tensor("places", (4,), dtype("int64"))
    builder.op("argmax", [value], [rows], name="argmax")
    builder.outputs += [rows, product(builder, value, 64, "second")]
    return builder.freeze()


@pytest.mark.parametrize("build", [two_readers, beside_an_activation, largest_places])
def test_every_arena_that_a_choice_takes_is_kept_by_the_best_one(build: Callable[[], Graph]) -> None:
    options = options_of(build(), [precision("fp32"), precision("int8")])
    groups = int(options.group.max()) + 1
    loss = np.array([[0.0, 1.0 + place] for place in range(groups)]).ravel()
    for narrow_is_better in (False, True):
        value = loss.reshape(-1, 2)[:, ::-1].ravel() if narrow_is_better else loss
        rows = [np.arange(groups) * 2 + np.array(each) for each in itertools.product(range(2), repeat=groups)]
        taken = [figures_of(options, options.assignment_of(each)).activation_bytes for each in rows]
        for most in sorted(set(taken)):
            best = min(value[each].sum() for each, arena in zip(rows, taken, strict=True) if arena <= most)
            assignment = find_assignment(options, value, Budgets(activation_bytes=most))
            assert assignment.loss == pytest.approx(best)
            assert assignment.is_proven


def test_an_arena_that_no_layer_decides_on_is_refused() -> None:
    builder = GraphBuilder("sums of integers, then a table")
    ids = builder.input("ids", (100,), dtype("int64"))
    twice = builder.tensor("twice", (100,), dtype("int64"))
    builder.op("add", [ids, ids], [twice], name="add")
    table = builder.tensor("table", (10, 8), FLOAT, Constant("parameter"))
    rows = builder.tensor("rows", (100, 8), FLOAT)
    builder.op("embedding", [table, twice], [rows], name="embedding")
    builder.outputs.append(rows)
    options = options_of(builder.freeze(), [precision("fp32"), precision("int8")])
    with pytest.raises(NoAssignment, match="keeps activations within 1,000 B"):
        find_assignment(options, np.array([0.0, 1.0]), Budgets(activation_bytes=1000))


def test_a_value_that_is_converted_leaves_room_at_once() -> None:
    options = options_of(linear(8, 100, 300, 4), [precision("fp32"), precision("int8")])
    loss = np.array([0, 5, 0, 1, 0, 1], np.float64)
    # 400 B of float32, then 100 B of it in int8 next to 300 B: no more than 500 B at any time.
    assignment = find_assignment(options, loss, Budgets(activation_bytes=500))
    assert (assignment.loss, assignment.figures.activation_bytes) == (2.0, 500)


def test_a_budget_may_be_used_up_entirely() -> None:
    options = options_of(linear(64, 64, 64), [precision("fp32"), precision("int8")], WHERE)
    narrow = figures_of(options, {layer.op: precision("int8") for layer in options.layers})
    assignment = find_assignment(options, np.array([0, 1, 0, 1], np.float64), Budgets(seconds=narrow.seconds))
    assert assignment.figures.seconds == pytest.approx(narrow.seconds)
    assert assignment.loss == 2.0


@pytest.mark.parametrize("name", ["rpi4/litert", "ryzen-9-7950x/openvino"])
def test_the_exact_latency_of_any_assignment_is_a_budget_that_it_meets(name: str) -> None:
    """Sums over layers round differently from the estimate of the network."""
    options = options_of(linear(64, 64, 64, 64), [precision("fp32"), precision("int8")], target(name))
    loss = np.tile([0.0, 1.0], 3)
    for picks in itertools.product(range(2), repeat=3):
        rows = np.arange(3) * 2 + np.array(picks)
        exact = figures_of(options, options.assignment_of(rows)).seconds
        assert exact is not None
        assignment = find_assignment(options, loss, Budgets(seconds=exact))
        assert assignment.loss <= sum(picks)
        assert assignment.figures.seconds is not None
        assert assignment.figures.seconds <= exact * (1 + 1e-12)


def test_what_loses_without_end_is_not_chosen() -> None:
    options = options_of(linear(8, 8, 8), THREE)
    table = {f"layer{n}": {"int8": 1.0, "int4": float("inf")} for n in range(2)}
    assignment = find_assignment(options, options.losses(table), Budgets(weight_bytes=130))
    assert {precision_name(each) for each in assignment.dtypes.values()} == {"int8"}


def test_what_is_stored_narrow_is_not_widened(shared: Path) -> None:
    graph = sizeup.load(shared / "models" / "mlperf_resnet8_int8.tflite")
    options = options_of(graph, [precision(each) for each in ("fp32", "fp16", "int8", "int4")])
    assert {precision_name(each) for each in options.dtype} == {"int8", "int4"}


def test_a_front_may_be_over_any_two_quantities() -> None:
    graph = network([4, 8, 8, 4], [False] * 4)
    options = options_of(graph, THREE, target("rpi5/litert-xnnpack"))
    loss = options.losses(losses(graph, 2))
    for axes in (("loss", "latency"), ("weights", "latency"), ("activations", "weights"), ("energy", "loss")):
        if "energy" in axes and options.joules is None:
            continue
        assignments = pareto_front(options, loss, axes, 6)
        assert assignments
    with pytest.raises(SizeupError, match="a front needs two of"):
        pareto_front(options, loss, ("loss", "loss"))
