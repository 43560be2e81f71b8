"""The planner: always a valid plan, the interpreter's own, and quick on large graphs."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sizeup
from sizeup.backends.tflm import arena, head_buffers
from sizeup.backends.tflm.file_arena import tflm_arena, unsupported_reason
from sizeup.backends.tflm.head import ONLINE, place_greedily
from sizeup.dtypes import dtype
from sizeup.errors import InvalidPlan, LimitReached
from sizeup.graph import Graph, GraphBuilder
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers
from sizeup.memory.packing import first_fit, pack
from sizeup.render.console.check import reasons

Row = tuple[int, int, int]  # size, first, last


@st.composite
def buffers(draw: st.DrawFn) -> list[Row]:
    rows = []
    for _ in range(draw(st.integers(1, 25))):
        first, last = sorted(draw(st.tuples(st.integers(0, 12), st.integers(0, 12))))
        rows.append((16 * draw(st.integers(1, 6)), first, last))
    return rows


def _columns(rows: list[Row]) -> Buffers:
    size, first, last = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Buffers(size, first, last, ((),) * len(rows), (), int(last.max()) + 1)


def _placed(rows: list[Row]) -> list[int]:
    sizes, firsts, lasts = zip(*rows, strict=True)
    return place_greedily(sizes, firsts, lasts)


def _by_the_book(rows: list[Row]) -> list[int]:
    """The rule of the models' README, without any index: largest first, on the reversed list, first fit."""
    offsets: dict[int, int] = {}
    backwards = list(enumerate(rows))[::-1]
    backwards.sort(key=lambda each: each[1][0], reverse=True)
    for number, (size, first, last) in backwards:
        neighbors = [n for n in offsets if rows[n][1] <= last and rows[n][2] >= first]
        candidates = [0, *(offsets[n] + rows[n][0] for n in neighbors)]
        offsets[number] = min(
            candidate
            for candidate in candidates
            if all(candidate + size <= offsets[n] or offsets[n] + rows[n][0] <= candidate for n in neighbors)
        )
    return [offsets[number] for number in range(len(rows))]


@given(buffers())
def test_every_plan_passes_the_judge(rows: list[Row]) -> None:
    check_offsets(_columns(rows), _placed(rows), alignment=16)


@given(buffers())
def test_a_plan_is_what_the_rule_says(rows: list[Row]) -> None:
    assert _placed(rows) == _by_the_book(rows)


def _quadratically(rows: list[Row], offline: list[int]) -> list[int]:
    """The rule with one look at every placed buffer, for plans of hundreds."""
    offsets = list(offline)
    placed = [number for number, offset in enumerate(offsets) if offset != ONLINE]
    backwards = [number for number in reversed(range(len(rows))) if offsets[number] == ONLINE]
    for number in sorted(backwards, key=lambda each: -rows[each][0]):
        size, first, last = rows[number]
        candidate = 0
        for start, end in sorted(
            (offsets[n], offsets[n] + rows[n][0])
            for n in placed
            if rows[n][1] <= last and rows[n][2] >= first
        ):
            if start - candidate >= size:
                break
            candidate = max(candidate, end)
        offsets[number] = candidate
        placed.append(number)
    return offsets


@pytest.mark.parametrize("seed", range(24))
def test_large_plans_are_those_of_the_rule(seed: int) -> None:
    """Short and long lives, few and many sizes, gaps in time, with and without offline offsets."""
    random = np.random.default_rng(seed)
    count, span = 400, (2, 40, 400)[seed % 3]
    firsts = random.integers(0, 400, count)
    lasts = firsts + random.integers(0, span, count)
    sizes = 16 * random.integers(0, (4, 400)[seed % 2], count)
    offline = np.where(random.random(count) < 0.2 * (seed % 4), random.integers(0, 9_999, count), ONLINE)
    rows = list(zip(sizes.tolist(), firsts.tolist(), lasts.tolist(), strict=True))
    placed = place_greedily(sizes.tolist(), firsts.tolist(), lasts.tolist(), offline.tolist())
    assert placed == _quadratically(rows, offline.tolist())


def test_a_plan_of_too_many_steps_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph(60, 4, 1)
    known = pack(head_buffers(graph).buffers)
    monkeypatch.setattr("sizeup.memory.address_space.MAX_STEPS", 50)
    with pytest.raises(LimitReached, match="more than 50 steps"):
        arena(graph)
    assert tflm_arena(graph) is None
    assert unsupported_reason(graph, None) is None
    check = sizeup.check(graph, "stm32f746/tflm", run=False, remedies=False)
    assert check.fits is None
    assert any("planner takes too many steps" in each.text for each in reasons(check))
    limited = first_fit(head_buffers(graph).buffers)
    assert limited.height >= known.height
    check_offsets(head_buffers(graph).buffers, limited.offsets)


@given(buffers(), st.data())
def test_a_corrupted_offset_is_caught(rows: list[Row], data: st.DataObject) -> None:
    pairs = [
        (a, b)
        for a, (_, first, last) in enumerate(rows)
        for b, (_, begin, end) in enumerate(rows)
        if a != b and begin <= last and end >= first
    ]
    assume(pairs)
    moved, onto = data.draw(st.sampled_from(pairs))
    offsets = _placed(rows)
    offsets[moved] = offsets[onto]
    with pytest.raises(InvalidPlan, match="share bytes"):
        check_offsets(_columns(rows), offsets)


def test_given_offsets_stay_even_where_they_overlap() -> None:
    """Two at 32, unchanged; the third is first in line, and fits below them."""
    assert place_greedily([32, 32, 32], [0, 0, 0], [1, 1, 1], [32, 32, ONLINE]) == [32, 32, 0]


def _graph(steps: int, width: int, seed: int) -> Graph:
    """A random network: every operator reads a few of the tensors made before it."""
    random = np.random.default_rng(seed)
    builder = GraphBuilder("random", "tflite")
    tensors = [builder.input("in", (1, int(random.integers(1, 200))), dtype("int8"))]
    for number in range(steps):
        tensors.append(builder.tensor(f"t{number}", (1, int(random.integers(1, 200))), dtype("int8")))
        read = random.choice(tensors[max(0, len(tensors) - 1 - width) : -1], size=min(2, len(tensors) - 1))
        builder.op("add", [int(each) for each in read], [tensors[-1]], source="ADD")
    builder.outputs.append(tensors[-1])
    return builder.freeze()


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_arenas_of_random_graphs_hold_what_is_live(steps: int, width: int, seed: int) -> None:
    graph = _graph(steps, width, seed)
    memory, requested = arena(graph), head_buffers(graph)
    check_offsets(
        requested.buffers,
        [memory.offsets[owner.tensor] for owner in requested.owners],
        capacity=memory.head_bytes,
        alignment=16,
    )
    assert memory.head_bytes >= requested.buffers.live_bytes().max()


@pytest.mark.slow
def test_a_chain_of_20_000_operators_is_planned_in_seconds() -> None:
    begin = time.process_time()
    graph = _graph(20_000, 4, 1)
    assert arena(graph).head_bytes > 0
    assert time.process_time() - begin < 10
