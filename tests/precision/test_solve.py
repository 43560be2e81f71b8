"""One option of each group under limits: against every pick that there is, and at full size."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ortools", reason="choosing needs the solvers")
pytest.importorskip("scipy", reason="choosing needs the solvers")

from sizeup.precision.solve import Codes, Floats, Limit, pick

pytestmark = pytest.mark.extras


def problem(groups: int, options: int, seed: int, tight: float = 1.0) -> tuple[Codes, Floats, list[Limit]]:
    """Layers of many sizes at widths of 32 to 2 bits: bytes, times that shrink less, losses that grow."""
    drawn = np.random.default_rng(seed)
    widths = np.array([32, 16, 8, 4, 2])[:options]
    stored = np.ceil(drawn.lognormal(10, 1.5, groups)[:, None] * widths / 8)
    shape = (groups, options)
    seconds = drawn.lognormal(-8, 1, groups)[:, None] * widths**0.7 * drawn.uniform(0.8, 1.2, shape)
    loss = np.sort(
        drawn.lognormal(0, 1.5, groups)[:, None] / widths**2 * drawn.uniform(0.5, 1.5, shape), axis=1
    )
    loss[:, 0] = 0
    everything = np.arange(groups * options)
    middle = min(2, options - 1)
    limits = [
        Limit("flash", everything, stored.ravel(), float(np.floor(0.9 * tight * stored[:, middle].sum()))),
        Limit("latency", everything, seconds.ravel(), float(tight * seconds[:, middle].sum())),
    ]
    return np.repeat(np.arange(groups), options), loss.ravel(), limits


def by_force(group: Codes, loss: Floats, limits: list[Limit]) -> float | None:
    members = [np.flatnonzero(group == each) for each in range(int(group.max()) + 1)]
    best = None
    for choice in itertools.product(*members):
        picked = np.array(choice)
        if all(limit.of(picked) <= limit.most for limit in limits):
            value = float(loss[picked].sum())
            best = value if best is None else min(best, value)
    return best


@settings(max_examples=60, deadline=None)
@given(
    groups=st.integers(1, 6),
    options=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    tight=st.floats(0.2, 3.0),
)
def test_it_is_the_best_of_all_picks(groups: int, options: int, seed: int, tight: float) -> None:
    group, loss, limits = problem(groups, options, seed, tight)
    best, found = by_force(group, loss, limits), pick(group, loss, limits)
    if best is None:
        assert found is None
        return
    assert found is not None
    assert found.loss == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert found.bound <= found.loss + 1e-9
    assert found.status == "optimal"
    assert all(limit.of(found.options) <= limit.most * (1 + 1e-9) for limit in limits)
    assert group[found.options].tolist() == list(range(groups))


def test_without_limits_every_group_loses_the_least() -> None:
    group, loss, _ = problem(5, 3, 0)
    found = pick(group, loss, [])
    assert found is not None
    assert found.options.tolist() == [0, 3, 6, 9, 12]


def test_a_pick_that_is_forbidden_is_not_made() -> None:
    group, loss, _ = problem(3, 2, 1)
    first = pick(group, loss, [])
    assert first is not None
    forbidden = Limit("not again", first.options, np.ones(3), 2.0)
    second = pick(group, loss, [forbidden])
    assert second is not None
    assert second.options.tolist() != first.options.tolist()
    assert second.loss == pytest.approx(min(loss[1] - loss[0], loss[3] - loss[2], loss[5] - loss[4]))


@pytest.mark.alone
@pytest.mark.parametrize(("groups", "seeds", "most"), [(500, 3, 2.0), (5000, 1, 60.0)])
def test_many_layers_with_two_budgets_take_seconds(groups: int, seeds: int, most: float) -> None:
    taken = []
    for seed in range(seeds):
        group, loss, limits = problem(groups, 5, seed)
        started = time.process_time()
        found = pick(group, loss, limits)
        taken.append(time.process_time() - started)
        assert found is not None
        assert found.status == "optimal"
    assert max(taken) < most
