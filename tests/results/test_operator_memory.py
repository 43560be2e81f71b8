"""Memory per operator in every output, against the schedule that tflite-tools prints for its example."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import sizeup
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder, Shape
from sizeup.render.console.report import render
from sizeup.render.data.report import csv_lines, json_lines

# From the example output in the description of tflite-tools: tensors in memory and memory use.
SCHEDULE = [
    ({"Conv1/Relu", "Conv1_input"}, 17_472),
    ({"Conv1/Relu", "Conv2/Relu"}, 26_944),
    ({"Conv2/Relu", "max_pooling2d/MaxPool"}, 15_680),
    ({"activation/Relu", "max_pooling2d/MaxPool"}, 3_264),
    ({"activation/Relu", "FC2/BiasAdd"}, 138),
    ({"FC2/BiasAdd", "FC2/Softmax"}, 20),
]
BYTE = dtype("uint8")


def example() -> Graph:
    builder = GraphBuilder("example", "tflite")
    x = builder.input("Conv1_input", (1, 32, 32, 3), BYTE)

    def add(kind: str, name: str, shape: Shape, weight: Shape = (), **attrs: object) -> None:
        nonlocal x
        inputs = [x]
        if weight:
            inputs.append(builder.tensor(f"{name}/weight", weight, BYTE, Constant("parameter")))
        x = builder.tensor(name, shape, BYTE)
        builder.op(kind, inputs, [x], attrs)

    add("conv", "Conv1/Relu", (1, 30, 30, 16), (16, 3, 3, 3), out_channels=16)
    add("conv", "Conv2/Relu", (1, 28, 28, 16), (16, 3, 3, 16), out_channels=16)
    add("pool", "max_pooling2d/MaxPool", (1, 14, 14, 16), taps=4)
    add("matmul", "activation/Relu", (1, 128), (128, 3136), contracted=(1,))
    add("matmul", "FC2/BiasAdd", (1, 10), (10, 128), contracted=(1,))
    add("softmax", "FC2/Softmax", (1, 10))
    builder.outputs.append(x)
    return builder.freeze()


def test_rows_are_the_schedule_of_tflite_tools() -> None:
    rows = sizeup.analyze(example()).ops
    assert [({each.name for each in row.live_tensors}, row.live_bytes) for row in rows] == SCHEDULE
    assert [row.live_tensor_count for row in rows] == [2] * 6


def test_json_and_csv_have_the_same_tensors() -> None:
    report = sizeup.analyze(example())
    data = json.loads("".join(json_lines(report)))["ops"]
    assert [({t["name"] for t in op["live_tensors"]}, op["live_bytes"]) for op in data] == SCHEDULE
    assert data[1]["live_tensors"] == [
        {"name": "Conv1/Relu", "bytes": 14_400, "op": 0},
        {"name": "Conv2/Relu", "bytes": 12_544, "op": 1},
    ]
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(report)))))
    assert [int(row["live_bytes"]) for row in rows] == [size for _, size in SCHEDULE]
    assert [json.loads(row["live_tensors"]) for row in rows] == [op["live_tensors"] for op in data]


@pytest.mark.extras
def test_a_data_frame_has_the_same_tensors() -> None:
    pytest.importorskip("pandas")
    frame = sizeup.analyze(example()).to_pandas()
    assert frame["live_bytes"].tolist() == [size for _, size in SCHEDULE]
    assert [{name for name, _, _ in each} for each in frame["live_tensors"]] == [s for s, _ in SCHEDULE]


def test_the_console_lists_live_tensors_by_their_producers() -> None:
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, color_system=None)
    render(sizeup.analyze(example()), console, columns=("live", "tensors"))
    first, second = (line for line in buffer.getvalue().splitlines() if line.startswith(("0  ", "1  ")))
    assert first.endswith("17.1 KiB  #0 14.1 KiB, Conv1_input 3.00 KiB")
    assert second.endswith("26.3 KiB  #0 14.1 KiB, #1 12.2 KiB")


@pytest.mark.extras
def test_the_memory_picture_is_titled_with_the_name_of_the_file(shared: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("ai_edge_litert")
    from matplotlib.text import Text

    from sizeup.render.plots.pictures import memory_picture

    figure: Any = memory_picture(sizeup.analyze(shared / "models" / "tflm_hello_int8.tflite"))
    assert "tflm_hello_int8.tflite" in [each.get_text() for each in figure.findobj(Text)]
