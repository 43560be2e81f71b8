"""The stated complexity of readers and planners: time at ten and a hundred times the size.

Reading, analyzing, checking and planning take n log n steps. A ratio of 10 log n leaves room for the rest of
a command and for a busy core; a quadratic step needs a hundred times as long for ten times the size.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("torch")

import sizeup
from sizeup.backends.tflm import before_conversion
from sizeup.backends.tflm.head import place_greedily
from sizeup.errors import LimitReached, LoadError, SizeupError
from sizeup.memory.check import check_offsets, shared_bytes
from sizeup.memory.liveness import Buffers
from sizeup.memory.overlap_packing import overlapping_buffers
from sizeup.memory.packing import first_fit
from sizeup.memory.schedule import best_schedule
from sizeup.memory.schedule_problem import ScheduleProblem, static_bound
from timing import cpu_seconds
from worst_shapes import LARGEST, onnx_bomb, onnx_called_often, onnx_products, onnx_split, onnx_symbols

pytestmark = [pytest.mark.alone, pytest.mark.extras]

_ROOM = 3.0  # for a busy core
_COUNTS = (100, 1_000, 10_000)


def seconds(action: Callable[[], object], runs: int = 2) -> float:
    gc.collect()
    return min(cpu_seconds(action) for _ in range(runs))


def grows(small: float, large: float, times: int, count: int) -> bool:
    """Whether the time grows by more than n log n from count / times to count parts."""
    linear = times * math.log2(count) / math.log2(count / times)
    return large > _ROOM * linear * max(small, 2e-4 * count / times / 100)


# Planners


def _live(count: int) -> tuple[list[int], list[int]]:
    return [0] * count, [9] * count


def _short(count: int) -> tuple[list[int], list[int]]:
    return list(range(count)), [step + 1 + step % 5 for step in range(count)]


def _stairs(count: int) -> tuple[list[int], list[int]]:
    return list(range(count)), [count] * count


def _mirror(count: int) -> tuple[list[int], list[int]]:
    half = count // 2
    firsts = list(range(count))
    return firsts, [count - step if step < half else step + 1 for step in firsts]


_LIVES = (_live, _short, _stairs)


def _buffers(lives: Callable[[int], tuple[list[int], list[int]]], count: int) -> Buffers:
    firsts, lasts = lives(count)
    sizes = [16 * (1 + 37 * buffer % 101) for buffer in range(count)]
    size, first, last = (np.array(column, np.int64) for column in (sizes, firsts, lasts))
    return Buffers(size, first, last, ((),) * count, (), max(lasts) + 1)


def _greedy(buffers: Buffers) -> list[int]:
    return place_greedily(buffers.size.tolist(), buffers.first.tolist(), buffers.last.tolist())


def _above(buffers: Buffers) -> list[int]:
    return [0, *np.cumsum(buffers.size).tolist()[:-1]]


_PLANNERS: dict[str, Callable[[Buffers], object]] = {
    "greedy": _greedy,
    "first fit": first_fit,
    "judge": lambda buffers: check_offsets(buffers, _above(buffers)),
    "judge of overlaps": lambda buffers: shared_bytes(buffers, _above(buffers), []),
    "overlapping": lambda buffers: overlapping_buffers(buffers, _above(buffers)),
    "overlapping at 0": lambda buffers: overlapping_buffers(buffers, [0] * len(buffers)),
}


@pytest.mark.parametrize("lives", _LIVES)
@pytest.mark.parametrize("planner", _PLANNERS)
def test_planners_take_n_log_n(planner: str, lives: Any) -> None:
    plan = _PLANNERS[planner]
    few, more, many = (
        seconds(partial(plan, _buffers(lives, count)), 1 if count > 2_000 else 3) for count in _COUNTS
    )
    assert not grows(few, more, 10, _COUNTS[1]), (few, more)
    assert not grows(few, many, 100, _COUNTS[2]), (few, many)


def _random(count: int) -> tuple[list[int], list[int]]:
    random = np.random.default_rng(0)
    firsts = random.integers(0, count, count)
    return firsts.tolist(), (firsts + random.integers(1, count, count)).tolist()


@pytest.mark.parametrize("lives", [_mirror, _random])
def test_a_fragmented_plan_ends_at_its_limit_of_steps(lives: Any) -> None:
    """The gaps between ranges cannot be skipped at once."""

    def place(count: int) -> None:
        with pytest.raises(LimitReached):
            _greedy(_buffers(lives, count))

    assert seconds(partial(place, 20_000), 1) < 2 * _ROOM * seconds(partial(place, 6_000), 1)


def test_a_plan_before_a_conversion_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Builds and styles of writing a file have the same buffers, if no kernel has scratch of its own."""
    made = []

    def place(*rows: Any) -> list[int]:
        made.append(rows)
        return place_greedily(*rows)

    monkeypatch.setattr(before_conversion, "place_greedily", place)
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_split(300))
    assert sizeup.check(path, "esp32s3", remedies=False).limits
    assert len(made) == len(set(made)) > 0


def _wide(count: int) -> ScheduleProblem:
    """Every op reads buffer 0 and makes an output of the graph."""
    made = tuple((op + 1,) for op in range(count))
    return ScheduleProblem((4,) * (count + 1), made, ((0,),) * count, (False, *(True,) * count), (0,))


def _diamonds(count: int) -> ScheduleProblem:
    """Pairs of branches of different sizes, one after the other, of which only the end is read."""
    sizes = tuple(1 + 37 * op % 101 for op in range(count + 1))
    made = tuple((op + 1,) for op in range(count))
    read = tuple((op // 2,) for op in range(count))
    return ScheduleProblem(sizes, made, read, (False,) * count + (True,), (0,))


@pytest.mark.parametrize("problem", [_wide, _diamonds])
def test_a_search_limited_by_states_ends_soon(problem: Callable[[int], ScheduleProblem]) -> None:
    """A step reads the set of ops that have run, a word of which holds 64."""
    few, more = (seconds(partial(best_schedule, problem(count), max_states=500), 1) for count in (500, 5_000))
    assert more < 10 * _ROOM * max(few, 0.5), (few, more)


def test_the_static_bound_is_that_of_every_pair_of_ops() -> None:
    """Counted op by op."""
    problem = _diamonds(300)
    totals = list(problem.output_bytes)
    after = [{op} for op in range(300)]
    for op in reversed(range(300)):
        for later in problem.dependents[op]:
            after[op] |= after[later]
    for op in range(300):
        for buffer, size in enumerate(problem.sizes):
            maker = buffer - 1
            readers = [reader for reader in range(300) if buffer in problem.inputs[reader]]
            is_made = maker < 0 or (op in after[maker] and op != maker)
            is_needed = problem.is_output[buffer] or any(reader in after[op] for reader in readers)
            totals[op] += size * (is_made and is_needed)
    assert static_bound(problem) == max(totals)


# Files


def _outcome(verb: Callable[[Path], object], path: Path) -> None:
    with suppress(SizeupError):
        verb(path)


def _to_dict(path: Path) -> object:
    return sizeup.analyze(path).to_dict()


def _check(path: Path) -> object:
    return sizeup.check(path, "stm32f746/tflm", remedies=False, run=False).to_dict()


def _plan(path: Path) -> object:
    return sizeup.plan(path, time_limit=0.1).to_dict()


def _compare(path: Path) -> object:
    return sizeup.compare(path, path).to_dict()


_MAIN = [shape for shape in LARGEST if shape.__name__.endswith(("_live", "_fan_out", "_blocks"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "shape"),
    [(_to_dict, shape) for shape in LARGEST]
    + [(verb, shape) for verb in (_check, _plan, _compare) for shape in _MAIN],
    ids=lambda each: each.__name__.strip("_"),
)
def test_a_file_ten_times_as_large_takes_ten_times_as_long(verb: Any, shape: Any, tmp_path: Path) -> None:
    small, large = (max(2, LARGEST[shape] // share) for share in (100, 10))
    if large < 20:  # nesting, whose depth has a limit
        small = large = LARGEST[shape]
    times = []
    for count in (small, small, large):  # the first run imports
        path = tmp_path / f"{count}.{shape.__name__.partition('_')[0]}"
        path.write_bytes(shape(count))
        times.append(seconds(partial(_outcome, verb, path), 1))
    assert times[-1] < _ROOM * 11 * max(times[-2], 0.01), times


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (onnx_bomb(17), "the functions of the model expand to 262,142 operators"),
        (onnx_called_often(2_000), "the functions of the model expand to 100,[0-9,]+ bytes"),
        (onnx_symbols(5_000), "and 4,980 more. Add"),
    ],
    ids=["nested functions", "a large function", "dimensions"],
)
def test_what_would_be_too_large_is_an_error(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=message) as raised:
        sizeup.load(path)
    assert len(str(raised.value)) < 4_000


@pytest.mark.parametrize(
    ("shape", "free"), [(onnx_products, ["a", "b"]), (onnx_symbols, [f"s{n}" for n in range(4_000)])]
)
def test_closed_forms_of_very_many_terms_are_refused(shape: Any, free: list[str], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(shape(4_000))
    with pytest.raises(LimitReached, match="more than 2,000 terms"):
        sizeup.explain(path, free=free)


@pytest.mark.parametrize("shape", LARGEST)
def test_the_largest_file_is_below_1_mb(shape: Any) -> None:
    assert len(shape(LARGEST[shape])) < 1 << 20
