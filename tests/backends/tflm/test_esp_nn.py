"""Scratch of ESP-NN's kernels equals what the library's own size functions return."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import sizeup
from micro_kernels import Case, Sizes, Value, convolution
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.backends.tflm.layout import FIRMWARE, Chip
from sizeup.backends.tflm.needs import TflmNeeds
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.backends.tflm.tail import largest_scratch_bytes, scratch_bytes
from sizeup.checks import Needs, fit_memory
from sizeup.cost import count
from sizeup.formats import load

pytestmark = pytest.mark.extras

COLUMNS: dict[Chip, str] = {"esp32-s3": "esp32s3_scratch_bytes", "esp32-p4": "esp32p4_scratch_bytes"}
LEAST_ROWS = 400


@pytest.mark.parametrize("chip", COLUMNS)
def test_every_operator_of_the_real_files(shared: Path, chip: Chip) -> None:
    with (shared / "boards" / "esp_nn_scratch.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= LEAST_ROWS
    names = {row["model"] for row in rows}
    graphs = {name: subgraphs(load(shared / "models" / f"{name}.tflite")) for name in names}
    wrong = []
    for row in rows:
        graph = graphs[row["model"]][int(row["subgraph"])]
        size = scratch_bytes(graph, graph.ops[int(row["operator"])], chip)
        if size != int(row[COLUMNS[chip]]):
            wrong.append((row, size))
    assert not wrong


# Height, width, channels, rows and columns of the filter, filters, strides, padding, and what the functions
# of ESP-NN (commit d45b843, compiled) return: one row at least on either side of each of their limits.
CONVOLUTIONS = [
    ((1, 7, 15, 1, 1, 32, 3, 3, "same"), 1_621, 784),
    ((2, 3, 4, 2, 2, 3, 3, 3, "valid"), 172, 60),
    ((40, 40, 3, 3, 1, 8, 1, 1, "same"), 10_944, 5_488),
    ((40, 40, 16, 3, 1, 8, 1, 1, "valid"), 864, 448),
    ((90, 90, 5, 1, 1, 32, 1, 1, "same"), 65_248, 704),
    ((90, 90, 40, 1, 1, 1, 1, 1, "same"), 744, 712),
    ((150, 181, 2, 2, 3, 8, 3, 2, "same"), 111_588, 24_256),
    ((150, 181, 2, 2, 3, 128, 1, 1, "same"), 127_126, 30_400),
    ((190, 400, 2, 5, 1, 16, 3, 1, "same"), 314_688, 58_976),
    ((2, 4, 20, 1, 1, 8, 1, 1, "same"), 832, 800),
    ((1, 7, 16, 1, 1, 8, 1, 1, "same"), 192, 160),
    ((9, 14, 5, 3, 4, 6, 1, 3, "same"), 3_686, 116),
]
DEPTHWISE_CONVOLUTIONS = [
    ((3, 20, 48, 3, 3, 48, 1, 1, "same"), 5_728),
    ((8, 6, 3, 4, 2, 3, 3, 3, "same"), 32),
    ((8, 6, 40, 2, 2, 160, 3, 3, "same"), 5_152),
    ((8, 20, 8, 3, 3, 8, 1, 1, "same"), 2_736),
    ((8, 20, 24, 3, 3, 24, 3, 2, "valid"), 6_048),
    ((8, 41, 16, 3, 3, 16, 3, 3, "valid"), 160),
    ((8, 41, 40, 3, 3, 40, 1, 1, "same"), 42_160),
    ((16, 16, 40, 7, 1, 40, 3, 3, "valid"), 21_072),
    ((40, 40, 4, 1, 7, 4, 1, 1, "valid"), 36_704),
    ((41, 6, 16, 3, 3, 16, 2, 1, "same"), 5_664),
    ((50, 30, 1, 1, 1, 1, 1, 1, "same"), 32),
    ((50, 30, 32, 3, 3, 32, 1, 1, "same"), 3_376),
    ((50, 30, 32, 4, 2, 32, 1, 1, "same"), 8_224),
    ((32, 24, 16, 5, 2, 16, 1, 1, "same"), 24_928),
]


@pytest.mark.parametrize(("sizes", "s3", "p4"), CONVOLUTIONS)
def test_convolutions_at_the_limits_of_the_functions(sizes: Sizes, s3: int, p4: int) -> None:
    graph = load(convolution("CONV_2D", sizes).pack())
    assert [scratch_bytes(graph, graph.ops[0], chip) for chip in ("esp32-s3", "esp32-p4")] == [s3, p4]


@pytest.mark.parametrize(("sizes", "s3"), DEPTHWISE_CONVOLUTIONS)
def test_depthwise_convolutions_at_the_limits_of_the_functions(sizes: Sizes, s3: int) -> None:
    graph = load(convolution("DEPTHWISE_CONV_2D", sizes).pack())
    assert [scratch_bytes(graph, graph.ops[0], chip) for chip in ("esp32-s3", "esp32-p4")] == [s3, 0]


def test_tables_of_activations() -> None:
    """LOGISTIC has a table of 256 bytes, HARD_SWISH one of 512 on the ESP32-S3 alone."""
    for name, s3, p4 in (("LOGISTIC", 256, 256), ("HARD_SWISH", 512, 0)):
        row = Value((2, 9), "INT8")
        graph = load(Case(name, [row], [row]).pack())
        assert [scratch_bytes(graph, graph.ops[0], chip) for chip in ("esp32-s3", "esp32-p4")] == [s3, p4]
        assert largest_scratch_bytes([graph, graph], "esp32-s3") == s3
    assert largest_scratch_bytes([], "esp32-s3") == 0


def test_other_chips_have_no_copies_but_tables(shared: Path) -> None:
    """Optimized C of ESP-NN: nothing for convolutions, four bytes per class for a softmax."""
    graph = load(shared / "models" / "mlperf_kws_int8.tflite")
    sizes = {op.source: scratch_bytes(graph, op, "") for op in graph.ops}
    assert sizes["CONV_2D"] == sizes["DEPTHWISE_CONV_2D"] == 0
    assert sizes["SOFTMAX"] == 48


@pytest.mark.parametrize(("device", "most"), [("esp32-s3", 30_784), ("esp32-p4", 30_752)])
def test_a_check_uses_the_largest_of_them(shared: Path, device: str, most: int) -> None:
    graph = load(shared / "models" / "te_persondet.tflite")
    fit = fit_memory(Needs(graph, count(graph)), sizeup.target(f"{device}/tflm-esp-nn"))
    assert {part.name: part.high_bytes for part in fit.ram.parts}["scratch"] == most


def test_a_check_covers_the_requests_that_the_arena_grows_by(shared: Path) -> None:
    """A softmax over two classes requests 8 B; the request and its handle take more than this scratch."""
    graph = load(shared / "models" / "tflm_keyword_scrambled_8bit.tflite")
    reference, planned = (
        tflm_arena(graph, build, is_file=True) for build in (FIRMWARE, replace(FIRMWARE, kernels="esp-nn"))
    )
    assert reference is not None
    assert planned is not None
    grown = (planned.arena_bytes(32) or 0) - (reference.arena_bytes(32) or 0)
    assert grown > 16
    assert (
        Needs(graph, count(graph)).part(TflmNeeds).scratch_bytes(sizeup.target("esp32-s3/tflm-esp-nn"))
        == grown
    )


def test_an_arena_that_is_not_known_adds_no_scratch(shared: Path) -> None:
    graph = load(shared / "models" / "tflm_person_detect_vela.tflite")  # one custom operator
    assert (
        Needs(graph, count(graph)).part(TflmNeeds).scratch_bytes(sizeup.target("esp32-s3/tflm-esp-nn")) == 0
    )
