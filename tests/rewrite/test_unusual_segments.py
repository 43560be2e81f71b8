"""Files whose operators cannot all be executed in strips, or that are unusual: equal outputs, or a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import sizeup
from formats.tflite.factory import options, quantized
from micro_interpreter import measure
from rewrite.strip_networks import Network
from sizeup.backends.tflm import arena
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras
pytest.importorskip("tflite_micro", reason="runs TFLite Micro")


def wide(network: Network, value: int) -> int:
    """A wide part that sets the peak, with a narrow result."""
    value = network.window(network.window(value, "conv", 32), "depthwise")
    return network.window(value, "conv", 4, stride=2)


def computed_filter() -> bytes:
    """The weights of a convolution are computed from the same input."""
    network = Network((1, 24, 24, 4), "float32")
    value = network.window(network.input, "conv", 8)
    weights = network.window(network.input, "conv", 8, stride=8)
    output = network.value((1, 24, 24, 1))
    table = options("Conv2DOptions", strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    network.file.main.op("CONV_2D", [value, weights, network._biases(1)], [output], table)
    return network.pack(network.window(output, "conv", 2, stride=2))


def excitation() -> bytes:
    """A sum with one value per channel, which is computed from all rows."""
    network = Network((1, 24, 24, 4))
    value = network.window(network.input, "conv", 16)
    pooled = network.window(value, "average", side=24, same=False, activation=0)
    channels = network.window(pooled, "conv", 16, 1)
    output = network.value((1, 24, 24, 16))
    network.file.main.op("ADD", [value, channels], [output], options("AddOptions"))
    return network.pack(wide(network, output))


def several_scales() -> bytes:
    """Computed values with one scale per row."""
    network = Network((1, 24, 24, 4))
    value = network.window(network.input, "conv", 32)
    network.file.main.table.tensors[value].quantization = quantized([0.05] * 24, [3] * 24, 1)
    return network.pack(network.window(network.window(value, "depthwise"), "conv", 4, stride=2))


def batch() -> bytes:
    """Two images, and a batch that is free according to the file."""
    network = Network((2, 24, 24, 4))
    output = wide(network, network.input)
    for tensor in network.file.main.table.tensors:
        if len(tensor.shape) == 4 and tensor.shape[0] == 2:
            tensor.shapeSignature = [-1, *tensor.shape[1:]]
    return network.pack(output)


def other_scale_after_pad() -> bytes:
    """A PAD whose output has another scale and zero point than its input; the kernel copies the numbers."""
    network = Network((1, 24, 24, 4))
    padded = network.pad(network.window(network.input, "conv", 32), (2, 1), (0, 1))
    network.file.main.table.tensors[padded].quantization = quantized([0.07], [5])
    value = network.window(padded, "depthwise", same=False)
    return network.pack(network.window(value, "conv", 4, stride=2))


def long_names() -> bytes:
    """Names of 128 KiB, which every strip would repeat."""
    network = Network((1, 24, 24, 4))
    output = wide(network, network.input)
    for tensor in network.file.main.table.tensors:
        tensor.name = "n" * (1 << 17)
    return network.pack(output)


def input_as_output() -> bytes:
    """The input is an output, too."""
    network = Network((1, 24, 24, 4))
    return network.pack(network.input, wide(network, network.input))


def result_in_the_middle() -> bytes:
    """A tensor inside the part that sets the peak is an output."""
    network = Network((1, 24, 24, 4))
    middle = network.window(network.window(network.input, "conv", 32), "depthwise")
    return network.pack(middle, network.window(middle, "conv", 4, stride=2))


# The file, and whether it is split.
FILES: dict[str, tuple[Callable[[], bytes], bool]] = {
    "computed filter": (computed_filter, False),
    "excitation": (excitation, True),
    "several scales": (several_scales, False),
    "batch": (batch, True),
    "other scale after pad": (other_scale_after_pad, True),
    "long names": (long_names, True),
    "input as output": (input_as_output, True),
    "result in the middle": (result_in_the_middle, False),
}


@pytest.mark.parametrize("name", FILES)
def test_outputs_are_equal_and_the_arena_is_as_predicted(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    content, is_split = FILES[name]
    source.write_bytes(content())
    result = sizeup.optimize(source, out, split=True, verify=False)
    assert (result.strips is not None) == is_split
    assert out.stat().st_size < source.stat().st_size + (64 << 10)
    graph = sizeup.load(out)
    samples = random_samples(graph, 3, seed=7)
    before, after = (run("tflm", path, samples) for path in (source, out))
    assert is_equal(before, after)
    assert before.arena is not None
    assert after.arena is not None
    assert after.arena.total_bytes <= before.arena.total_bytes
    predicted = arena(graph, offsets=graph.offsets or None)
    assert (after.arena.head_bytes, after.arena.tail_bytes) == (predicted.head_bytes, predicted.tail_bytes_64)


def test_a_missing_input_of_a_sum_is_not_split(tmp_path: Path) -> None:
    network = Network((1, 24, 24, 4))
    value, output = network.window(network.input, "conv", 32), network.value((1, 24, 24, 32))
    network.file.main.op("ADD", [value, -1], [output], options("AddOptions"))
    source = tmp_path / "in.tflite"
    source.write_bytes(network.pack(network.window(output, "conv", 4, stride=2)))
    result = sizeup.optimize(source, tmp_path / "out.tflite", split=True, verify=False)
    assert result.strips is None or all(
        not segment.first_op <= 1 <= segment.last_op for segment in result.strips.segments
    )


@pytest.mark.parametrize("layers", range(3))
def test_the_arena_of_packed_weights_is_as_predicted(tmp_path: Path, layers: int) -> None:
    """The first operator decodes weights: its kernel requests nothing before all others did."""
    network = Network((1, 16, 16, 16))
    value = network.window(network.window(network.input, "conv", 16), "conv", 16)
    for _ in range(layers):
        value = network.unary(value, "RELU")
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(network.pack(value))
    assert sizeup.optimize(source, out, cluster=4, pack=True, plan=False, verify=False).packed_weights == 2
    (measured,) = measure([out])
    predicted = arena(sizeup.load(out))
    assert (measured.head, measured.tail) == (predicted.head_bytes, predicted.tail_bytes_64)
