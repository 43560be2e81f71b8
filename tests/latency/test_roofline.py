"""The roofline, against a data sheet and a pocket calculator."""

from __future__ import annotations

import pytest

from sizeup.errors import SizeupError
from sizeup.latency import Machine, from_columns, roofline

# 1 TMAC/s and 100 GB/s: the ops:byte ratio is 20 FLOPs per byte.
MACHINE = Machine(1e12, 100e9, 5e-6)


def test_each_kernel_says_what_bounds_it() -> None:
    work = from_columns(
        ["conv", "add", "tiny", "idle"], 1, [0, 0, 0, 0],
        macs=[1e9, 0, 10, 0], read=[4e6, 3e7, 40, 0], count=[1, 2, 1, 0],
    )  # fmt: skip
    found = roofline(work, MACHINE)
    assert found.bound_by == ("compute", "traffic", "launch", "nothing")
    assert found.compute.tolist() == pytest.approx([1e-3, 0, 1e-11, 0])
    assert found.traffic.tolist() == pytest.approx([4e-5, 6e-4, 4e-10, 0])
    assert found.seconds.tolist() == pytest.approx([1e-3 + 5e-6, 6e-4 + 1e-5, 5e-6 + 4e-10, 0])


def test_intensity_against_the_ops_byte_ratio_tells_compute_from_traffic() -> None:
    work = from_columns(["a", "b"], 1, [0, 0], macs=[11e6, 9e6], read=[1e6, 1e6])
    found = roofline(work, Machine(1e12, 100e9))
    assert MACHINE.flops_per_byte == 20
    assert found.intensity.tolist() == [22, 18]
    assert found.bound_by == ("compute", "traffic")


@pytest.mark.parametrize("numbers", [(0, 1, 0), (1, 0, 0), (1, 1, -1), (float("nan"), 1, 0)])
def test_a_machine_that_cannot_be_is_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(SizeupError, match="a machine"):
        Machine(*numbers)
