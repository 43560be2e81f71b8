"""Packing with overlaps, compared with all possible packings and an independent check."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.errors import InvalidPlan
from sizeup.memory.check import Overlap, check_offsets, check_overlapping
from sizeup.memory.liveness import Buffers
from sizeup.memory.overlap_packing import (
    overlap_lower_bound,
    overlapped_outputs,
    overlapping_buffers,
    pack_overlapping,
)


def buffers_of(*rows: tuple[int, int, int]) -> Buffers:
    """Buffers of a size, a first and a last step."""
    size, first, last = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Buffers(size, first, last, ((),) * len(rows), (), int(last.max()) + 1)


CHAIN = buffers_of((64, 0, 0), (96, 0, 1), (64, 1, 1))
LEAVES = [Overlap(0, 1, 48), Overlap(1, 2, 16)]


@pytest.mark.extras
def test_outputs_follow_their_inputs_through_memory() -> None:
    """The last 64 at the bottom, the 96 before them from 16 on, the first 64 from 16 + 48 on."""
    packing = pack_overlapping(CHAIN, LEAVES, alignment=16)
    assert (packing.height, packing.lower_bound, packing.status) == (128, 128, "optimal")
    assert overlapped_outputs(CHAIN, packing.offsets, LEAVES) == {1, 2}
    assert pack_overlapping(CHAIN, [], alignment=16).height == 160


@pytest.mark.extras
def test_a_distance_is_rounded_up_to_the_alignment() -> None:
    pair = buffers_of((64, 0, 0), (64, 0, 0))
    assert pack_overlapping(pair, [Overlap(0, 1, 17)], alignment=16).height == 96
    assert pack_overlapping(pair, [Overlap(0, 1, 17)], alignment=1).height == 81
    assert pack_overlapping(pair, [Overlap(0, 1, -3)], alignment=16).height == 64


@pytest.mark.extras
def test_in_place_is_at_one_address_or_apart() -> None:
    pair = buffers_of((64, 0, 0), (64, 0, 0))
    leave = Overlap(0, 1, 0, in_place=True)
    packing = pack_overlapping(pair, [leave])
    assert (packing.height, packing.offsets) == (64, (0, 0))
    check_overlapping(pair, [0, 64], [leave])
    # 1 B and 2 B are live at step 1, then 2 B in place: not 1 B further, where the 2 B are next to the 1 B.
    three = buffers_of((1, 0, 1), (2, 1, 2), (2, 2, 2))
    assert pack_overlapping(three, [Overlap(1, 2, 0, in_place=True)]).height == 3
    for near in ([16, 0], [0, 16]):
        with pytest.raises(InvalidPlan, match="share bytes"):
            check_overlapping(pair, near, [leave])


@pytest.mark.extras
def test_without_a_solver_the_height_comes_with_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """First fit takes 9, the best of all packings 8, and no operator covers more than 7."""
    rows = buffers_of((6, 0, 0), (4, 0, 1), (4, 1, 2))
    leaves = [Overlap(0, 1, 1), Overlap(1, 2, 2)]
    bounds: list[tuple[int, int]] = []
    packing = pack_overlapping(rows, leaves, progress=lambda low, high: bounds.append((low, high)))
    assert packing.height == least_height(rows, leaves) == 8
    assert bounds == [(7, 9)]
    wide = buffers_of((96, 0, 0), (64, 0, 1), (64, 1, 2))
    assert pack_overlapping(wide, [Overlap(0, 1, 16), Overlap(1, 2, 32)], alignment=16).height == 16 * 8
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    packing = pack_overlapping(rows, leaves)
    assert (packing.height, packing.lower_bound, packing.status, packing.method) == (
        9,
        7,
        "feasible",
        "first fit",
    )
    assert "sizeup[solve]" in packing.note


@pytest.mark.parametrize(("most", "height"), [(1, 128), (2, 64)])
def test_only_buffers_that_are_live_at_once_count_as_a_pair(
    most: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last of three are not; if two pairs are too many, no overlap is used."""
    monkeypatch.setattr("sizeup.memory.overlap_packing._MAX_PAIRS", most)
    leaves = [Overlap(0, 1, 0, in_place=True), Overlap(1, 2, 0, in_place=True)]
    packing = pack_overlapping(buffers_of((64, 0, 1), (64, 1, 2), (64, 2, 2)), leaves)
    assert (packing.height, packing.method, packing.note) == (height, "first fit", "")


@pytest.mark.parametrize(("source", "shared"), [(36, set()), (37, {1}), (100, {1}), (163, {1}), (164, set())])
def test_an_output_overlaps_an_input_if_they_share_a_byte(source: int, shared: set[int]) -> None:
    pair = buffers_of((64, 0, 0), (64, 0, 0))
    assert overlapped_outputs(pair, [source, 100], [Overlap(0, 1, -64)]) == shared


def test_buffers_that_touch_share_no_bytes() -> None:
    buffers = buffers_of((10, 0, 1), (10, 0, 1), (0, 0, 1), (10, 1, 1))
    assert overlapping_buffers(buffers, [10, 0, 5, 20]) == set()
    assert overlapping_buffers(buffers, [10, 0, 5, 19]) == {3}
    assert overlapping_buffers(buffers, [10, 1, 5, 20]) == {1}


# The judge


def test_what_is_not_allowed_is_caught() -> None:
    check_overlapping(CHAIN, [64, 16, 0], LEAVES, alignment=16)
    with pytest.raises(InvalidPlan, match="buffer 0 starts 32 B after buffer 1, 48 B required"):
        check_overlapping(CHAIN, [48, 16, 0], LEAVES)
    with pytest.raises(InvalidPlan, match="starts 0 B after buffer 2, 16 B required"):
        check_overlapping(CHAIN, [96, 0, 0], LEAVES)
    with pytest.raises(InvalidPlan, match="share bytes while both are live"):
        check_overlapping(CHAIN, [64, 16, 0], LEAVES[:1])
    with pytest.raises(InvalidPlan, match="not a multiple of 16"):
        check_overlapping(CHAIN, [72, 16, 0], LEAVES, alignment=16)
    with pytest.raises(InvalidPlan, match="2 offsets for 3 buffers"):
        check_overlapping(CHAIN, [64, 16], LEAVES)


def test_an_input_that_is_needed_later_is_never_shared() -> None:
    longer = buffers_of((64, 0, 1), (96, 0, 1), (64, 1, 1))
    with pytest.raises(InvalidPlan, match="buffer 0 is used after buffer 1 is written"):
        check_overlapping(longer, [64, 16, 200], LEAVES)


# Any packing at all

SIZES = st.integers(1, 4)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Buffers, list[Overlap]]:
    """Up to five buffers, and leave for pairs of which one begins where the other ends."""
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        first = draw(st.integers(0, 3))
        rows.append((draw(SIZES), first, draw(st.integers(first, 3))))
    pairs = [
        (source, result)
        for source, result in itertools.permutations(range(len(rows)), 2)
        if rows[source][2] == rows[result][1] and rows[source][1] < rows[result][1]
    ]
    leaves = []
    for source, result in pairs:
        if draw(st.booleans()):
            distance = draw(st.integers(-rows[source][0], rows[result][0]))
            in_place = draw(st.integers(0, 4)) == 0
            leaves.append(Overlap(source, result, 0 if in_place else distance, in_place))
    results = [leave.result for leave in leaves]
    # As kernels do it: one output at each step has inputs that it may overlap.
    kept = [
        leave
        for leave in leaves
        if all(rows[leave.result][1] != rows[o][1] or o == leave.result for o in results)
    ]
    return buffers_of(*rows), kept


def least_height(buffers: Buffers, leaves: list[Overlap]) -> int:
    """By trying all offsets: two live buffers share bytes only as permitted."""
    sizes, count = buffers.size.tolist(), len(buffers)
    leave_of = {(leave.source, leave.result): leave for leave in leaves}
    for height in range(max(sizes), sum(sizes) + 1):
        for offsets in itertools.product(*(range(height - size + 1) for size in sizes)):
            if all(
                _is_fine(buffers, offsets, a, b, leave_of) for a, b in itertools.combinations(range(count), 2)
            ):
                return height
    raise AssertionError("one after the other is a packing")


def _is_fine(
    buffers: Buffers, offsets: tuple[int, ...], a: int, b: int, leave_of: dict[tuple[int, int], Overlap]
) -> bool:
    if buffers.last[a] < buffers.first[b] or buffers.last[b] < buffers.first[a]:
        return True
    bytes_of = [set(range(offsets[each], offsets[each] + int(buffers.size[each]))) for each in (a, b)]
    if bytes_of[0].isdisjoint(bytes_of[1]):
        return True
    leave = leave_of.get((a, b)) or leave_of.get((b, a))
    if leave is None:
        return False
    behind = offsets[leave.source] - offsets[leave.result]
    return behind == 0 if leave.in_place else behind >= leave.distance


@pytest.mark.slow
@pytest.mark.extras
@given(problems())
@settings(max_examples=120, deadline=None)
def test_small_packings_are_the_lowest_of_all(problem: tuple[Buffers, list[Overlap]]) -> None:
    buffers, leaves = problem
    packing = pack_overlapping(buffers, leaves, time_limit=5.0)
    check_overlapping(buffers, packing.offsets, leaves)
    assert packing.height == least_height(buffers, leaves)
    assert packing.status == "optimal"
    assert overlap_lower_bound(buffers, leaves) <= packing.height


@given(problems(), st.integers(0, 4), st.integers(1, 3))
@settings(deadline=None)
def test_without_leave_the_judge_is_as_strict_as_the_one_of_plain_plans(
    problem: tuple[Buffers, list[Overlap]], moved: int, by: int
) -> None:
    buffers, _ = problem
    offsets = list(pack_overlapping(buffers, [], time_limit=5.0).offsets)
    check_offsets(buffers, offsets)
    offsets[moved % len(offsets)] += by
    assert _passes(check_offsets, buffers, offsets) == _passes(check_overlapping, buffers, offsets, [])


def _passes(judge: Callable[..., None], *arguments: object) -> bool:
    try:
        judge(*arguments)
    except InvalidPlan:
        return False
    return True
