"""Cost grows with the number of operators, and no faster; a change of precision is only arithmetic."""

from __future__ import annotations

import pytest

from sizeup.cost import count
from sizeup.dtypes import dtype, precision
from sizeup.graph import Constant, Graph, GraphBuilder
from timing import cpu_seconds

FLOAT = dtype("float32")
SMALL, LARGE = 1_000, 100_000


def chain(length: int) -> Graph:
    builder = GraphBuilder("chain")
    x = builder.input("x", (1, 64), FLOAT)
    for place in range(length):
        y = builder.tensor(f"y{place}", (1, 64), FLOAT)
        if place % 2:
            builder.op("relu", [x], [y], source="Relu", name=f"relu{place}")
        else:
            w = builder.tensor(f"w{place}", (64, 64), FLOAT, Constant("parameter"))
            builder.op("matmul", [x, w], [y], {"contracted": (1,)}, source="MatMul", name=f"fc{place}")
        x = y
    builder.outputs.append(x)
    return builder.freeze()


@pytest.fixture(scope="module")
def large() -> Graph:
    return chain(LARGE)


@pytest.mark.alone
@pytest.mark.both_cores  # the other core shares the cache, which only the large graph needs
def test_time_per_operator_does_not_grow_with_the_graph(large: Graph) -> None:
    small = chain(SMALL)
    best_small = best_large = float("inf")
    # The least of several runs, taken in turn: other work on the machine can only slow one down.
    for _ in range(8):
        best_small = min(best_small, *(cpu_seconds(lambda: count(small)) / SMALL for _ in range(20)))
        best_large = min(best_large, cpu_seconds(lambda: count(large)) / LARGE)
        if best_large <= 1.5 * best_small:
            break
    assert best_large <= 1.5 * best_small


@pytest.mark.slow
def test_a_hundred_thousand_operators_sum_up_exactly(large: Graph) -> None:
    cost = count(large)
    assert cost.total_macs == cost.total_params == LARGE // 2 * 64 * 64
    assert cost.total_elementwise == LARGE // 2 * 64


@pytest.mark.alone
def test_a_change_of_precision_takes_under_five_milliseconds(large: Graph) -> None:
    cost = count(large)
    for asked in ("int8", "fp16", "int4"):
        kind = precision(asked)
        best = min(cpu_seconds(lambda kind=kind: cost.bytes_at(kind)) for _ in range(20))  # type: ignore[misc]
        assert best < 0.005
