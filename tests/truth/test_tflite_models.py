"""Real .tflite files against oracles that share no code with us.

Shapes, number types, quantization and weights: the LiteRT interpreter's own tensor details. MACs: counts by
hand, a count from the interpreter's operators, and Arm's compiler Vela. Parameters: the interpreter's
constants, one for each address in memory.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as schema

from sizeup.cost import Cost, count
from sizeup.formats import tflite
from sizeup.graph import Graph

SCRIPT = Path(__file__).with_name("litert_details.py")

NAMES = (
    "mlperf_ad01_fp32", "mlperf_ad01_int8", "mlperf_kws_fp32", "mlperf_kws_int8", "mlperf_resnet8_fp32",
    "mlperf_resnet8_int8", "mlperf_resnet_large_int8", "mlperf_strww_int8", "mlperf_vww96_fp32",
    "mlperf_vww96_int8", "mp_face_detection_full_range_sparse", "mp_hand_landmark_full", "mp_hand_recrop",
    "mp_palm_detection_lite", "mp_selfie_segmentation", "pmw_alexa", "pmw_hey_jarvis", "pmw_okay_nabu",
    "swiftnet_vww_int8conv", "swiftnet_vww_uint8", "te_mcunetv2_large", "te_persondet", "te_vww",
    "tflm_audio_preproc_int8", "tflm_dtln", "tflm_hello_int8", "tflm_keyword_scrambled",
    "tflm_keyword_scrambled_8bit", "tflm_micro_speech", "tflm_mnist_lstm_int8", "tflm_mobilenetv2_224",
    "tflm_person_detect", "tflm_person_detect_vela",
)  # fmt: skip
# LiteRT refuses it: its biases have a quantized_dimension that they do not have. TFLite Micro runs it.
REFUSED_BY_LITERT = {"tflm_person_detect"}
READABLE_BY_LITERT = [name for name in NAMES if name not in REFUSED_BY_LITERT]
# An FFT, filter banks and gains of TFLite Micro; an Ethos-U command stream. Nobody counts these.
UNKNOWN = {
    "tflm_audio_preproc_int8": {
        "SignalFftAutoScale", "SignalRfft", "SignalEnergy", "SignalFilterBank", "SignalPCAN",
        "SignalFilterBankSpectralSubtraction", "SignalFilterBankLog",
    },
    "tflm_person_detect_vela": {"ethos-u"},
}  # fmt: skip


def _path(shared: Path, name: str) -> Path:
    return shared / "models" / f"{name}.tflite"


@functools.cache
def _read(path: Path) -> tuple[Graph, Cost]:
    graph = tflite.load(path)
    return graph, count(graph)


@functools.cache
def _litert(path: Path, *run: str) -> Any:
    command = [sys.executable, str(SCRIPT), str(path), *run]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_the_list_names_every_file(shared: Path) -> None:
    assert {path.stem for path in (shared / "models").glob("*.tflite")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_is_known_but_for_those_that_nobody_counts(shared: Path, name: str) -> None:
    graph, cost = _read(_path(shared, name))
    unknown = {op.source for op, known in zip(graph.ops, cost.known, strict=True) if not known}
    assert unknown == UNKNOWN.get(name, set())


# Against the interpreter


@pytest.mark.parametrize("name", READABLE_BY_LITERT)
def test_shapes_types_and_quantization_are_those_of_the_interpreter(shared: Path, name: str) -> None:
    graph, _ = _read(_path(shared, name))
    theirs = _litert(_path(shared, name))["tensors"]
    assert [tensor["index"] for tensor in theirs] == list(range(len(graph.tensors)))
    for tensor, expected in zip(graph.tensors, theirs, strict=True):
        assert list(tensor.shape or ()) == expected["shape"]
        assert tensor.dtype.name == (expected["dtype"] if tensor.dtype.name != "resource" else "resource")
        scales = [] if tensor.quant is None else [float(scale) for scale in tensor.quant.scale]
        zero_points = [] if tensor.quant is None else tensor.quant.zero_point.tolist()
        assert (scales, zero_points) == (expected["scales"], expected["zero_points"])
        if len(scales) > 1:
            assert tensor.quant is not None
            assert tensor.quant.axis == expected["axis"]


@pytest.mark.parametrize("name", READABLE_BY_LITERT)
def test_constants_hold_what_the_interpreter_reads(shared: Path, name: str) -> None:
    graph, _ = _read(_path(shared, name))
    compared = 0
    for tensor, expected in zip(graph.tensors, _litert(_path(shared, name))["tensors"], strict=True):
        if expected["constant"] is not None and expected["constant"]["bytes"]:
            assert tensor.data is not None
            assert tensor.data.read is not None
            assert hashlib.sha256(tensor.data.read().tobytes()).hexdigest() == expected["constant"]["sha256"]
            compared += 1
    assert compared > 1


def test_sparse_weights_become_what_the_interpreter_makes_of_them(shared: Path) -> None:
    path = _path(shared, "mp_face_detection_full_range_sparse")
    graph, _ = _read(path)
    densified = _litert(path, "run")["densified"]
    assert len(densified) == 46
    for index, digest in densified.items():
        tensor = graph.tensors[int(index)]
        assert tensor.data is not None
        assert tensor.data.read is not None
        assert tensor.data.stored_bytes is not None
        assert tensor.data.stored_bytes < 2 * (tensor.elements or 0)
        assert hashlib.sha256(tensor.data.read().tobytes()).hexdigest() == digest


def _sparse_bytes(path: Path) -> dict[int, int]:
    """What the file holds of sparse tensors, numbers and coordinates, by LiteRT's object API."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))
    return {
        index: len(model.buffers[tensor.buffer].data)
        + sum(
            vector.values.nbytes
            for level in tensor.sparsity.dimMetadata
            for vector in (level.arraySegments, level.arrayIndices)
            if vector is not None
        )
        for index, tensor in enumerate(model.subgraphs[0].tensors)
        if tensor.sparsity is not None
    }


def _weights(path: Path) -> tuple[int, int]:
    """Numbers and bytes of the interpreter's constants that are floats or have scales, each address once."""
    sparse = _sparse_bytes(path)
    seen: set[Any] = set()
    elements = stored = 0
    for tensor in _litert(path)["tensors"]:
        trained = tensor["shape"] and (tensor["scales"] or str(tensor["dtype"]).startswith("float"))
        if trained and tensor["is_sparse"]:
            elements += math.prod(tensor["shape"])
            stored += sparse[tensor["index"]]
        elif trained and tensor["constant"] and tensor["constant"]["address"] not in seen:
            seen.add(tensor["constant"]["address"])
            elements += math.prod(tensor["shape"])
            stored += tensor["constant"]["bytes"]
    return elements, stored


@pytest.mark.parametrize("name", READABLE_BY_LITERT)
def test_parameters_and_their_bytes_are_those_of_the_interpreters_constants(shared: Path, name: str) -> None:
    _, cost = _read(_path(shared, name))
    assert (cost.total_params, cost.bytes_at().weights) == _weights(_path(shared, name))


def test_parameters_of_the_file_that_the_interpreter_refuses(shared: Path) -> None:
    # Walked with the package `tflite` 2.18.0: numbers and bytes of constants with scales, each buffer once.
    _, cost = _read(_path(shared, "tflm_person_detect"))
    assert (cost.total_params, cost.bytes_at().weights) == (210_706, 218_920)


def _plain_macs(operator: Any, shapes: list[list[int]]) -> Any:
    """Textbook formulas on the interpreter's own shapes."""
    data, weights, *_ = [shapes[i] if i >= 0 else [] for i in operator["inputs"]] + [[], []]
    made = math.prod(shapes[operator["outputs"][0]]) if operator["outputs"] else 0
    match operator["name"]:
        case "CONV_2D":
            return made * math.prod(weights[1:])
        case "DEPTHWISE_CONV_2D":
            return made * weights[1] * weights[2]
        case "FULLY_CONNECTED":
            return made * weights[1]
        case "Convolution2DTransposeBias":
            return math.prod(data) * math.prod(weights[:3])
        case "SVDF":
            return data[0] * sum(math.prod(shapes[i]) for i in operator["inputs"][1:3])
        case "UNIDIRECTIONAL_SEQUENCE_LSTM":
            matrices = [*operator["inputs"][1:9], operator["inputs"][16]]
            return data[0] * data[1] * sum(math.prod(shapes[i]) for i in matrices if i >= 0)
    return 0


@pytest.mark.parametrize("name", READABLE_BY_LITERT)
def test_macs_of_each_operator_follow_from_the_interpreters_shapes(shared: Path, name: str) -> None:
    graph, cost = _read(_path(shared, name))
    details = _litert(_path(shared, name))
    shapes = [tensor["shape"] for tensor in details["tensors"]]
    assert [op.source for op in graph.ops] == [operator["name"] for operator in details["operators"]]
    assert cost.macs.tolist() == [_plain_macs(operator, shapes) for operator in details["operators"]]


# By hand


def _separable(pixels: int, width: int, taps: int, filters: int) -> int:
    return pixels * width * taps + pixels * width * filters


BY_HAND = {
    # ToyADMOS autoencoder, 640-128-128-128-128-8 and back
    "mlperf_ad01_int8": 2 * (640 * 128 + 3 * 128 * 128 + 128 * 8),
    # DS-CNN: 10x4 filters at stride 2 on 49x10, four separable blocks on 25x5x64, 12 words
    "mlperf_kws_int8": 125 * 64 * 40 + 4 * _separable(125, 64, 9, 64) + 64 * 12,
    # ResNet-8 for CIFAR-10: 16 channels on 32x32, 32 on 16x16, 64 on 8x8, with 1x1 shortcuts
    "mlperf_resnet8_int8": (
        1024 * 16 * 9 * (3 + 16 + 16) + 256 * 32 * (9 * (16 + 32) + 16) + 64 * 64 * (9 * (32 + 64) + 32) + 640
    ),
    # streaming wake word: separable blocks over 30 frames, 3, 5, 10 and 15 long and unpadded
    "mlperf_strww_int8": (
        _separable(28, 40, 3, 128)
        + _separable(24, 128, 5, 128)
        + _separable(15, 128, 10, 128)
        + _separable(1, 128, 15, 32)
        + 32 * 3
    ),
    # 8 filters of 10x8 at stride 2 over 49x40, then 4 words from 25x20x8
    "tflm_micro_speech": 25 * 20 * 8 * 80 + 4000 * 4,
    "tflm_hello_int8": 1 * 16 + 16 * 16 + 16 * 1,
    # 28 steps of an LSTM, 28 to 20; then all 28x20 states to 10 digits
    "tflm_mnist_lstm_int8": 28 * 4 * 20 * (28 + 20) + 560 * 10,
    # one step of two LSTMs of 128 units behind 257 bins, then a mask of 257
    "tflm_dtln": 4 * 128 * (257 + 128) + 4 * 128 * (128 + 128) + 128 * 257,
    # rank-1 SVDF layers: 64 filters over 8 steps, 32 over 32, with bottlenecks of 16 between
    "tflm_keyword_scrambled": (
        64 * (96 + 8) + 3 * 64 * (16 + 8) + 32 * (16 + 32) + 2 * 32 * (32 + 32) + 4 * 64 * 16 + 32 * 2
    ),
    # one step of a streaming mixed-depthwise network
    "pmw_alexa": (
        5 * 40 * 32
        + _separable(1, 32, 5, 64)
        + sum(_separable(1, 64, taps, 64) for taps in (9, 13, 21))
        + 320
    ),
    # torchvision's MobileNetV2 at 224x224, whose count is well known
    "tflm_mobilenetv2_224": 300_774_272,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_macs_are_those_counted_by_hand(shared: Path, name: str) -> None:
    _, cost = _read(_path(shared, name))
    assert cost.total_macs == BY_HAND[name]


@pytest.mark.parametrize("name", ["ad01", "kws", "resnet8", "vww96"])
def test_quantization_changes_neither_macs_nor_parameters(shared: Path, name: str) -> None:
    _, floats = _read(_path(shared, f"mlperf_{name}_fp32"))
    _, integers = _read(_path(shared, f"mlperf_{name}_int8"))
    assert (floats.total_macs, floats.total_params) == (integers.total_macs, integers.total_params)


def test_mobilenet_has_torchvisions_parameters_with_its_norms_folded(shared: Path) -> None:
    # 3,504,872 in torchvision; of its 17,056 pairs of scale and shift one each is left, as a bias.
    _, cost = _read(_path(shared, "tflm_mobilenetv2_224"))
    assert cost.total_params == 3_504_872 - 17_056


# Against Vela 5.2.0 (Ethos-U55-128, `--verbose-performance`): column "MAC Count" of its per-layer CSV, summed
# over the rows of these original operators. Left out is what only its hardware multiplies: it counts a
# pooling tap, a copy, a mean and a softmax's steps as MACs too. A depthwise filter over one channel is in its
# list a convolution. Float operators, and those that it leaves to the CPU, it does not count.
VELA = {
    "mlperf_ad01_int8": {"FULLY_CONNECTED": 264_192},
    "mlperf_kws_int8": {"CONV_2D": 2_368_000, "DEPTHWISE_CONV_2D": 288_000, "FULLY_CONNECTED": 768},
    "mlperf_resnet8_int8": {"CONV_2D": 12_500_992, "FULLY_CONNECTED": 640},
    "mlperf_resnet_large_int8": {"CONV_2D": 76_472_320, "FULLY_CONNECTED": 1_600},
    "mlperf_strww_int8": {"CONV_2D": 786_432, "DEPTHWISE_CONV_2D": 39_840, "FULLY_CONNECTED": 96},
    "mlperf_vww96_int8": {"CONV_2D": 6_690_816, "DEPTHWISE_CONV_2D": 798_336, "FULLY_CONNECTED": 512},
    # The first convolution, 16 filters of 7x7x3 for 56x56 pixels, it leaves to the CPU: added here.
    "swiftnet_vww_int8conv": {
        "CONV_2D": 46_409_664 + 56 * 56 * 16 * 147, "DEPTHWISE_CONV_2D": 2_370_816, "FULLY_CONNECTED": 152,
    },
    "te_mcunetv2_large": {
        "CONV_2D": 190_251_936, "DEPTHWISE_CONV_2D": 26_179_328, "FULLY_CONNECTED": 384_000,
    },
    "te_persondet": {"CONV_2D": 16_113_280, "DEPTHWISE_CONV_2D": 2_183_040},
    "te_vww": {"CONV_2D": 9_346_304, "DEPTHWISE_CONV_2D": 2_232_192, "FULLY_CONNECTED": 320},
    # Of an LSTM its rows "FullyConnected" alone are the matrices.
    "tflm_dtln": {"UNIDIRECTIONAL_SEQUENCE_LSTM": 328_192, "FULLY_CONNECTED": 32_896},
    "tflm_mnist_lstm_int8": {"UNIDIRECTIONAL_SEQUENCE_LSTM": 107_520, "FULLY_CONNECTED": 5_600},
    "tflm_hello_int8": {"FULLY_CONNECTED": 288},
    "tflm_keyword_scrambled": {"FULLY_CONNECTED": 4_160},
    "tflm_keyword_scrambled_8bit": {"FULLY_CONNECTED": 4_160},
    "tflm_micro_speech": {"DEPTHWISE_CONV_2D": 320_000, "FULLY_CONNECTED": 16_000},
    "tflm_mobilenetv2_224": {
        "CONV_2D": 278_777_856, "DEPTHWISE_CONV_2D": 20_716_416, "FULLY_CONNECTED": 1_280_000,
    },
    "tflm_person_detect": {"CONV_2D": 6_193_664, "DEPTHWISE_CONV_2D": 165_888 + 798_336},
}  # fmt: skip


@pytest.mark.parametrize("name", VELA)
def test_macs_are_those_of_vela(shared: Path, name: str) -> None:
    graph, cost = _read(_path(shared, name))
    ours: dict[str, int] = {}
    for op, macs in zip(graph.ops, cost.macs.tolist(), strict=True):
        if op.source in VELA[name]:
            ours[op.source] = ours.get(op.source, 0) + macs
    assert ours == VELA[name]
    # Whatever else has MACs is an SVDF layer, which it leaves to the CPU.
    beyond = {op.source for op, macs in zip(graph.ops, cost.macs, strict=True) if macs} - set(ours)
    assert beyond <= {"SVDF"}


# What else the files show


def test_half_precision_weights_are_parameters_and_their_wide_copies_are_derived(shared: Path) -> None:
    graph, _ = _read(_path(shared, "mp_hand_landmark_full"))
    for op in graph.ops:
        if op.source == "DEQUANTIZE":
            stored, wide = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
            assert stored.data is not None
            assert wide.data is not None
            assert (stored.data.role, wide.data.role) == ("parameter", "derived")


def test_streaming_states_are_memory_and_not_parameters(shared: Path) -> None:
    graph, _ = _read(_path(shared, "pmw_alexa"))
    assert graph.ops[0].kind == "call_once"
    initial = [t for t in graph.ops[0].bodies[0].graph.tensors if t.dtype.name == "int8"]
    assert len(initial) == 6
    assert all(tensor.data is not None and tensor.data.role == "buffer" for tensor in initial)
    assert all(tensor.data is not None and tensor.data.stored_bytes is None for tensor in initial)


def test_recurrent_states_are_memory_and_not_parameters(shared: Path) -> None:
    for name, states in (("tflm_keyword_scrambled", 7), ("tflm_dtln", 4), ("tflm_mnist_lstm_int8", 2)):
        graph, _ = _read(_path(shared, name))
        read = {identity for op in graph.ops for identity in op.inputs if identity >= 0}
        kept = [graph.tensors[i].data for i in read]
        assert sum(data is not None and data.role == "buffer" for data in kept) == states


def test_shared_biases_count_once(shared: Path) -> None:
    # Three biases of 128 zeros are one buffer in the file.
    graph, _ = _read(_path(shared, "mlperf_strww_int8"))
    biases = [
        tensor.data for tensor in graph.tensors if tensor.shape == (128,) and tensor.dtype.name == "int32"
    ]
    assert len(biases) == 6
    assert len({id(data) for data in biases}) == 4


def test_scopes_are_the_paths_of_the_converter(shared: Path) -> None:
    graph, _ = _read(_path(shared, "mlperf_kws_int8"))
    assert (graph.ops[0].scope, graph.ops[-3].scope) == ("functional_1/activation", "functional_1/flatten")
    nameless, _ = _read(_path(shared, "tflm_keyword_scrambled"))
    assert [op.name for op in nameless.ops] == [str(place) for place in range(15)]
    assert {op.scope for op in nameless.ops} == {""}
