"""`sizeup precision --fits`: shapes and bytes of both tensors of every layer, worked out by hand."""

from __future__ import annotations

import io
import json

from rich.console import Console

import sizeup
from networks import FLOAT, three_convolutions
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.render.console.precision import render_fits
from sizeup.results.precision import PrecisionFits


def printed(result: PrecisionFits) -> list[str]:
    buffer = io.StringIO()
    render_fits(result, Console(file=buffer, width=80, color_system=None))
    return [line.rstrip() for line in buffer.getvalue().splitlines()]


def test_shapes_and_bytes_of_both_tensors_are_in_the_data() -> None:
    result = json.loads(json.dumps(sizeup.precision.fits(three_convolutions(), "64 KiB").to_dict()))
    first = result["layers"][0]
    assert first["input_shapes"] == [[1, 3, 64, 64]]
    assert first["output_shapes"] == [[1, 32, 32, 32]]
    # 12,288 and 32,768 numbers.
    sizes = {"fp32": 49_152, "fp16": 24_576, "int8": 12_288, "int4": 6_144, "int2": 3_072}
    assert first["read_bytes"] == sizes
    assert first["written_bytes"]["fp32"] == 131_072
    assert first["fits"] == ["fp16", "int8", "int4", "int2"]
    assert result == sizeup.precision.fits(three_convolutions(), "64 KiB").to_dict()


def test_the_table_has_a_line_for_the_layer_and_one_for_each_tensor() -> None:
    lines = printed(sizeup.precision.fits(three_convolutions(), "64 KiB", precisions=["fp32", "int8"]))
    place = next(index for index, line in enumerate(lines) if line.endswith("conv stem.conv"))
    layer, read, written = (line.split() for line in lines[place : place + 3])
    assert layer == ["128", "KiB", "32.0", "KiB*", "conv", "stem.conv"]
    assert read == ["48.0", "KiB", "12.0", "KiB", "input", "1x3x64x64"]
    assert written == ["128", "KiB", "32.0", "KiB", "output", "1x32x32x32"]


def _conv_of_unknown_size() -> Graph:
    builder = GraphBuilder("dynamic", "onnx")
    x = builder.input("x", None, FLOAT)
    weight = builder.tensor("weight", (8, 3, 3, 3), FLOAT, Constant("parameter"))
    builder.op("conv", [x, weight], [builder.tensor("y", (1, 8, 4, 4), FLOAT)], {"out_channels": 8})
    return builder.freeze()


def test_a_layer_of_unknown_size_is_undetermined_and_not_zero_bytes() -> None:
    result = sizeup.precision.fits(_conv_of_unknown_size(), 64, precisions=["fp32"])
    (layer,) = result.to_dict()["layers"]
    assert (layer["fits"], layer["bytes"]) == (None, {"fp32": None})
    assert layer["input_shapes"] == [None]
    assert not result.not_fitting
    lines = printed(result)
    assert any("1 undetermined: size depends on data" in line for line in lines)
    rows = [line for line in lines if "* marks a fit" not in line]
    assert len(rows) == len(lines) - 1
    assert not any("*" in line or "at no precision" in line for line in rows)
