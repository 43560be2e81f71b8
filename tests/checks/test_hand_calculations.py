"""Needs and verdicts of small graphs, worked out on paper from the data of boards and runtimes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from networks import three_convolutions, with_unknown
from sizeup import targets
from sizeup.checks import MEASURES, Limit, MemoryFit, Needs, Subject, fit_memory
from sizeup.checks.board_memory import board_flash, board_ram
from sizeup.checks.evaluate import LimitSpec, evaluate_limits, layer_limits
from sizeup.checks.measures import _npu_arena
from sizeup.checks.npu import NpuFit, npu_ram_parts
from sizeup.cost import count
from sizeup.graph import Graph
from sizeup.runtimes.vela import Compilation

_WEIGHTS = 4 * (864 + 288 + 2048)  # bytes of the three convolutions


def _needs(graph: Graph) -> Needs:
    return Needs(graph, count(graph))


def _fit(graph: Graph, target: str) -> MemoryFit:
    return fit_memory(_needs(graph), targets.target(target))


def test_a_model_without_a_file_has_bounds_of_the_interpreter_and_of_its_size() -> None:
    """Three operators: 128 B each at least, 2,048 B for each and one more at most; seven tensors of 128 B."""
    fit = _fit(three_convolutions(), "stm32f746/tflm")
    arena, interpreter = fit.ram.parts
    # The depthwise output of 128 KiB and the last one of 256 KiB are live at the peak.
    assert arena.low_bytes == (128 + 256) << 10
    assert (interpreter.low_bytes, interpreter.high_bytes) == (3 * 128, 4 * 2048)
    assert _needs(three_convolutions()).stored_bytes == (_WEIGHTS, _WEIGHTS + 7 * 128)


@pytest.mark.parametrize("target", ["rtx-4090/torch-eager", "rpi5/litert"])
def test_weights_of_unknown_size_may_take_nothing(target: str) -> None:
    exact, bound = (
        _fit(replace(three_convolutions(), weights_are_upper_bound=each), target).ram.parts[0]
        for each in (False, True)
    )
    assert exact.low_bytes >= _WEIGHTS
    assert (bound.low_bytes, bound.high_bytes) == (0, exact.high_bytes)


@pytest.mark.parametrize("target", ["rtx-4090/torch-eager", "rpi5/litert", "stm32f746/tflm"])
def test_a_tensor_of_unknown_size_leaves_no_upper_bound(target: str) -> None:
    ram = _fit(with_unknown(), target).ram
    assert ram.high_bytes is None
    assert ram.fits is None


@pytest.mark.parametrize(
    ("kernels", "reason"), [((), ""), (("aten.lstm",), "the internal memory of aten.lstm is not known")]
)
@pytest.mark.parametrize("target", ["rtx-4090/torch-eager", "rpi5/torch-eager"])
def test_internal_memory_of_kernels_that_is_not_known_leaves_no_upper_bound(
    target: str, kernels: tuple[str, ...], reason: str
) -> None:
    needs = _needs(three_convolutions())
    vars(needs)["usage"] = replace(needs.usage, unmodeled=kernels)
    (part,) = (each for each in fit_memory(needs, targets.target(target)).ram.parts if each.name == "tensors")
    assert part.basis.partition("; ")[2] == reason
    assert (part.high_bytes is None) is bool(kernels)
    peak = MEASURES["peak"].compute(Subject(needs))
    assert (peak.least, peak.most) == ((128 + 256) << 10, None if kernels else (128 + 256) << 10)
    assert peak.reason == reason


def test_a_latency_names_the_operators_that_take_longest() -> None:
    subject = Subject(_needs(three_convolutions()), targets.target("rpi5/litert"))
    limit = evaluate_limits(subject, LimitSpec({"latency": 1.0}))[-1]
    amounts = [each.amount for each in limit.largest]
    names = {each.name for each in limit.largest}
    assert names == {"stem.conv.out", "body.depthwise.out", "body.pointwise.out"}
    assert amounts == sorted(amounts, reverse=True)
    assert 0 < sum(amounts) <= (limit.need or 0)


@pytest.mark.parametrize(
    ("pattern", "measure", "fits", "unknown"),
    [
        ("stem.conv", "macs", True, ()),
        ("mylib.fancy", "macs", None, ("no cost rule for mylib.fancy",)),
        ("mylib.fancy", "params", True, ()),
        # The relu has an output of unknown size.
        ("stem.conv", "memory", None, ("the size of 1 tensor depends on data",)),
    ],
)
def test_a_limit_of_layers_is_undetermined_if_their_cost_is(
    pattern: str, measure: str, fits: bool | None, unknown: tuple[str, ...]
) -> None:
    (limit,) = layer_limits(Subject(_needs(with_unknown())), {pattern: {measure: 1e9}}, "a budget")
    assert (limit.fits, limit.unknown) == (fits, unknown)


@pytest.mark.parametrize(
    ("need", "is_near"), [(79.0, False), (80.5, True), (90.0, True), (90.5, True), (100.5, False)]
)
def test_a_limit_is_near_if_less_than_a_tenth_is_left_besides_the_reserve(need: float, is_near: bool) -> None:
    """Of 100 B, other software may take 10: from 90 B, it is undetermined, above 100 B it does not fit."""
    assert Limit("ram", "bytes", 100, need, need, reserve=10).is_near is is_near


def test_what_depends_on_the_size_of_an_unsized_input_has_no_upper_bound() -> None:
    graph = replace(three_convolutions(), placeholder_sizes=("the size of x is not fixed",))
    limits = evaluate_limits(Subject(_needs(graph)), LimitSpec({"macs": 1e9, "params": 1e9, "weights": 1e9}))
    assert [(limit.name, limit.fits) for limit in limits] == [
        ("macs", None),
        ("params", True),
        ("weights", True),
    ]
    assert limits[0].unknown == graph.placeholder_sizes


_COMPILED = Compilation(
    "4.0", "ethos-u55-128", "", "Shared_Sram", 5e8, {"sram": 1_000}, {}, 0, 0, 0.0, 0, 1, 0, 0, 0, (), (), b""
)


@pytest.mark.parametrize(
    ("npu", "parts", "arena"),
    [
        (NpuFit("u55", reason="Vela is not installed"), [], (None, None)),
        # Of the compiled file's arena, Vela reports 1,000 B.
        (NpuFit("u55", _COMPILED, arena=(900, 1_500)), [(1_000, 1_000), (0, 500)], (900, 1_500)),
        (
            NpuFit("u55", _COMPILED, arena_unknown_reason="it is in DRAM"),
            [(1_000, 1_000), (0, None)],
            (None, None),
        ),
        (NpuFit("u55", is_compiled_file=True, arena=(900, 1_500)), [(900, 1_500)], (900, 1_500)),
        (NpuFit("u55", is_compiled_file=True), [(0, None)], (None, None)),
    ],
)
def test_the_arena_of_an_npu_is_not_counted_twice(
    npu: NpuFit, parts: list[tuple[int, int | None]], arena: tuple[int | None, int | None]
) -> None:
    assert [(part.low_bytes, part.high_bytes) for part in npu_ram_parts(npu)] == parts
    amount = _npu_arena(npu)
    assert (amount.least, amount.most) == arena
    assert amount.reason == (npu.reason or npu.arena_unknown_reason)


def test_external_flash_counts_only_for_what_exceeds_the_chip() -> None:
    target = targets.target("32f746gdiscovery")
    assert target.board is not None
    limit = target.board.flash_limit(target.device)
    assert limit is not None
    assert board_flash(target.board, target.device, limit).limit_bytes == limit
    assert board_flash(target.board, target.device, limit + 1).limit_bytes is None


def test_external_ram_counts_only_for_what_exceeds_the_largest_bank() -> None:
    """392 KiB are usable on the chip of an ESP32-S3-EYE, and it has 8 MiB of external RAM."""
    target = targets.target("esp32-s3-eye")
    assert target.board is not None
    for least, limit in ((392 << 10, 392 << 10), ((392 << 10) + 1, 8 << 20), (8 << 20, 8 << 20)):
        ram = board_ram(target.board, target.device, least)
        assert (ram.limit_bytes, ram.is_external) == (limit, limit > 392 << 10)
    assert not board_ram(target.board, target.device, (8 << 20) + 1).is_external
