"""Outputs over dying inputs, in real files and random networks, judged by TFLite Micro's own interpreter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite_micro import runtime
from typer.testing import CliRunner

import sizeup
from formats.tflite.factory import File, options, quantized
from micro_interpreter import measure
from rewrite.test_real_files import GAINS, NOT_RUNNABLE, ONLY_LITERT, models
from sizeup.backends.tflm import head_buffers
from sizeup.backends.tflm.overlap import LABEL, overlaps
from sizeup.cli import app
from sizeup.errors import WriteError
from sizeup.formats import tflite
from sizeup.formats.tflite.write import rewrite, tensor_buffers
from sizeup.graph import Graph
from sizeup.memory.overlap_packing import pack_overlapping
from sizeup.memory.schedule import with_schedule
from sizeup.rewrite.candidates import search
from sizeup.rewrite.result import OptimizeOptions
from sizeup.rewrite.tflite import random_weights
from sizeup.runtimes import Run, random_samples, run

pytestmark = pytest.mark.extras


class Total(NamedTuple):
    """Measured in the interpreter: before, after, and what a plan with overlaps was known to reach."""

    before: int
    after: int
    known: int


SIX = {
    "mlperf_vww96_int8": Total(103_680, 66_832, 66_848),
    "tflm_person_detect": Total(85_264, 66_848, 66_864),
    "mlperf_resnet8_int8": Total(55_984, 40_144, 40_144),
    "mlperf_kws_int8": Total(24_272, 18_064, 18_320),
    "mlperf_strww_int8": Total(16_640, 13_824, 14_000),
    "tflm_micro_speech": Total(7_584, 5_792, 5_792),
}
# Further files that need less with overlaps than without; measured, too.
MORE = {
    "mlperf_resnet8_fp32": 140_016,
    "mlperf_resnet_large_int8": 94_144,
    "mlperf_vww96_fp32": 177_376,
    "mp_hand_recrop": 807_472,
    "te_mcunetv2_large": 1_409_840,
    "te_persondet": 295_008,
    "te_vww": 148_176,
    "tflm_mobilenetv2_224": 1_402_944,
}


def answers(content: bytes, graph: Graph) -> list[Run]:
    """On our inputs, with the weights of the model and with random ones, which distinguish more inputs."""
    samples = random_samples(graph, 8, seed=77)
    numbers = [index for index, _ in tensor_buffers(content)]
    weights = {numbers[each]: raw for each, raw in random_weights(graph, 1.5).items() if numbers[each]}
    return [run("tflm", each, samples) for each in (content, rewrite(content, buffers=weights))]


def outputs(runs: list[Run]) -> list[bytes]:
    return [each.tobytes() for results in runs for sample in results.outputs for each in sample]


@pytest.mark.parametrize("name", SIX)
def test_the_arena_is_as_small_as_known_and_outputs_stay_equal(
    shared: Path, tmp_path: Path, name: str
) -> None:
    source, out = shared / "models" / f"{name}.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, overlap=True)
    before, after = measure([source, out])
    assert (before.head + before.tail, after.head + after.tail) == SIX[name][:2]
    assert after.head + after.tail <= SIX[name].known
    assert result.after.used is not None
    assert result.after.used.total_bytes == after.head + after.tail
    assert result.overlaps > 0
    assert result.plan_status == "optimal"
    assert result.verification is not None
    assert result.verification.deviation is None
    assert not result.verification.is_weak
    graph = sizeup.load(source)
    expected, results = answers(source.read_bytes(), graph), answers(out.read_bytes(), graph)
    assert max(each.distinct_outputs for each in expected) > 3
    assert outputs(results) == outputs(expected)


@pytest.mark.parametrize("name", SIX)
def test_halved_distances_change_the_outputs(shared: Path, name: str) -> None:
    """The check that every result passes can fail, on each of the six."""
    content = (shared / "models" / f"{name}.tflite").read_bytes()
    graph = sizeup.load(content)
    head = head_buffers(graph)
    right = overlaps(graph, head)
    halved = [each._replace(distance=each.distance // 2) for each in right]
    expected = outputs(answers(content, graph))
    for leaves, is_equal in ((right, True), (halved, False)):
        packing = pack_overlapping(head.buffers, leaves, alignment=16)
        offsets = [packing.offsets[each] if each >= 0 else -1 for each in head.buffers.buffer_of_tensor]
        changed = rewrite(content, offline_offsets=offsets)
        assert (outputs(answers(changed, graph)) == expected) == is_equal


@pytest.mark.parametrize("name", [name for name in models() if name not in SIX])
def test_no_file_gets_worse(shared: Path, tmp_path: Path, name: str) -> None:
    source, out = shared / "models" / f"{name}.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, overlap=True)
    assert (result.valid_kernels == LABEL) == (name in MORE)
    assert result.changed == (name in MORE or name in GAINS)
    assert result.verification is None if name in NOT_RUNNABLE else result.verification is not None
    assert result.verification is None or result.verification.deviation is None
    if name in NOT_RUNNABLE or name in ONLY_LITERT:
        assert result.before.peak_bytes is not None
        assert result.after.peak_bytes is not None
        assert result.after.peak_bytes <= result.before.peak_bytes
        return
    before, after = (each.head + each.tail for each in measure([source, out]))
    assert after == MORE.get(name, GAINS[name].after if name in GAINS else before)
    assert after <= before


def test_nothing_overlaps_unless_requested(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_resnet8_int8.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out)
    assert (result.overlaps, result.valid_kernels, result.changed) == (0, None, False)


def test_without_verification_the_same_file_is_predicted(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, overlap=True, verify=False)
    (after,) = measure([out])
    assert result.after.used is not None
    assert result.after.used.total_bytes == after.head + after.tail == SIX["mlperf_kws_int8"].after
    again = sizeup.optimize(out, tmp_path / "again.tflite", overlap=True)
    assert not again.changed


def test_overlaps_need_a_plan_in_a_tflite_file(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    with pytest.raises(WriteError, match="--overlap needs --plan"):
        sizeup.optimize(source, out, overlap=True, plan=False)
    (tmp_path / "in.onnx").write_bytes(b"")
    with pytest.raises(WriteError, match=r"--overlap supports \.tflite files only"):
        sizeup.optimize(tmp_path / "in.onnx", tmp_path / "out.onnx", overlap=True)
    assert not out.exists()


# Every output of a plan with overlaps shows what it is valid for


def test_the_label_is_in_the_help_on_the_screen_and_in_the_data(shared: Path, tmp_path: Path) -> None:
    assert LABEL == "TFLite Micro reference kernels only (not CMSIS-NN, Ethos-U or other optimized kernels)"
    source = str(shared / "models/mlperf_kws_int8.tflite")
    arguments = ["optimize", source, "-o", str(tmp_path / "out.tflite"), "--no-verify"]
    wide = {"COLUMNS": "300", "TERMINAL_WIDTH": "300"}
    shown = CliRunner().invoke(app, [*arguments, "--overlap"], env=wide)
    assert shown.exit_code == 0
    assert LABEL in " ".join(shown.output.split())
    data = json.loads(CliRunner().invoke(app, [*arguments, "--overlap", "--json"]).stdout)
    assert data["plan"]["kernels"] == LABEL
    assert data["plan"]["overlaps"] > 0
    plain = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert (plain["plan"]["kernels"], plain["plan"]["overlaps"]) == (None, 0)
    helped = CliRunner().invoke(app, ["optimize", "--help"], env=wide)
    assert LABEL in " ".join(helped.output.replace("│", " ").split())


# Random networks


SIDES = st.integers(3, 9)


@st.composite
def networks(draw: st.DrawFn) -> bytes:
    """Up to eight int8 layers, each on one of the last two results or on both; some results leave early."""
    file = File()
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    graph, scale = file.main, quantized([0.05])

    def value(name: str, shape: tuple[int, ...]) -> int:
        shapes[output := graph.tensor(name, shape, "INT8", quantization=scale)] = shape
        return output

    shapes: dict[int, tuple[int, ...]] = {}
    recent = [value("input", (1, draw(SIDES), draw(SIDES), draw(st.sampled_from([1, 3, 8]))))]
    leaving = []
    for number in range(draw(st.integers(2, 8))):
        source = draw(st.sampled_from(recent))
        _, height, width, channels = shapes[source]
        kind = draw(st.sampled_from(["conv", "depthwise", "pool", "pad", "relu", "add"]))
        if kind == "add":
            partners = [each for each in recent if shapes[each] == shapes[source]]
            output = value(f"{kind}{number}", shapes[source])
            graph.op("ADD", [source, draw(st.sampled_from(partners))], [output], options("AddOptions"))
        elif kind == "relu":
            output = value(f"{kind}{number}", shapes[source])
            graph.op("RELU", [source], [output])
        elif kind == "pad":
            amounts = np.array(
                [[0, 0], *(draw(st.tuples(*[st.integers(0, 2)] * 2)) for _ in "yx"), [0, 0]], np.int32
            )
            output = value(
                f"{kind}{number}", (1, height + sum(amounts[1]), width + sum(amounts[2]), channels)
            )
            graph.op("PAD", [source, graph.tensor("amounts", (4, 2), "INT32", amounts)], [output])
        else:
            output = _windowed(draw, file, generator, value, kind, number, source, shapes[source])
        leaving += [output] if draw(st.integers(0, 4)) == 0 else []
        recent = [*recent, output][-2:]
    graph.ends([0], sorted({*leaving, recent[-1]}))
    return file.pack()


def _windowed(
    draw: st.DrawFn,
    file: File,
    generator: Any,
    value: Any,
    kind: str,
    number: int,
    source: int,
    shape: tuple[int, ...],
) -> int:
    _, height, width, channels = shape
    side, stride = draw(st.integers(1, min(3, height, width))), draw(st.integers(1, 2))
    same = draw(st.booleans())
    rows, columns = (-(-(size if same else size - side + 1) // stride) for size in (height, width))
    window = {"strideH": stride, "strideW": stride, "padding": 0 if same else 1}
    if kind == "pool":
        output = value(f"{kind}{number}", (1, rows, columns, channels))
        settings_ = options("Pool2DOptions", filterHeight=side, filterWidth=side, **window)
        file.main.op(draw(st.sampled_from(["MAX_POOL_2D", "AVERAGE_POOL_2D"])), [source], [output], settings_)
        return int(output)
    dilated = {"dilationHFactor": 1, "dilationWFactor": 1}
    if kind == "conv":
        results = draw(st.sampled_from([2, 5, 16]))
        filters, name = (results, side, side, channels), "CONV_2D"
        settings_ = options("Conv2DOptions", **window, **dilated)
    else:
        results = channels * draw(st.integers(1, 2))
        filters, name = (1, side, side, results), "DEPTHWISE_CONV_2D"
        settings_ = options(
            "DepthwiseConv2DOptions", **window, **dilated, depthMultiplier=results // channels
        )
    output = value(f"{kind}{number}", (1, rows, columns, results))
    numbers = generator.integers(-90, 91, filters).astype(np.int8)
    summed = side * side * (channels if kind == "conv" else 1)
    step = quantized([1 / (50 * summed**0.5)])
    weights = file.main.tensor(f"weights{number}", filters, "INT8", numbers, quantization=step)
    biases = file.main.tensor(f"biases{number}", (results,), "INT32", np.zeros(results, np.int32))
    file.main.op(name, [source, weights, biases], [output], settings_)
    return int(output)


def in_micro(content: bytes, data: Any, count: int) -> list[Any]:
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
    interpreter.set_input(data, 0)
    interpreter.invoke()
    return [interpreter.get_output(place).tolist() for place in range(count)]


@given(networks(), st.integers(0, 100))
@settings(max_examples=80, deadline=None)
def test_every_plan_with_overlaps_computes_the_same(content: bytes, seed: int) -> None:
    graph = tflite.load(content)
    data = np.random.default_rng(seed).integers(-128, 128, graph.tensors[0].shape or ()).astype(np.int8)
    expected = in_micro(content, data, len(graph.outputs))
    for candidate in search(graph, OptimizeOptions(time_limit=5.0, overlap=True)).candidates:
        written = rewrite(content, schedule=candidate.schedule, offline_offsets=candidate.offsets)
        assert in_micro(written, data, len(graph.outputs)) == expected
        assert [op.outputs for op in tflite.load(written).ops] == [
            op.outputs for op in with_schedule(graph, candidate.schedule).ops
        ]


def test_random_networks_do_overlap() -> None:
    """What the test before this one sees is worth seeing: most of its plans share bytes."""
    seen: list[int] = []

    @given(networks())
    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    def look(content: bytes) -> None:
        results = search(tflite.load(content), OptimizeOptions(time_limit=5.0, overlap=True))
        seen.append(max(candidate.overlaps for candidate in results.candidates))

    look()
    assert sum(count > 0 for count in seen) > len(seen) // 2
