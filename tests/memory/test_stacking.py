"""Stacking finds packings that a solver does not, and never one that is wrong."""

from __future__ import annotations

import importlib.util
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.memory_graphs import buffers_of, packing_instance
from sizeup.memory import check_offsets

stacking = pytest.importorskip("sizeup.memory.stack_search", reason="the solver's extra is not installed")


def _uncompiled() -> Any:
    """The module as plain Python: arrays check their bounds, and coverage sees the lines."""
    spec = importlib.util.spec_from_file_location("uncompiled_stack_search", stacking.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numba.config.DISABLE_JIT", True)
        spec.loader.exec_module(module)
    return module


UNCOMPILED = _uncompiled()


@st.composite
def _cut_rectangles(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """A full arena cut into pieces by straight cuts: its height suffices, and nothing less does."""
    height, steps = draw(st.integers(4, 60)), draw(st.integers(2, 12))
    pieces = [(0, height, 0, steps)]  # bottom, top, first, end
    for _ in range(draw(st.integers(0, 25))):
        bottom, top, first, end = pieces.pop(draw(st.integers(0, len(pieces) - 1)))
        if draw(st.booleans()) and top - bottom > 1:
            cut = draw(st.integers(bottom + 1, top - 1))
            pieces += [(bottom, cut, first, end), (cut, top, first, end)]
        elif end - first > 1:
            cut = draw(st.integers(first + 1, end - 1))
            pieces += [(bottom, top, first, cut), (bottom, top, cut, end)]
        else:
            pieces.append((bottom, top, first, end))
    return height, [(top - bottom, first, end - 1) for bottom, top, first, end in pieces]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(_cut_rectangles())
def test_what_is_found_passes_the_judge(packing: tuple[int, list[tuple[int, int, int]]]) -> None:
    height, spans = packing
    buffers = buffers_of(spans)
    offsets = stacking.stack(buffers, height, 0.2)
    if offsets is not None:
        check_offsets(buffers, offsets, capacity=height)
    assert stacking.stack(buffers, height - 1, 0.01) is None  # below the bound there is nothing to find


@pytest.mark.slow
def test_a_full_arena_of_many_pieces_is_found() -> None:
    """Every place of the arena taken at every step: no slack anywhere."""
    chance = np.random.default_rng(3)
    spans = []
    for first in range(0, 60, 6):
        sizes = chance.integers(1, 9, 12)
        for place, size in enumerate(sizes.tolist()):
            cut = 3 if place % 2 else 6
            spans += [(size, step, step + cut - 1) for step in range(first, first + 6, cut)]
        spans.append((120 - int(sizes.sum()), first, first + 5))
    buffers = buffers_of([spans[index] for index in chance.permutation(len(spans))])
    offsets = stacking.stack(buffers, 120, 20)
    assert offsets is not None
    check_offsets(buffers, offsets, capacity=120)


def _pinwheels(chance: random.Random, turns: int) -> tuple[int, list[tuple[int, int, int]]]:
    """A full arena cut into pinwheels of five pieces, one in another: no straight cut divides one."""
    height, steps = chance.randint(8, 40), chance.randint(5, 14)
    pieces = [(0, height, 0, steps)]  # bottom, top, first, end
    for _ in range(turns):
        bottom, top, first, end = pieces.pop(chance.randrange(len(pieces)))
        if top - bottom > 2 and end - first > 2:
            low, high = sorted(chance.sample(range(bottom + 1, top), 2))
            early, late = sorted(chance.sample(range(first + 1, end), 2))
            pieces += [(bottom, low, first, late), (bottom, high, late, end), (high, top, early, end)]
            pieces += [(low, top, first, early), (low, high, early, late)]
        else:
            pieces.append((bottom, top, first, end))
    chance.shuffle(pieces)
    return height, [(top - bottom, first, end - 1) for bottom, top, first, end in pieces]


def test_pinwheels_are_found_in_any_order_of_their_pieces() -> None:
    """A wrong piece first is a dead end that the search must leave. It misses one in 100, none of these."""
    chance = random.Random(0)
    for turns in (1, 2) * 60:
        height, spans = _pinwheels(chance, turns)
        buffers = buffers_of(spans)
        rank = np.array(chance.sample(range(len(spans)), len(spans)))
        shape = UNCOMPILED._shape(buffers)
        is_packed, offsets = UNCOMPILED._search(shape, height, rank, 300, True)
        assert is_packed
        check_offsets(buffers, offsets.tolist(), capacity=height)
        # A height of a byte less, and fewer placements than pieces, are not enough.
        assert not UNCOMPILED._search(shape, height - 1, rank, 300, True)[0]
        assert not UNCOMPILED._search(shape, height, rank, len(spans) - 1, True)[0]


def test_buffers_that_are_all_live_at_once_are_stacked_by_rank() -> None:
    """Each one raises all that follow: 28 bounds to undo for 8 buffers."""
    sizes = [3, 1, 4, 1, 5, 9, 2, 6]
    shape = UNCOMPILED._shape(buffers_of([(size, 0, 0) for size in sizes]))
    is_packed, offsets = UNCOMPILED._search(shape, sum(sizes), np.arange(8), 8, False)
    assert is_packed
    assert offsets.tolist() == [sum(sizes[:place]) for place in range(8)]


def test_too_many_or_too_large_are_not_tried() -> None:
    assert stacking.stack(buffers_of([(5, 0, 0)]), 4, 1) is None
    assert stacking.stack(buffers_of([]), 4, 1) is None
    assert stacking.stack(buffers_of([(1, 0, 0)] * (stacking.MAX_BUFFERS + 1)), 4_000, 1) is None


def test_it_ends_in_time() -> None:
    buffers = buffers_of([(7, 0, 3), (6, 1, 4), (5, 2, 9), (4, 0, 9), (3, 4, 7)] * 30)
    capacity = int(buffers.live_bytes().max()) - 1
    stacking.stack(buffers, capacity, 0.1)  # compiled, or read from the cache
    started = time.monotonic()
    assert stacking.stack(buffers, capacity, 1) is None
    assert time.monotonic() - started < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["A", "B", "C", "D", "F", "G", "H", "J", "K"])
def test_hard_instances_fit_by_stacking_alone(name: str, shared: Path) -> None:
    buffers, capacity = packing_instance(shared, name)
    offsets = stacking.stack(buffers, capacity, 120)
    assert offsets is not None
    check_offsets(buffers, offsets, capacity=capacity)
