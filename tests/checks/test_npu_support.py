"""Fit verdicts for NPUs whose compilers are only partly documented."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.checks import MemoryFit, Needs, fit_memory
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder

_BYTE = dtype("int8")
_CONV = {"kernel": (3, 3), "stride": (1, 1), "padding": "same", "groups": 1, "dilation": (1, 1)}


def _network(layers: int = 1, channels: int = 8, kind: str = "conv", **attrs: Any) -> Graph:
    """Convolutions of 4 x 4 pixels in a row, all with these options."""
    builder = GraphBuilder("network", format="tflite")
    tensor = builder.input("x", (1, 4, 4, channels), _BYTE)
    options: Mapping[str, Any] = {**_CONV, "out_channels": channels, **attrs}
    for index in range(layers):
        kernel = options["kernel"]
        weights = builder.tensor(
            f"w{index}", (channels, *kernel, channels // options["groups"]), _BYTE, Constant("parameter")
        )
        output = builder.tensor(f"y{index}", (1, 4, 4, channels), _BYTE)
        builder.op(kind, [tensor, weights], [output], options, source="CONV_2D")
        tensor = output
    builder.outputs.append(tensor)
    return builder.freeze()


def _fit(graph: Graph, target: str, ram: int | None = None) -> MemoryFit:
    return fit_memory(Needs(graph, count(graph)), sizeup.target(target), ram=ram)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"kernel": (5, 5)}, "kernel 5 x 5"),
        ({"stride": (2, 2)}, "stride 2"),
        ({"groups": 8}, "depthwise"),
        ({"dilation": (2, 2)}, "dilation"),
        ({"activation": "relu6"}, "activation relu6"),
        ({"channels": 1040}, "1024 channels"),
        ({"layers": 33}, "at most 32 layers"),
    ],
)
def test_a_network_beyond_a_limit_of_the_max78000_does_not_run(attrs: dict[str, Any], reason: str) -> None:
    fit = _fit(_network(**attrs), "max78000/ai8x")
    assert fit.fits is False
    assert fit.unsupported_reason is not None
    assert reason in fit.unsupported_reason


def test_a_network_within_all_limits_of_the_max78000_is_undetermined() -> None:
    fit = _fit(_network(activation="relu"), "max78000/ai8x")
    assert fit.fits is None
    assert fit.unsupported_reason is None
    assert any("not how layers are placed" in caveat for caveat in fit.caveats)
    assert fit.ram.limit_bytes == 512 << 10


def test_kernels_take_a_place_in_all_64_weight_memories() -> None:
    # 8 inputs take one place for each of 8 outputs, and 72 inputs two for each of 72: 64 kernels of 9 B each.
    for channels, places in ((8, 8), (64, 64), (72, 2 * 72)):
        weights = _fit(_network(channels=channels), "max78000/ai8x").weight_memory
        assert weights is not None
        assert weights.low_bytes == places * 64 * 9
        assert weights.limit_bytes == 768 * 64 * 9


def test_weights_beyond_the_weight_memory_do_not_fit() -> None:
    # 768 places: twelve layers of 64 outputs, not thirteen.
    assert _fit(_network(12, 64), "max78000/ai8x").fits is None
    assert _fit(_network(13, 64), "max78000/ai8x").fits is False


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
    before = _fit(_with_source("ROUND", "CONV_2D"), "edgetpu", ram)
    assert before.fits is None
    assert any("ROUND" in reason for reason in before.ram.unknown)


@pytest.mark.extras
def test_the_edge_tpu_takes_no_float_model_unless_it_is_to_be_quantized(shared: Path) -> None:
    path = shared / "models" / "mlperf_resnet8_fp32.tflite"
    assert sizeup.check(path, target="edgetpu", ram="1GiB").unsupported_reason
    assert not sizeup.check(path, target="edgetpu", ram="1GiB", precision="int8").unsupported_reason


def test_weights_that_exceed_the_memory_of_the_edge_tpu_are_sent_by_the_host() -> None:
    # 960 x 960 x 9 weights are 8.29 MB, of which about 8 MB stay on the chip.
    fit = _fit(_network(channels=960), "edgetpu", 1 << 30)
    assert fit.fits is True
    assert any("exceed the about 8 MB" in caveat for caveat in fit.caveats)
    assert not any("exceed" in caveat for caveat in _fit(_network(), "edgetpu", 1 << 30).caveats)


def test_what_is_not_modeled_for_hailo_is_a_caveat() -> None:
    fit = _fit(_network(), "hailo-8", 1 << 30)
    assert fit.fits is None
    assert any(caveat.startswith("not modeled: which operators") for caveat in fit.caveats)
