"""The smallest arena that a model can be set up in, against TFLite Micro's own interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from formats.tflite.factory import options
from micro_interpreter import measure, works
from micro_kernels import CASES, Case, Value, convolution
from sizeup.backends.tflm import MicroArena, arena
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.backends.tflm.layout import Build, KernelLibrary

pytestmark = pytest.mark.extras

CONV = options("Conv2DOptions", strideH=1, strideW=1, padding=0)
# Scales for each of 1,000 channels, which are copied for every look at a description.
WIDE = Case(
    "CONV_2D",
    [
        Value((1, 2, 2, 1), "INT8"),
        Value((1000, 1, 1, 1), "INT8", bytes(1000), 1000),
        Value((1000,), "INT32", bytes(4000)),
    ],
    [Value((1, 2, 2, 1000), "INT8")],
    CONV,
    "wide",
)


def shipped(path: Path) -> MicroArena:
    memory = tflm_arena(sizeup.load(path))
    assert memory is not None
    return memory


@pytest.mark.slow
def test_every_real_file_needs_just_what_is_said(shared: Path) -> None:
    paths = sorted((shared / "models").glob("*.tflite"))
    running = [path for path, memory in zip(paths, measure(paths), strict=True) if not memory.failure]
    assert len(running) == 26
    sizes = [shipped(path).arena_bytes_64 or 0 for path in running]
    tries = [(path, size - less) for path, size in zip(running, sizes, strict=True) for less in (0, 16)]
    assert works(tries) == [True, False] * len(running)


@pytest.mark.parametrize(
    ("name", "total", "needed"),
    [
        # Found by halving, in the interpreter.
        ("tflm_hello_int8", 1_504, 1_936),
        ("mlperf_ad01_int8", 3_984, 4_640),
        ("tflm_keyword_scrambled_8bit", 10_032, 12_944),
        ("pmw_okay_nabu", 25_904, 27_872),
        ("mlperf_vww96_int8", 103_680, 103_680),
    ],
)
def test_small_models_need_more_to_be_set_up_than_to_run(
    name: str, total: int, needed: int, shared: Path
) -> None:
    memory = shipped(shared / "models" / f"{name}.tflite")
    assert memory.tail_bytes_64 is not None
    assert (memory.head_bytes + memory.tail_bytes_64, memory.arena_bytes_64) == (total, needed)


def test_a_plan_in_the_file_changes_what_is_needed(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    sizeup.optimize(source, out, overlap=True, verify=False)
    needed = shipped(out).arena_bytes_64 or 0
    assert needed < (shipped(source).arena_bytes_64 or 0)
    assert works([(out, needed), (out, needed - 16)]) == [True, False]


@pytest.mark.slow
def test_single_kernels_need_no_more_and_hardly_less() -> None:
    """Where one kernel's look at its tensors decides: which of them it looks at is known in most cases."""
    models = [case.pack() for case in (*CASES, WIDE)]
    sizes = [arena(sizeup.load(model)).arena_bytes_64 or 0 for model in models]
    tries = [(model, size) for model, size in zip(models, sizes, strict=True)]
    assert works(tries) == [True] * len(models)
    # ELU does not use its request for float data, and works without it.
    strict = [
        (model, size - 48)
        for case, model, size in zip((*CASES, WIDE), models, sizes, strict=True)
        if case.label != "ELU-FLOAT32"
    ]
    assert not any(works(strict))


def test_sizes_are_those_of_the_word_size(shared: Path) -> None:
    memory = shipped(shared / "models/tflm_hello_int8.tflite")
    assert memory.arena_bytes() == memory.arena_bytes(32) == memory.arena_bytes_32
    assert memory.arena_bytes(64) == memory.arena_bytes_64 == 1_936
    assert memory.tail_bytes() == memory.tail_bytes(32) == memory.tail_bytes_32 == 684
    assert memory.tail_bytes(64) == memory.tail_bytes_64 != 684
    assert memory.overlapping_tensors == 0
    assert len(memory.notes) == 1  # one subgraph


def test_32_bits_of_hello_by_hand(shared: Path) -> None:
    """While ten tensors are planned, of which four get a place, before two are described for good."""
    memory = shipped(shared / "models/tflm_hello_int8.tflite")
    requests, offset, rows, planner_rows = 12 * 12, 4, 10 * 24, 4 * 40
    tables = -(-(requests + offset + rows) // 16) * 16 + planner_rows
    assert tables == 560
    # The tail of 684 bytes without its end: for input and output a pointer (16), a TfLiteTensor (40),
    # its quantization (12), and a zero point behind its count (8), twice.
    ends = 684 - 544
    assert memory.tail_bytes_32 == 684
    assert ends == 140
    assert memory.arena_bytes_32 == 544 + tables


@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_an_arena_holds_the_scales_of_weights_twice_during_preparation(
    name: str, kernels: KernelLibrary
) -> None:
    """Four bytes per channel for a multiplier, a shift, and a zero point each time the weights are loaded."""
    build, sizes = Build(4, 1, kernels=kernels, vectors="dsp"), []
    for channels in (1_000, 2_000):
        case = convolution(name, (2, 2, 1, 1, 1, channels, 1, 1, "valid"))
        weights = case.inputs[1]
        assert weights is not None
        axis = weights.shape.index(channels)
        case = case._replace(
            inputs=[case.inputs[0], weights._replace(scales=channels, axis=axis), case.inputs[2]]
        )
        sizes.append(arena(sizeup.load(case.pack()), firmware=build).arena_bytes_32 or 0)
    assert sizes[1] - sizes[0] == 4 * 4 * 1_000


def test_no_arena_is_smaller_than_those_that_ran_on_boards() -> None:
    """A single number is negated in less, but less than 512 bytes was not tried."""
    memory = arena(sizeup.load(Case("NEG", [Value((1,))], [Value((1,))]).pack()))
    assert memory.head_bytes + (memory.tail_bytes_32 or 0) < 512
    assert memory.arena_bytes_32 == 512


def test_nothing_is_said_where_a_kernel_is_not_known(shared: Path) -> None:
    memory = shipped(shared / "models/mp_selfie_segmentation.tflite")
    assert (memory.arena_bytes_64, memory.arena_bytes_32) == (None, None)
