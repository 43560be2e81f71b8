"""Recorded shapes that contradict their operators do not lower a count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sizeup
from formats.tflite.factory import File, flatbuffers, options, schema

CONV = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}


def _lies(content: bytes) -> Iterator[bytes]:
    """The file with the shape of one tensor after the other that an operator computes set to ones."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
    graph = model.subgraphs[0]
    outputs = [identity for op in graph.operators for identity in op.outputs]
    for identity in outputs:
        tensor = graph.tensors[identity]
        honest = list(tensor.shape)
        if all(side == 1 for side in honest):
            continue
        tensor.shape = [1] * len(honest)
        builder = flatbuffers.Builder(len(content))
        builder.Finish(model.Pack(builder), b"TFL3")
        yield bytes(builder.Output())
        tensor.shape = honest


def _network() -> bytes:
    file = File()
    main = file.main
    x = main.tensor("x", (1, 16, 16, 4))
    weights = main.tensor("w", (8, 3, 3, 4), data=np.ones((8, 3, 3, 4), np.float32))
    shapes: dict[str, tuple[int, ...]] = {
        "conv": (1, 16, 16, 8),
        "relu": (1, 16, 16, 8),
        "pool": (1, 8, 8, 8),
        "sum": (1, 8, 8, 8),
    }
    shapes |= {
        "joined": (1, 8, 8, 16),
        "padded": (1, 10, 10, 16),
        "mean": (1, 16),
        "flat": (4, 4),
        "y": (4, 5),
    }
    outputs = {name: main.tensor(name, shape) for name, shape in shapes.items()}
    pads = main.tensor("pads", (4, 2), "INT32", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    axes = main.tensor("axes", (2,), "INT32", np.array([1, 2], np.int32))
    size = main.tensor("size", (2,), "INT32", np.array([4, 4], np.int32))
    units = main.tensor("units", (5, 4), data=np.ones((5, 4), np.float32))
    window = options("Pool2DOptions", filterHeight=2, filterWidth=2, strideH=2, strideW=2)
    main.op("CONV_2D", [x, weights, -1], [outputs["conv"]], options("Conv2DOptions", **CONV))
    main.op("RELU", [outputs["conv"]], [outputs["relu"]])
    main.op("MAX_POOL_2D", [outputs["relu"]], [outputs["pool"]], window)
    main.op("ADD", [outputs["pool"], outputs["pool"]], [outputs["sum"]], options("AddOptions"))
    joined = options("ConcatenationOptions", axis=3)
    main.op("CONCATENATION", [outputs["pool"], outputs["sum"]], [outputs["joined"]], joined)
    main.op("PAD", [outputs["joined"], pads], [outputs["padded"]])
    main.op("MEAN", [outputs["padded"], axes], [outputs["mean"]], options("ReducerOptions"))
    main.op("RESHAPE", [outputs["mean"], size], [outputs["flat"]])
    main.op("FULLY_CONNECTED", [outputs["flat"], units, -1], [outputs["y"]], options("FullyConnectedOptions"))
    main.ends([x], [outputs["y"]])
    return file.pack()


def _is_found_out(lie: bytes, macs: int) -> bool:
    cost = sizeup.count(sizeup.load(lie))
    return not bool(cost.known.all()) or cost.total_macs >= macs


def test_a_small_network_is_counted_and_every_lie_about_it_is_found() -> None:
    content = _network()
    honest = sizeup.count(sizeup.load(content))
    assert honest.known.all()
    assert honest.total_macs == 16 * 16 * 8 * 36 + 4 * 5 * 4
    lies = list(_lies(content))
    assert len(lies) == 9
    assert all(_is_found_out(lie, honest.total_macs) for lie in lies)


@pytest.mark.parametrize("name", ["mlperf_vww96_int8", "mlperf_kws_int8", "mlperf_ad01_int8"])
def test_no_lie_about_a_real_file_lowers_its_count(shared: Path, name: str) -> None:
    content = (shared / "models" / f"{name}.tflite").read_bytes()
    honest = sizeup.count(sizeup.load(content))
    assert honest.known.all()
    lies = list(_lies(content))
    assert lies
    assert all(_is_found_out(lie, honest.total_macs) for lie in lies)


def test_a_lie_is_no_yes_of_the_gate(tmp_path: Path) -> None:
    path = tmp_path / "lie.tflite"
    path.write_bytes(next(_lies(_network())))
    check = sizeup.check(path, macs=10_000, strict=True)
    assert check.fits is not True
    notes = sizeup.load(path).notes
    assert any("CONV_2D 'conv' computes the shape (1, 16, 16, 8), not (1, 1, 1, 1)" in each for each in notes)
