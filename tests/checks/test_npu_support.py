"""Fit verdicts for NPUs whose compilers are only partly documented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import sizeup
from sizeup.checks import MemoryFit, Needs, fit_memory
from sizeup.cost import count
from sizeup.dtypes import DType, dtype, precision
from sizeup.graph import Constant, Graph, GraphBuilder

_BYTE = dtype("int8")
_CONV = {"kernel": (3, 3), "stride": (1, 1), "padding": "same", "groups": 1, "dilation": (1, 1)}


def _network(
    layers: int = 1,
    channels: int = 8,
    kind: str = "conv",
    sides: tuple[int, ...] = (4, 4),
    numbers: DType = _BYTE,
    **attrs: Any,
) -> Graph:
    """Convolutions of 4 x 4 pixels in a row, all with these options."""
    builder = GraphBuilder("network", format="tflite")
    tensor = builder.input("x", (1, *sides, channels), numbers)
    options: Mapping[str, Any] = {**_CONV, "out_channels": channels, "in_channels": channels, **attrs}
    for index in range(layers):
        kernel = options["kernel"]
        weights = builder.tensor(
            f"w{index}", (channels, *kernel, channels // options["groups"]), numbers, Constant("parameter")
        )
        output = builder.tensor(f"y{index}", (1, *sides, channels), numbers)
        builder.op(kind, [tensor, weights], [output], options, source="CONV_2D")
        tensor = output
    builder.outputs.append(tensor)
    return builder.freeze()


def _fit(graph: Graph, target: str, ram: int | None = None, at: str = "") -> MemoryFit:
    return fit_memory(
        Needs(graph, count(graph), precision(at) if at else None), sizeup.target(target), ram=ram
    )


_UPSAMPLING = {"kind": "conv_transpose", "stride": (2, 2)}


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"kernel": (5, 5)}, "operator 0 (CONV_2D): kernel 5 x 5"),
        ({"kernel": (3, 1)}, "kernel 3 x 1"),
        ({"kernel": (3, 3, 3), "sides": (1, 4, 4)}, "kernel 3 x 3 x 3"),
        ({"stride": (2, 2)}, "stride 2"),
        ({"stride": [1, 2]}, "stride 2"),  # as PyTorch has it
        ({"kernel": (1, 10), "sides": (1, 16)}, "1D kernel longer than 9"),
        ({"kernel": (4, 1), "sides": (16, 1), "dilation": (2, 1)}, "dilation of a 1D kernel"),
        ({**_UPSAMPLING, "stride": (1, 1)}, "transposed"),
        ({**_UPSAMPLING, "kernel": (2, 2)}, "transposed"),
        ({"kind": "pool", "kernel": (17, 1)}, "above 16 x 16"),
        ({"kind": "round"}, "no such operation"),
        ({"groups": 8}, "depthwise"),
        ({"dilation": (2, 2)}, "dilation"),
        ({"activation": "relu6"}, "activation relu6"),
        ({"channels": 1025}, "1024 channels"),
        ({"layers": 33}, "at most 32 layers"),
    ],
)
def test_a_network_beyond_a_limit_of_the_max78000_does_not_run(attrs: dict[str, Any], reason: str) -> None:
    fit = _fit(_network(**attrs), "max78000/ai8x")
    assert fit.fits is False
    assert fit.unsupported_reason is not None
    assert reason in fit.unsupported_reason


@pytest.mark.parametrize(
    "attrs",
    [
        {"activation": "relu"},
        {"kernel": (1, 1)},
        {"kernel": (2, 2)},  # emulated by a 3 x 3 kernel
        {"kernel": (1, 9), "sides": (1, 16)},
        {"kernel": (3, 1), "sides": (16, 1), "dilation": (2, 1)},
        _UPSAMPLING,
        {"kind": "conv_transpose", "stride": None},  # as PyTorch has it
        {"kind": "pool", "kernel": (16, 16)},
        {"layers": 32},
    ],
)
def test_a_network_within_all_limits_of_the_max78000_is_undetermined(attrs: dict[str, Any]) -> None:
    fit = _fit(_network(**attrs), "max78000/ai8x")
    assert fit.fits is None
    assert fit.unsupported_reason is None
    assert any("not how layers are placed" in caveat for caveat in fit.caveats)
    assert {memory.reserve_bytes for memory in fit.memories} == {0}
    assert fit.ram.limit_bytes == 512 << 10


def test_kernels_take_a_place_in_all_64_weight_memories() -> None:
    # 8 inputs take one place for each of 8 outputs, and 72 inputs two for each of 72: 64 kernels of 9 B each.
    for channels, places in ((8, 8), (64, 64), (72, 2 * 72)):
        weights = _fit(_network(channels=channels), "max78000/ai8x").weight_memory
        assert weights is not None
        assert weights.low_bytes == places * 64 * 9
        assert weights.limit_bytes == 768 * 64 * 9
        to_quantize = _network(channels=channels, numbers=dtype("float32"))
        halved = _fit(to_quantize, "max78000/ai8x", at="int4").weight_memory
        assert halved is not None
        assert halved.low_bytes == places * 64 * 9 // 2
    with_other = _fit(_with_source("CONV_2D", "ROUND"), "max78000/ai8x").weight_memory
    assert with_other is not None
    assert with_other.low_bytes == 8 * 64 * 9
    pointwise = _fit(_network(channels=64, kernel=(1, 1)), "max78000/ai8x").weight_memory
    assert pointwise is not None
    assert pointwise.low_bytes == 64 * 64


def test_outputs_of_the_first_eight_layers_can_be_streamed() -> None:
    needs = [_fit(_network(layers, 8), "max78000/ai8x").ram.low_bytes for layers in (8, 9)]
    assert needs == [0, 4 * 4 * 8]


def test_shapes_that_are_not_known_count_as_one_channel_and_no_bytes() -> None:
    graph = _network(9)
    known = graph.inputs[0]
    tensors = [
        tensor if tensor.data is not None or index == known else replace(tensor, shape=None)
        for index, tensor in enumerate(graph.tensors)
    ]
    fit = _fit(replace(graph, tensors=tuple(tensors)), "max78000/ai8x")
    assert fit.ram.low_bytes == 0
    assert fit.weight_memory is not None
    # 9 layers of 8 x 8 kernels are stored; the place of an output channel in all memories takes 64 kernels.
    assert fit.weight_memory.low_bytes == max(9 * 8 * 8 * 9, 9 * 64 * 9)


def test_a_vector_has_as_many_channels_as_elements() -> None:
    builder = GraphBuilder("network", format="tflite")
    x, y = builder.input("x", (1, 1025), _BYTE), builder.tensor("y", (1, 8), _BYTE)
    weights = builder.tensor("w", (8, 1025), _BYTE, Constant("parameter"))
    builder.op("matmul", [x, weights], [y], {"contracted": (1,)}, source="FULLY_CONNECTED")
    assert "more than 1024 channels" in (_fit(builder.freeze(), "max78000/ai8x").unsupported_reason or "")


def test_channels_and_sides_of_an_onnx_model_are_those_of_its_layout() -> None:
    builder = GraphBuilder("network", format="onnx")
    sound = builder.input("x", (1, 8, 2048), _BYTE)
    weights = builder.tensor("w", (8, 8, 5), _BYTE, Constant("parameter"))
    longer = builder.tensor("y", (1, 8, 2044), _BYTE)
    builder.op("conv", [sound, weights], [longer], {"kernel": (5,), "groups": 1, "out_channels": 8})
    assert _fit(builder.freeze(), "max78000/ai8x").unsupported_reason is None
    matrix = builder.tensor("v", (2044, 16), _BYTE, Constant("parameter"))
    builder.op("matmul", [longer, matrix], [builder.tensor("z", (1, 8, 16), _BYTE)], {"contracted": (-1,)})
    assert "operator 1 (matmul): more than 1024" in (
        _fit(builder.freeze(), "max78000/ai8x").unsupported_reason or ""
    )


def test_weights_beyond_the_weight_memory_do_not_fit() -> None:
    # 768 places: twelve layers of 64 outputs, not thirteen.
    assert _fit(_network(12, 64), "max78000/ai8x").fits is None
    assert _fit(_network(13, 64), "max78000/ai8x").fits is False
    largest = _fit(_network(1, 1024, kernel=(1, 1)), "max78000/ai8x")  # 1 MiB, though not too many channels
    assert (largest.fits, largest.unsupported_reason) == (False, None)


def test_the_cortex_m4_of_the_max78000_has_its_own_ram() -> None:
    fit = _fit(_network(), "max78000/tflm")
    assert fit.ram.limit_bytes == 128 << 10
    assert fit.weight_memory is None


def _with_source(*sources: str) -> Graph:
    builder = GraphBuilder("network", format="tflite")
    tensor = builder.input("x", (1, 4, 4, 8), _BYTE)
    for index, source in enumerate(sources):
        weights = builder.tensor(f"w{index}", (8, 3, 3, 8), _BYTE, Constant("parameter"))
        output = builder.tensor(f"y{index}", (1, 4, 4, 8), _BYTE)
        is_layer = source == "CONV_2D"
        inputs = [tensor, weights] if is_layer else [tensor]
        kind, attrs = ("conv", {**_CONV, "out_channels": 8}) if is_layer else ("round", {})
        builder.op(kind, inputs, [output], attrs, source=source)
        tensor = output
    builder.outputs.append(tensor)
    return builder.freeze()


def test_layers_after_an_operator_that_the_edge_tpu_lacks_leave_the_verdict_undetermined() -> None:
    ram = 1 << 30
    assert _fit(_with_source("CONV_2D", "RELU"), "edgetpu", ram).fits is True
    after = _fit(_with_source("CONV_2D", "ROUND"), "edgetpu", ram)
    assert after.fits is True
    assert any("ROUND" in caveat and "on the host" in caveat for caveat in after.caveats)
    assert any("what follows (1 operator)" in caveat for caveat in after.caveats)
    before = _fit(_with_source("ROUND", "CONV_2D"), "edgetpu", ram)
    assert before.fits is None
    assert any("ROUND" in reason for reason in before.ram.unknown)


def test_the_edge_tpu_takes_no_float_model_unless_it_is_to_be_quantized() -> None:
    network = _network(numbers=dtype("float32"))
    reason = _fit(network, "edgetpu", 1 << 30).unsupported_reason
    assert reason is not None
    assert "operator 0 (CONV_2D) has float weights" in reason
    assert _fit(network, "edgetpu", 1 << 30, at="int8").unsupported_reason is None


def test_weights_that_exceed_the_memory_of_the_edge_tpu_are_sent_by_the_host() -> None:
    # 960 x 960 x 9 weights are 8.29 MB, of which about 8 MB stay on the chip.
    fit = _fit(_network(channels=960), "edgetpu", 1 << 30)
    assert fit.fits is True
    assert any("exceed the about 8 MB" in caveat and "288 KiB" in caveat for caveat in fit.caveats)
    assert not any("exceed" in caveat for caveat in _fit(_network(), "edgetpu", 1 << 30).caveats)


def test_what_is_not_modeled_for_hailo_is_a_caveat() -> None:
    fit = _fit(_network(), "hailo-8", 1 << 30)
    assert fit.fits is None
    assert any(caveat.startswith("not modeled: which operators") for caveat in fit.caveats)
