"""A measurement as tables: rows that add up to the total, on 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from networks import three_convolutions
from sizeup import targets
from sizeup.cost import count
from sizeup.render.console.measurement import render
from sizeup.results.measurement import Measurement
from sizeup.runtimes import Kernel
from sizeup.runtimes.timing import Timing

# The last kernel ran in no module that is known.
PLACES = (("stem.conv", 2e-3), ("body.depthwise", 1e-3), ("body.pointwise", 4e-3), (None, 1e-3))


def measured(device: str | None) -> Measurement:
    kernels = [
        Kernel(f"conv2d_{i}", "aten.conv2d", each, module=path) for i, (path, each) in enumerate(PLACES)
    ]
    timing = Timing("torch-eager", "PyTorch (eager)", "2.0", 1, (9e-3,), (9e-3,), (), 0.1, tuple(kernels))
    target = None if device is None else targets.target(f"{device}/torch-eager")
    return Measurement("net", "torch", timing, count(three_convolutions()), target)


def shown(device: str | None, by: str, top: int = 10) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    render(measured(device), console, top, by)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is a StringIO
    assert max(map(len, lines)) <= 80
    return [" ".join(line.split()) for line in lines[lines.index("") + 1 :]]


def test_kernels_that_match_no_module_are_listed_as_such() -> None:
    assert shown(None, "kernel") == [
        "time share MACs module kernel",
        "4 ms 50.0 % 2.10 M body.pointwise aten.conv2d conv2d_2",
        "2 ms 25.0 % 885 k stem.conv aten.conv2d conv2d_0",
        "1 ms 12.5 % 295 k body.depthwise aten.conv2d conv2d_1",
        "1 ms 12.5 % ? (unattributed) aten.conv2d conv2d_3",
        "8 ms 100.0 % 3.28 M total",
    ]


def test_modules_have_rates_and_with_a_device_shares_of_its_peak() -> None:
    assert shown(None, "module", top=1) == [
        "time share MACs MAC/s module",
        "4 ms 50.0 % 2.10 M 524 M body.pointwise",
        "3 ms 37.5 % 1.18 M 2 more: --top N shows them",
        "1 ms 12.5 % - - (unattributed)",
        "8 ms 100.0 % 3.28 M total",
    ]
    # 1,024 x 2,048 MACs in 4 ms, of 4 cores x 2.4 GHz x 8 MACs.
    assert shown("rpi5", "module")[1] == "4 ms 50.0 % 2.10 M 524 M 0.683 % body.pointwise"


def test_rows_of_the_data_add_up() -> None:
    data = measured("rpi5").to_dict()
    assert sum(each["seconds"] for each in data["modules"]) == pytest.approx(8e-3)
    assert sum(each["macs"] for each in data["modules"]) == 3_276_800
    assert data["modules"][-1]["module"] is None
    assert data["kernels"][3] == {
        "name": "conv2d_3", "op_type": "aten.conv2d", "seconds": 1e-3, "module": None, "macs": None
    }  # fmt: skip
