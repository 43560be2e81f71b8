"""Beside a latency: on how many cores, and whether the runtime takes such a file at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sizeup
from networks import three_convolutions
from sizeup.report.timing import lines


def said(format: str, target: str) -> str:
    found = sizeup.estimate(replace(three_convolutions(), format=format), target)
    return "\n".join(f"{label}: {text}" for label, text in lines(found))


def test_data_sheet_counts_all_cores_and_says_so() -> None:
    assert "on rpi5/ort, all 4 cores" in said("onnx", "rpi5/ort")
    assert "core" not in said("torch", "rtx4090").partition("\n")[0]


def test_fit_says_on_how_many_threads_it_was_measured() -> None:
    assert "on rpi5/ncnn, 4 threads" in said("onnx", "rpi5/ncnn")


@pytest.mark.parametrize(
    ("format", "target", "remarked"),
    [
        ("tflite", "rpi5/ort", True),
        ("onnx", "rpi5/litert", True),
        ("onnx", "rpi5/ort", False),
        ("tflite", "rpi5/litert", False),
        ("torch", "rpi5/ort", False),  # code can be exported
        ("onnx", "rpi5/ncnn", False),  # has a format of its own, which others are converted to
    ],
)
def test_file_that_the_runtime_does_not_read_is_remarked(format: str, target: str, remarked: bool) -> None:
    assert (f"does not read .{format} files" in said(format, target)) == remarked
