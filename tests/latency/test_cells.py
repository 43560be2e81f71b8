"""What a runtime executes of a cell, against three cells taken apart by hand."""

from __future__ import annotations

import pytest

from latency.truth.cells import Policy, executed, uses_its_input, work_of_cells

# Node 1 is the input itself, so both pools compute the same; edge 0-3 multiplies by zero.
TWINS = "|skip_connect~0|+|avg_pool_3x3~0|avg_pool_3x3~1|+|none~0|nor_conv_1x1~1|nor_conv_3x3~2|"
# Node 2 receives nothing, and yet a convolution reads it.
STARVED = "|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
DEAD = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|none~0|none~1|none~2|"


@pytest.mark.parametrize(
    ("arch", "policy", "expected"),
    [
        (TWINS, "each", {"pool": 2, "zero": 1, "conv": 1, "conv_1x1": 1, "activation": 2, "elementwise": 3}),
        (
            TWINS,
            "merged",
            {"pool": 1, "zero": 1, "conv": 1, "conv_1x1": 1, "activation": 2, "elementwise": 3},
        ),
        (TWINS, "reached", {"pool": 1, "conv": 1, "conv_1x1": 1, "activation": 2, "elementwise": 2}),
        (STARVED, "reached", {"conv_1x1": 1, "activation": 1, "elementwise": 1}),
        (DEAD, "reached", {}),
    ],
)
def test_a_cell_runs_these_kernels(arch: str, policy: Policy, expected: dict[str, int]) -> None:
    assert dict(executed(arch, policy)) == expected


def test_a_cell_whose_result_is_zero_does_not_use_its_input() -> None:
    assert uses_its_input(TWINS)
    assert uses_its_input(STARVED)
    assert not uses_its_input(DEAD)


def test_the_largest_network_has_the_published_macs() -> None:
    arch = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"
    work = work_of_cells([arch], "each", [(3, 32, 32)])
    assert float(work.totals(work.macs)[0]) == pytest.approx(220.12e6, rel=1e-3)
