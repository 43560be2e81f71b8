"""The search over segments and strips: against brute force, on networks with residuals, and on real files."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import sizeup
from full_size import full_size_only, size
from rewrite import strip_networks
from rewrite.strip_networks import Network
from sizeup.backends.tflm import arena
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.errors import WriteError
from sizeup.formats import tflite
from sizeup.graph import Graph
from sizeup.rewrite.candidates import search as arrange
from sizeup.rewrite.result import OptimizeOptions
from sizeup.rewrite.split.assembly import assemble, restructured_graph
from sizeup.rewrite.split.closed_forms import Prices
from sizeup.rewrite.split.program import program
from sizeup.rewrite.split.row_rules import Rows
from sizeup.rewrite.split.search import PlannedArena, balanced_strips, find_segments, find_splits, search
from sizeup.rewrite.split.segments import Segment
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = [pytest.mark.extras, pytest.mark.slow]
pytest.importorskip("tflite_micro", reason="verifies in TFLite Micro")

OPTIONS = OptimizeOptions(reorder=False, time_limit=10.0)
NO_LIMIT = 1 << 40


def exact_bytes(graph: Graph) -> int:
    """Head and tail with the best memory plan for the schedule of the graph."""
    return min(candidate.expected.total_bytes for candidate in arrange(graph, OPTIONS).candidates)


def exact_arena(graph: Graph) -> PlannedArena:
    """The same for the search."""
    return PlannedArena(exact_bytes(graph), is_proven=True)


def chain(side: int = 12) -> bytes:
    """A chain whose peak is in its middle."""
    network = Network((1, side, side, 4))
    value = network.window(network.input, "conv", 32)
    value = network.window(network.window(value, "depthwise"), "conv", 8, 1)
    return network.pack(network.window(value, "conv", 4, stride=2))


def tall() -> bytes:
    """A network over a sequence in one row: only columns can be split."""
    network = Network((1, 1, 96, 8))
    value = network.window(network.input, "conv", 48, side=1)
    return network.pack(network.window(network.window(value, "depthwise", side=1), "conv", 4, 1, stride=2))


@pytest.mark.parametrize("content", [chain(), tall()], ids=["chain", "columns"])
def test_no_single_segment_in_equal_strips_is_better_than_the_search(content: bytes) -> None:
    graph = tflite.load(content)
    by_brute_force = exact_bytes(graph)
    for segment in find_segments(graph):
        for strips in range(2, segment.rows + 1):
            steps = program(graph, segment, segment.equal_strips(strips))
            if steps is None:
                continue
            for each in (steps, steps.with_slices_first()):
                whole = restructured_graph(graph, assemble(graph, [each]))
                # Planning takes long: leave out what cannot win.
                predicted = arena(whole)
                if predicted.live_bytes + (predicted.tail_bytes_64 or 0) < by_brute_force:
                    by_brute_force = min(by_brute_force, exact_bytes(whole))
    result = search(graph, Prices(graph, PYTHON_PACKAGE, False), exact_arena, NO_LIMIT, NO_LIMIT, 60.0)
    assert result.is_proven
    assert result.arena_bytes is not None
    assert result.arena_bytes <= by_brute_force < exact_bytes(graph)


def two_peaks(side: int = 24) -> bytes:
    """Two wide parts around a narrow tensor that is also an output: the peak falls only if both are split."""
    network = Network((1, side, side, 2))
    value = network.window(network.input, "conv", 24, side=1)
    middle = network.window(network.window(value, "depthwise"), "conv", 2, 1)
    value = network.window(network.window(middle, "conv", 24, 1), "depthwise", stride=2)
    return network.pack(middle, network.window(value, "conv", 2, 1))


def test_no_pair_of_segments_is_better_than_the_search() -> None:
    """All segments alone and all pairs, in any equal strips, each with its best memory plan."""
    graph = tflite.load(two_peaks())
    splits = []
    for segment in find_segments(graph):
        for strips in range(2, min(segment.rows, size(8, ci=3)) + 1):
            steps = program(graph, segment, segment.equal_strips(strips))
            splits += [] if steps is None else [steps, steps.with_slices_first()]
    pairs = [
        (one, other)
        for one, other in itertools.combinations(splits, 2)
        if one.segment.last < other.segment.first or other.segment.last < one.segment.first
    ]
    best: dict[int, int] = {}
    for chosen in (*((one,) for one in splits), *pairs):
        whole = restructured_graph(graph, assemble(graph, chosen))
        predicted = arena(whole)
        least = best.get(len(chosen), NO_LIMIT)
        # Planning takes long: leave out what cannot win.
        if predicted.live_bytes + (predicted.tail_bytes_64 or 0) < least:
            best[len(chosen)] = min(least, exact_bytes(whole))
    assert best[2] < best[1] < exact_bytes(graph)
    result = search(graph, Prices(graph, PYTHON_PACKAGE, False), exact_arena, NO_LIMIT, NO_LIMIT, 60.0)
    assert result.arena_bytes is not None
    assert result.arena_bytes <= best[2]
    assert result.best is not None
    assert len(result.best.splits) == 2


def test_a_plan_without_proof_is_no_proof_of_the_split() -> None:
    graph = tflite.load(chain())

    def planned(split: Graph) -> PlannedArena:
        return PlannedArena(exact_bytes(split) + 64, is_proven=False)

    prices = Prices(graph, PYTHON_PACKAGE, False)
    assert not search(graph, prices, planned, NO_LIMIT, NO_LIMIT, 60.0).is_proven


def test_a_search_ends_at_its_deadline() -> None:
    graph = tflite.load(chain())
    prices = Prices(graph, PYTHON_PACKAGE, False)
    splits, is_complete = find_splits(graph, prices, NO_LIMIT, NO_LIMIT, (2, 3), deadline=0.0)
    assert not splits
    assert not is_complete
    assert not search(graph, prices, exact_arena, exact_bytes(graph), NO_LIMIT, 0.0).is_proven


def test_the_edges_of_very_many_rows_are_tried_at_few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network((1, 1 << 20, 1, 1))
    value = network.window(network.window(network.input, "conv", 8), "depthwise")
    graph = tflite.load(network.pack(network.window(value, "conv", 1, stride=2)))
    prices, tried = Prices(graph, PYTHON_PACKAGE, False), []
    strip_head = Prices.strip_head

    def counted(self: Prices, segment: Segment, rows: Rows, *, slices_first: bool) -> float:
        tried.append(rows)
        return strip_head(self, segment, rows, slices_first=slices_first)

    monkeypatch.setattr(Prices, "strip_head", counted)
    segment = next(segment for segment in find_segments(graph) if segment.last == 2)
    strips = balanced_strips(prices, segment, 4, slices_first=False)
    assert strips is None or sum(rows.size for rows in strips) == segment.rows
    assert 4 < len(tried) < 2000


def test_a_limit_of_macs_is_kept() -> None:
    graph = tflite.load(strip_networks.mobilenet_v1())
    prices = Prices(graph, PYTHON_PACKAGE, False)
    free = search(graph, prices, exact_arena, exact_bytes(graph), NO_LIMIT, 20.0)
    assert free.best is not None
    assert free.best.macs > 0
    limited = search(graph, prices, exact_arena, exact_bytes(graph), free.best.macs - 1, 20.0)
    assert limited.best is None or limited.best.macs < free.best.macs


NETWORKS: dict[str, Callable[[], bytes]] = {
    "mobilenet_v1": strip_networks.mobilenet_v1,
    "mobilenet_v1 fp32": lambda: strip_networks.mobilenet_v1(48, dtype="float32"),
    "mobilenet_v2": strip_networks.mobilenet_v2,
    "mobilenet_v2 int16": lambda: strip_networks.mobilenet_v2(48, dtype="int16"),
    "mcunet": strip_networks.mcunet,
    "branches": strip_networks.branches,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_residuals_and_branches_need_less(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(NETWORKS[name]())
    plain = sizeup.optimize(source, out, verify=False)
    result = sizeup.optimize(source, out, split=True)
    assert plain.after.used is not None
    assert result.after.used is not None
    assert result.after.used.total_bytes < 0.95 * plain.after.used.total_bytes
    assert result.strips is not None
    assert result.strips.extra_macs_share <= 0.05
    assert result.verification is not None
    assert result.verification.deviation is None
    graph = sizeup.load(out)
    assert sizeup.load(source).outputs == graph.outputs
    samples = random_samples(graph, 3, seed=5)
    before, after = (run("tflm", path, samples) for path in (source, out))
    assert before.distinct_outputs == 3
    assert is_equal(before, after)
    assert after.arena is not None
    predicted = arena(graph, offsets=graph.offsets or None)
    assert (after.arena.head_bytes, after.arena.tail_bytes) == (predicted.head_bytes, predicted.tail_bytes_64)


def test_a_target_needs_less_with_its_kernels(tmp_path: Path) -> None:
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(strip_networks.mobilenet_v2(48))
    result = sizeup.optimize(source, out, split=True, target="stm32f746/tflm-cmsis-nn")
    (changed,) = result.arenas
    assert changed.after_bytes < 0.9 * changed.before_bytes
    assert result.strips is not None
    assert result.strips.new_operators == ("CONCATENATION", "PAD", "SLICE")
    checked = sizeup.check(out, "stm32f746/tflm-cmsis-nn")
    assert any(limit.name == "ram" for limit in checked.limits)


def test_a_check_offers_strips_if_nothing_else_fits(tmp_path: Path) -> None:
    source = tmp_path / "in.tflite"
    source.write_bytes(strip_networks.mobilenet_v2(48))
    planned = sizeup.optimize(source, tmp_path / "out.tflite", target="stm32f746/tflm-cmsis-nn")
    assert planned.after.arena_bytes is not None
    checked = sizeup.check(
        source, "stm32f746/tflm-cmsis-nn", ram=int(0.9 * planned.after.arena_bytes), run=False
    )
    remedy = checked.remedies[0]
    assert remedy.fits
    assert "--split" in remedy.command
    assert any("MACs" in note for note in remedy.notes)
    assert "firmware must register CONCATENATION, PAD, SLICE" in remedy.notes


def test_nothing_is_written_if_nothing_is_better(tmp_path: Path) -> None:
    """One layer with few rows: strips add more to the tail than they save."""
    network = Network((1, 4, 4, 2))
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(network.pack(network.window(network.input, "conv", 2)))
    result = sizeup.optimize(source, out, split=True)
    assert not result.changed
    assert result.strips is None
    assert out.read_bytes() == source.read_bytes()
    assert any("--split had no effect" in note for note in result.notes)


def test_only_tflite_files_are_split(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    source.write_bytes(b"")
    with pytest.raises(WriteError, match="--split supports"):
        sizeup.optimize(source, tmp_path / "out.onnx", split=True)


# Total arena in bytes, without and with overlaps, of the 64-bit interpreter; at most.
REAL = {
    "tflm_person_detect": (67_440, 55_040),
    "mlperf_vww96_int8": (77_472, 64_576),
    "te_vww": (161_296, 142_096),
    "tflm_mobilenetv2_224": (594_144, 519_920),
}
IN_CI = "tflm_person_detect"


@pytest.mark.long
@pytest.mark.parametrize("overlap", [False, True], ids=["any kernels", "overlap"])
@pytest.mark.parametrize(
    "name", [name if name == IN_CI else pytest.param(name, marks=full_size_only) for name in REAL]
)
def test_real_files_need_less_and_compute_the_same(
    shared: Path, tmp_path: Path, name: str, overlap: bool
) -> None:
    source, out = shared / f"models/{name}.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, split=True, overlap=overlap, verify=False, time_limit=30)
    samples = random_samples(sizeup.load(source), 20, seed=11)
    before, after = (run("tflm", path, samples) for path in (source, out))
    assert after.arena is not None
    assert after.arena.total_bytes <= REAL[name][overlap]
    assert result.after.used == after.arena
    assert before.distinct_outputs > 1
    assert is_equal(before, after)
