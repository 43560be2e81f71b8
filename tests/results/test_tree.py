"""The tree of modules: it folds what is alike, hides nothing, and adds up."""

from __future__ import annotations

import io
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import sizeup
from blessed import assert_golden
from networks import FLOAT, three_convolutions, with_unknown
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.render.console.report import render
from sizeup.results.module_tree import ITSELF, Branch, ModuleTree
from sizeup.results.report import Report

COLUMNS = ("ops", "unknown_ops", "macs", "elementwise_ops", "params", "read_bytes", "written_bytes")


def network(scopes: Sequence[tuple[str, int]], name: str = "network") -> Graph:
    """One product a scope, of as many columns as it is given."""
    builder = GraphBuilder(name, "torch")
    x = builder.input("x", (1, 8), FLOAT)
    for place, (scope, width) in enumerate(scopes):
        weight = builder.tensor(f"w{place}", (8, width), FLOAT, Constant("parameter"))
        y = builder.tensor(f"y{place}", (1, width), FLOAT)
        attrs = {"contracted": (1,)}
        builder.op("matmul", [x, weight], [y], attrs, source="aten.linear", name=f"fc{place}", scope=scope)
    return builder.freeze()


def transformer(layers: int, odd: int | None = None) -> Graph:
    """A stem, layers of four products and one more, and a head; one layer may be wider."""
    scopes = [("stem", 3)]
    for layer in range(layers):
        width = 9 if layer == odd else 8
        inside = ("attention.query", "attention.key", "mlp.0", "mlp.2")
        scopes += [(f"model.layers.{layer}.{part}", width) for part in inside]
        scopes.append((f"model.layers.{layer}", 4))
    return network([*scopes, ("head", 5)], f"transformer_{layers}")


def numbers(group: object) -> Counter[str]:
    return Counter({column: getattr(group, column) for column in COLUMNS})


def times(count: int, counted: Counter[str]) -> Counter[str]:
    return Counter({column: count * number for column, number in counted.items()})


def added(groups: Iterator[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter(dict.fromkeys(COLUMNS, 0))
    for each in groups:
        total.update(each)
    return total


def check_sums(branches: Sequence[Branch], expected: Counter[str]) -> None:
    """Sibling rows add up to their parent, at every level."""
    assert added(numbers(branch.total) for branch in branches) == expected
    for branch in branches:
        assert numbers(branch.total) == times(branch.count, numbers(branch.single))
        if branch.children:
            check_sums(branch.children, numbers(branch.single))


def totals_of(report: Report) -> Counter[str]:
    totals, ops = report.totals, report.ops
    return Counter(
        {
            "ops": len(ops),
            "unknown_ops": sum(not op.known for op in ops),
            "macs": totals.macs,
            "elementwise_ops": totals.elementwise_ops,
            "params": totals.params,
            "read_bytes": totals.read_bytes,
            "written_bytes": totals.written_bytes,
        }
    )


def unfolded(branches: Sequence[Branch], before: str = "") -> Iterator[tuple[str, Branch]]:
    """Every module by its full path, with the branch that stands for it."""
    for branch in branches:
        if branch.name.startswith("("):
            continue
        for name in spelled_out(branch.name) if branch.count > 1 else [branch.name]:
            path = f"{before}.{name}" if before else name
            yield path, branch
            yield from unfolded(branch.children, path)


def spelled_out(name: str) -> list[str]:
    """The names that a folded one stands for: a.0-1,3 is a.0, a.1 and a.3."""
    for place, part in reversed(list(enumerate(parts := name.split(".")))):
        head = part.rstrip("0123456789,-")
        ranges = [each.split("-") for each in part[len(head) :].split(",")]
        if ranges != [[""]] and (len(ranges) > 1 or len(ranges[0]) > 1):
            spans = [range(int(each[0]), int(each[-1]) + 1) for each in ranges]
            return [
                ".".join([*parts[:place], f"{head}{number}", *parts[place + 1 :]])
                for number in itertools.chain(*spans)
            ]
    raise AssertionError(f"{name} stands for several but names one")


def by_hand(report: Report, path: str) -> Counter[str]:
    """What the operators within a module come to, added up one by one."""
    rows = [op for op in report.ops if op.scope == path or op.scope.startswith(f"{path}.")]
    return added(
        Counter(
            ops=1,
            unknown_ops=int(not op.known),
            macs=op.macs or 0,
            elementwise_ops=op.elementwise_ops or 0,
            params=op.params,
            read_bytes=op.read_bytes or 0,
            written_bytes=op.written_bytes or 0,
        )
        for op in rows
    )


def test_alike_layers_are_told_once() -> None:
    stem, model, head = ModuleTree(sizeup.analyze(transformer(32))).branches()
    assert (stem.name, head.name) == ("stem", "head")
    assert (model.name, model.count) == ("model.layers.0-31", 32)
    # By hand: four products of 8 x 8, one of 8 x 4; then thirty-two of them.
    assert (model.single.macs, model.total.macs) == (288, 9216)
    assert [branch.name for branch in model.children] == ["attention", "mlp", ITSELF]
    assert [branch.single.macs for branch in model.children] == [128, 128, 32]


def test_a_layer_that_differs_stands_alone() -> None:
    branches = ModuleTree(sizeup.analyze(transformer(12, odd=5))).branches(3)
    layers = {branch.name: branch.count for branch in branches[1].children}
    assert layers == {"0-4,6-11": 11, "5": 1}


def test_equal_numbers_of_other_operators_are_not_alike() -> None:
    builder = GraphBuilder("activations")
    x = builder.input("x", (1, 8), FLOAT)
    for place, kind in enumerate(("relu", "relu", "relu", "neg")):
        y = builder.tensor(f"y{place}", (1, 8), FLOAT)
        builder.op(kind, [x], [y], source=kind, scope=f"act{place}")
    branches = ModuleTree(sizeup.analyze(builder.freeze())).branches()
    assert [branch.name for branch in branches] == ["act0-2", "act3"]


def test_folding_never_needs_more_lines() -> None:
    pair = network([("conv1", 8), ("bn", 4), ("conv2", 8)])
    assert [b.name for b in ModuleTree(sizeup.analyze(pair)).branches()] == ["conv1", "bn", "conv2"]


def test_modules_that_only_hold_others_are_folded_twice_and_add_up() -> None:
    towers = [(f"towers.{tower}.layers.{layer}", 8) for tower in range(3) for layer in range(4)]
    report = sizeup.analyze(network(towers))
    (branch,) = ModuleTree(report).branches()
    check_sums((branch,), totals_of(report))
    assert (branch.name, branch.count) == ("towers.0-2", 3)
    assert [(inner.name, inner.count) for inner in branch.children] == [("layers.0-3", 4)]


NAMES = st.sampled_from(["a", "b1", "b2", "0", "1", "2", "3"])
SCOPES = st.lists(st.lists(NAMES, max_size=4).map(".".join), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(SCOPES, st.integers(1, 5), st.sampled_from([None, 1, 2]), st.randoms(use_true_random=False))
def test_any_tree_adds_up_at_any_depth(
    scopes: list[str], depth: int, top: int | None, random: object
) -> None:
    width = random.choice  # type: ignore[attr-defined]
    report = sizeup.analyze(network([(scope, width((8, 8, 8, 5))) for scope in scopes]))
    branches = ModuleTree(report).branches(depth, top)
    check_sums(branches, totals_of(report))
    for path, branch in unfolded(branches):
        # A module that only holds another is named with it, and its numbers are the same.
        assert numbers(branch.single) == by_hand(report, path), path


@settings(max_examples=60, deadline=None)
@given(SCOPES)
def test_no_module_is_lost(scopes: list[str]) -> None:
    report = sizeup.analyze(network([(scope, 8) for scope in scopes]))
    shown = {path for path, _ in unfolded(ModuleTree(report).branches())}
    assert {scope for scope in scopes if scope} <= shown


def test_unknown_operators_and_spare_parameters_have_their_rows() -> None:
    report = sizeup.analyze(with_unknown())
    branches = ModuleTree(report).branches()
    check_sums(branches, totals_of(report))
    assert branches[-1].total.params == 10


def printed(report: Report, width: int = 80, encoding: str = "utf-8", **options: object) -> str:
    buffer = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    render(report, Console(file=buffer, width=width, color_system=None), by="tree", **options)  # type: ignore[arg-type]
    buffer.seek(0)
    return buffer.read()


def test_printed_tree_is_kept() -> None:
    assert_golden("transformer.tree.txt", printed(sizeup.analyze(transformer(12, odd=5))))


def test_tree_of_an_ascii_terminal_is_drawn_in_ascii() -> None:
    text = printed(sizeup.analyze(transformer(12)), encoding="ascii")
    assert "|" in text
    assert "?" not in text


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_long_names_keep_their_count_and_the_lines_their_width(width: int) -> None:
    layer = "a_name_that_goes_on_and_on_as_those_of_converters_do_when_they_join_what_they_fused"
    graph = network([(f"{layer}.{place}.{layer}.inner_{part}", 8) for place in range(9) for part in "ab"])
    text = printed(sizeup.analyze(graph), width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "x 9 " in text
    assert "└ inner_b" in text


def test_model_without_modules_is_told_by_operator() -> None:
    text = printed(sizeup.analyze(network([("", 8), ("", 4)])))
    assert "this model has no module names" in text
    assert "matmul" in text


def test_depth_and_top_leave_out_what_they_should() -> None:
    report = sizeup.analyze(transformer(4, odd=1))
    shallow = printed(report, depth=1)
    assert "--depth 2 expands these modules" in shallow
    assert "attention" not in shallow
    (most, rest) = ModuleTree(report).branches(1, top=1)
    assert (most.name, rest.name, rest.total.ops) == ("model", "(2 more)", 2)


def test_names_of_endless_depth_are_met_with_patience() -> None:
    deep = network([("/".join("a" * 50_000), 8), ("/".join("a" * 49_999), 8)])
    branches = ModuleTree(report := sizeup.analyze(deep)).branches()
    check_sums(branches, totals_of(report))


@pytest.mark.alone
def test_tree_grows_with_the_model_and_no_faster() -> None:
    def seconds(layers: int) -> float:
        report = sizeup.analyze(transformer(layers))
        start = time.process_time()
        ModuleTree(report).branches()
        return time.process_time() - start

    seconds(10)
    # Both exceed the cache: eight times the layers may take twice as long for each, where pairs of
    # layers would take eight times as long.
    small = min(seconds(1000) for _ in range(3))
    assert min(seconds(8000) for _ in range(3)) < 16 * small


@pytest.mark.extras
@pytest.mark.parametrize("target", [None, "rtx4090"])
def test_tree_of_a_real_transformer_adds_up(target: str | None) -> None:
    pytest.importorskip("torch")
    report = sizeup.analyze("torchvision:vit_b_16", target=target)
    modules = ModuleTree(report)
    for depth in range(1, modules.deepest + 1):
        branches = modules.branches(depth)
        check_sums(branches, totals_of(report))
        assert report.latency is None or sum(b.total.seconds or 0 for b in branches) == pytest.approx(
            report.latency.seconds, rel=1e-12
        )
        for path, branch in unfolded(branches):
            assert numbers(branch.single) == by_hand(report, path), path
    encoder = next(branch for branch in modules.branches() if branch.name == "encoder")
    (folded,) = [branch for branch in encoder.children if branch.count > 1]
    assert (folded.name, folded.count) == ("layers.encoder_layer_0-11", 12)
    assert folded.total.macs == 12 * folded.single.macs == report.totals.macs - 115_605_504 - 768_000


@pytest.mark.extras
def test_tree_of_names_in_a_file_adds_up(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    report = sizeup.analyze(shared / "models" / "mlperf_kws_int8.tflite")
    branches = ModuleTree(report).branches()
    check_sums(branches, totals_of(report))
    counts = {branch.name: branch.count for branch in branches[0].children}
    assert counts["activation_1,3,5,7"] == 4


def test_three_convolutions_have_a_tree_of_two() -> None:
    stem, body = ModuleTree(sizeup.analyze(three_convolutions())).branches()
    assert (stem.name, stem.total.macs) == ("stem.conv", 884_736)
    assert [(inner.name, inner.total.macs) for inner in body.children] == [
        ("depthwise", 294_912),
        ("pointwise", 2_097_152),
    ]
