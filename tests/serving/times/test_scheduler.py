"""The simulation of continuous batching, compared with traces worked by hand and with a naive loop."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.times import naive_scheduler
from sizeup.errors import SizeupError
from sizeup.serving.times.scheduler import Floats, Requests, SchedulerLimits, Timeline, simulate

ROOMY = SchedulerLimits(batch_tokens=8, sequences=4, blocks=100, block_tokens=4)


def seconds(decoding: Any, context: Any, tokens: Any, cached: Any) -> Any:
    """One second per step, 1/8 per decoding sequence, 1/4 per prompt token: exact in binary."""
    return 1 + decoding / 8 + tokens / 4


def growing(decoding: Any, context: Any, tokens: Any, cached: Any) -> Any:
    return 1 + decoding * (context + 1) / 64 + tokens * (cached + 4) / 128


def requests(*rows: tuple[float, int, int]) -> Requests:
    arrival, prompt, answer = zip(*rows, strict=True)
    return Requests(np.array(arrival, np.float64), np.array(prompt, np.int64), np.array(answer, np.int64))


def times(timeline: Timeline) -> list[tuple[float, float]]:
    return list(zip(timeline.first_token_s.tolist(), timeline.end_s.tolist(), strict=True))


def test_a_trace_of_ten_requests_worked_by_hand() -> None:
    """Steps of at most 8 tokens and 4 sequences; "a4" is 4 prompt tokens of a.

    step  at      decoding  prompts        seconds  first tokens  ends
    0     0       -         a4 b4          3        a b
    1     3       a b       c6 of 10       2.75
    2     5.75    a b       c4 d2          2.75     c d           a b
    3     8.5     c d       e5             2.5      e             d
    4     11      c e       f6             2.75     f             c
    5     13.75   e f       g2 h1          2        g h           h
    6     15.75   e f g     i3             2.125    i             e f i
    7     17.875  g         -              1.125                  g
    8     19      -         j5             2.25     j
    9     21.25   j         -              1.125                  j
    """
    rows = requests(
        (0, 4, 3), (0, 4, 3), (1, 10, 3), (2, 2, 2), (6, 5, 4),
        (9, 6, 3), (12, 2, 3), (12, 1, 1), (14, 3, 1), (18, 5, 2),
    )  # fmt: skip
    timeline = simulate(rows, ROOMY, seconds)
    assert times(timeline) == [
        (3, 8.5), (3, 8.5), (8.5, 13.75), (8.5, 11), (11, 17.875),
        (13.75, 17.875), (15.75, 19), (15.75, 15.75), (17.875, 17.875), (21.25, 22.375),
    ]  # fmt: skip
    assert (timeline.preemptions, timeline.steps) == (0, 10)
    assert timeline.ttft_s.tolist() == [3, 3, 7.5, 6.5, 5, 4.75, 3.75, 3.75, 3.875, 3.25]
    assert timeline.tpot_s[:3].tolist() == [2.75, 2.75, 2.625]
    assert np.isnan(timeline.tpot_s[7])  # an answer of one token has none
    assert timeline.output_tokens_per_s == 25 / 22.375


def test_a_preemption_worked_by_hand() -> None:
    """Three blocks of 4 tokens: after their prompts of 4 tokens, a and b need a second block each.

    step  at     decoding  prompts  seconds
    0     0      -         a4 b4    3        first tokens of a and b
    1     3      a         -        1.125    b is preempted; 5 tokens need 2 blocks
    2     4.125  a         -        1.125    a ends
    3     5.25   -         b5       2.25     second token of b
    4     7.5    b         -        1.125    b ends
    """
    tight = SchedulerLimits(batch_tokens=8, sequences=4, blocks=3, block_tokens=4)
    timeline = simulate(requests((0, 4, 3), (0, 4, 3)), tight, seconds)
    assert times(timeline) == [(3, 5.25), (3, 8.625)]
    assert (timeline.preemptions, timeline.steps) == (1, 5)


def test_a_closed_loop_sends_the_next_request_when_one_ends() -> None:
    rows = requests(*[(99, 4, 2)] * 3)  # arrival times are not used
    timeline = simulate(rows, ROOMY, seconds, concurrency=1)
    assert timeline.arrival_s.tolist() == [0, 3.125, 6.25]
    assert times(timeline) == [(2, 3.125), (5.125, 6.25), (8.25, 9.375)]


def test_a_shared_prefix_is_neither_computed_nor_stored_again() -> None:
    limits = SchedulerLimits(batch_tokens=8, sequences=4, blocks=4, block_tokens=4, shared_prefix=6)
    # 4 of the 6 tokens fill a block. 4 tokens and 1 block of each prompt are left.
    timeline = simulate(requests((0, 8, 1), (0, 8, 1), (0, 8, 1)), limits, seconds)
    assert times(timeline) == [(3, 3), (3, 3), (5, 5)]


limit_values = st.builds(
    SchedulerLimits,
    batch_tokens=st.integers(5, 40),
    sequences=st.integers(1, 5),
    blocks=st.integers(16, 24),
    block_tokens=st.integers(1, 3),
    shared_prefix=st.integers(0, 12),
)
row_values = st.lists(
    st.tuples(st.integers(0, 240).map(lambda tick: tick / 8), st.integers(1, 8), st.integers(1, 8)),
    min_size=1,
    max_size=14,
).map(sorted)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(row_values, limit_values, st.one_of(st.none(), st.integers(1, 6)))
def test_it_equals_a_loop_over_all_sequences(
    rows: list[tuple[float, int, int]], limits: SchedulerLimits, concurrency: int | None
) -> None:
    server = naive_scheduler.Server(rows, limits, concurrency)
    server.run(growing)
    timeline = simulate(requests(*rows), limits, growing, concurrency=concurrency)
    assert (timeline.preemptions, timeline.steps) == (server.preemptions, server.steps)
    assert timeline.first_token_s.tolist() == pytest.approx([item.first for item in server.items], rel=1e-12)
    assert timeline.end_s.tolist() == pytest.approx([item.end for item in server.items], rel=1e-12)


def test_a_request_that_exceeds_the_cache_is_refused() -> None:
    with pytest.raises(SizeupError, match="a request of 402 tokens needs 101 cache blocks"):
        simulate(requests((0, 4, 2), (0, 400, 3)), ROOMY, seconds)


@pytest.mark.alone
def test_two_thousand_requests_take_less_than_a_second() -> None:
    random = np.random.default_rng(3)
    rows = Requests(
        np.cumsum(random.exponential(1 / 20, 2000)),
        random.integers(100, 4000, 2000),
        random.integers(10, 500, 2000),
    )
    limits = SchedulerLimits(batch_tokens=8192, sequences=256, blocks=40_000, block_tokens=16)

    def milliseconds(decoding: Floats, context: Floats, tokens: Floats, cached: Floats) -> Floats:
        return 5e-3 + decoding * context * 2e-10 + tokens * (cached + 1e4) * 1e-9

    start = time.process_time()
    timeline = simulate(rows, limits, milliseconds)
    assert time.process_time() - start < 1
    assert timeline.steps > 5_000
