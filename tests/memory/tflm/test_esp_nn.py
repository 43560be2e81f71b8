"""Scratch of ESP-NN's kernels equals what the library's own size functions return."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import sizeup
from sizeup.checks import Needs, fit_memory
from sizeup.cost import count
from sizeup.formats import load
from sizeup.memory.tflm.esp_nn import scratch_bytes
from sizeup.memory.tflm.layout import Chip
from sizeup.memory.tflm.subgraphs import subgraphs

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
