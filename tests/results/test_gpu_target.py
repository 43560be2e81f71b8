"""What a report shows of PyTorch's memory on a GPU: peak, allocated and reserved bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder, RecordedRun

MIB = 1 << 20


@pytest.fixture
def convolution() -> Graph:
    """An image of 4 MiB, a filter of 16 KiB with 64 x 64 channels, and a result of 4 MiB."""
    builder, numbers = GraphBuilder("convolution", "torch"), dtype("float32")
    x = builder.input("x", (1, 64, 128, 128), numbers)
    w = builder.tensor("conv.weight", (64, 64, 1, 1), numbers, Constant("parameter"))
    y = builder.tensor("y", (1, 64, 128, 128), numbers)
    attrs = {"groups": 1, "kernel": (1, 1), "out_channels": 64}
    builder.op("conv", [x, w], [y], attrs, source="aten.conv2d", name="conv", scope="conv")
    builder.outputs.append(y)
    builder.run = RecordedRun((0, -1, 1), (0, 0), threads=2)
    return builder.freeze()


def test_memory_of_a_gpu_has_no_workspace_of_this_cpu(convolution: Graph) -> None:
    here, there = sizeup.analyze(convolution), sizeup.analyze(convolution, target="rtx-3090")
    assert there.memory.peak_bytes == 8 * MIB
    assert here.memory.peak_bytes is not None
    assert here.memory.peak_bytes > 8 * MIB
    assert here.memory.device_memory is None
    on_cpu = sizeup.analyze(convolution, target="i9-10940x/torch-eager")
    assert on_cpu.memory.peak_bytes == here.memory.peak_bytes
    assert on_cpu.memory.device_memory is None
    assert sizeup.analyze(convolution, target="rtx-3090/tensorrt").memory.device_memory is None


def test_allocated_and_reserved_bytes_are_in_every_output(convolution: Graph, tmp_path: Path) -> None:
    report = sizeup.analyze(convolution, target="rtx-3090")
    memory = report.to_dict()["memory"]
    # The filter of 16 KiB in a small segment; input and result of 4 MiB in a large one.
    assert (memory["peak_bytes"], memory["allocated_bytes"]) == (8 * MIB, 8 * MIB + 16_384)
    assert memory["reserved_bytes"] == 22 * MIB
    report.save(tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "eager PyTorch on the GPU" in text
    assert "22.0 MiB reserved by PyTorch, 8.02 MiB of it allocated at the peak (16.0 KiB weights)" in text
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Reserved GPU memory" in page
    assert "22.0 MiB" in page
    without = sizeup.analyze(convolution).to_dict()["memory"]
    assert without["allocated_bytes"] is without["reserved_bytes"] is None


def test_a_check_adds_segments_and_context(convolution: Graph) -> None:
    check = sizeup.check(convolution, "rtx-3090", remedies=False)
    parts = {part.name: (part.low_bytes, part.high_bytes) for part in check.limits[0].parts}
    assert parts["weights"] == (16_384, 16_384)
    assert parts["tensors"] == (8 * MIB, 22 * MIB - 16_384)
    low, high = parts["context"]
    assert high is not None
    assert check.limits[0].need_low == 8 * MIB + 16_384 + low
    assert check.limits[0].need_high == 22 * MIB + high
    assert any("cuDNN" in text for text in check.limits[0].assumptions)
    assert [item.name for item in check.peak_tensors] == ["x", "y"]


def test_a_result_in_the_storage_of_its_input_takes_no_memory_on_a_gpu() -> None:
    builder, numbers = GraphBuilder("in place", "torch"), dtype("float32")
    x, y = builder.input("x", (MIB,), numbers), builder.tensor("y", (MIB,), numbers)
    builder.op("relu", [x], [y], source="aten.relu_")
    builder.outputs.append(y)
    for run, peak in ((RecordedRun((0, 0), (0,)), 4 * MIB), (RecordedRun((0, 1), (0, 0)), 8 * MIB)):
        builder.run = run
        (limit,) = sizeup.check(builder.freeze(), "rtx-3090", remedies=False).limits
        assert {part.name: part.low_bytes for part in limit.parts}["tensors"] == peak
